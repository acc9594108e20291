"""Element types: MIGraphX's names and codes, each with its NumPy type (ml_dtypes for the small floats)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, SupportsIndex, TypeAlias

import ml_dtypes
import numpy as np

from workbench.compiler.errors import OperationError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class DType(IntEnum):
    """An element type. The value is MIGraphX's code, which attributes print (``convert[target_type=2]``)."""

    BOOL = 0
    HALF = 1
    FLOAT = 2
    DOUBLE = 3
    UINT8 = 4
    INT8 = 5
    UINT16 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    UINT32 = 10
    UINT64 = 11
    FP8E4M3FNUZ = 12
    FP8E4M3FN = 13
    FP8E5M2 = 14
    BF16 = 15
    FP8E5M2FNUZ = 16
    TUPLE = 17
    FP4X2 = 18

    @property
    def type_name(self) -> str:
        """MIGraphX's name, such as ``float_type``."""
        return _NAMES[self]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one element; ``fp4x2`` is a byte that holds two 4-bit values."""
        return _NUMPY[self]

    @property
    def size(self) -> int:
        """Bytes of one element; 0 for a tuple."""
        return 0 if self is DType.TUPLE else _NUMPY[self].itemsize

    @property
    def is_float(self) -> bool:
        """Whether values are floating point, of any width."""
        return self in _FLOATS

    @property
    def is_integral(self) -> bool:
        """Whether values are integers; bool counts, as it does in MIGraphX."""
        return self not in _FLOATS and self < DType.TUPLE

    @classmethod
    def of(cls, value: object) -> DType:
        """The type that a NumPy dtype, a name (``"float"``, ``"float_type"``) or a code stands for.

        Raises:
            OperationError: No element type is known by that value.
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


_NAMES = {t: "tuple_type" if t is DType.TUPLE else f"{t.name.lower()}_type" for t in DType}

_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.HALF: np.dtype(np.float16),
    DType.FLOAT: np.dtype(np.float32),
    DType.DOUBLE: np.dtype(np.float64),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT8: np.dtype(np.int8),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT64: np.dtype(np.uint64),
    DType.FP8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.FP8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.FP8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.FP8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.FP4X2: np.dtype(np.uint8),
}

_FLOATS = frozenset({
    DType.HALF, DType.FLOAT, DType.DOUBLE, DType.BF16, DType.FP8E4M3FNUZ, DType.FP8E4M3FN,
    DType.FP8E5M2, DType.FP8E5M2FNUZ, DType.FP4X2,
})  # fmt: skip

_BY_NUMPY = {dtype: t for t, dtype in reversed(_NUMPY.items()) if t is not DType.FP4X2}

HELD: dict[np.dtype[Any], DType] = {
    np.dtype(ml_dtypes.int4): DType.INT8,
    np.dtype(ml_dtypes.uint4): DType.UINT8,
    np.dtype(ml_dtypes.int2): DType.INT8,
    np.dtype(ml_dtypes.uint2): DType.UINT8,
    np.dtype(ml_dtypes.float4_e2m1fn): DType.FP8E4M3FN,
    np.dtype(ml_dtypes.float8_e8m0fnu): DType.FLOAT,
}
"""NumPy types that programs have no element type for, each with the wider one that holds its values."""


def held(array: Array) -> Array:
    """The array, in the type that holds its values if programs do not have its own."""
    wider = HELD.get(array.dtype)
    return array if wider is None else array.astype(wider.numpy)


_BY_NAME = {
    **{name: t for t, name in _NAMES.items()},
    **{name.removesuffix("_type"): t for t, name in _NAMES.items()},
    **{f"{t.name.lower()}_t": t for t in DType if t.is_integral and t is not DType.BOOL},
    "float16": DType.HALF,
    "float32": DType.FLOAT,
    "float64": DType.DOUBLE,
    "bfloat16": DType.BF16,
    "fp16": DType.HALF,
    "fp32": DType.FLOAT,
    "fp64": DType.DOUBLE,
}
