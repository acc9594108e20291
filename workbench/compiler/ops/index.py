"""Gathers and scatters: elements read or changed at indices that are data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
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
    any_dynamic,
    dims_of,
    expect,
    expect_integers,
    expect_tensors,
    intersection,
    ranged,
)
from workbench.compiler.ir.sampling import digits, grid, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.accumulate import is_narrow, quiet
from workbench.compiler.ops.elementwise import cast

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Gather(Operation):
    """The slices along ``axis`` selected by the indices; negative ones count from the end.

    An index of rank 0 removes the axis. Bools are indices too: 0 and 1.
    """

    name = "gather"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.SELECTED
    axes_of_input = ("axis",)
    axis: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens with the axis replaced by the indices' lens; standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        data, index = inputs
        if index.type is not DType.BOOL:
            expect_integers(self, inputs, 1)
        axis = normalize_axis(self, self.axis, data.ndim)
        dims = dims_of(data)
        found = (*dims[:axis], *dims_of(index), *dims[axis + 1 :])
        if any_dynamic(inputs):
            return ranged(data.type, found)
        return Shape(data.type, [d.min for d in found])

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; MIGraphX's scalar is an index of rank 0."""
        given = [*inputs[:1], *map(rules.plain, inputs[1:])]
        return super().shape_by(rules, given, modules)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.take``."""
        data, index = inputs
        return np.take(data, from_front(self, index, data.shape[self.axis]), self.axis)

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """The same, without the axis that MIGraphX's scalar removes, which is ``{1}`` as an array."""
        found: Array = self.compute(*inputs)
        gone = shape.dims is not None and found.ndim > shape.ndim
        return np.squeeze(found, self.axis) if gone else found

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Rows, columns, an index of two axes, negative indices."""
        yield cls(axis=0), [grid(5, 3), np.array([[0, 2], [-1, 4]])]
        yield cls(axis=1), [grid(2, 4, 3, type=np.float16), np.array([3, -4], np.int32)]
        yield cls(axis=-1), [grid(3, 4).T, np.array([[1]])]
        yield cls(axis=0), [grid(3, type=np.int64), np.array([2])]
        yield cls(axis=0), [grid(2, 3), np.array([True, False, True])]


@operation
class GatherNd(Operation):
    """Elements or slices at index tuples, which lie along the last axis of the indices.

    Indices may be floats; their fractions are dropped.
    """

    name = "gathernd"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.SELECTED
    batch_dims: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The indices' lens without the last, then the rest of the data's; standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        if not inputs[1].type.is_float:
            expect_integers(self, inputs, 1)
        data, index = dims_of(inputs[0]), dims_of(inputs[1])
        batch = self.batch_dims
        fits = 0 <= batch < min(len(data), len(index))
        if not any_dynamic(inputs):  # ranges are checked at run time
            fits = fits and data[:batch] == index[:batch]
        expect(self, fits, f"batch_dims {batch} does not fit {inputs[0]} and {inputs[1]}")
        expect(self, index[-1].is_fixed, f"indices {inputs[1]}; expected a fixed last dimension")
        taken = index[-1].min
        expect(
            self,
            taken <= len(data) - batch,
            f"index tuples of {taken} are too long for data {inputs[0]}",
        )
        found = (*index[:-1], *data[batch + taken :])
        if any_dynamic(inputs):
            return ranged(inputs[0].type, found)
        return Shape(inputs[0].type, [d.min for d in found])

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; MIGraphX gives one element a dimension."""
        made = self.compute_shape(inputs, modules)
        if rules.scalars and made.has_rank_0:
            made = ranged(made.type, [Dim(1, 1)])
        return rules.settle(inputs, made)

    def compute(self, *inputs: Any) -> Any:
        """NumPy indexing with one array per axis."""
        data: Array = inputs[0]
        index: Array = inputs[1]
        batch = self.batch_dims
        lead = np.ix_(*map(np.arange, index.shape[:batch])) if batch else ()
        spread = index.ndim - 1 - batch
        where: list[Array] = [g.reshape(g.shape + (1,) * spread) for g in lead]
        where += _tuples(self, index, data.shape[batch:])
        if not where:
            return np.broadcast_to(data, index.shape[:-1] + data.shape)
        return np.asarray(data[tuple(where)])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Elements, slices, batches, one element."""
        yield cls(), [grid(3, 4), np.array([[0, 1], [-1, 3]])]
        yield cls(), [grid(3, 4, 2, type=np.float16), np.array([[[2]], [[0]]])]
        yield cls(batch_dims=1), [grid(2, 3, 4), np.array([[[1, 2]], [[0, -1]]])]
        yield cls(), [grid(3, 4), np.array([1, 2])]
        yield cls(), [grid(3, 4), np.array([[1.5, 2], [0, -1]], np.float32)]
        yield cls(batch_dims=1), [grid(2, 3, 4).transpose(0, 2, 1), np.array([[1], [2]])]


def from_front(op: Operation, index: Array, length: int) -> Array:
    """Indices as int64, counted from the front.

    Raises:
        EvaluationError: One is out of range.
    """
    at = _wrapped(index, length)
    outside = (at < 0) | (at >= length)
    if outside.any():
        wrong = index[outside].flat[0]
        raise EvaluationError(
            f"{op.name}: index {wrong} is out of range; expected {-length} to {length - 1}"
        )
    return at


def _wrapped(index: Array, length: int) -> Array:
    """Indices as int64, negative ones counted from the end."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(np.iinfo(np.int64).max))
    elif DType.of(index.dtype).is_float:  # NaN is out of range, too
        index = cast(np.nan_to_num(index.astype(np.float64), nan=np.inf), np.dtype(np.int64))
    at = index.astype(np.int64, copy=False)
    return np.where(at < 0, at + length, at)


