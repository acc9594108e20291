"""Reductions along axes, softmax, and running sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from workbench.compiler.dtypes import Array, DType
from workbench.compiler.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    normalize_axis,
    operation,
)
from workbench.compiler.ops.accumulate import (
    highest,
    lowest,
    quiet,
    rounded,
    sum_type,
    widened,
)
from workbench.compiler.ops.ranges import ONE, expect_tensors, ranged
from workbench.compiler.ops.sampling import digits, grid, noise
from workbench.compiler.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.ir import Module

Ints: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Reduction(Operation):
    """Base of the reductions: ``axes`` become 1. Without ``axes``, a second input holds them."""

    family: ClassVar[Family] = Family.REDUCE
    dynamic: ClassVar[bool] = True
    axes_of_input: ClassVar[tuple[str, ...]] = ("axes",)
    axes: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The reduced dimensions are 1; standard."""
        expect_count(self, inputs, 1 if self.axes else 2)
        expect_tensors(self, inputs)
        x = inputs[0]
        if not self.axes:
            dims = x.dims if x.dims is not None else [Dim(n, n) for n in x.lens]
            return ranged(x.type, (Dim(min(1, d.max), d.max, d.optimals) for d in dims))
        return reduced_shape(self, x, self.axes)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """The reduction of the elements along the axes."""
        x: Array = inputs[0]
        axes = self.axes or tuple(int(a) for a in inputs[1])
        if not axes:
            return x
        return rounded(self.reduced(x, axes), x.dtype)

    def reduced(self, x: Array, axes: Ints) -> Array:
        """The reduction, in whatever type suits it."""
        raise NotImplementedError

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One for each element that is read."""
        return inputs[0].elements if inputs[0].dims is None else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One axis, two, all; half and integer types; a strided operand; axes from an input."""
        yield cls(axes=(1,)), [noise(2, 5)]
        yield cls(axes=(-1, 0)), [noise(3, 4, 5, seed=1)]
        yield cls(axes=(0, 1)), [noise(2, 3, type=np.float16)]
        yield cls(axes=(1,)), [noise(4, 6, 3).transpose(2, 0, 1)]
        yield cls(axes=(0,)), [digits(4, 3, type=np.int32)]
        yield cls(axes=(1,)), [digits(2, 3, low=0, type=np.uint8)]
        yield cls(axes=(1,)), [np.array([[True, False], [False, False]])]
        yield cls(), [noise(2, 3), np.array([1])]


def reduced_shape(op: Operation, x: Shape, axes: Sequence[int], type: DType | None = None) -> Shape:
    """``x`` with the named axes of length 1, standard."""
    gone = {normalize_axis(op, a, x.ndim, "axes") for a in axes}
    if x.dims is not None:
        return ranged(type or x.type, (ONE if i in gone else d for i, d in enumerate(x.dims)))
    return Shape(type or x.type, [1 if i in gone else n for i, n in enumerate(x.lens)])


@operation
class ReduceSum(Reduction):
    """The sum of the elements along the axes."""

    name: ClassVar[str] = "reduce_sum"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """Summed in float32 at least; integers in 64 bits."""
        return np.add.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)


@operation
class ReduceMean(Reduction):
    """The mean of the elements along the axes; integers truncate."""

    name: ClassVar[str] = "reduce_mean"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """The sum, divided by how many there are."""
        total: Array = np.add.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)
        count = prod(x.shape[a] for a in axes)
        if total.dtype.kind in "iu":
            return np.sign(total) * (np.abs(total) // total.dtype.type(max(count, 1)))
        return np.divide(total, count, out=total, dtype=total.dtype)


@operation
class ReduceMax(Reduction):
    """The largest element along the axes."""

    name: ClassVar[str] = "reduce_max"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.max``; of nothing, the least value of the type."""
        wide = widened(x)
        least = {} if x.size else {"initial": lowest(x.dtype)}
        return np.maximum.reduce(wide, axes, keepdims=True, **least)


@operation
class ReduceMin(Reduction):
    """The smallest element along the axes."""

    name: ClassVar[str] = "reduce_min"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.min``; of nothing, the greatest value of the type."""
        wide = widened(x)
        most = {} if x.size else {"initial": highest(x.dtype)}
        return np.minimum.reduce(wide, axes, keepdims=True, **most)


@operation
class ReduceProd(Reduction):
    """The product of the elements along the axes."""

    name: ClassVar[str] = "reduce_prod"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """Multiplied in float32 at least; integers in 64 bits."""
        return np.multiply.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)


