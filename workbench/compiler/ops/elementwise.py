"""The base of elementwise operations: shape rules that keep layouts, casts, blocks, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import ml_dtypes
import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.arrays.parallel import is_divided, spread
from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import FP8, Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_lens,
    expect_same_type,
)
from workbench.compiler.ir.ranges import any_dynamic, dims_of, intersection, ranged
from workbench.compiler.ir.shape import Dim, Shape, common_permutation, from_permutation
from workbench.compiler.ir.shape_rules import ShapeRules

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Function = Callable[..., Any]
"""A function of arrays, elementwise under NumPy's broadcasting."""

FLOATS = (DType.FLOAT, DType.DOUBLE, DType.HALF, DType.BF16, DType.FP8E4M3FN)
INTEGERS = (DType.INT32, DType.INT64, DType.INT8, DType.UINT8)
NUMBERS = (*FLOATS, *INTEGERS, DType.BOOL)
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan)
"""Values at which implementations tend to differ: signed zeros, ties, infinities, NaN."""

FUNCTIONS: dict[str, str] = {
    "T": "converts to the element type of the result, as ``cast`` does",
    "min": "the smaller; a NaN operand gives NaN",
    "max": "the larger; a NaN operand gives NaN",
    "mod": "remainder with the sign of the divisor",
    "fmod": "remainder with the sign of the dividend; % for integers",
    "sign": "1, -1 or 0; NaN stays",
    "rsqrt": "1 / sqrt",
    "nearbyint": "rounds half to even",
    "pow": "power; for integers through double, truncated",
    "shift_left": "<<; 0 if the shift is negative or at least T's width",
    "shift_right": ">>, arithmetic; all sign bits if the shift is negative or at least T's width",
    "bit_cast": "the same bits as an element of the result's type",
    "quantized": "quantized(a, z) is T(nearbyint(a) + z) for integer T and T(a + z) for float T",
}
"""The functions of ``expression`` that C's math library lacks or defines differently.

The others are C's: operators, ``?:``, abs, exp, expm1, log, log2, sqrt, erf, ceil, floor, isnan,
isinf, the trigonometric and hyperbolic functions. ``{0}``… are operands (an omitted one reads as
``T(0)``), ``{alpha}`` is the attribute of that name. The reader of an expression adds parentheses
around operands.
"""


