"""Reductions along axes, and softmax."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.arrays.parallel import spread
from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    distinct_axes,
    expect_count,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    ONE,
    dims_of,
    expect,
    expect_integers,
    expect_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.structure import MEAN, Choice, Monoid
from workbench.compiler.ops.accumulate import (
    highest,
    lowest,
    quiet,
    real,
    rounded,
    sum_type,
    widened,
)
from workbench.compiler.ops.elementwise import BLOCK, blocks_of, repacked

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


def is_reduction(instruction: Instruction) -> bool:
    """Whether an instruction reduces its only input along axes given by attributes."""
    return instruction.op.monoid is not None and len(instruction.inputs) == 1


def reduced_axes(instruction: Instruction) -> Ints:
    """The axes that an instruction reduces, in ascending order."""
    return axes_along(instruction.op.normalized([i.shape for i in instruction.inputs]))


def axes_along(op: Operation) -> Ints:
    """The axes that a reduction reduces, in ascending order."""
    (name,) = op.axes_of_input
    axes: int | Ints = getattr(op, name)
    return tuple(sorted(axes)) if isinstance(axes, tuple) else (axes,)


def along_axes(op: Operation, axes: Sequence[int]) -> Operation:
    """A reduction along other axes; one with a single-axis attribute takes the only one."""
    (name,) = op.axes_of_input
    several = isinstance(getattr(op, name), tuple)
    return replace(op, **{name: tuple(axes) if several else axes[0]})


# The types of partial results: at least float, as sums of narrow floats are


def _of_reals(type: DType) -> DType:
    return DType.DOUBLE if type is DType.DOUBLE else DType.FLOAT


def wrapping(type: DType) -> DType:
    """The accumulator of sums and products: integers wrap in 64 bits, of which the low ones are kept."""
    return _of_reals(type) if type.is_float else DType.UINT64


def comparable(type: DType) -> DType:
    """The accumulator of minima and maxima: integers keep their type, with at least 32 bits."""
    if type.is_float:
        return _of_reals(type)
    return type if type.size >= DType.INT32.size else DType.INT32


def _truth(type: DType) -> DType:  # noqa: ARG001
    return DType.INT32


SUM = Monoid("{0} + {1}", lambda _: 0, wrapping)
PRODUCT = Monoid("{0} * {1}", lambda _: 1, wrapping)
MAXIMUM = Monoid("max({0}, {1})", lambda t: lowest(t.numpy), comparable)
MINIMUM = Monoid("min({0}, {1})", lambda t: highest(t.numpy), comparable)
ALL = Monoid("{0} & {1}", lambda _: 1, _truth, lift="{0} != 0")
ANY = Monoid("{0} | {1}", lambda _: 0, _truth, lift="{0} != 0")


@dataclass(frozen=True)
class Reduction(Operation):
    """Base of the reductions: ``axes`` become 1. Without ``axes``, a second input gives them.

    A subclass declares its ``monoid`` and its NumPy function; fusion and kernels follow from these.
    """

    family = Family.REDUCE
    dynamic = True
    on_host = "axes that an input holds"
    axes_of_input = ("axes",)
    axes: Ints = ()

    def __post_init__(self) -> None:
        """Drop repeated axes."""
        if len(set(self.axes)) < len(self.axes):
            object.__setattr__(self, "axes", tuple(dict.fromkeys(self.axes)))

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The reduced dimensions are 1; standard."""
        expect_count(self, inputs, 1 if self.axes else 2)
        expect_tensors(self, inputs)
        x = inputs[0]
        if not self.axes:
            expect_integers(self, inputs, 1)
            expect_rank(self, inputs[1:], 1, 1)
            spans = [Dim(min(1, d.min), max(1, d.max)) for d in dims_of(x)]
            return ranged(x.type, spans)
        return reduced_shape(self, x, self.axes)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """The reduction of the elements along the axes."""
        x: Array = inputs[0]
        axes = self.axes or self._given(inputs[1], x.ndim)
        if not axes:
            return x
        return rounded(self.reduced(x, axes), x.dtype)

    def _given(self, values: Array, rank: int) -> Ints:
        """The axes given by an input."""
        try:
            return distinct_axes(self, [int(a) for a in values], rank)
        except ShapeError as error:
            raise EvaluationError(str(error)) from None

    def reduced(self, x: Array, axes: Ints) -> Array:
        """The reduction, in any suitable type."""
        raise NotImplementedError

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One for each element read."""
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
    """The shape of ``x`` with length 1 on the given axes, standard."""
    gone = distinct_axes(op, axes, x.ndim)
    if x.dims is not None:
        one = Dim.of(1) if x.is_symbolic else ONE
        return ranged(type or x.type, (one if i in gone else d for i, d in enumerate(x.dims)))
    return Shape(type or x.type, [1 if i in gone else n for i, n in enumerate(x.lens)])


@operation
class ReduceSum(Reduction):
    """The sum of the elements along the axes."""

    name = "reduce_sum"
    monoid = SUM

    def reduced(self, x: Array, axes: Ints) -> Array:
        """Summed in float32 at least; integers in 64 bits."""
        return np.add.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g for each element."""
        return [given.broadcast_to(*operands[0].shape)]


