"""What elementwise operations share: shape rules that follow layouts, casts, blocks, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import ml_dtypes
import numpy as np

from workbench.compiler.dtypes import Array, DType
from workbench.compiler.errors import ShapeError
from workbench.compiler.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_lens,
    expect_same_type,
)
from workbench.compiler.shape import Shape, common_permutation

if TYPE_CHECKING:
    from workbench.compiler.ir import Module

Function = Callable[..., Any]
"""A function of arrays, elementwise under NumPy's broadcasting."""

FLOATS = (DType.FLOAT, DType.DOUBLE, DType.HALF, DType.BF16, DType.FP8E4M3FN)
INTEGERS = (DType.INT32, DType.INT64, DType.INT8, DType.UINT8)
NUMBERS = (*FLOATS, *INTEGERS, DType.BOOL)
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan)
"""Values at which functions tend to differ: signed zeros, ties, infinities, not-a-number."""

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
    "bit_cast": "the same bits as an element of the result's type",
    "quantized": "quantized(a, z) is T(nearbyint(a) + z) for integer T and T(a + z) for float T",
}
"""The functions of ``expression`` that C's math library does not define, or not quite so.

The rest are C's: operators, ``?:``, abs, exp, expm1, log, log2, sqrt, erf, ceil, floor, isnan,
isinf, the trigonometric and hyperbolic functions. ``{0}``… are operands (one left out reads as
``T(0)``), ``{alpha}`` is the attribute of that name. Parentheses around operands are the reader's
to add.
"""


class Pointwise(Operation):
    """An operation on elements; ``value`` computes in the type that arithmetic is done in."""

    family: ClassVar[Family] = Family.POINTWISE
    pointwise: ClassVar[bool] = True
    dynamic: ClassVar[bool] = True
    arity: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    """Whether integers are computed as integers; otherwise in float64, truncated."""
    function: ClassVar[Function]
    """The operation as a function of arrays, unless ``value`` is overridden."""
    blocked: ClassVar[bool] = False
    """Whether it makes temporaries, so that large arrays are better done block by block."""
    cost: ClassVar[int] = 1
    """Floating-point operations an element; nominally 8 for a transcendental function."""
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-4.0, 4.0),)
    """Ranges of the samples of each operand; the last one counts for all that follow."""
    types: ClassVar[tuple[DType, ...]] = NUMBERS
    """Element types of the samples."""

    def value(self, *inputs: Array) -> Array:
        """The result for arrays of a type that NumPy computes in."""
        return type(self).function(*inputs)

    def compute(self, *inputs: Any) -> Array:
        """The result in the first input's type: computed in a type that suffices, rounded once."""
        with np.errstate(all="ignore"):
            if (self.blocked or inputs[0].itemsize < 4) and divisible(inputs):
                return in_blocks(self._rounded, inputs)
            return self._rounded(*inputs)

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
        """This operation with attributes worth trying."""
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
        """Operands whose values or strides are out of the ordinary."""
        grid = np.meshgrid(*[np.array(EDGES, np.float32)] * min(cls.arity, 2), indexing="ij")
        yield [*grid, *[grid[0].T] * (cls.arity - 2)]
        first, *rest = cls.draw(DType.FLOAT, (3, 4))
        yield [np.asfortranarray(first), *rest]
        yield [np.repeat(x, 2, axis=1)[:, ::2] for x in (first, *rest)]
        yield [np.broadcast_to(first[:1], first.shape), *rest]


class Unary(Pointwise):
    """An operation on one tensor. The result keeps the order of axes in memory, packed."""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the input in its layout; standard where the input is broadcast."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return packed(inputs[0])


class Binary(Pointwise):
    """An operation on two tensors of equal type and lens: nothing is broadcast implicitly."""

    arity: ClassVar[int] = 2

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the inputs, in the layout of the better packed one."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs)
        return winner(self, inputs[0], inputs[1])


# Shape rules


