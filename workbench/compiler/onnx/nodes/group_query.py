"""onnxruntime's grouped-query attention: several queries share a key; keys and values are cached."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import Heads, Lens, heads_first, merged, scores_of
from workbench.compiler.onnx.nodes.rotary import turned
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length


@onnx_op("GroupQueryAttention")
def group_query_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Grouped-query attention to a cache of keys and values: several queries share a key."""
    node.expect(inputs, 1, 12)
    query, key, value = _split(node, inputs)
    start = _start(node, inputs, query)
    if node.flag("do_rotary"):
        tables = [node.optional(inputs, i) for i in (7, 8)]
        if tables[0] is None or tables[1] is None:
            raise node.fail("do_rotary=1 without cos_cache and sin_cache")
        places, swapped = node.optional(inputs, 9), node.flag("rotary_interleaved")
        places = start if places is None else places
        query, key = (
            turned(node, v, places, (tables[0], tables[1]), interleaved=swapped)
            for v in (query, key)
        )
    total = _total(node, inputs)
    keys, values = (
        _appended(node, v, node.optional(inputs, i), start, total)
        for v, i in ((key, 3), (value, 4))
    )
    heads, groups = node.fixed((node.lens(query)[1], node.lens(keys)[1]), "numbers of heads")
    shared = heads // groups
    made = Heads(query, *[_repeated(node, v, shared) for v in (keys, values)])
    return [_attended(node, made, inputs, start), keys, values]


