"""Pointers with shapes and types, as the runtime passes them, and its enumerations."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

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


_ENUM = {
    "float16": 1, "float32": 2, "float": 2, "int32": 3, "int": 3, "int64": 4, "bool": 5, "bfloat16": 6,
}  # fmt: skip
_LABELS = ("kUnset", "kHalf", "kFloat", "kInt", "kLong", "kBool", "kBFloat16")
_TYPES = {DType.of(n): k for n, k in _ENUM.items() if n not in ("float", "int")}


def dtype_str_to_enum(dtype: str) -> int:
    """The runtime's number of a type.

    Raises:
        ValueError: It has no such type.
    """
    if dtype not in _ENUM:
        known = ", ".join(_ENUM)
        raise ValueError(f"Got unsupported input dtype {dtype}! Supported dtypes are: {known}")
    return _ENUM[dtype]


def dtype_size(dtype: str) -> int:
    """Bytes of an element of a type.

    Raises:
        ValueError: There is no such type.
    """
    dtype_str_to_enum(dtype)
    return type_of(dtype).size


def type_of(dtype: str) -> DType:
    """The core's type of one of the runtime's names."""
    return DType.of({"float": "float32", "int": "int32"}.get(dtype, dtype))


def name_of(type: DType) -> str:
    """The runtime's name of a type of the core; NumPy's if it has none."""
    return np.dtype(type.numpy).name


def enum_of(type: DType) -> int:
    """The runtime's number of a type of the core; 0 if it has none."""
    return _TYPES.get(type, 0)


def label_of(type: DType) -> str:
    """The name of the runtime's constant for a type, such as ``kHalf``."""
    return _LABELS[_TYPES[type]] if type in _TYPES else type.type_name
