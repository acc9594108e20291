"""Gathers: elements read at indices that are data."""

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
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    any_dynamic,
    dims_of,
    expect,
    expect_integers,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement
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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g added up at the places that were read."""
        x, index = operands
        axis, rank = self.axis % x.ndim, index.ndim
        order = (*range(axis, axis + rank), *range(axis), *range(axis + rank, given.ndim))
        rows = given.transpose(order) if axis and rank else given
        others = (*x.shape[:axis], *x.shape[axis + 1 :])
        zeros = given.builder.zeros((x.shape[axis], *others), given.dtype)
        index = index.astype("int64") if index.dtype is DType.BOOL else index
        found = zeros.scatternd_add(index.reshape((*index.shape, 1)), rows)
        back = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
        return [found.transpose(back) if axis else found, None]


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
        where += tuples(self, index, data.shape[batch:])
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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g added up at the places that were read."""
        x, index = operands
        index = index.astype("int64") if index.dtype.is_float else index
        if self.batch_dims:
            index = self._with_batches(index)
        zeros = given.builder.zeros(x.shape, x.dtype)
        return [zeros.scatternd_add(index, given), None]

    def _with_batches(self, index: Any) -> Any:
        """Index tuples that begin with the positions in the batch."""
        lens = index.shape[:-1]
        at = np.argwhere(np.ones(lens)).reshape(*lens, len(lens))[..., : self.batch_dims]
        return index.builder.constant(at.astype(index.dtype.numpy)).concat(index, axis=-1)


def from_front(op: Operation, index: Array, length: int) -> Array:
    """Indices as int64, counted from the front.

    Raises:
        EvaluationError: One is out of range.
    """
    at = wrapped(index, length)
    outside = (at < 0) | (at >= length)
    if outside.any():
        wrong = index[outside].flat[0]
        raise EvaluationError(
            f"{op.name}: index {wrong} is out of range; expected {-length} to {length - 1}"
        )
    return at


def wrapped(index: Array, length: int) -> Array:
    """Indices as int64, negative ones counted from the end."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(np.iinfo(np.int64).max))
    elif DType.of(index.dtype).is_float:  # NaN is out of range, too
        index = cast(np.nan_to_num(index.astype(np.float64), nan=np.inf), np.dtype(np.int64))
    at = index.astype(np.int64, copy=False)
    return np.where(at < 0, at + length, at)


def tuples(op: Operation, index: Array, lens: Sequence[int]) -> list[Array]:
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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g added up at the places that were read."""
        x, index = operands
        zeros = given.builder.zeros(x.shape, x.dtype)
        return [zeros.scatter_add(index, given, axis=self.axis), None]
