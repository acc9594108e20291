"""Fused attention operators of onnxruntime, taken apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

MICROSOFT = "com.microsoft"


@dataclass
class _Heads:
    """Queries, keys and values, each (batch, heads, length, size)."""

    query: Instruction
    key: Instruction
    value: Instruction


def _heads_first(node: NodeContext, value: Instruction) -> Instruction:
    return node.transpose(value, 0, 2, 1, 3)


def _merged(node: NodeContext, value: Instruction) -> Instruction:
    """(batch, heads, length, size) as (batch, length, heads × size)."""
    batch, heads, length, size = value.shape.lens
    return node.reshape(_heads_first(node, value), batch, length, heads * size)


@onnx_op("Attention", domain=MICROSOFT)
def attention(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Self-attention, the projection of its input included."""
    node.expect(inputs, 2, 7)
    for flag in ("do_rotary", "unidirectional"):
        if node.flag(flag):
            raise node.fail(f"{flag}=1 is not supported")
    if any(node.optional(inputs, i) is not None for i in (4, 5, 6)):
        raise node.fail("inputs past, attention_bias and past_sequence_length are not supported")
    x, weights = inputs[:2]
    heads = node.integer("num_heads")
    if x.shape.ndim != 3 or weights.shape.ndim != 2:
        raise node.fail(f"input {x.shape}, weights {weights.shape}; expected ranks 3 and 2")
    batch, length, _ = x.shape.lens
    total = weights.shape.lens[1]
    sizes = node.integers("qkv_hidden_sizes", (total // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != total or sizes[0] != sizes[1] or min(sizes) < 1:
        raise node.fail(f"qkv_hidden_sizes {list(sizes)}; expected three that sum to {total}")
    spread = node.multibroadcast(node.unsqueeze(weights, 0), (batch, *weights.shape.lens))
    projected = node.add("dot", x, spread)
    bias = node.optional(inputs, 2)
    if bias is not None:
        projected = node.common("add", projected, bias)
    ends = np.cumsum(sizes).tolist()
    parts = [
        node.slice(projected, [2], [end - size], [end])
        for end, size in zip(ends, sizes, strict=True)
    ]
    given = node.optional(inputs, 3)
    lens = (batch, heads, length, length)
    mask = None if given is None else _padding_mask(node, given, lens, x.shape.type)
    scale = node.number("scale", 0.0) or 1 / math.sqrt(sizes[0] / heads)
    factor = node.scalar(x.shape.type, scale)
    split = [
        node.reshape(p, batch, length, heads, s // heads) for p, s in zip(parts, sizes, strict=True)
    ]
    made = _Heads(*[_heads_first(node, s) for s in split])
    return _attended(node, made, [mask], factor, -1)


def _padding_mask(
    node: NodeContext, mask: Instruction, lens: tuple[int, ...], type: DType
) -> Instruction:
    """Zero where a mask of ones and zeros is one, and a large negative number elsewhere."""
    batch, _, _, keys = lens
    kept = node.vector(type, [0])
    hidden = node.vector(type, [node.number("mask_filter_value", -10000.0)])
    kept, hidden = node.multibroadcast(kept, lens), node.multibroadcast(hidden, lens)
    if mask.shape.lens == (batch, keys):
        mask = node.reshape(mask, batch, 1, 1, keys)
    elif mask.shape.ndim == 3:
        mask = node.unsqueeze(mask, 1)
    else:
        raise node.fail(f"mask {mask.shape}; expected [batch, keys] or [batch, queries, keys]")
    spread = node.multibroadcast(mask, lens)
    zero = node.multibroadcast(node.scalar(mask.shape.type, 0), lens)
    is_hidden = node.convert(node.add("equal", spread, zero), DType.BOOL)
    return node.add("where", is_hidden, hidden, kept)


def _attended(
    node: NodeContext,
    heads: _Heads,
    biases: list[Instruction | None],
    factor: Instruction,
    axis: int,
) -> Instruction:
    """Softmax of the scaled products of queries and keys, plus biases, times the values."""
    scores = node.add("dot", heads.query, node.transpose(heads.key, 0, 1, 3, 2))
    scores = node.common("mul", scores, factor)
    for bias in biases:
        if bias is not None:
            scores = node.common("add", scores, bias)
    weights = node.add("softmax", scores, axis=axis)
    return _merged(node, node.add("dot", weights, heads.value))


@onnx_op("MultiHeadAttention")
def multi_head_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Attention of queries to keys and values, separate or packed."""
    node.expect(inputs, 1, 9)
    if node.flag("unidirectional"):
        raise node.fail("unidirectional=1 is not supported")
    count = node.integer("num_heads")
    made = _with_bias(node, _unpacked(node, inputs, count), node.optional(inputs, 3))
    crossed = (given := node.optional(inputs, 1)) is not None and given.shape.ndim == 4
    query = _heads_first(node, made.query)
    key, value = (v if crossed else _heads_first(node, v) for v in (made.key, made.value))
    past = node.optional(inputs, 6), node.optional(inputs, 7)
    if past[0] is not None and past[1] is not None:
        key = node.add("concat", past[0], key, axis=2)
        value = node.add("concat", past[1], value, axis=2)
    batch, heads, queries, size = query.shape.lens
    lens = (batch, heads, queries, key.shape.lens[2])
    type = query.shape.type
    mask = node.optional(inputs, 4)
    if mask is not None:
        mask = _padding_mask(node, _right_padding(node, mask, lens), lens, type)
    scale = node.number("scale", 0.0) or 1 / math.sqrt(size)
    factor = node.scalar(type, scale)
    bias = node.optional(inputs, 5)
    result = _attended(node, _Heads(query, key, value), [bias, mask], factor, -1)
    return [result, key, value]


def _unpacked(node: NodeContext, inputs: list[Instruction], count: int) -> _Heads:
    """The three operands as (batch, length, heads, size); keys of rank 4 as they come."""
    query, key = inputs[0], node.optional(inputs, 1)
    if query.shape.ndim == 5:
        packed = node.transpose(query, 3, 0, 1, 2, 4)
        return _Heads(*[_part(node, packed, i) for i in range(3)])
    if query.shape.ndim != 3 or key is None:
        raise node.fail(f"query {query.shape}; expected rank 3 with keys, or packed, of rank 5")

    def split(value: Instruction) -> Instruction:
        batch, length, width = value.shape.lens
        if width % count:
            raise node.fail(f"{value.shape} does not split into {count} heads")
        return node.reshape(value, batch, length, count, width // count)

    query = split(query)
    if key.shape.ndim == 5:
        packed = node.transpose(key, 3, 0, 1, 2, 4)
        return _Heads(query, _part(node, packed, 0), _part(node, packed, 1))
    value = node.optional(inputs, 2)
    if value is None:
        raise node.fail("the values are left out; expected them beside the keys")
    if key.shape.ndim == 4:
        return _Heads(query, key, value)
    return _Heads(query, split(key), split(value))


def _part(node: NodeContext, packed: Instruction, index: int) -> Instruction:
    return node.squeeze(node.slice(packed, [0], [index], [index + 1]), 0)


def _with_bias(node: NodeContext, heads: _Heads, bias: Instruction | None) -> _Heads:
    if bias is None:
        return heads
    made: list[Instruction] = []
    start = 0
    for value in (heads.query, heads.key, heads.value):
        _, _, count, size = value.shape.lens
        piece = node.slice(bias, [0], [start], [start + count * size])
        made.append(node.common("add", value, node.reshape(piece, count, size)))
        start += count * size
    return _Heads(*made)


def _right_padding(node: NodeContext, mask: Instruction, lens: tuple[int, ...]) -> Instruction:
    """A mask given by the number of keys of each sample, as ones and zeros."""
    batch, keys = lens[0], lens[3]
    if mask.shape.lens != (batch,):
        return mask
    places = node.fit(node.vector(mask.shape.type, range(keys)), (batch, keys))
    counts = node.multibroadcast(node.unsqueeze(mask, 1), (batch, keys))
    return node.convert(node.add("less", places, counts), DType.INT32)


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Pairs of elements turned by an angle that grows with the position."""
    node.expect(inputs, 4)
    x, positions, cosines, sines = inputs
    heads, size = node.integer("num_heads", 0), node.integer("rotary_embedding_dim", 0)
    flat = x.shape.ndim == 3
    if flat:
        batch, length, width = x.shape.lens
        count = heads or width // (cosines.shape.lens[-1] * 2)
        split = node.reshape(x, batch, length, count, width // count)
        x = _heads_first(node, split)
    full = x.shape.lens[-1]
    size = size or cosines.shape.lens[-1] * 2
    tail = node.slice(x, [-1], [size], [full]) if size < full else None
    turned = node.slice(x, [-1], [0], [size]) if tail is not None else x
    interleaved = node.flag("interleaved")
    result = turn(node, turned, positions, (cosines, sines), interleaved=interleaved)
    if tail is not None:
        result = node.add("concat", result, tail, axis=-1)
    result = (
        result
        if node.number("scale", 1.0) == 1.0
        else node.common("mul", result, node.scalar(x.shape.type, node.number("scale")))
    )
    return _merged(node, result) if flat else result


def turn(
    node: NodeContext,
    x: Instruction,
    positions: Instruction,
    tables: tuple[Instruction, Instruction],
    *,
    interleaved: bool,
) -> Instruction:
    """``x`` (batch, heads, length, size) with its pairs turned by the angles at their positions."""
    batch, _, length, size = x.shape.lens
    index = _positions(node, positions, batch, length)
    half = size // 2
    cosine, sine = (node.add("gather", t, index, axis=0) for t in tables)
    cosine, sine = (node.unsqueeze(t, 1) for t in (cosine, sine))
    pairs = (*x.shape.lens[:3], half, 2) if interleaved else (*x.shape.lens[:3], 2, half)
    axis = 4 if interleaved else 3
    split = node.reshape(x, *pairs)
    first, second = (node.squeeze(node.slice(split, [axis], [i], [i + 1]), axis) for i in (0, 1))
    left = node.common("sub", node.common("mul", first, cosine), node.common("mul", second, sine))
    right = node.common("add", node.common("mul", first, sine), node.common("mul", second, cosine))
    joined = node.add("concat", node.unsqueeze(left, axis), node.unsqueeze(right, axis), axis=axis)
    return node.reshape(joined, *x.shape.lens)


def _positions(node: NodeContext, positions: Instruction, batch: int, length: int) -> Instruction:
    """A position for each element of each sequence."""
    if positions.shape.elements == batch * length and positions.shape.ndim == 2:
        return positions
    start = node.reshape(positions, positions.shape.elements, 1)
    steps = node.vector(positions.shape.type, range(length))
    return node.fit(node.common("add", start, steps), (batch, length))


@onnx_op("GroupQueryAttention")
def group_query_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Attention in which several queries share a key, to a cache of keys and values."""
    node.expect(inputs[:1] + inputs[3:6], 4)
    if node.number("softcap", 0.0):
        raise node.fail("softcap is not supported")
    count, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    packed, key, value = inputs[0], node.optional(inputs, 1), node.optional(inputs, 2)
    if key is not None and value is not None:
        packed = node.add("concat", packed, key, value, axis=2)
    batch, length, width = packed.shape.lens
    size = width // (count + 2 * groups)
    split = _heads_first(node, node.reshape(packed, batch, length, count + 2 * groups, size))
    turned = node.slice(split, [1], [0], [count + groups])
    value = node.slice(split, [1], [count + groups], [count + 2 * groups])
    last = inputs[5]
    if node.flag("do_rotary"):
        start = last if length == 1 else node.vector(last.shape.type, [0])
        interleaved = node.flag("rotary_interleaved")
        turned = turn(node, turned, start, (inputs[7], inputs[8]), interleaved=interleaved)
    query = node.slice(turned, [1], [0], [count])
    key = node.slice(turned, [1], [count], [count + groups])
    keys, values = (
        _appended(node, v, last, past) for v, past in ((key, inputs[3]), (value, inputs[4]))
    )
    result = _grouped(node, query, (keys, values), last)
    return [result, keys, values]


def _appended(
    node: NodeContext, value: Instruction, last: Instruction, past: Instruction
) -> Instruction:
    """A cache with new keys or values: a single one at its place, several from the front."""
    batch, _, room, _ = past.shape.lens
    length = value.shape.lens[2]
    if length > 1:
        rest = node.slice(past, [2], [length], [room])
        return node.add("concat", value, rest, axis=2) if length < room else value
    places = node.reshape(node.vector(last.shape.type, range(room)), 1, 1, room, 1)
    now = node.reshape(last, batch, 1, 1, 1)
    same = node.common("equal", places, now)
    mask = node.fit(node.convert(same, DType.BOOL), past.shape.lens)
    return node.add("where", mask, node.fit(value, past.shape.lens), past)


def _grouped(
    node: NodeContext, query: Instruction, cache: tuple[Instruction, Instruction], last: Instruction
) -> Instruction:
    batch, count, length, size = query.shape.lens
    groups, room = cache[0].shape.lens[1:3]
    repeated = [_repeated(node, v, count // groups) for v in cache]
    lens = (batch, count, length, room)
    type = last.shape.type
    places = node.multibroadcast(node.vector(type, range(room)), lens)
    final = node.multibroadcast(node.reshape(last, batch, 1, 1, 1), lens)
    if length > 1:
        steps = node.reshape(node.vector(type, range(length)), length, 1)
        own = node.multibroadcast(steps, lens)
    else:
        own = final
    hidden = node.convert(node.add("greater", places, own), DType.BOOL)
    window = node.integer("local_window_size", -1)
    if window > 0:
        reach = node.multibroadcast(node.scalar(type, window), lens)
        far = node.add("less", node.add("add", places, reach), own)
        hidden = node.add("logical_or", hidden, node.convert(far, DType.BOOL))
    scores = node.add("dot", query, node.transpose(repeated[0], 0, 1, 3, 2))
    scale = node.number("scale", 0.0) or 1 / math.sqrt(size)
    scores = node.common("mul", scores, node.scalar(query.shape.type, scale))
    lowest = node.multibroadcast(node.scalar(query.shape.type, -np.inf), lens)
    masked = node.add("where", hidden, lowest, scores)
    weights = node.add("softmax", masked, axis=3)
    return _merged(node, node.add("dot", weights, repeated[1]))


def _repeated(node: NodeContext, value: Instruction, times: int) -> Instruction:
    if times == 1:
        return value
    batch, groups, room, size = value.shape.lens
    wide = node.multibroadcast(node.unsqueeze(value, 2), (batch, groups, times, room, size))
    return node.reshape(wide, batch, groups * times, room, size)