@operation
class ReduceAll(Reduction):
    """Whether all elements along the axes are nonzero, in the input's type."""

    name: ClassVar[str] = "reduce_all"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.all``."""
        return np.all(x != 0, axes, keepdims=True)


@operation
class ReduceAny(Reduction):
    """Whether some element along the axes is nonzero, in the input's type."""

    name: ClassVar[str] = "reduce_any"

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.any``."""
        return np.any(x != 0, axes, keepdims=True)


@dataclass(frozen=True)
class ArgExtreme(Operation):
    """Base of argmax and argmin: where along ``axis`` the extreme element stands."""

    family: ClassVar[Family] = Family.REDUCE
    dynamic: ClassVar[bool] = True
    axes_of_input: ClassVar[tuple[str, ...]] = ("axis",)
    axis: int = 0
    select_last_index: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """int64; the axis becomes 1."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return reduced_shape(self, inputs[0], [self.axis], DType.INT64)

    def compute(self, *inputs: Any) -> Any:
        """The first such index, or the last."""
        x = widened(inputs[0])
        if not self.select_last_index:
            return self.index(x)
        return x.shape[self.axis] - 1 - self.index(np.flip(x, self.axis))

    def index(self, x: Array) -> Array:
        """The first index of the extreme."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Ties, both choices among them, types."""
        yield cls(axis=1), [digits(3, 8, low=0, high=3, type=np.float32)]
        yield cls(axis=-1, select_last_index=True), [digits(3, 8, low=0, high=3, type=np.int32)]
        yield cls(axis=0), [noise(4, 3, type=np.float16)]


@operation
class ArgMax(ArgExtreme):
    """Where along ``axis`` the largest element stands."""

    name: ClassVar[str] = "argmax"

    def index(self, x: Array) -> Array:
        """``numpy.argmax``."""
        return np.argmax(x, self.axis, keepdims=True)


@operation
class ArgMin(ArgExtreme):
    """Where along ``axis`` the smallest element stands."""

    name: ClassVar[str] = "argmin"

    def index(self, x: Array) -> Array:
        """``numpy.argmin``."""
        return np.argmin(x, self.axis, keepdims=True)


@dataclass(frozen=True)
class Normalisation(Operation):
    """Base of softmax and logsoftmax."""

    family: ClassVar[Family] = Family.REDUCE
    dynamic: ClassVar[bool] = True
    axes_of_input: ClassVar[tuple[str, ...]] = ("axis",)
    axis: int = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's shape, packed."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        normalize_axis(self, self.axis, x.ndim)
        return x if x.packed or x.dims is not None else x.with_lens(x.lens)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Subtract, exponential, sum, divide, and the maximum."""
        return 5 * output.elements if output.dims is None else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """First, last and middle axis; large values; half types; a strided operand."""
        yield cls(axis=1), [noise(2, 5)]
        yield cls(axis=-1), [noise(2, 3, 4) * 80]
        yield cls(axis=0), [noise(3, 4, type=np.float16)]
        yield cls(axis=1), [noise(4, 6, 3).transpose(2, 0, 1)[:, ::2]]


@operation
class Softmax(Normalisation):
    """Exponentials along ``axis``, divided by their sum."""

    name: ClassVar[str] = "softmax"

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Shifted by the maximum first, so that no exponential overflows."""
        x = widened(inputs[0])
        if not x.size:
            return inputs[0]
        y = x - np.maximum.reduce(x, self.axis, keepdims=True)
        np.exp(y, out=y)
        y /= np.add.reduce(y, self.axis, keepdims=True)
        return rounded(y, inputs[0].dtype)


@operation
class LogSoftmax(Normalisation):
    """The logarithm of the softmax along ``axis``."""

    name: ClassVar[str] = "logsoftmax"

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Shifted by the maximum, less the logarithm of the sum of exponentials."""
        x = widened(inputs[0])
        if not x.size:
            return inputs[0]
        y = x - np.maximum.reduce(x, self.axis, keepdims=True)
        y -= np.log(np.add.reduce(np.exp(y), self.axis, keepdims=True))
        return rounded(y, inputs[0].dtype)


@operation
class PrefixScanSum(Operation):
    """Sums of all elements up to each one along ``axis``; ``exclusive`` leaves the element itself out."""

    name: ClassVar[str] = "prefix_scan_sum"
    family: ClassVar[Family] = Family.REDUCE
    dynamic: ClassVar[bool] = True
    axes_of_input: ClassVar[tuple[str, ...]] = ("axis",)
    axis: int = 0
    exclusive: bool = False
    reverse: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens, packed; standard where it was broadcast."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        normalize_axis(self, self.axis, x.ndim)
        if x.dims is not None:
            return x
        return x.as_standard() if x.broadcasted else x.with_lens(x.lens)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``numpy.cumsum``, from the far end where reversed."""
        x: Array = np.flip(inputs[0], self.axis) if self.reverse else inputs[0]
        sums: Array = np.cumsum(x, self.axis, dtype=sum_type(x.dtype))
        if self.exclusive:
            whole, sums = sums, np.zeros_like(sums)
            np.moveaxis(sums, self.axis, 0)[1:] = np.moveaxis(whole, self.axis, 0)[:-1]
        return rounded(np.flip(sums, self.axis) if self.reverse else sums, x.dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One for each element."""
        return output.elements if output.dims is None else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """All four kinds."""
        yield cls(axis=0), [grid(4, 3)]
        yield cls(axis=1, exclusive=True), [grid(2, 5, type=np.int32)]
        yield cls(axis=-1, reverse=True), [grid(2, 5, type=np.float16)]
        yield cls(axis=0, exclusive=True, reverse=True), [grid(3, 4).T]
