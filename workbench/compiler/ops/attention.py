"""Operations for attention with a cache of keys and values: appending to it, and rotary embedding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import expect, expect_floats, expect_integers, expect_rank
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


def _places(op: Operation, lens: Array, length: int, room: int) -> Array:
    """The position of the single new row of each sequence.

    Raises:
        EvaluationError: A position is outside the cache.
    """
    found = lens.reshape(-1).astype(np.int64)
    wrong = (found < 0) | (found + length > room)
    if length and wrong.any():
        raise EvaluationError(
            f"{op.name}: position {found[wrong][0]}; expected 0 to {room - length}"
        )
    return found


@operation
class ConcatPastPresent(Operation):
    """A cache with new rows written into it: several at its start, or a single one at its position.

    Inputs are the new rows ``[B, heads, L, D]``, the positions ``[B]`` and the cache
    ``[B, heads, T, D]``.
    """

    name = "concat_past_present"
    family = Family.MOVEMENT
    kv_num_heads: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the cache."""
        expect_count(self, inputs, 3)
        expect_static(self, inputs)
        present, lens, past = inputs
        expect_same_type(self, [present, past])
        expect_integers(self, inputs, 1)
        expect_rank(self, [present, past], 4, 4)
        (b, heads, length, size), room = present.lens, past.lens[2]
        fits = past.lens == (b, heads, room, size) and length <= room
        expect(self, fits, f"rows {present} do not fit into the cache {past}")
        expect(
            self, prod(lens.lens) == b, f"input 1 is {lens}; expected {b} positions, one per batch"
        )
        named = self.kv_num_heads in (0, heads)
        expect(
            self,
            named,
            f"kv_num_heads={self.kv_num_heads}; expected the heads of input 0, {present}",
        )
        return past

    def compute(self, *inputs: Any) -> Any:
        """A copy of the cache with the rows written in."""
        present, lens, past = inputs
        out: Array = np.array(past)
        length, room = present.shape[2], out.shape[2]
        if length > 1:
            out[:, :, :length] = present
            return out
        for b, place in enumerate(_places(self, lens, length, room)):
            out[b, :, place : place + length] = present[b]
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One row per sequence, several rows, a full cache, half types, positions of two axes."""
        past = noise(2, 3, 5, 4, seed=1)
        yield cls(kv_num_heads=3), [noise(2, 3, 1, 4), np.array([0, 4], np.int32), past]
        yield cls(kv_num_heads=3), [noise(2, 3, 2, 4), np.array([1, 1], np.int32), past]
        yield cls(), [noise(2, 3, 5, 4), np.array([[4], [2]]), past]
        half = np.dtype(np.float16)
        yield cls(), [noise(2, 3, 1, 4, type=half), np.array([3, 1]), past.astype(half)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g of the rows that were written, and of those that were not."""
        present, lens, past = operands
        count = present.shape[2]
        rest = given.builder.zeros(present.shape, past.dtype)
        kept = rest.concat_past_present(lens, given, kv_num_heads=self.kv_num_heads)
        if count != 1:
            return [given.slice(axes=(2,), starts=(0,), ends=(count,)), None, kept]
        places = lens.reshape((-1, 1, 1, 1)).astype("int64").broadcast_to(present.shape)
        return [given.gather_elements(places, axis=2), None, kept]


