"""Scatters: elements changed at indices that are data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    dims_of,
    expect,
    expect_integers,
    expect_tensors,
    intersection,
)
from workbench.compiler.ir.sampling import digits, grid, noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import is_narrow, quiet
from workbench.compiler.ops.index import from_front, tuples, wrapped

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Combine = Callable[[Array, Any, Array], None]

Slopes = Callable[["_Places", Any, Any, Any, Any], tuple[Any, Any]]
"""The gradients of data and updates, given the places, that of the result, the result and both operands."""


def _assign(data: Array, where: Any, updates: Array) -> None:
    data[where] = updates


def _combined(function: Any) -> Combine:
    def combine(data: Array, where: Any, updates: Array) -> None:
        if is_narrow(data.dtype):
            wide = data.astype(np.float32)
            function.at(wide, where, updates.astype(np.float32))
            data[...] = wide
        else:
            function.at(data, where, updates)

    return combine


@dataclass(frozen=True)
class Update:
    """The way in which an update of a scatter changes the element at its place."""

    combine: Combine = _assign
    join: str = ""
    """The result in C, of the element ``{0}`` and the update ``{1}``; empty where this replaces it."""
    slopes: Slopes | None = None
    """Its derivative; where there is none, updates replace elements."""
    rounds: bool = False
    """Whether results need more than their operands' bits, so that narrow floats grow in float32."""


@dataclass(frozen=True)
class _Places:
    """The places of a scatter's updates, in the gradient of a program."""

    op: Scatter | ScatterNd
    index: Any

    def taken(self, values: Any) -> Any:
        """The elements at the places."""
        if isinstance(self.op, ScatterNd):
            return values.gathernd(self.index)
        axis, index = self.op.axis, self.index
        if not self.op.skip_out_of_bounds:
            return values.gather_elements(index, axis=axis)
        n = values.shape[axis]
        inside = (index >= -n) & (index < n)
        return values.gather_elements(index.where_true(inside), axis=axis).where_true(inside)

    def placed(self, update: str, values: Any, updates: Any) -> Any:
        """The result of a scatter of updates to the same places."""
        name = f"{self.op.name.partition('_')[0]}_{update}"
        return values.apply(name, self.index, updates, **self.op.attributes())


def _of_none(at: _Places, given: Any, result: Any, x: Any, updates: Any) -> tuple[Any, Any]:  # noqa: ARG001
    """g where no update is; and g for the last update of each place."""
    builder = given.builder
    numbers = builder.constant(np.arange(prod(updates.shape)).reshape(updates.shape))
    last = at.taken(at.placed("none", builder.zeros(x.shape, "int64"), numbers)) == numbers
    kept = at.placed("none", given, builder.zeros(updates.shape, given.dtype))
    return kept, at.taken(given).where_true(last)


def _of_add(at: _Places, given: Any, result: Any, x: Any, updates: Any) -> tuple[Any, Any]:  # noqa: ARG001
    """g, and g at the places."""
    return given, at.taken(given)


def _of_mul(at: _Places, given: Any, result: Any, x: Any, updates: Any) -> tuple[Any, Any]:  # noqa: ARG001
    """g times the product of all other factors of each place."""
    zero = updates.apply("equal", 0.0)
    nothing = given.builder.zeros(x.shape, x.dtype)
    zeros = at.taken(at.placed("add", nothing, zero)) - zero
    factors = updates + zero
    others = (at.taken(at.placed("mul", x, factors)) / factors).where_true(zeros == 0.0)
    return given * at.placed("mul", nothing + 1.0, updates), at.taken(given) * others


def _of_extreme(at: _Places, given: Any, result: Any, x: Any, updates: Any) -> tuple[Any, Any]:
    """g shared by the element and the updates that have the extreme value."""
    mine, theirs = x.apply("equal", result), updates.apply("equal", at.taken(result))
    share = given / at.placed("add", mine, theirs)
    return share * mine, at.taken(share) * theirs


_ADD = Update(_combined(np.add), "{0} + {1}", _of_add, rounds=True)
_MUL = Update(_combined(np.multiply), "{0} * {1}", _of_mul, rounds=True)
_MIN = Update(_combined(np.minimum), "min({0}, {1})", _of_extreme)
_MAX = Update(_combined(np.maximum), "max({0}, {1})", _of_extreme)


