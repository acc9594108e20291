"""Attention with a cache, and the windows of a convolution as rows: composed of standard operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes


@writes("concat_past_present")
def concat_past_present(call: Call) -> str:
    """Several rows take the place of the first; a single one that of the row at its position."""
    present, _, past = call.inputs
    (batch, _, length, _), room = call.shapes[0].lens, call.shapes[2].lens[2]
    if length != 1:
        return call.add("Concat", present, _part(call, past, 2, length, room), axis=2)
    places = _shaped(call, call.whole(1), (batch, 1, 1, 1))
    rows = call.constant(np.arange(room).reshape(1, 1, room, 1))
    return call.add("Where", call.add("Equal", rows, places), present, past)


@writes("gqa_rotary_embedding")
def gqa_rotary_embedding(call: Call) -> str:
    """The elements of each pair times cosines and sines, in float at least, beside those that stay."""
    own, op = call.type, call.op
    heads, size, half = call.shape.lens[1], call.shape.lens[3], call.shapes[2].lens[1]
    turned = op.num_heads + op.kv_num_heads
    x, values = (_part(call, call.inputs[0], 1, *ends) for ends in ((0, turned), (turned, heads)))
    pairs, rest = _part(call, x, 3, 0, 2 * half), _part(call, x, 3, 2 * half, size)
    wide = DType.FLOAT if own.is_narrow_float else own
    made = call.cast(_rotated(call, call.cast(pairs, own, wide), turned, wide), wide, own)
    whole = call.add("Concat", made, rest, axis=3)
    return call.add("Concat", whole, values, axis=1)


def _rotated(call: Call, pairs: str, heads: int, type: DType) -> str:
    """The elements of each pair, turned by their angles."""
    batch, _, length, _ = call.shape.lens
    half = call.shapes[2].lens[1]
    inner = (half, 2) if call.op.interleaved else (2, half)
    axis = 4 if call.op.interleaved else 3
    split = _shaped(call, pairs, (batch, heads, length, *inner))
    a, b = (call.add("Gather", split, call.constant(k), axis=axis) for k in (0, 1))
    cosine, sine = (_angles(call, at, type) for at in (2, 3))
    left = call.add("Sub", call.add("Mul", a, cosine), call.add("Mul", b, sine))
    right = call.add("Add", call.add("Mul", b, cosine), call.add("Mul", a, sine))
    both = [call.add("Unsqueeze", part, call.constant([axis])) for part in (left, right)]
    joined = call.add("Concat", *both, axis=axis)
    return _shaped(call, joined, (batch, heads, length, 2 * half))


def _angles(call: Call, at: int, type: DType) -> str:
    """The rows of a table for the elements of each sequence, ``[B or 1, 1, S, R/2]``."""
    batch, _, length, _ = call.shape.lens
    table = call.cast(call.inputs[at], call.shapes[at].type, type)
    half = call.shapes[at].lens[1]
    if length != 1:
        return _shaped(call, _part(call, table, 0, 0, length), (1, 1, length, half))
    places = _shaped(call, call.whole(1), (batch,))
    return _shaped(call, call.add("Gather", table, places, axis=0), (batch, 1, 1, half))


@writes("im2col")
def im2col(call: Call) -> str:
    """A Gather of the elements, with a zero before them for the padding."""
    x, w = call.shapes
    count = int(np.prod(x.lens, dtype=np.int64))
    places = np.arange(1, count + 1).reshape(x.lens)
    indices = call.op.compute(places, np.empty(w.lens, np.bool_))
    flat = _shaped(call, call.inputs[0], (count,))
    whole = call.add("Concat", call.constant([0], call.type), flat, axis=0)
    return call.add("Gather", whole, call.constant(indices.astype(np.int64)), axis=0)


def _part(call: Call, x: str, axis: int, start: int, end: int) -> str:
    """A range of an axis."""
    return call.add("Slice", x, *(call.constant([n]) for n in (start, end, axis)))


def _shaped(call: Call, x: str, lens: Sequence[int]) -> str:
    """The elements in other lengths."""
    return call.add("Reshape", x, call.constant(list(lens)), allowzero=1)
