"""Gathers and scatters: elements found, or changed, at indices that are data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.dtypes import Array
from workbench.compiler.errors import EvaluationError
from workbench.compiler.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ops.accumulate import is_narrow, quiet
from workbench.compiler.ops.ranges import (
    any_dynamic,
    dims_of,
    expect,
    expect_tensors,
    intersection,
    ranged,
)
from workbench.compiler.ops.sampling import digits, grid, noise
from workbench.compiler.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.ir import Module


@operation
class Gather(Operation):
    """The slices along ``axis`` that the indices name; negative ones count from the end.

    An index of the scalar shape ``{1}, {0}`` takes the axis away.
    """

    name: ClassVar[str] = "gather"
    family: ClassVar[Family] = Family.MOVEMENT
    dynamic: ClassVar[bool] = True
    axes_of_input: ClassVar[tuple[str, ...]] = ("axis",)
    axis: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens with the axis replaced by the indices' lens; standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        data, index = inputs
        axis = normalize_axis(self, self.axis, data.ndim)
        scalar = index == Shape.scalar(index.type) or (index.dims is None and not index.lens)
        middle = () if scalar else dims_of(index)
        dims = dims_of(data)
        found = (*dims[:axis], *middle, *dims[axis + 1 :])
        if any_dynamic(inputs):
            return ranged(data.type, found)
        return Shape(data.type, [d.min for d in found]) if found else Shape.scalar(data.type)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.take``, which raises for an index out of range."""
        data, index = inputs
        found: Array = np.take(data, index, self.axis)
        return found if found.ndim else found.reshape(1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Rows, columns, an index of two axes, negative indices."""
        yield cls(axis=0), [grid(5, 3), np.array([[0, 2], [-1, 4]])]
        yield cls(axis=1), [grid(2, 4, 3, type=np.float16), np.array([3, -4], np.int32)]
        yield cls(axis=-1), [grid(3, 4).T, np.array([[1]])]
        yield cls(axis=0), [grid(3, type=np.int64), np.array([2])]


@operation
class GatherNd(Operation):
    """Elements or slices at index tuples, which lie along the last axis of the indices."""

    name: ClassVar[str] = "gathernd"
    family: ClassVar[Family] = Family.MOVEMENT
    dynamic: ClassVar[bool] = True
    batch_dims: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The indices' lens without the last, then what is left of the data's; standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        data, index = dims_of(inputs[0]), dims_of(inputs[1])
        batch = self.batch_dims
        expect(self, 0 <= batch < min(len(data), len(index)), f"batch_dims {batch} for {inputs}")
        expect(self, index[-1].is_fixed, f"indices {inputs[1]}; expected a fixed last dimension")
        taken = index[-1].min
        expect(self, taken <= len(data) - batch, f"index tuples of {taken} for data {inputs[0]}")
        found = (*index[:-1], *data[batch + taken :])
        if any_dynamic(inputs):
            return ranged(inputs[0].type, found or (Dim(1, 1),))
        return Shape(inputs[0].type, [d.min for d in found] or [1])

    def compute(self, *inputs: Any) -> Any:
        """NumPy indexing with an array an axis."""
        data: Array = inputs[0]
        index: Array = inputs[1]
        batch = self.batch_dims
        lead = np.ix_(*map(np.arange, index.shape[:batch])) if batch else ()
        spread = index.ndim - 1 - batch
        where: list[Array] = [g.reshape(g.shape + (1,) * spread) for g in lead]
        where += list(np.moveaxis(index, -1, 0))
        if not where:
            return np.broadcast_to(data, index.shape[:-1] + data.shape)
        found: Array = np.asarray(data[tuple(where)])
        return found if found.ndim else found.reshape(1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Elements, slices, batches, one element."""
        yield cls(), [grid(3, 4), np.array([[0, 1], [-1, 3]])]
        yield cls(), [grid(3, 4, 2, type=np.float16), np.array([[[2]], [[0]]])]
        yield cls(batch_dims=1), [grid(2, 3, 4), np.array([[[1, 2]], [[0, -1]]])]
        yield cls(), [grid(3, 4), np.array([1, 2])]
        yield cls(batch_dims=1), [grid(2, 3, 4).transpose(0, 2, 1), np.array([[1], [2]])]


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


_ADD, _MUL = _combined(np.add), _combined(np.multiply)
_MIN, _MAX = _combined(np.minimum), _combined(np.maximum)


@dataclass(frozen=True)
class Scatter(Operation):
    """Base of the scatters: each update goes to the place of its index, moved along ``axis``."""

    family: ClassVar[Family] = Family.MOVEMENT
    axes_of_input: ClassVar[tuple[str, ...]] = ("axis",)
    combine: ClassVar[Combine] = _assign
    axis: int = 0
    skip_out_of_bounds: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens, packed; its order of axes in memory is kept."""
        expect_count(self, inputs, 3)
        expect_static(self, inputs)
        data, index, updates = inputs
        expect_same_type(self, [data, updates])
        normalize_axis(self, self.axis, data.ndim)
        fits = index.ndim == data.ndim and index.lens == updates.lens
        expect(
            self,
            fits,
            f"indices {index}, updates {updates}; expected equal lens, as many as {data}",
        )
        return data.with_lens(data.lens)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """A copy of the data, changed at each index in turn."""
        index: Array = inputs[1]
        updates: Array = inputs[2]
        out: Array = np.array(inputs[0])
        n = out.shape[self.axis]
        at: Array = np.where(index < 0, index + n, index)
        where: list[Array] = list(np.ix_(*map(np.arange, index.shape)))
        where[self.axis] = at
        inside: Array = (at >= 0) & (at < n)
        if not inside.all():
            if not self.skip_out_of_bounds:
                wrong = index[~inside].flat[0]
                raise EvaluationError(f"{self.name}: index {wrong} is out of range for length {n}")
            where = [np.broadcast_to(w, index.shape)[inside] for w in where]
            updates = updates[inside]
        type(self).combine(out, tuple(where), updates)
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

    name: ClassVar[str] = "scatter_none"
    combine: ClassVar[Combine] = _assign


@operation
class ScatterAdd(Scatter):
    """Each update is added to the element at its index."""

    name: ClassVar[str] = "scatter_add"
    combine: ClassVar[Combine] = _ADD


@operation
class ScatterMul(Scatter):
    """The element at each index is multiplied by its update."""

    name: ClassVar[str] = "scatter_mul"
    combine: ClassVar[Combine] = _MUL


@operation
class ScatterMin(Scatter):
    """The element at each index becomes the lesser of itself and its update."""

    name: ClassVar[str] = "scatter_min"
    combine: ClassVar[Combine] = _MIN


@operation
class ScatterMax(Scatter):
    """The element at each index becomes the greater of itself and its update."""

    name: ClassVar[str] = "scatter_max"
    combine: ClassVar[Combine] = _MAX


@dataclass(frozen=True)
class ScatterNd(Operation):
    """Base of the scatters at index tuples, which lie along the last axis of the indices."""

    family: ClassVar[Family] = Family.MOVEMENT
    dynamic: ClassVar[bool] = True
    combine: ClassVar[Combine] = _assign

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The data's lens, packed; its order of axes in memory is kept."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        data, index, updates = inputs
        expect_same_type(self, [data, updates])
        dims, at = dims_of(data), dims_of(index)
        expect(
            self, bool(at) and at[-1].is_fixed, f"indices {index}; expected a fixed last dimension"
        )
        taken = at[-1].min
        expect(self, taken <= len(dims), f"index tuples of {taken} for data {data}")
        wanted, found = (*at[:-1], *dims[taken:]), dims_of(updates)
        fits = len(wanted) == len(found) and all(
            intersection(a, b) is not None for a, b in zip(wanted, found, strict=True)
        )
        expect(self, fits, f"updates {updates} for data {data} and indices {index}")
        if data.dims is not None:
            return data
        return data.as_standard() if data.broadcasted else data.with_lens(data.lens)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """A copy of the data, changed at each index tuple in turn."""
        data, index, updates = inputs
        out: Array = np.array(data)
        type(self).combine(out, tuple(np.moveaxis(index, -1, 0)), updates)
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
    """Each update replaces what stands at its index tuple."""

    name: ClassVar[str] = "scatternd_none"
    combine: ClassVar[Combine] = _assign


@operation
class ScatterNdAdd(ScatterNd):
    """Each update is added to what stands at its index tuple."""

    name: ClassVar[str] = "scatternd_add"
    combine: ClassVar[Combine] = _ADD


@operation
class ScatterNdMul(ScatterNd):
    """What stands at each index tuple is multiplied by its update."""

    name: ClassVar[str] = "scatternd_mul"
    combine: ClassVar[Combine] = _MUL


@operation
class ScatterNdMin(ScatterNd):
    """What stands at each index tuple becomes the lesser of itself and its update."""

    name: ClassVar[str] = "scatternd_min"
    combine: ClassVar[Combine] = _MIN


@operation
class ScatterNdMax(ScatterNd):
    """What stands at each index tuple becomes the greater of itself and its update."""

    name: ClassVar[str] = "scatternd_max"
    combine: ClassVar[Combine] = _MAX
