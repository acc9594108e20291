"""Lists of element types, for tests of programs in ``popart.ir``."""

from __future__ import annotations

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.dtypes import dtype

_SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)
_COMPLEX = (dtypes.complex64, dtypes.complex128)


def get_all_dtypes() -> list[dtype]:
    """Integers, floating-point numbers and complex numbers; bool is not among them."""
    return [*get_all_int_dtypes(), *_FLOATS, *_COMPLEX]


def get_all_int_dtypes(include_signed: bool = True, include_unsigned: bool = True) -> list[dtype]:
    """The integers, with or without those that have a sign."""
    return [*(_SIGNED if include_signed else ()), *(_UNSIGNED if include_unsigned else ())]