@operation
class GqaRotaryEmbedding(Operation):
    """Rotary embedding: rotates pairs of elements of queries and keys by angles of their positions.

    Inputs are queries, keys and values ``[B, heads + 2 · kv heads, S, D]``, positions ``[B]``, and
    tables of cosines and sines ``[positions, R/2]``. The first R elements of a head are rotated: element i
    is paired with i + R/2, or if interleaved, each even element with the next. Values, and the elements
    after the first R, are copied. An element's position is its index along S; if S is 1, it is the
    position given for its sequence.
    """

    name = "gqa_rotary_embedding"
    family = Family.MOVEMENT
    num_heads: int = 1
    kv_num_heads: int = 1
    interleaved: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the first input."""
        expect_count(self, inputs, 4)
        expect_static(self, inputs)
        x, lens, cosines, sines = inputs
        expect_floats(self, inputs, 0)
        expect_integers(self, inputs, 1)
        expect_same_type(self, [x, cosines, sines])
        expect_rank(self, [x], 4, 4)
        expect_rank(self, [cosines, sines], 2, 2)
        heads = self.num_heads + 2 * self.kv_num_heads
        expect(self, x.lens[1] == heads, f"input 0 is {x}; expected {heads} heads")
        expect(
            self, prod(lens.lens) == x.lens[0], f"input 1 is {lens}; expected one per batch of {x}"
        )
        rows, half = cosines.lens
        fits = sines.lens == cosines.lens and 2 * half <= x.lens[3]
        reached = x.lens[2] == 1 or x.lens[2] <= rows
        expect(self, fits and reached, f"tables {cosines} and {sines} do not fit input 0, {x}")
        return x

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Both elements of each pair, in float32 at least; rounded once."""
        x: Array = inputs[0]
        cosine, sine = (self._angles(widened(t), inputs[1], x.shape[2]) for t in inputs[2:])
        half = cosine.shape[-1]
        out: Array = np.array(x)
        turned = (slice(None), slice(0, self.num_heads + self.kv_num_heads), slice(None))
        step, start, end = (2, 1, 2 * half) if self.interleaved else (1, half, half)
        left = (*turned, slice(0, end, step))
        right = (*turned, slice(start, 2 * half, step))
        a, b = widened(x[left]), widened(x[right])
        out[left] = rounded(a * cosine - b * sine, x.dtype)
        out[right] = rounded(b * cosine + a * sine, x.dtype)
        return out

    def _angles(self, table: Array, lens: Array, length: int) -> Array:
        """A table's rows for the elements of each sequence, ``[B or 1, 1, S, R/2]``."""
        if length != 1:
            return table[None, None, :length]
        return table[_places(self, lens, 1, len(table))][:, None, None]

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Two products and a sum for each rotated element."""
        batch, _, length, _ = output.lens
        heads = self.num_heads + self.kv_num_heads
        return 3 * batch * heads * length * 2 * inputs[2].lens[1]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One element and several, whole and partial heads, both pairings, half types."""
        angles = noise(5, 2)
        tables = [np.cos(angles), np.sin(angles)]
        lens = np.array([4, 1], np.int32)
        yield cls(2, 1), [noise(2, 4, 1, 6), lens, *tables]
        yield cls(2, 1, interleaved=True), [noise(2, 4, 3, 6), lens, *tables]
        yield cls(1, 2), [noise(2, 5, 3, 4), lens, *tables]
        half = DType.HALF.numpy
        yield (
            cls(interleaved=True),
            [noise(2, 3, 1, 4, type=half), lens, *[t.astype(half) for t in tables]],
        )

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g turned back by the same angles; for the tables, the products of g and x by angle."""
        x, lens, cosines, sines = operands
        back = given.builder.apply(self.name, given, lens, cosines, -sines, **self.attributes())
        (a, b), (p, q) = self._pairs(x, cosines), self._pairs(given, cosines)
        found = [self._by_angle(v, lens, cosines) for v in (p * a + q * b, q * a - p * b)]
        return [back, None, *found]

    def _pairs(self, x: Any, table: Any) -> tuple[Any, Any]:
        """Both elements of each pair, of the heads that are turned."""
        half, heads = table.shape[1], self.num_heads + self.kv_num_heads
        x = x.slice(axes=(1, 3), starts=(0, 0), ends=(heads, 2 * half))
        lens = x.shape[:3]
        split = x.reshape((*lens, half, 2) if self.interleaved else (*lens, 2, half))
        axis = 4 if self.interleaved else 3
        parts = [split.slice(axes=(axis,), starts=(k,), ends=(k + 1,)) for k in (0, 1)]
        return parts[0].reshape((*lens, half)), parts[1].reshape((*lens, half))

    def _by_angle(self, slope: Any, lens: Any, table: Any) -> Any:
        """The gradient of a table from those of its rows in each head."""
        zeros = slope.builder.zeros(table.shape, table.dtype)
        if slope.shape[2] == 1:
            rows = slope.sum((1, 2))
            return zeros.scatternd_add(lens.reshape((-1, 1)).astype("int64"), rows)
        rows = slope.sum((0, 1))
        return rows.pad(pads=(0, 0, table.shape[0] - rows.shape[0], 0))