@operation
class ReduceMean(Reduction):
    """The mean of the elements along the axes; integers truncate."""

    name = "reduce_mean"
    monoid = replace(SUM, finish=MEAN)

    def reduced(self, x: Array, axes: Ints) -> Array:
        """The sum, divided by the number of elements."""
        total: Array = np.add.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)
        count = prod(x.shape[a] for a in axes)
        if total.dtype.kind in "iu":
            mean, rest = np.divmod(total, total.dtype.type(max(count, 1)))
            return mean + ((rest != 0) & (total < 0))
        return np.divide(total, count, out=total, dtype=total.dtype)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g for each element, divided by their number."""
        lens = operands[0].shape
        count = max(prod(lens[a] for a in self.axes), 1)
        return [(given / float(count)).broadcast_to(*lens)]


@operation
class ReduceMax(Reduction):
    """The largest element along the axes."""

    name = "reduce_max"
    monoid = MAXIMUM

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.max``; the lowest value of the type if there are no elements."""
        wide = widened(x)
        least = {} if x.size else {"initial": lowest(x.dtype)}
        return np.maximum.reduce(wide, axes, keepdims=True, **least)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g shared among the largest elements."""
        return [_shared(given, result, operands[0], self.axes)]


@operation
class ReduceMin(Reduction):
    """The smallest element along the axes."""

    name = "reduce_min"
    monoid = MINIMUM

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.min``; the highest value of the type if there are no elements."""
        wide = widened(x)
        most = {} if x.size else {"initial": highest(x.dtype)}
        return np.minimum.reduce(wide, axes, keepdims=True, **most)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g shared among the smallest elements."""
        return [_shared(given, result, operands[0], self.axes)]


@operation
class ReduceProd(Reduction):
    """The product of the elements along the axes."""

    name = "reduce_prod"
    monoid = PRODUCT

    def reduced(self, x: Array, axes: Ints) -> Array:
        """Multiplied in float32 at least; integers in 64 bits."""
        return np.multiply.reduce(x, axes, dtype=sum_type(x.dtype), keepdims=True)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g times the product of all other elements."""
        x = operands[0]
        zero = x.apply("equal", 0.0)
        zeros = zero.sum(self.axes, keepdims=True)
        factors = x + zero
        product = factors.prod(self.axes, keepdims=True)
        others = (product / factors).where_true((zeros - zero) == 0.0)
        return [given * others]


def _shared(given: Any, result: Any, x: Any, axes: Ints) -> Any:
    """The gradient of an extreme element: equal shares for all elements that have its value."""
    chosen = x.apply("equal", result)
    return given * (chosen / chosen.sum(axes, keepdims=True))


@operation
class ReduceAll(Reduction):
    """Whether all elements along the axes are non-zero, in the input's type."""

    name = "reduce_all"
    flat = True
    never_negative = True
    monoid = ALL

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.all``."""
        return np.all(x != 0, axes, keepdims=True)


@operation
class ReduceAny(Reduction):
    """Whether some element along the axes is non-zero, in the input's type."""

    name = "reduce_any"
    flat = True
    never_negative = True
    monoid = ANY

    def reduced(self, x: Array, axes: Ints) -> Array:
        """``numpy.any``."""
        return np.any(x != 0, axes, keepdims=True)