def expect_tensors(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if an input is a tuple."""
    for i, shape in enumerate(inputs):
        if shape.subs is not None:
            raise ShapeError(f"{op.name}: input {i} is the tuple {shape}; expected a tensor")


def packed(shape: Shape) -> Shape:
    """A shape of the same lens and order of axes without gaps; a scalar stays, a broadcast goes."""
    if shape.dims is not None or shape.is_scalar:
        return shape
    return shape.as_standard() if shape.broadcasted else shape.with_lens(shape.lens)


def winner(op: Operation, first: Shape, second: Shape, standard: bool = False) -> Shape:
    """The shape of a result of two operands.

    Args:
        op: The operation, for the error.
        first: The first operand's shape.
        second: The second operand's shape, of the same lens.
        standard: Whether two shapes that are both gappy give a standard result; else the order of
            axes that most of them have is kept.
    """
    expect_same_dims(op, (first, second))
    if first.dims is not None or (first == second and first.packed):
        return first
    if first.packed != second.packed:
        return first if first.packed else second
    if first.broadcasted != second.broadcasted:
        kept = second if first.broadcasted else first
        return kept.with_lens(kept.lens)
    if standard:
        return first.as_standard()
    return Shape.permuted(first.type, first.lens, common_permutation((first, second)))


def expect_same_dims(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError unless all lens are equal, or all shapes have equal dynamic dimensions."""
    for i, shape in enumerate(inputs):
        if shape.dims != inputs[0].dims:
            raise ShapeError(
                f"{op.name}: input {i} is {shape}; expected the dimensions of {inputs[0]}"
            )
    expect_same_lens(op, inputs)


# Element types

_FP8 = {t.numpy: t for t in DType if t.name.startswith("FP8")}
_finfo: Callable[[Any], Any] = ml_dtypes.finfo
_NO_INFINITY = frozenset({DType.FP8E4M3FNUZ, DType.FP8E5M2FNUZ})


@cache
def working_type(dtype: np.dtype[Any], exact: bool) -> np.dtype[Any]:
    """The type that arithmetic on ``dtype`` is done in; ``exact`` keeps integers integers."""
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

    Floats round to nearest even and overflow to infinity, except that the fp8 types saturate. To an
    integer, floats truncate and saturate (NaN gives 0), while integers keep their low bits. What is
    not zero is true.
    """
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype in _FP8:
            return _to_fp8(array, dtype)
        if dtype.kind in "iu" and array.dtype.kind not in "iub":
            return _to_integer(array, dtype)
        return array.astype(dtype)


def _to_fp8(array: Array, dtype: np.dtype[Any]) -> Array:
    wide = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
    limit = float(_finfo(dtype).max)
    clipped = np.clip(wide, -limit, limit)
    if _FP8[dtype] in _NO_INFINITY:
        clipped[np.isinf(wide)] = np.nan
    return clipped.astype(dtype)


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
"""Elements of a block: what a processor's inner caches hold of a few temporaries."""


def divisible(inputs: Sequence[Any]) -> bool:
    """Whether arrays are large and of one row-major lens, repeats and single elements aside."""
    large = next((x for x in inputs if x.size != 1), None)
    if large is None or large.size < 2 * BLOCK:
        return False
    return all(x.size == 1 or (x.shape == large.shape and _row_major(x)) for x in inputs)


def _row_major(x: Array) -> bool:
    if x.flags.c_contiguous:
        return True
    strides = [s for n, s in zip(x.shape, x.strides, strict=True) if n > 1 and s]
    return strides == sorted(strides, reverse=True)


def in_blocks(function: Callable[..., Array], inputs: Sequence[Array], block: int = BLOCK) -> Array:
    """An elementwise function of ``divisible`` arrays, so that temporaries stay in cache."""
    lens = next(x for x in inputs if x.size != 1).shape
    result: Array | None = None
    for where in _blocks(lens, block):
        part = function(*[x.reshape(-1) if x.size == 1 else x[where] for x in inputs])
        if result is None:
            result = np.empty(lens, part.dtype)
        result[where] = part
    assert result is not None
    return result


def _blocks(lens: tuple[int, ...], block: int) -> Iterator[tuple[Any, ...]]:
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
