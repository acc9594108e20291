"""Changes of element type: by value, by bits, and to types that programs represent by wider ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError, OperationError, ShapeError
from workbench.compiler.ir.dtypes import FP8, HELD, Array, DType
from workbench.compiler.ir.operation import Operation, Sample, expect_count, operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import (
    EDGES,
    FLOATS,
    NUMBERS,
    Pointwise,
    cast,
    divisible,
    draw,
    expect_tensors,
    in_blocks,
)

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class _Retyped(Pointwise):
    """An operation whose result has the input's lens and strides, and the type ``target_type``."""

    cost = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens and strides in the target type."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return inputs[0].with_type(self.target)

    @property
    def target(self) -> DType:
        """The type of the result."""
        raise NotImplementedError


@operation
class Convert(_Retyped):
    """The input in another element type; ``cast`` says what happens to values that do not fit."""

    name = "convert"
    expression = "T({0})"
    target_type: DType = DType.HALF

    @property
    def target(self) -> DType:
        """The type of the result."""
        return self.target_type

    def compute(self, *inputs: Any) -> Array:
        """The values, rounded or saturated where necessary."""
        x, dtype = inputs[0], self.target_type.numpy
        if x.itemsize + dtype.itemsize < 8 and divisible(inputs):
            return in_blocks(partial(cast, dtype=dtype), inputs)
        return cast(x, dtype)

    def widened(self) -> Operation:
        """A conversion to float64 instead of any float type."""
        return Convert(DType.DOUBLE) if self.target_type.is_float else self

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """From every type to float and back, and values that some types cannot hold."""
        for type in NUMBERS:
            yield cls(DType.FLOAT), [draw(type, (2, 3), -4, 4)]
            yield cls(type), [draw(DType.FLOAT, (2, 3), -4, 4)]
        for type in FLOATS:
            yield cls(type), [np.array([*EDGES, 1e-8, 1e5, -1e5], np.float32)]
        for type in (DType.INT8, DType.UINT8, DType.INT64):
            yield cls(type), [np.array([1e30, -1e30, np.inf, -np.inf, np.nan, -1.9], np.float32)]
        yield cls(DType.INT8), [np.array([200, -200, 7], np.int32)]
        yield cls(DType.HALF), [draw(DType.FLOAT, (3, 4), -4, 4).T]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g in the type of x."""
        (x,) = operands
        return [given.astype(x.dtype)]


@operation
class BitCast(_Retyped):
    """The same bits, read as another type of the same size."""

    name = "bit_cast"
    not_differentiable = "bits are not numbers"
    expression = "bit_cast({0})"
    target_type: DType = DType.HALF

    @property
    def target(self) -> DType:
        """The type of the result."""
        return self.target_type

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens and strides in the target type, which must have the same size."""
        result = super().compute_shape(inputs, modules)
        if inputs[0].type.size != self.target_type.size:
            raise ShapeError(
                f"bit_cast: input 0 is {inputs[0]}; expected a type of {self.target_type.size} "
                f"bytes, the size of {self.target_type.type_name}"
            )
        return result

    def compute(self, *inputs: Any) -> Array:
        """The bits, reinterpreted. A float widened to float64 is narrowed to float32 first."""
        x = inputs[0]
        if x.dtype == np.float64 and self.target_type.size == 4:
            x = x.astype(np.float32)
        if x.itemsize != self.target_type.size:
            raise EvaluationError(
                f"bit_cast: the bits of {x.dtype} do not make {self.target_type.type_name}; "
                "float64 mode does not keep the bits of narrow floats"
            )
        return x.view(self.target_type.numpy)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Between types of one, two and four bytes."""
        yield cls(DType.INT32), [draw(DType.FLOAT, (2, 3), -4, 4)]
        yield cls(DType.FLOAT), [draw(DType.FLOAT, (3, 4), -4, 4).T.view(np.int32)]
        yield cls(DType.BF16), [draw(DType.HALF, (2, 3), -4, 4)]
        yield cls(DType.UINT8), [draw(DType.FP8E4M3FN, (2, 3), -4, 4)]


_ELEMENTS: dict[str, np.dtype[Any]] = {
    **{str(t.numpy): t.numpy for t in FP8},
    **{str(dtype): dtype for dtype in HELD},
}
_ROUND_MODES = ("up", "down", "nearest")


@operation
class CastTo(_Retyped):
    """The values as converted by ONNX's Cast to ``element``, in that type or a wider one.

    Integers keep their low bits; floats are truncated first, and NaN gives 0.
    ``float4_e2m1fn`` rounds to the nearest value and saturates. ``float8_e8m0fnu`` rounds to a power
    of two by ``round_mode``. Without ``saturate``, a value too large for an 8-bit float becomes
    infinity, or NaN where the type has no infinity.
    """

    name = "cast_to"
    flat = True
    on_host = "types that kernels do not support"
    pointwise = False
    element: str = "int4"
    saturate: bool = True
    round_mode: str = "up"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of ``element``.

        Raises:
            OperationError: The name is unknown.
        """
        if self.element not in _ELEMENTS:
            known = ", ".join(sorted(_ELEMENTS))
            raise OperationError(f"cast_to: element={self.element!r}; expected one of {known}")
        return _ELEMENTS[self.element]

    @property
    def target(self) -> DType:
        """The type that represents the values."""
        return HELD.get(self.dtype) or DType.of(self.dtype)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens and strides in the type that represents the values."""
        if self.round_mode not in _ROUND_MODES:
            known = ", ".join(_ROUND_MODES)
            raise ShapeError(f"cast_to: round_mode={self.round_mode!r}; expected one of {known}")
        return super().compute_shape(inputs, modules)

    def compute(self, *inputs: Any) -> Array:
        """The values, in the type that represents them."""
        with np.errstate(all="ignore"):
            values = self._values(np.atleast_1d(inputs[0])).astype(self.target.numpy)
            return values.reshape(inputs[0].shape)

    def _values(self, x: Array) -> Array:
        if self.target.is_integral:
            return cast(x, np.dtype(np.int64)).astype(self.dtype)
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        if self.element == "float8_e8m0fnu":
            return _power_of_two(wide, self.saturate, self.round_mode)
        if self.element == "float4_e2m1fn":
            return np.where(np.isnan(wide), 0, wide).astype(self.dtype)
        return cast(wide, self.dtype) if self.saturate else wide.astype(self.dtype)

    def widened(self) -> Operation:
        """The same numbers as float64."""
        return self if self.target.is_integral else _WideCastTo(**self.attributes())

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """To every type, including values out of bounds."""
        x = np.array([*EDGES, 0.3, 7.0, 9.0, -9.0, 20.0, 500.0, -500.0, 1e-8, 1e30], np.float32)
        for element, dtype in _ELEMENTS.items():
            yield cls(element), [x[np.isfinite(x)] if dtype in HELD else x]
            yield cls(element), [draw(DType.INT32, (3, 4), -40, 40).T]
            if dtype not in HELD:
                yield cls(element, saturate=False), [x]
        for mode in _ROUND_MODES:
            for saturate in (False, True):
                yield cls("float8_e8m0fnu", saturate, mode), [np.abs(x)]


@dataclass(frozen=True)
class _WideCastTo(CastTo):
    """``cast_to`` for a run in which every float is a float64."""

    @property
    def target(self) -> DType:
        """The type that represents the values; float64 for every float."""
        return DType.DOUBLE


def _power_of_two(x: Array, saturate: bool, mode: str) -> Array:
    """Numbers rounded to 2⁻¹²⁷ … 2¹²⁷; others become NaN or saturate."""
    fraction, exponent = np.frexp(np.abs(x))  # with 0.5 ≤ fraction < 1
    exponent = exponent - 1
    if mode == "up":
        exponent = exponent + (fraction > 0.5)
    elif mode == "nearest":
        exponent = exponent + (fraction >= 0.75)
    small, large = (x == 0) | (exponent < -127), np.isinf(x) | (exponent > 127)
    result = np.ldexp(np.ones_like(x), np.clip(exponent, -127, 127))
    result[np.isnan(x)] = np.nan
    result[small] = 2.0**-127 if saturate else np.nan
    result[large] = 2.0**127 if saturate else np.nan
    return result