@dataclass(frozen=True)
class ArgExtreme(Operation):
    """Base of argmax and argmin: the index of the extreme element along ``axis``."""

    family = Family.REDUCE
    dynamic = True
    axes_of_input = ("axis",)
    axis: int = 0
    select_last_index: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """int64; the axis becomes 1."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        empty = x.dims is None and not x.lens[normalize_axis(self, self.axis, x.ndim)]
        expect(self, not empty, f"axis {self.axis} of {x} has no elements to choose from")
        return reduced_shape(self, x, [self.axis], DType.INT64)

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
    """The index along ``axis`` of the largest element."""

    name = "argmax"
    flat = True
    monoid = Choice(MAXIMUM.join, MAXIMUM.identity, comparable, beats=">")

    def index(self, x: Array) -> Array:
        """``numpy.argmax``."""
        return np.argmax(x, self.axis, keepdims=True)


@operation
class ArgMin(ArgExtreme):
    """The index along ``axis`` of the smallest element."""

    name = "argmin"
    flat = True
    monoid = Choice(MINIMUM.join, MINIMUM.identity, comparable, beats="<")

    def index(self, x: Array) -> Array:
        """``numpy.argmin``."""
        return np.argmin(x, self.axis, keepdims=True)


@dataclass(frozen=True)
class Normalisation(Operation):
    """Base of softmax and logsoftmax."""

    family = Family.REDUCE
    dynamic = True
    overwrites = True
    axes_of_input = ("axis",)
    axis: int = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's shape, packed."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        normalize_axis(self, self.axis, x.ndim)
        return x if x.packed else repacked(x)

    def compute(self, *inputs: Any) -> Any:
        """The definition for lines along the axis, a few at a time so that they stay in cache."""
        return self.compute_into(None, *inputs)

    @quiet
    def compute_into(self, out: Array | None, *inputs: Any) -> Any:
        """The same, written to ``out`` if this is an operand of the result's type."""
        if not inputs[0].size:
            return inputs[0]
        x = real(inputs[0])
        result = out if out is not None and x is inputs[0] else memory.empty(x.shape, x.dtype)
        self._by_lines(np.moveaxis(x, self.axis, -1), np.moveaxis(result, self.axis, -1))
        return rounded(result, inputs[0].dtype)

    def _by_lines(self, x: Array, out: Array) -> None:
        parts = list(blocks_of(x.shape, max(4 * BLOCK, x.shape[-1]))) if x.ndim > 1 else [(...,)]
        spread(lambda i: self.lines(x[parts[i]], out[parts[i]]), len(parts), 4 * x.size)

    def lines(self, x: Array, out: Array) -> None:
        """Compute lines along the last axis and write them to ``out``, which may be ``x``."""
        raise NotImplementedError

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A subtraction, an exponential, a sum, a division and the maximum."""
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

    name = "softmax"
    never_negative = True

    def lines(self, x: Array, out: Array) -> None:
        """Shifted by the maximum first, so that no exponential overflows."""
        np.subtract(x, np.maximum.reduce(x, -1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= np.add.reduce(out, -1, keepdims=True)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """y·(g - Σ g·y)."""
        weighted = given * result
        return [weighted - result * weighted.sum(self.axis, keepdims=True)]


@operation
class LogSoftmax(Normalisation):
    """The logarithm of the softmax along ``axis``."""

    name = "logsoftmax"

    def lines(self, x: Array, out: Array) -> None:
        """Shifted by the maximum, less the logarithm of the sum of exponentials."""
        np.subtract(x, np.maximum.reduce(x, -1, keepdims=True), out=out)
        out -= np.log(np.add.reduce(np.exp(out), -1, keepdims=True))

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g - eʸ·Σ g."""
        return [given - result.exp() * given.sum(self.axis, keepdims=True)]
