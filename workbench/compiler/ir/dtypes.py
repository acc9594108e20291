"""Element types: MIGraphX's names and codes, each with the record of its format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from math import ldexp
from typing import Any, Literal, SupportsIndex, TypeAlias

import ml_dtypes
import numpy as np

from workbench.compiler.errors import OperationError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Kind: TypeAlias = Literal["bool", "signed", "unsigned", "float", "power", "tuple"]
"""The interpretation of the codes; ``power`` is an unsigned power of two."""


class NaN(Enum):
    """The codes of a floating-point format that are NaN, by the suffix of the format's name."""

    NONE = "finite"
    """No code is NaN."""
    IEEE = ""
    """IEEE 754: with all exponent bits set, mantissa 0 is infinity and every other mantissa is NaN."""
    FN = "fn"
    """No infinities; the magnitude with all bits set is NaN."""
    FNUZ = "fnuz"
    """No infinities and no negative zero; the code of negative zero is the only NaN."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of an element: how its bits are read, and its names elsewhere."""

    kind: Kind
    bits: int
    numpy: np.dtype[Any]
    """The NumPy type of one element, or of a byte of packed elements (ml_dtypes for the small floats)."""
    onnx: int = 0
    """The code in ``onnx.TensorProto``; 0 (``UNDEFINED``) if ONNX has no such type."""
    names: tuple[str, ...] = ()
    """Names other than MIGraphX's."""
    exponent: int = 0
    """Number of exponent bits."""
    mantissa: int = 0
    """Number of stored mantissa bits."""
    bias: int = 0
    nan: NaN = NaN.NONE
    packed: int = 1
    """Elements held by one NumPy element."""

    @property
    def infinity(self) -> int:
        """The code of positive infinity; 0 if there is none."""
        return ((1 << self.exponent) - 1) << self.mantissa if self.nan is NaN.IEEE else 0

    @property
    def first_nan(self) -> int:
        """The lowest code that is NaN; 0 if there is none."""
        sign = 1 << (self.bits - 1)
        return {NaN.NONE: 0, NaN.IEEE: self.infinity + 1, NaN.FN: sign - 1, NaN.FNUZ: sign}[
            self.nan
        ]

    @property
    def quiet_nan(self) -> int:
        """The NaN code that conversions produce; 0 if there is none."""
        quiet = self.infinity | 1 << max(self.mantissa - 1, 0)
        return quiet if self.nan is NaN.IEEE else self.first_nan

    @property
    def last(self) -> int:
        """The code of the largest finite value of a float."""
        highest = (1 << (self.bits - 1)) - 1
        return {NaN.IEEE: self.infinity - 1, NaN.FN: highest - 1}.get(self.nan, highest)

    @property
    def largest(self) -> float:
        """The largest finite value of a float."""
        return self.value(self.last)

    def value(self, code: int) -> float:
        """The value of a code of a float, if that is positive and finite."""
        exponent, fraction = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if exponent:
            return ldexp(fraction + (1 << self.mantissa), exponent - self.bias - self.mantissa)
        return ldexp(fraction, 1 - self.bias - self.mantissa)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger value of a float."""
        return 2.0**-self.mantissa

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the largest finite value."""
        if self.kind == "float":
            return -self.largest, self.largest
        if self.kind == "signed":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


def _integer(kind: Kind, bits: int, numpy: Any, onnx: int) -> Format:
    return Format(kind, bits, np.dtype(numpy), onnx)


def _float(
    numpy: Any, exponent: int, mantissa: int, bias: int, nan: NaN, onnx: int = 0, *names: str
) -> Format:
    bits = 1 + exponent + mantissa
    return Format("float", bits, np.dtype(numpy), onnx, names, exponent, mantissa, bias, nan)


_FP4 = _float(ml_dtypes.float4_e2m1fn, 2, 1, 1, NaN.NONE, 23)


