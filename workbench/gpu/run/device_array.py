"""Arrays in a device's memory: the inputs and outputs of runs without copies."""

from __future__ import annotations

import weakref
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.base import Device, Pointer, Stream
from workbench.gpu.lowering.layout import laid_out, seen_as
from workbench.gpu.lowering.plan import ALIGNMENT, padded


class DeviceArray:
    """A tensor on a device.

    On CUDA and HIP it has ``__cuda_array_interface__``, so ``torch.as_tensor(array, device="cuda")`` and
    CuPy take it without a copy.

    Args:
        device: The device.
        shape: The type, lens and strides.
        pointer: The address of the first element; by default new memory is allocated.
        keeps: An object that has to live as long as the array.
    """

    def __init__(
        self, device: Device, shape: Shape, pointer: Pointer | None = None, keeps: Any = None
    ) -> None:
        """Allocate memory, unless it is given."""
        self.device = device
        self.shape = shape
        self.keeps = keeps
        self.bytes = padded(shape.element_space * shape.type.size)
        if pointer is None:
            buffer = device.allocate(self.bytes)
            pointer = device.pointer(buffer, 0, self.bytes)
            weakref.finalize(self, device.free, buffer)
        self.pointer: Pointer = pointer

    @staticmethod
    def of(device: Device, array: Array, shape: Shape | None = None) -> DeviceArray:
        """A copy of an array on the device, in the layout of a shape; row-major by default."""
        array = np.asarray(array)
        shape = shape or Shape(array.dtype.name, array.shape)
        made = DeviceArray(device, shape)
        if array.size:
            device.upload(made.pointer, laid_out(array, shape))
        return made

    def numpy(self, stream: Stream = None) -> Array:
        """A copy of the elements; waits for the work in the stream."""
        shape = self.shape
        if not shape.elements:
            return np.empty(shape.lens, shape.type.numpy)
        flat = np.empty(shape.element_space, shape.type.numpy)
        self.device.download(flat, self.pointer, stream)
        return seen_as(flat, shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The elements, for NumPy."""
        if copy is False:
            raise ValueError(
                "NumPy cannot view an array on a device without a copy; use array.numpy()"
            )
        return np.asarray(self.numpy(), dtype=dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface; only on CUDA and HIP."""
        if not isinstance(self.pointer, int):
            raise AttributeError(
                f"arrays on {self.device.kind} have no addresses for other libraries"
            )
        size = self.shape.type.size
        return {
            "shape": self.shape.lens,
            "strides": tuple(s * size for s in self.shape.strides),
            "typestr": self.shape.type.numpy.str,
            "data": (self.pointer, False),
            "version": 3,
        }

    def __repr__(self) -> str:
        """Shape and device."""
        return f"<DeviceArray {self.shape} on {self.device.facts.name}>"


def borrowed(value: Any, device: Device, name: str) -> DeviceArray | None:
    """An array of another library on the same device, without a copy; None if it is not one.

    Raises:
        DeviceError: It is on a device, but this device's kernels cannot read it in place.
    """
    if isinstance(value, DeviceArray):
        if value.device is not device:
            raise DeviceError(
                f"input {name!r} is on {value.device.facts.name}; expected {device.facts.name}, or "
                "the host: pass array.numpy()"
            )
        return value
    interface = cast("dict[str, Any] | None", getattr(value, "__cuda_array_interface__", None))
    if interface is None or device.kind not in ("cuda", "hip"):
        return None
    dtype = np.dtype(interface["typestr"])
    lens = tuple(interface["shape"])
    strides = interface.get("strides")
    shape = Shape(dtype.name, lens, strides and [s // dtype.itemsize for s in strides])
    address, _ = interface["data"]
    if shape.elements and address % ALIGNMENT:
        raise DeviceError(
            f"the address of input {name!r} is not a multiple of {ALIGNMENT} bytes; expected the "
            "start of an allocation: pass a copy"
        )
    if shape.elements and not device.knows(int(address)):
        raise DeviceError(
            f"input {name!r} is not in the memory of {device.facts.name}; copy it there, or pass an "
            "array on the host"
        )
    return DeviceArray(device, shape, int(address), keeps=value)
