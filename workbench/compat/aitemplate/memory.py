"""Memory behind pointers: a device's through its pool, or the host's for targets that run there."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.base import Device
from workbench.gpu.run.device_array import DeviceArray

Held: TypeAlias = "DeviceArray | Array"
"""A row-major tensor where the model runs: in a device's memory, or the host's."""


class HostMemory:
    """Memory of the host: a pointer is an address."""

    device: Device | None = None

    def __init__(self) -> None:
        """Nothing allocated."""
        self._made: dict[int, Array] = {}

    def allocate(self, bytes: int) -> int:
        """A pointer to new memory."""
        array = np.empty(max(bytes, 1), np.uint8)
        self._made[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, pointer: int) -> None:
        """Free what ``allocate`` returned.

        Raises:
            DeviceError: It did not return this pointer, or the memory is free already.
        """
        if self._made.pop(pointer, None) is None:
            raise DeviceError(f"pointer {pointer} was not allocated here, or is free already")

    def at(self, pointer: int, type: DType, lens: Sequence[int]) -> Held:
        """The tensor at a pointer."""
        return host_array(pointer, type, lens)

    def new(self, type: DType, lens: Sequence[int]) -> Held:
        """A tensor in new memory, which lives as long as it."""
        return np.empty(tuple(lens), type.numpy)

    def copy_of(self, array: Held | Array, stream: Any = None) -> Held:
        """A copy of a tensor, or of an array of the host, in new memory."""
        return np.array(array)

    def copy(self, to: Held, source: Held, stream: Any = None) -> None:
        """Copy the elements of a tensor."""
        assert isinstance(to, np.ndarray)
        np.copyto(to, on_host(source))

    def stream_of(self, given: Any) -> Any:
        """No stream: work is done when a call returns."""
        return None

    def synchronize(self, stream: Any = None) -> None:
        """Nothing to wait for."""


class DeviceMemory:
    """Memory of a device."""

    def __init__(self, device: Device) -> None:
        """Nothing allocated."""
        self.device = device
        self._made: dict[int, tuple[Any, Any]] = {}

    def allocate(self, bytes: int) -> int:
        """A pointer to new memory."""
        buffer = self.device.allocate(max(bytes, 1))
        pointer = self.device.pointer(buffer, 0, bytes)
        number = pointer if isinstance(pointer, int) else int(pointer.int_ptr)
        self._made[number] = buffer, pointer
        return number

    def free(self, pointer: int) -> None:
        """Free what ``allocate`` returned.

        Raises:
            DeviceError: It did not return this pointer, or the memory is free already.
        """
        found = self._made.pop(pointer, None)
        if found is None:
            raise DeviceError(f"pointer {pointer} was not allocated here, or is free already")
        self.device.free(found[0])

    def at(self, pointer: int, type: DType, lens: Sequence[int]) -> Held:
        """The tensor at a pointer.

        Raises:
            DeviceError: Nothing on this device is there, or its memory is too small.
        """
        shape = Shape(type, lens)
        if not shape.elements:
            return DeviceArray(self.device, shape)
        made = self._made.get(pointer)
        if made is not None:
            if made[0].bytes < shape.bytes:
                raise DeviceError(
                    f"the memory at {pointer} has {made[0].bytes} bytes; {shape} needs {shape.bytes}"
                )
            return DeviceArray(self.device, shape, made[1])
        if self.device.kind == "opencl" or not self.device.knows(pointer):
            raise DeviceError(
                f"pointer {pointer} is not in the memory of {self.device.facts.name}; allocate it with "
                "allocate_gpu_memory"
            )
        return DeviceArray(self.device, shape, pointer)

    def new(self, type: DType, lens: Sequence[int]) -> Held:
        """A tensor in new memory, which lives as long as it."""
        return DeviceArray(self.device, Shape(type, lens))

    def copy_of(self, array: Held | Array, stream: Any = None) -> Held:
        """A copy of a tensor, or of an array of the host, in new memory."""
        if not isinstance(array, DeviceArray):
            return DeviceArray.of(self.device, array)
        made = DeviceArray(self.device, array.shape)
        self.copy(made, array, stream)
        self.device.wait(self.device.record(stream))  # not for runs in other streams
        return made

    def copy(self, to: Held, source: Held, stream: Any = None) -> None:
        """Copy the elements of a tensor; the copy may not be done on return."""
        assert isinstance(to, DeviceArray)
        assert isinstance(source, DeviceArray)
        self.device.copy(to.pointer, source.pointer, source.shape.bytes, stream)

    def stream_of(self, given: Any) -> Any:
        """The stream for a caller's: None or 0 is the default one."""
        return given or None

    def synchronize(self, stream: Any = None) -> None:
        """Wait for a stream; for the whole device if None."""
        self.device.synchronize(stream)


Memory: TypeAlias = "HostMemory | DeviceMemory"


def host_array(address: int, type: DType, lens: Sequence[int]) -> Array:
    """An array over memory of the host."""
    bytes = prod(lens) * type.size
    if not bytes:
        return np.empty(tuple(lens), type.numpy)
    raw = (ctypes.c_uint8 * bytes).from_address(address)
    flat: Array = np.frombuffer(cast("Any", raw), np.uint8)
    return flat.view(type.numpy).reshape(tuple(lens))


def on_host(array: Held, stream: Any = None) -> Array:
    """The elements as an array of the host; waits for the work in the stream."""
    return array.numpy(stream) if isinstance(array, DeviceArray) else array


def resized(array: Held, lens: Sequence[int]) -> Held:
    """The first elements of a tensor, in another shape."""
    if isinstance(array, DeviceArray):
        shape = Shape(array.shape.type, lens)
        return DeviceArray(array.device, shape, array.pointer, keeps=array)
    return array.reshape(-1)[: prod(lens)].reshape(tuple(lens))