class DType(IntEnum):
    """An element type. The value is MIGraphX's code, which attributes print (``convert[target_type=2]``).

    Each type is one row of this table: kernels' codecs, conversions, tolerances, importers and tests
    read its ``format``.
    """

    format: Format

    BOOL = 0, _integer("bool", 1, np.bool_, 9)
    HALF = 1, _float(np.float16, 5, 10, 15, NaN.IEEE, 10, "float16", "fp16")
    FLOAT = 2, _float(np.float32, 8, 23, 127, NaN.IEEE, 1, "float32", "fp32")
    DOUBLE = 3, _float(np.float64, 11, 52, 1023, NaN.IEEE, 11, "float64", "fp64")
    UINT8 = 4, _integer("unsigned", 8, np.uint8, 2)
    INT8 = 5, _integer("signed", 8, np.int8, 3)
    UINT16 = 6, _integer("unsigned", 16, np.uint16, 4)
    INT16 = 7, _integer("signed", 16, np.int16, 5)
    INT32 = 8, _integer("signed", 32, np.int32, 6)
    INT64 = 9, _integer("signed", 64, np.int64, 7)
    UINT32 = 10, _integer("unsigned", 32, np.uint32, 12)
    UINT64 = 11, _integer("unsigned", 64, np.uint64, 13)
    FP8E4M3FNUZ = 12, _float(ml_dtypes.float8_e4m3fnuz, 4, 3, 8, NaN.FNUZ, 18)
    FP8E4M3FN = 13, _float(ml_dtypes.float8_e4m3fn, 4, 3, 7, NaN.FN, 17)
    FP8E5M2 = 14, _float(ml_dtypes.float8_e5m2, 5, 2, 15, NaN.IEEE, 19)
    BF16 = 15, _float(ml_dtypes.bfloat16, 8, 7, 127, NaN.IEEE, 16, "bfloat16")
    FP8E5M2FNUZ = 16, _float(ml_dtypes.float8_e5m2fnuz, 5, 2, 16, NaN.FNUZ, 20)
    TUPLE = 17, Format("tuple", 0, np.dtype("V0"))
    FP4X2 = 18, replace(_FP4, numpy=np.dtype(np.uint8), packed=2)

    def __new__(cls, code: int, format: Format) -> DType:
        """A member: its code and its format."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.format = format
        return made

    @property
    def type_name(self) -> str:
        """MIGraphX's name, such as ``float_type``."""
        return f"{self.name.lower()}_type"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one element; ``fp4x2`` is a byte that holds two 4-bit values."""
        return self.format.numpy

    @property
    def size(self) -> int:
        """Bytes of one element; 0 for a tuple."""
        return self.format.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether values are floating point, of any width."""
        return self.format.kind == "float"

    @property
    def is_narrow_float(self) -> bool:
        """Whether values are unpacked floating point with fewer bits than float32."""
        return self.is_float and self.size < 4 and self.format.packed == 1

    @property
    def is_integral(self) -> bool:
        """Whether values are integers; bool counts as one, as in MIGraphX."""
        return self.format.kind in ("bool", "signed", "unsigned")

    @classmethod
    def of(cls, value: object) -> DType:
        """The type for a NumPy dtype, a name (``"float"``, ``"float_type"``) or a code.

        Raises:
            OperationError: No element type has that dtype, name or code.
        """
        if isinstance(value, DType):
            return value
        if isinstance(value, str) and (named := _BY_NAME.get(value)) is not None:
            return named
        if not isinstance(value, np.dtype | type) and isinstance(value, SupportsIndex):
            code = value.__index__()
            if code in cls._value2member_map_:
                return cls(code)
        try:
            return _BY_NUMPY[np.dtype(value)]  # pyright: ignore[reportArgumentType, reportCallIssue]
        except (KeyError, TypeError, ValueError) as error:
            known = ", ".join(sorted(_BY_NAME))
            raise OperationError(
                f"unknown element type {value!r}; expected one of {known}"
            ) from error


FP8 = tuple(t for t in DType if t.is_float and t.format.bits == 8)
"""The 8-bit floats. Conversions to them saturate; arithmetic rounds to them after each operation."""

HELD_FORMATS = {
    _integer("signed", 4, ml_dtypes.int4, 22): DType.INT8,
    _integer("unsigned", 4, ml_dtypes.uint4, 21): DType.UINT8,
    _integer("signed", 2, ml_dtypes.int2, 26): DType.INT8,
    _integer("unsigned", 2, ml_dtypes.uint2, 25): DType.UINT8,
    _FP4: DType.FP8E4M3FN,
    Format("power", 8, np.dtype(ml_dtypes.float8_e8m0fnu), 24, exponent=8, bias=127): DType.FLOAT,
}
"""Formats that are not element types of programs, each with the wider type that represents its values."""

HELD = {format.numpy: wider for format, wider in HELD_FORMATS.items()}
"""The same table, keyed by NumPy type."""


def held(array: Array) -> Array:
    """The array, converted to a wider type if its own is not an element type of programs."""
    wider = HELD.get(array.dtype)
    return array if wider is None else array.astype(wider.numpy)


_BY_NUMPY = {t.numpy: t for t in DType if t.size and t.format.packed == 1}
_BY_NAME = {
    **{t.type_name: t for t in DType},
    **{t.name.lower(): t for t in DType},
    **{f"{t.name.lower()}_t": t for t in DType if t.is_integral and t is not DType.BOOL},
    **{name: t for t in DType for name in t.format.names},
}
