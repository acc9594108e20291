"""GroupQueryAttention as MIGraphX composes it: scores of the whole cache, masked step by step."""

from __future__ import annotations

import math

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import expand
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op

Lens = tuple[int, int, int, int]


@strict_op("GroupQueryAttention")
def group_query_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Grouped-query attention to a cache of keys and values: several queries share a key."""
    node.expect(inputs, 7, 11)
    if node.number("softcap", 0.0):
        raise node.fail("softcap is not supported by strict import; omit it")
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    if groups < 1 or count < 1 or count % groups:
        raise node.fail(
            f"num_heads={count}, kv_num_heads={groups}; expected kv_num_heads to divide num_heads"
        )
    lengths = inputs[5]
    query, key, value = _split(node, inputs, count, groups)
    keys, values = (
        node.add("concat_past_present", v, lengths, past, kv_num_heads=groups)
        for v, past in ((key, inputs[3]), (value, inputs[4]))
    )
    batch, _, steps, size = query.shape.lens
    lens = batch, count, steps, keys.shape.lens[2]
    places = node.multibroadcast(lengths, lens[:2])
    all_keys, all_values = _repeated(node, [keys, values], count)
    scores = node.add("dot", query, node.transpose(all_keys, 0, 1, 3, 2))
    scores = _masked(node, scores, places, lens, node.number("scale", 0.0) or 1 / math.sqrt(size))
    found = node.add("dot", node.add("softmax", scores, axis=3), all_values)
    result = node.reshape(node.transpose(found, 0, 2, 1, 3), batch, steps, count * size)
    return [result, keys, values]


def _split(
    node: NodeContext, inputs: list[Instruction], count: int, groups: int
) -> tuple[Instruction, Instruction, Instruction]:
    """Queries, keys and values with heads first, rotated by their positions if ``do_rotary`` is set."""
    packed, every = inputs[0], count + 2 * groups
    if inputs[1].shape.ndim > 1:
        packed = node.add("concat", *inputs[:3], axis=2)
    lens = node.fixed(node.lens(packed), "lengths of the queries")
    if len(lens) != 3 or lens[2] % every:
        raise node.fail(f"input {packed.shape}; expected 3 dimensions, the last of {every} heads")
    batch, steps, width = lens
    split = node.transpose(node.reshape(packed, batch, steps, every, width // every), 0, 2, 1, 3)
    turned = node.slice(split, [1], [0], [count + groups])
    value = node.slice(split, [1], [count + groups], [every])
    if node.flag("do_rotary"):
        if len(inputs) < 9:
            raise node.fail("do_rotary=1 without cos_cache and sin_cache")
        places = inputs[5] if steps == 1 else node.vector(inputs[5].shape.type, [0])
        options = {"interleaved": node.flag("rotary_interleaved")}
        given = [turned, places, *inputs[7:9]]
        turned = expand(node.module, None, "rotary_embedding", given, options)[0]
    query = node.slice(turned, [1], [0], [count])
    return query, node.slice(turned, [1], [count], [count + groups]), value


def _repeated(node: NodeContext, both: list[Instruction], count: int) -> list[Instruction]:
    """Each head of keys and values repeated for the queries that share it."""
    batch, groups, room, size = both[0].shape.lens
    if groups == count:
        return both
    lens = (batch, groups, count // groups, room, size)
    split = [node.unsqueeze(v, 2) for v in both]
    spread = [node.multibroadcast(v, lens) for v in split]
    return [node.reshape(v, batch, count, room, size) for v in spread]


def _masked(
    node: NodeContext, scores: Instruction, places: Instruction, lens: Lens, scale: float
) -> Instruction:
    """Scaled scores; minus infinity for keys after the query, outside its window or of no sequence."""
    batch, count, steps, room = lens
    type, whole = scores.shape.type, places.shape.type

    def spread(kind: DType, numbers: list[float] | range) -> Instruction:
        return node.multibroadcast(node.vector(kind, numbers), lens)

    numbers = spread(whole, range(room))
    lowest = spread(type, [-np.inf])
    scores = node.add("mul", scores, spread(type, [scale]))

    def hidden(left: Instruction, right: Instruction) -> Instruction:
        beyond = node.convert(node.add("greater", left, right), DType.BOOL)
        return node.add("where", beyond, lowest, scores)

    own = None
    if steps > 1:
        row = node.reshape(node.vector(whole, range(steps)), steps, 1)
        own = node.multibroadcast(row, lens)
        scores = hidden(numbers, own)
    last = node.multibroadcast(node.reshape(places, batch, count, 1, 1), lens)
    window = node.integer("local_window_size", -1)
    if window > 0:
        back = spread(whole, [-window if own is not None else -window - 1])
        first = node.add("add", last if own is None else own, back)
        scores = hidden(first, numbers)
    return hidden(numbers, last)