@dataclass(frozen=True)
class Scatter(Operation):
    """Base of the scatters: each update goes to its own position, with ``axis`` replaced by the index."""

    family = Family.MOVEMENT
    dynamic = True
    axes_of_input = ("axis",)
    update: ClassVar[Update] = Update()
    axis: int = 0
    skip_out_of_bounds: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens, packed; its order of axes in memory is kept."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        data, index, updates = inputs
        expect_same_type(self, [data, updates])
        expect_integers(self, inputs, 1)
        axis = normalize_axis(self, self.axis, data.ndim)
        whole, places = dims_of(data), dims_of(index)
        pairs = zip(places, dims_of(updates), strict=False)
        fits = index.ndim == data.ndim == updates.ndim and all(n.min <= m.max for n, m in pairs)
        fits = fits and all(
            i == axis or n.min <= m.max for i, (n, m) in enumerate(zip(places, whole, strict=True))
        )
        expect(
            self,
            fits,
            f"indices {index}, updates {updates}; expected lens within those of {data}, and one "
            "update per index",
        )
        return data.with_lens(data.lens) if data.dims is None else data

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """A copy of the data, changed at each index in turn."""
        index: Array = inputs[1]
        out: Array = np.array(inputs[0])
        n = out.shape[self.axis]
        where: list[Array] = list(np.ix_(*map(np.arange, index.shape)))
        skip = self.skip_out_of_bounds
        where[self.axis] = wrapped(index, n) if skip else from_front(self, index, n)
        # As one row, so that updates of the same element happen in the order of their indices.
        where = [np.ravel(np.broadcast_to(w, index.shape)) for w in where]
        updates = np.ravel(inputs[2][tuple(map(slice, index.shape))])
        if skip:
            inside = (where[self.axis] >= 0) & (where[self.axis] < n)
            where, updates = [w[inside] for w in where], updates[inside]
        self.update.combine(out, tuple(where), updates)
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Repeated and negative indices, updates smaller than the data, indices to skip."""
        index = np.array([[1, 0, 2], [0, -1, 2]])
        yield cls(axis=0), [grid(3, 3), index, noise(2, 3)]
        yield (
            cls(axis=-1),
            [grid(2, 4, type=np.float16).copy(), index, noise(2, 3, type=np.float16)],
        )
        yield cls(axis=0), [grid(4, 3, type=np.int32), index, digits(2, 3, type=np.int32)]
        yield cls(axis=1, skip_out_of_bounds=True), [grid(2, 2), index, noise(2, 3)]
        yield cls(axis=0), [grid(3, 4).T, index, noise(2, 3)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """By the kind of update; updates without an index have none."""
        x, index, updates = operands
        slopes = self.update.slopes or _of_none
        used, ends = updates, [m - n for n, m in zip(index.shape, updates.shape, strict=True)]
        if any(ends):
            axes = tuple(range(index.ndim))
            used = updates.slice(axes=axes, starts=(0,) * index.ndim, ends=index.shape)
        whole, part = slopes(_Places(self, index), given, result, x, used)
        return [whole, None, part.pad(pads=(*[0] * index.ndim, *ends)) if any(ends) else part]


@operation
class ScatterNone(Scatter):
    """Each update replaces the element at its index."""

    name = "scatter_none"


@operation
class ScatterAdd(Scatter):
    """Each update is added to the element at its index."""

    name = "scatter_add"
    update = _ADD


@operation
class ScatterMul(Scatter):
    """The element at each index is multiplied by its update."""

    name = "scatter_mul"
    update = _MUL


@operation
class ScatterMin(Scatter):
    """The element at each index becomes the smaller of itself and its update."""

    name = "scatter_min"
    update = _MIN


@operation
class ScatterMax(Scatter):
    """The element at each index becomes the larger of itself and its update."""

    name = "scatter_max"
    update = _MAX


@dataclass(frozen=True)
class ScatterNd(Operation):
    """Base of the scatters at index tuples, which lie along the last axis of the indices."""

    family = Family.MOVEMENT
    dynamic = True
    update: ClassVar[Update] = Update()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens, packed; its order of axes in memory is kept."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        data, index, updates = inputs
        expect_same_type(self, [data, updates])
        expect_integers(self, inputs, 1)
        dims, at = dims_of(data), dims_of(index)
        expect(
            self, bool(at) and at[-1].is_fixed, f"indices {index}; expected a fixed last dimension"
        )
        taken = at[-1].min
        expect(self, taken <= len(dims), f"index tuples of {taken} are too long for data {data}")
        wanted, found = (*at[:-1], *dims[taken:]), dims_of(updates)
        fits = len(wanted) == len(found) and all(
            intersection(a, b) is not None for a, b in zip(wanted, found, strict=True)
        )
        expect(self, fits, f"updates {updates} do not fit data {data} and indices {index}")
        if data.dims is not None:
            return data
        return data.as_standard() if data.broadcasted else data.with_lens(data.lens)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """A copy of the data, changed at each index tuple in turn."""
        data, index, updates = inputs
        out: Array = np.array(data)
        # As one row, so that updates of the same element happen in the order of their indices.
        where = tuple(map(np.ravel, tuples(self, index, out.shape)))
        rest = out.shape[len(where) :]
        count = prod(index.shape[:-1])
        updates = np.ascontiguousarray(updates).reshape(count, *rest)
        if where:
            self.update.combine(out, where, updates)
        else:  # empty tuples: every update covers all the data
            self.update.combine(out[None], (np.zeros(count, np.int64),), updates)
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Elements and slices, repeated tuples, half and integer types."""
        pairs = np.array([[0, 1], [2, 3], [0, 1]])
        yield cls(), [grid(3, 4), pairs, noise(3)]
        yield (
            cls(),
            [grid(3, 4, type=np.float16), np.array([[1], [1]]), noise(2, 4, type=np.float16)],
        )
        yield cls(), [grid(4, 3, type=np.int32).T, pairs, digits(3, type=np.int32)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """By the kind of update."""
        x, index, updates = operands
        slopes = self.update.slopes or _of_none
        whole, part = slopes(_Places(self, index), given, result, x, updates)
        return [whole, None, part]


@operation
class ScatterNdNone(ScatterNd):
    """Each update replaces the element or slice at its index tuple."""

    name = "scatternd_none"


@operation
class ScatterNdAdd(ScatterNd):
    """Each update is added to the element or slice at its index tuple."""

    name = "scatternd_add"
    update = _ADD


@operation
class ScatterNdMul(ScatterNd):
    """The element or slice at each index tuple is multiplied by its update."""

    name = "scatternd_mul"
    update = _MUL


@operation
class ScatterNdMin(ScatterNd):
    """The element at each index tuple becomes the smaller of itself and its update."""

    name = "scatternd_min"
    update = _MIN


@operation
class ScatterNdMax(ScatterNd):
    """The element at each index tuple becomes the larger of itself and its update."""

    name = "scatternd_max"
    update = _MAX
