"""Pointers with shapes and types, as the runtime passes them, and its enumerations."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from workbench.compat.aitemplate.element_types import NAMES, numpy_name
from workbench.compiler.ir.dtypes import DType


class AITData(NamedTuple):
    """A contiguous tensor in memory that the caller owns."""

    data_ptr: int
    """The address on the device; with OpenCL, which has none, the number of the memory object."""
    shape: list[int]
    dtype: str
    """``float16``, ``float32`` (or ``float``), ``int32`` (``int``), ``int64``, ``bool`` or ``bfloat16``."""


class AITemplateMemcpyKind(IntEnum):
    """The direction of a copy."""

    HostToDevice = 0
    DeviceToHost = 1
    DeviceToDevice = 2


class AITemplateAllocatorKind(IntEnum):
    """Allocators: ``TRACKING`` counts bytes. The device's pool counts them always."""

    DEFAULT = 0
    TRACKING = 1


_LABELS = ("kUnset", "kHalf", "kFloat", "kInt", "kLong", "kBool", "kBFloat16")
_TYPES = {
    DType.HALF: 1, DType.FLOAT: 2, DType.INT32: 3, DType.INT64: 4, DType.BOOL: 5, DType.BF16: 6,
}  # fmt: skip


def dtype_str_to_enum(dtype: str) -> int:
    """The runtime's number of a type.

    Raises:
        ValueError: It has no such type.
    """
    if dtype not in NAMES:
        known = ", ".join(NAMES)
        raise ValueError(f"Got unsupported input dtype {dtype}! Supported dtypes are: {known}")
    return _TYPES[NAMES[dtype]]


def dtype_size(dtype: str) -> int:
    """Bytes of an element of a type.

    Raises:
        ValueError: There is no such type.
    """
    dtype_str_to_enum(dtype)
    return type_of(dtype).size


def type_of(dtype: str) -> DType:
    """The core's type of one of the runtime's names, or of NumPy's for types that it has not."""
    return NAMES[dtype] if dtype in NAMES else DType.of(dtype)


def name_of(type: DType) -> str:
    """The runtime's name of a type of the core; NumPy's if it has none."""
    return numpy_name(type.numpy)


def enum_of(type: DType) -> int:
    """The runtime's number of a type of the core; 0 if it has none."""
    return _TYPES.get(type, 0)


def label_of(type: DType) -> str:
    """The name of the runtime's constant for a type, such as ``kHalf``."""
    return _LABELS[_TYPES[type]] if type in _TYPES else type.type_name