def _split(node: NodeContext, inputs: list[Instruction]) -> tuple[Instruction, ...]:
    """Queries, keys and values with heads first, from three inputs or a packed one."""
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    if groups < 1 or count % groups:
        raise node.fail(
            f"num_heads={count}, kv_num_heads={groups}; expected kv_num_heads to divide num_heads"
        )
    packed, key, value = inputs[0], node.optional(inputs, 1), node.optional(inputs, 2)
    if key is not None and value is not None:
        packed = node.add("concat", packed, key, value, axis=2)
    batch, length, width = node.lens(packed)
    every = count + 2 * groups
    if width % every:
        raise node.fail(
            f"a width of {width} does not split into {every} heads, those of queries, keys and "
            "values; expected a multiple"
        )
    split = heads_first(node, node.reshape(packed, batch, length, every, width // every))
    ends = (count, count + groups, every)
    starts = (0, *ends[:2])
    return tuple(node.slice(split, [1], [a], [b]) for a, b in zip(starts, ends, strict=True))


def _total(node: NodeContext, inputs: list[Instruction]) -> int | None:
    """The length of the longest sequence, if it is known."""
    given = node.optional(inputs, 6)
    known = None if given is None else node.constant(given)
    return None if known is None else int(node.element(known, "the length of the longest sequence"))


def _start(node: NodeContext, inputs: list[Instruction], query: Instruction) -> Instruction:
    """The position of the first new key of each sequence, (batch, 1)."""
    last, total = node.optional(inputs, 5), node.optional(inputs, 6)
    if last is None:
        raise node.fail("input seqlens_k is omitted; the operator requires it")
    batch, _, length, _ = node.lens(query)
    last = node.reshape(last, batch, 1)
    type = last.shape.type
    if length == 1:
        return last
    zero = node.fit(node.scalar(type, 0), (batch, 1))
    if total is None or node.optional(inputs, 3) is None or _total(node, inputs) == length:
        return zero
    later = node.common("sub", last, node.scalar(type, length - 1))
    if _total(node, inputs) is not None:
        return later
    total = node.convert(node.reshape(total, 1, 1), type)
    whole = node.convert(node.common("equal", total, node.scalar(type, length)), DType.BOOL)
    return node.add("where", node.fit(whole, (batch, 1)), zero, later)


def _appended(
    node: NodeContext,
    new: Instruction,
    past: Instruction | None,
    start: Instruction,
    total: int | None,
) -> Instruction:
    """A cache with new keys or values written at their positions, grown if necessary."""
    batch, groups, length, size = node.lens(new)
    room = 0 if past is None else node.lens(past)[2]
    missing = max(total or 0, length) - room
    if past is None or not room:
        past = node.filled(new.shape.type, (batch, groups, missing, size), 0)
    elif missing > 0:
        more = node.filled(new.shape.type, (batch, groups, missing, size), 0)
        past = node.add("concat", past, more, axis=2)
    room = node.lens(past)[2]
    known = node.constant(start)
    if length == 1 or (known is not None and not known.any()):
        places = node.squeeze(start, 1)
        return node.add("concat_past_present", new, places, past, kv_num_heads=groups)
    place = node.counted(start.shape.type, room)
    offset = node.common("sub", place, start)
    low, high = (node.scalar(start.shape.type, v) for v in (0, length - 1))
    bounded = node.common("clip", offset, low, high)
    rows = node.add("gathernd", heads_first(node, new), node.unsqueeze(bounded, 2), batch_dims=1)
    is_new = node.convert(node.common("equal", offset, bounded), DType.BOOL)
    is_new = node.multibroadcast(node.reshape(is_new, batch, 1, room, 1), node.lens(past))
    return node.add("where", is_new, heads_first(node, rows), past)


def _repeated(node: NodeContext, value: Instruction, times: int) -> Instruction:
    """Each head repeated for the queries that share it."""
    if times == 1:
        return value
    batch, groups, length, size = node.lens(value)
    spread = node.multibroadcast(node.unsqueeze(value, 2), (batch, groups, times, length, size))
    return node.reshape(spread, batch, groups * times, length, size)


def _attended(
    node: NodeContext, heads: Heads, inputs: list[Instruction], start: Instruction
) -> Instruction:
    """Softmax of the scores of the keys that each query sees, times the values."""
    scores, type = scores_of(node, heads), heads.query.shape.type
    softcap = node.number("softcap", 0.0)
    if softcap:
        cap = node.scalar(type, softcap)
        scores = node.common("mul", node.add("tanh", node.common("div", scores, cap)), cap)
    bias = node.optional(inputs, 10)
    if bias is not None:
        scores = node.common("add", scores, _as_long(node, bias, heads.lens(node)[3]))
    lowest = node.multibroadcast(node.scalar(type, -np.inf), heads.lens(node))
    hidden = node.multibroadcast(_hidden(node, heads.lens(node), start), heads.lens(node))
    scores = node.add("where", hidden, lowest, scores)
    weights = _weights(node, scores, node.optional(inputs, 11))
    return merged(node, node.add("dot", weights, heads.value))


def _hidden(node: NodeContext, lens: Lens, start: Instruction) -> Instruction:
    """A mask of the keys that a query does not see: later ones, and those before its window."""
    batch, _, queries, keys = lens
    type = start.shape.type
    places = node.counted(type, keys)
    own = node.common("add", start, node.counted(type, queries))
    own = node.reshape(own, batch, 1, queries, 1)
    hidden = node.convert(node.common("greater", places, own), DType.BOOL)
    window = node.integer("local_window_size", -1)
    if window > 0:
        first = node.common("sub", own, node.scalar(type, window - 1))
        far = node.convert(node.common("less", places, first), DType.BOOL)
        hidden = node.common("logical_or", hidden, far)
    return hidden


def _as_long(node: NodeContext, bias: Instruction, length: Length) -> Instruction:
    """A bias with a column per key, cut or padded; padding belongs to hidden keys."""
    own = node.lens(bias)[3]
    if own >= length:
        return bias if own == length else node.slice(bias, [3], [0], [length])
    return node.add("pad", bias, pads=(0, 0, 0, 0, 0, 0, 0, length - own))


def _weights(node: NodeContext, scores: Instruction, sink: Instruction | None) -> Instruction:
    """Softmax; a sink adds one score per head that belongs to no key."""
    batch, heads, queries, keys = node.lens(scores)
    if sink is None and not node.flag("smooth_softmax"):
        return node.add("softmax", scores, axis=3)
    if sink is None:
        sink = node.scalar(scores.shape.type, 0)
    else:
        sink = node.reshape(node.convert(sink, scores.shape.type), heads, 1, 1)
    spread = node.multibroadcast(sink, (batch, heads, queries, 1))
    weights = node.add("softmax", node.add("concat", scores, spread, axis=3), axis=3)
    return node.slice(weights, [3], [0], [keys])
