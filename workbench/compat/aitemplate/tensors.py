"""Tensors of other libraries, seen as memory: NumPy, DLPack, ``__cuda_array_interface__``, our own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np

from workbench.compat.aitemplate.memory import Held, Memory, host_array
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.gpu.run.device_array import DeviceArray

_CPU = 1
"""DLPack's number of the host's memory."""


def seen(tensor: Any, memory: Memory, label: str) -> Held:
    """A tensor as an array of the host, or one on the model's device; nothing is copied.

    Args:
        tensor: An array of NumPy, or a tensor with DLPack or ``__cuda_array_interface__``.
        memory: Where the model runs.
        label: What errors call it, such as ``inputs[0]``.

    Raises:
        ValueError: It is not contiguous, or on another device.
        NotImplementedError: It is on a device, and has DLPack only.
    """
    tensor = tensor.detach() if hasattr(tensor, "detach") else tensor
    if isinstance(tensor, DeviceArray):
        return _expect_here(tensor, memory, label)
    interface = cast("dict[str, Any] | None", getattr(tensor, "__cuda_array_interface__", None))
    if interface is not None:
        return _on_device(interface, tensor, memory, label)
    if isinstance(tensor, np.ndarray):
        return _contiguous(cast("Any", tensor), label)
    if not hasattr(tensor, "__dlpack__"):
        raise ValueError(
            f"{label}: expected an array of NumPy, or a tensor with DLPack or __cuda_array_interface__; "
            f"found {type(tensor).__name__}"
        )
    if int(tensor.__dlpack_device__()[0]) != _CPU:
        raise NotImplementedError(
            f"{label}: a tensor on a device that has DLPack only; expected __cuda_array_interface__ too"
        )
    return _writable(_contiguous(np.from_dlpack(tensor), label))


def cut(tensor: Any, lens: Sequence[int]) -> Any:
    """The first elements of a tensor in another shape, as its library makes views."""
    if isinstance(tensor, DeviceArray):
        shape = Shape(tensor.shape.type, lens)
        return DeviceArray(tensor.device, shape, tensor.pointer, keeps=tensor)
    if isinstance(tensor, np.ndarray):
        return cast("Any", tensor).reshape(-1)[: prod(lens)].reshape(tuple(lens))
    return tensor.flatten()[: prod(lens)].reshape(tuple(lens))


def _expect_here(tensor: DeviceArray, memory: Memory, label: str) -> DeviceArray:
    if tensor.device is not memory.device:
        raise ValueError(f"{label} failed check: contiguous and on GPU (it is on another device)")
    if not tensor.shape.standard:
        raise ValueError(f"{label} failed check: contiguous and on GPU (it is not contiguous)")
    return tensor


def _on_device(interface: dict[str, Any], tensor: Any, memory: Memory, label: str) -> DeviceArray:
    device = memory.device
    if device is None or device.kind not in ("cuda", "hip"):
        where = "the host" if device is None else device.facts.name
        raise ValueError(
            f"{label} failed check: contiguous and on GPU (the model runs on {where}, "
            "the tensor is on another device)"
        )
    type = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    shape = Shape(type.name, interface["shape"], strides and [s // type.itemsize for s in strides])
    address = int(interface["data"][0])
    if shape.elements and not device.knows(address):
        raise DeviceError(f"{label} is not in the memory of {device.facts.name}")
    return _expect_here(DeviceArray(device, shape, address, keeps=tensor), memory, label)


def _contiguous(array: Any, label: str) -> Held:
    if not array.flags.c_contiguous:
        raise ValueError(f"{label} failed check: contiguous and on GPU (it is not contiguous)")
    return array


def _writable(array: Any) -> Held:
    """The array, writable: NumPy takes tensors of some libraries as read-only."""
    if array.flags.writeable:
        return array
    return host_array(array.ctypes.data, DType.of(array.dtype.name), array.shape)
