"""Lookups in tables: values by key, and n-grams of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import expect, expect_integers, expect_rank, expect_tensors
from workbench.compiler.ir.sampling import digits
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import packed

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Lookup(Operation):
    """The value for each element's key, or a default; inputs are x, keys, values, default.

    Of equal keys the first one counts; NaN is a key like any other. Without a default, an unknown key
    is an error.
    """

    name = "lookup"
    not_differentiable = (
        "keys are equal or not, and no gradient is written for the values of a table"
    )
    on_host = "text"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the first input, in the type of the values."""
        expect_count(self, inputs, 3, 4)
        expect_tensors(self, inputs)
        expect_static(self, inputs[1:])
        expect_rank(self, inputs[1:], 1, 1)
        x, keys, values = inputs[:3]
        default = inputs[3] if len(inputs) == 4 else Shape(values.type, (1,))
        types = x.type is keys.type and values.type is default.type
        expect(self, types, f"{x} among {keys}, {values} and {default}; expected types in pairs")
        fits = keys.lens == values.lens and default.lens == (1,)
        expect(
            self, fits, f"keys {keys}, values {values}, default {default}; expected equal numbers"
        )
        return packed(x).with_type(values.type)

    def compute(self, *inputs: Any) -> Any:
        """A binary search among the sorted keys."""
        x, keys, values, *default = _arrays(inputs)
        if not keys.size:
            nothing = np.zeros(x.shape, values.dtype)
            return self._or_default(x, np.zeros(x.shape, np.bool_), nothing, default)
        order: Array = np.argsort(keys, kind="stable")
        place = np.asarray(np.searchsorted(keys[order], x))
        place = order[np.minimum(place, len(keys) - 1)]
        near = keys[place]
        found = np.equal(near, x)
        if x.dtype.kind not in "biu":
            found |= np.isnan(near) & np.isnan(x)
        return self._or_default(x, found, values[place], default)

    def _or_default(self, x: Array, found: Array, values: Array, default: Sequence[Array]) -> Array:
        if default:
            return np.where(found, values, default[0].reshape(()))
        if not found.all():
            raise EvaluationError(
                f"lookup: {x[~found].reshape(-1)[0]} is not among the keys; expected one of them, "
                "or a default as fourth input"
            )
        return values

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Integer and float keys, equal ones, no key at all."""
        yield (
            cls(),
            [digits(3, 4, type=np.int64), *_table([3, -2, 3, 7], np.int64, [1.5, 2, 9, 4])],
        )
        x = np.array([[1.0, np.nan, 2.5], [-0.0, np.inf, 3.0]], np.float32)
        yield cls(), [x, *_table([np.nan, 0, 2.5, np.inf], np.float32, [4, 5, 6, 7], np.int16)]
        yield cls(), [digits(4, type=np.int32), *_table([], np.int32, [])]
        yield cls(), [np.array([[3, 7], [7, -2]]), *_table([3, -2, 7], np.int64, [1, 2, 3])[:2]]


def _arrays(inputs: Sequence[Any]) -> tuple[Array, ...]:
    return tuple(inputs)


def _table(keys: list[Any], kind: Any, values: list[Any], type: Any = np.float32) -> list[Array]:
    return [np.array(keys, kind), np.array(values, type), np.array([-1], type)]


@operation
class CountNgrams(Operation):
    """The count of each of a list of n-grams in rows of tokens, ``[C]`` or ``[B, C]``.

    Inputs are the tokens, a pool of n-grams one after the other by length, the position in it where each
    length from 1 on begins, and for each n-gram its column of the result. Up to ``skips`` tokens may lie
    between two tokens of an n-gram, the same number between all of them.
    """

    name = "count_ngrams"
    flat = True
    on_host = "text"
    family = Family.REDUCE
    size: int = 1
    shortest: int = 1
    longest: int = 1
    skips: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``size`` integers for each row."""
        expect_count(self, inputs, 4)
        expect_static(self, inputs)
        expect_integers(self, inputs, 0, 1, 2, 3)
        expect_rank(self, inputs[:1], 1, 2)
        expect_rank(self, inputs[1:], 1, 1)
        known = 1 <= self.shortest <= self.longest and self.skips >= 0 and self.size > 0
        expect(self, known, f"{self}; expected 1 to longest tokens, and skips of at least 0")
        return Shape(DType.INT64, (*inputs[0].lens[:-1], self.size))

    def compute(self, *inputs: Any) -> Any:
        """Windows of every length and distance, compared with the pool by binary search."""
        tokens, pool, starts, columns = inputs
        rows = np.atleast_2d(tokens)
        counts: Array = np.zeros((len(rows), self.size), np.int64)
        passed = 0
        for n, first in enumerate(starts.tolist(), 1):
            last = starts[n] if n < len(starts) else len(pool)
            grams = pool[first:last][: max(0, (last - first) // n * n)].reshape(-1, n)
            if passed + len(grams) > len(columns):
                raise EvaluationError(
                    f"{self.name}: {len(columns)} columns for {passed + len(grams)} n-grams or more; "
                    "expected one for each"
                )
            if self.shortest <= n <= self.longest and len(grams):
                self._count(counts, rows, grams, columns[passed : passed + len(grams)])
            passed += len(grams)
        return counts.reshape(*tokens.shape[:-1], self.size)

    def _count(self, counts: Array, rows: Array, grams: Array, columns: Array) -> None:
        n = grams.shape[1]
        for distance in range(1, self.skips + 2 if n > 1 else 2):
            span = rows.shape[1] - distance * (n - 1)
            if span < 1:
                return
            parts = [rows[:, i : i + span] for i in range(0, distance * n, distance)]
            windows = np.stack(parts, -1).reshape(-1, n)
            both = np.concatenate([grams, windows])
            _, codes = np.unique(both, axis=0, return_inverse=True)
            codes = codes.reshape(-1)
            column = np.full(len(both), -1)
            column[codes[: len(grams)]] = columns
            found = column[codes[len(grams) :]].reshape(len(rows), span)
            row, where = np.nonzero(found >= 0)
            np.add.at(counts, (row, found[row, where]), 1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One row and two, single tokens and pairs, with and without gaps."""
        row = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8])
        pool, starts = np.array([2, 3, 5, 4, 5, 6, 7, 8, 6, 7]), np.array([0, 4])
        columns = np.arange(7)
        yield cls(7, 2, 2), [row, pool, starts, columns]
        yield cls(7, 1, 2, 5), [row.reshape(2, 6), pool, starts, columns]
        yield cls(7, 1, 1, 3), [row.astype(np.int32), pool.astype(np.int32), starts, columns[::-1]]
