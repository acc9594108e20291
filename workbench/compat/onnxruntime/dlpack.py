"""DLPack capsules: tensors of other libraries as NumPy's arrays, without copies."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array

_UNSIGNED, _CPU = 1, 1
_TENSOR, _VERSIONED = b"dltensor", b"dltensor_versioned"
_OFFSET = {_TENSOR: 0, _VERSIONED: 32}
"""Where the tensor begins in each structure: the newer one has a version, two pointers and flags first."""


class _Head(ctypes.Structure):
    """The beginning of DLPack's tensor, as dlpack.h declares it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class _Tensor:
    """A capsule as an object that has it, as NumPy expects."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule
        head = head_of(capsule)
        self._device = (head.device_type, head.device_id)

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def head_of(capsule: Any) -> _Head:
    """The facts of a capsule's tensor.

    Raises:
        RuntimeError: It is no capsule of DLPack, or its tensor was taken already.
    """
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, offset in _OFFSET.items():
        if api.PyCapsule_IsValid(capsule, name):
            return _Head.from_address(api.PyCapsule_GetPointer(capsule, name) + offset)
    raise RuntimeError(f"{capsule!r}: expected a DLPack capsule whose tensor was not taken yet")


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether the elements are bytes, which some libraries write for booleans.

    Raises:
        RuntimeError: It is no capsule of DLPack.
    """
    head = head_of(capsule)
    return head.code == _UNSIGNED and head.bits == 8


def array_of(data: Any) -> Array:
    """The tensor of a capsule, or of an object with ``__dlpack__``, in the memory of the host.

    Raises:
        RuntimeError: It is none, or it is in the memory of a device.
    """
    if not hasattr(data, "__dlpack__"):
        data = _Tensor(data)
    if int(data.__dlpack_device__()[0]) != _CPU:
        raise RuntimeError(
            "from_dlpack: the tensor is in the memory of a device; pass the tensor itself, "
            "with __cuda_array_interface__, or a copy in the memory of the host"
        )
    return np.from_dlpack(data)