def _tuples(op: Operation, index: Array, lens: Sequence[int]) -> list[Array]:
    """Index tuples along the last axis, as one array for each axis of the data."""
    parts = np.moveaxis(index, -1, 0)
    return [from_front(op, part, n) for part, n in zip(parts, lens, strict=False)]


@operation
class GatherElements(Operation):
    """The data's element at each position of the indices, with ``axis`` replaced by the index.

    Negative indices count from the end.
    """

    name = "gather_elements"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.SELECTED
    axes_of_input = ("axis",)
    axis: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The indices' lens, standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_integers(self, inputs, 1)
        data, index = dims_of(inputs[0]), dims_of(inputs[1])
        axis = normalize_axis(self, self.axis, len(data))
        fits = len(index) == len(data) and all(
            i.min <= d.max for a, (i, d) in enumerate(zip(index, data, strict=True)) if a != axis
        )
        expect(self, fits, f"indices {inputs[1]} do not fit data {inputs[0]} along axis {axis}")
        return ranged(inputs[0].type, index)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.take_along_axis`` on the part of the data that the indices cover."""
        data: Array = inputs[0]
        index: Array = inputs[1]
        axis = normalize_axis(self, self.axis, data.ndim)
        covered = [slice(None) if a == axis else slice(n) for a, n in enumerate(index.shape)]
        at = from_front(self, index, data.shape[axis])
        return np.take_along_axis(data[tuple(covered)], at, axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Negative indices, fewer indices than elements and more, none."""
        yield cls(axis=1), [grid(2, 3), np.array([[0, 2, -1, 1], [1, -3, 0, 0]])]
        yield cls(axis=0), [grid(4, 3, type=np.float16), np.array([[3, -1]], np.int32)]
        yield cls(axis=-1), [grid(3, 4).T, np.array([[2], [0], [1], [-2]])]
        yield cls(axis=0), [grid(3, 2), np.zeros((0, 2), np.int64)]


Combine = Callable[[Array, Any, Array], None]


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
    rounds: bool = False
    """Whether results need more than their operands' bits, so that narrow floats grow in float32."""


_ADD = Update(_combined(np.add), "{0} + {1}", rounds=True)
_MUL = Update(_combined(np.multiply), "{0} * {1}", rounds=True)
_MIN = Update(_combined(np.minimum), "min({0}, {1})")
_MAX = Update(_combined(np.maximum), "max({0}, {1})")


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
        where[self.axis] = _wrapped(index, n) if skip else from_front(self, index, n)
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
        where = tuple(map(np.ravel, _tuples(self, index, out.shape)))
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