class Pointwise(Operation):
    """An operation on elements; ``value`` computes in the type in which arithmetic is done."""

    family = Family.POINTWISE
    pointwise = True
    overwrites = True
    dynamic = True
    arity = 1
    exact = False
    """Whether integers are computed as integers; otherwise in float64, then truncated."""
    function: ClassVar[Function]
    """The operation as a function of arrays, unless ``value`` is overridden."""
    cost = 1
    """Floating-point operations per element; nominally 8 for a transcendental function."""
    domains = ((-4.0, 4.0),)
    """Ranges of the samples of each operand; the last one also holds for all further operands."""
    types = NUMBERS
    """Element types of the samples."""

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules require equal ranges, not only overlapping ones."""
        made = super().shape_by(rules, inputs, modules)
        if rules.strict:
            expect_equal_dims(self, self.alike(inputs))
        return made

    def alike(self, inputs: Sequence[Shape]) -> Sequence[Shape]:
        """The inputs that have the result's lens."""
        return inputs

    def value(self, *inputs: Array) -> Array:
        """The result for arrays of a type that NumPy computes in."""
        return type(self).function(*inputs)

    def compute(self, *inputs: Any) -> Array:
        """The result in the first input's type: computed in a sufficient type, rounded once."""
        return self._evaluated(None, inputs)

    def compute_into(self, out: Array | None, *inputs: Any) -> Any:
        """The same, written to ``out`` if this is an operand with the result's type and lens."""
        inherited = type(self).compute is Pointwise.compute
        return self._evaluated(out, inputs) if inherited else self.compute(*inputs)

    def _evaluated(self, out: Array | None, inputs: Sequence[Array]) -> Array:
        if not inputs[
            0
        ].ndim:  # NumPy's functions make numbers of what has rank 0, which hold nothing
            return self._evaluated(None, [x.reshape(1) for x in inputs]).reshape(())
        with np.errstate(all="ignore"):
            if not is_divided(inputs[0].size, LARGE) or not divisible(inputs):
                return self._rounded(*inputs)
            dtype = inputs[0].dtype
            if self._is_function and working_type(dtype, self.exact) == dtype:
                return in_parts(type(self).function, inputs, out)
            return in_blocks(self._rounded, inputs, out=out)

    @property
    def _is_function(self) -> bool:
        """Whether ``function`` alone defines the operation and takes ``out``, as NumPy's functions do."""
        return type(self).value is Pointwise.value

    def _rounded(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        work = working_type(dtype, self.exact)
        if work == dtype:
            return self.value(*inputs)
        return cast(self.value(*[x.astype(work) for x in inputs]), dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """``cost`` for each element of the result."""
        return self.cost * output.elements

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """This operation with different attributes, for samples."""
        return (cls(),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every element type, then edge values, transposed, strided and broadcast operands."""
        for op in cls.variants():
            for type in cls.types:
                yield op, cls.draw(type, (2, 3))
            for operands in cls.float_operands() if DType.FLOAT in cls.types else ():
                yield op, operands

    @classmethod
    def draw(cls, type: DType, lens: tuple[int, ...]) -> list[Array]:
        """Random operands of one element type."""
        ranges = [cls.domains[min(i, len(cls.domains) - 1)] for i in range(cls.arity)]
        return [draw(type, lens, low, high, i) for i, (low, high) in enumerate(ranges)]

    @classmethod
    def float_operands(cls) -> Iterator[list[Array]]:
        """Operands with special values or strides."""
        grid = np.meshgrid(*[np.array(EDGES, np.float32)] * min(cls.arity, 2), indexing="ij")
        yield [*grid, *[grid[0].T] * (cls.arity - 2)]
        first, *rest = cls.draw(DType.FLOAT, (3, 4))
        yield [np.asfortranarray(first), *rest]
        yield [np.repeat(x, 2, axis=1)[:, ::2] for x in (first, *rest)]
        yield [np.broadcast_to(first[:1], first.shape), *rest]


class Unary(Pointwise):
    """An operation on one tensor. The result keeps the order of axes in memory, packed."""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the input in its layout; standard if the input is broadcast."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return packed(inputs[0])


class Binary(Pointwise):
    """An operation on two tensors of equal type and lens: nothing is broadcast implicitly."""

    arity = 2

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the inputs, in the layout of the one that is packed."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs)
        return winner(self, inputs[0], inputs[1])


# Shape rules


@cache
def keeps_scalars(op: type[Operation]) -> bool:
    """Whether results of operands with the shape of MIGraphX's scalar have that shape, too, by its rules."""
    return (
        issubclass(op, Unary | Binary)
        and op.compute_shape in (Unary.compute_shape, Binary.compute_shape)
        and op.shape_by is Pointwise.shape_by
    )


def expect_tensors(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if an input is a tuple."""
    for i, shape in enumerate(inputs):
        if shape.subs is not None:
            raise ShapeError(f"{op.name}: input {i} is the tuple {shape}; expected a tensor")


def packed(shape: Shape) -> Shape:
    """A shape with the same lens and order of axes but no gaps or broadcasts; a scalar is unchanged."""
    if shape.dims is not None or shape.is_scalar:
        return shape
    return shape.as_standard() if shape.broadcasted else shape.with_lens(shape.lens)


def repacked(shape: Shape) -> Shape:
    """A shape with the same lens and order of axes but no gaps; unchanged if its lens are ranges."""
    if shape.dims is not None:
        return shape.with_dims(shape.dims) if shape.is_symbolic else shape
    return shape.with_lens(shape.lens)


def winner(op: Operation, first: Shape, second: Shape, standard: bool = False) -> Shape:
    """The shape of the result of two operands.

    Args:
        op: The operation, for the error.
        first: The first operand's shape.
        second: The second operand's shape, of the same lens.
        standard: Whether two shapes that are both not packed give a standard result; otherwise the
            most common order of axes is kept.
    """
    dims = expect_same_dims(op, (first, second))
    if dims is not None and not (first.is_symbolic and second.is_symbolic):
        return ranged(first.type, dims)
    if first == second and first.packed:
        return first
    if first.packed != second.packed:
        return first if first.packed else second
    if first.broadcasted != second.broadcasted:
        return repacked(second if first.broadcasted else first)
    if standard:
        return first.as_standard()
    order = common_permutation((first, second))
    if dims is not None:
        return from_permutation(first.type, dims, order)
    return Shape.permuted(first.type, first.lens, order)


def expect_same_dims(op: Operation, inputs: Sequence[Shape]) -> tuple[Dim, ...] | None:
    """The common dimensions of all inputs if some are ranges: the lengths that all of them allow.

    Raises:
        ShapeError: The lens differ, or the ranges do not overlap.
    """
    if not any_dynamic(inputs):
        expect_same_lens(op, inputs)
        return None
    found = dims_of(inputs[0])
    for i, shape in enumerate(inputs[1:], 1):
        both = [intersection(a, b) for a, b in zip(found, dims_of(shape), strict=False)]
        if shape.ndim != len(found) or None in both:
            raise ShapeError(
                f"{op.name}: input {i} is {shape}; expected the dimensions of {inputs[0]}"
            )
        found = tuple(d for d in both if d is not None)
    return found


def expect_equal_dims(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if some dimensions are ranges and those of the inputs are not all the same."""
    if not any_dynamic(inputs):
        return
    first = inputs[0]
    for i, shape in enumerate(inputs[1:], 1):
        if (shape.dims is None) != (first.dims is None):
            raise ShapeError(
                f"{op.name}: {first} and {shape}; expected only static or only dynamic operands"
            )
        if dims_of(shape) != dims_of(first):
            raise ShapeError(
                f"{op.name}: input {i} is {shape}; expected the dimensions {dims_of(first)}"
            )


# Element types

_FP8 = {t.numpy: t.format.largest for t in FP8}
_ROUNDED_TWICE = frozenset(t.numpy for t in DType if t.is_narrow_float) - {DType.HALF.numpy}
finfo: Callable[[Any], Any] = ml_dtypes.finfo
"""The limits of a floating-point type, of any width."""


@cache
def working_type(dtype: np.dtype[Any], exact: bool) -> np.dtype[Any]:
    """The type in which arithmetic on ``dtype`` is done; with ``exact`` integers stay integers."""
    type = DType.of(dtype)
    if type in (DType.FLOAT, DType.DOUBLE):
        return dtype
    if type.is_float:
        return DType.FLOAT.numpy
    if not exact:
        return DType.DOUBLE.numpy
    return DType.INT8.numpy if type is DType.BOOL else dtype


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """``array`` in another type, by ONNX's rules.

    Floats round to nearest even and overflow to infinity, except that the fp8 types saturate. To
    integers, floats truncate and saturate (NaN gives 0); integers keep their low bits. Every
    non-zero value becomes true.
    """
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype in _ROUNDED_TWICE:
            array = for_rounding(array)
        if dtype in _FP8:
            return _to_fp8(array, dtype)
        if dtype.kind in "iu" and array.dtype.kind not in "iub":
            return _to_integer(array, dtype)
        return array.astype(dtype)


def for_rounding(array: Array) -> Array:
    """Numbers as floats of at most 32 bits that round to a narrower type as the originals do.

    ml_dtypes rounds wider floats to float32 first, and then again. Here the first rounding is to odd:
    it leaves the last bit odd if anything was lost, so the second one never sees a false tie.
    """
    if array.itemsize < 4 or array.dtype == np.float32:
        return array
    wide = array if array.dtype == np.float64 else _to_double(array)
    near = np.atleast_1d(wide).astype(np.float32)
    exact = np.atleast_1d(wide)
    bits = near.view(np.int32)
    bits -= np.abs(near) > np.abs(exact)
    bits |= near != exact
    return near.reshape(array.shape)


def _to_double(array: Array) -> Array:
    """Integers as doubles, rounded to odd: the lowest kept bit shows that some bits were lost."""
    if array.itemsize < 8:
        return array.astype(np.float64)
    low = array & 0xFFF
    kept = (array ^ low) | ((low != 0).astype(array.dtype) << 11)
    fits = array.astype(np.float64)
    return np.where(np.abs(fits) < 2**53, fits, kept.astype(np.float64))


def _to_fp8(array: Array, dtype: np.dtype[Any]) -> Array:
    wide = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
    limit = _FP8[dtype]
    return np.clip(wide, -limit, limit).astype(dtype)


def _to_integer(array: Array, dtype: np.dtype[Any]) -> Array:
    wide = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
    info = np.iinfo(dtype)
    low, high = float(info.min) - 1, float(info.max) + 1
    if wide.size and wide.min() > low and wide.max() < high:
        return wide.astype(dtype)
    result = np.where((wide > low) & (wide < high), wide, 0).astype(dtype)
    result[wide >= high] = info.max
    result[wide <= low] = info.min
    return result


# Evaluation

BLOCK = 1 << 14
"""Elements of a block: as many as fit a processor's inner caches with a few temporaries."""

LARGE = 1 << 15
"""The least number of elements of an array that is split into blocks, or among threads."""

_PART = 1 << 17
"""Elements of a part for functions without temporaries."""


def divisible(inputs: Sequence[Any]) -> bool:
    """Whether arrays are large and have one lens, apart from single elements."""
    large = next((x for x in inputs if x.size != 1), None)
    if large is None or not is_divided(large.size, LARGE):
        return False
    return all(x.size == 1 or x.shape == large.shape for x in inputs)


def in_parts(function: Function, inputs: Sequence[Array], out: Array | None = None) -> Array:
    """Evaluate an elementwise function of ``divisible`` arrays in parts, writing directly to the result."""
    x = inputs[0]
    if not is_divided(x.size) and x.size != 1 and x.flags.c_contiguous:
        fits = out is not None and out.shape == x.shape and out.dtype == x.dtype
        return function(*inputs, out=out if fits else memory.empty(x.shape, x.dtype))
    cut = _Cut(inputs, _PART)
    result = cut.result(inputs[0].dtype, out)

    def work(i: int) -> None:
        where = cut.parts[i]
        function(*cut.operands(where), out=result[where])

    cut.each(work)
    return cut.restored(result)


def in_blocks(
    function: Function, inputs: Sequence[Array], block: int = BLOCK, out: Array | None = None
) -> Array:
    """Evaluate an elementwise function of ``divisible`` arrays in blocks whose temporaries stay in cache."""
    cut = _Cut(inputs, block)
    first = function(*cut.operands(cut.parts[0]))
    result = cut.result(first.dtype, out)

    def work(i: int) -> None:
        where = cut.parts[i]
        result[where] = function(*cut.operands(where)) if i else first

    cut.each(work, 4)
    return cut.restored(result)


class _Cut:
    """Arrays of one lens, split into parts in memory order of the first with more than one element."""

    def __init__(self, inputs: Sequence[Array], size: int) -> None:
        """Split into parts of about ``size`` elements."""
        whole = [x for x in inputs if x.size != 1]
        self._order = _memory_order(next((x for x in whole if 0 not in x.strides), whole[0]))
        self._inputs = [x.reshape(()) if x.size == 1 else self._ordered(x) for x in inputs]
        self._lens = self._ordered(whole[0]).shape
        self.parts = list(blocks_of(self._lens, size))

    def operands(self, where: tuple[Any, ...]) -> list[Array]:
        """A part of each input; single elements are not split."""
        return [x[where] if x.ndim else x for x in self._inputs]

    def result(self, dtype: np.dtype[Any], out: Array | None) -> Array:
        """The array for the result: ``out`` if it fits."""
        if out is not None and out.dtype == dtype:
            ordered = self._ordered(out)
            if ordered.shape == self._lens:
                return ordered
        return memory.empty(self._lens, dtype)

    def restored(self, result: Array) -> Array:
        """A result with its axes in the inputs' order."""
        return result if self._order is None else result.transpose(np.argsort(self._order))

    def each(self, work: Callable[[int], None], cost: int = 1) -> None:
        """Process the parts, in threads if there is enough work."""
        spread(work, len(self.parts), prod(self._lens) * cost)

    def _ordered(self, x: Array) -> Array:
        return x if self._order is None else x.transpose(self._order)


def _memory_order(x: Array) -> list[int] | None:
    """Axes by descending strides; None if row-major."""
    if x.flags.c_contiguous:
        return None
    return sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))


def blocks_of(lens: tuple[int, ...], block: int) -> Iterator[tuple[Any, ...]]:
    """Indices of parts of about ``block`` elements, in memory order."""
    axis = next(a for a in range(len(lens)) if prod(lens[a + 1 :]) <= block)
    rows = max(1, block // prod(lens[axis + 1 :]))
    for outer in np.ndindex(lens[:axis]):
        for start in range(0, lens[axis], rows):
            yield (*outer, slice(start, start + rows))


# Samples


def draw(type: DType, lens: tuple[int, ...], low: float, high: float, seed: int = 0) -> Array:
    """Random elements between two bounds, the same for the same arguments."""
    random = np.random.default_rng(seed)
    if type is DType.BOOL:
        return random.integers(0, 2, lens).astype(np.bool_)
    if type.is_integral:
        least = max(int(np.ceil(low)), int(np.iinfo(type.numpy).min))
        return random.integers(least, int(high) + 1, lens).astype(type.numpy)
    return random.uniform(low, high, lens).astype(type.numpy)
