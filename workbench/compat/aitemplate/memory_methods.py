"""The methods of a model that allocate, free and copy memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compat.aitemplate.base import Base
from workbench.compat.aitemplate.data import AITData, AITemplateMemcpyKind, name_of, type_of
from workbench.compat.aitemplate.errors import named
from workbench.compat.aitemplate.memory import Held, host_array, on_host
from workbench.compiler.ir.dtypes import Array, DType
from workbench.gpu.run.device_array import DeviceArray

_BYTE = DType.UINT8


class MemoryMethods(Base):
    """Memory where the model runs: the device's, or the host's for a target without devices."""

    def allocate_gpu_memory(self, nbytes: int, stream_ptr: Any = None, sync: bool = True) -> int:
        """A pointer to new memory; it is there at once, in any stream.

        Raises:
            RuntimeError: The device has too little memory.
        """
        self._open()
        with named("AITemplateDeviceMalloc"):
            pointer = self._memory.allocate(nbytes)
        self._allocated.add(pointer)
        return pointer

    def free_gpu_memory(self, ptr: int, stream_ptr: Any = None, sync: bool = True) -> None:
        """Free memory, after the work in the stream is done.

        Raises:
            RuntimeError: The pointer was not allocated here, or is free already.
        """
        self._open()
        with named("AITemplateDeviceFree"):
            self._memory.synchronize(self._memory.stream_of(stream_ptr))
            self._memory.free(ptr)
        self._allocated.discard(ptr)

    def memcpy(
        self,
        dst: Any,
        src: Any,
        count: int,
        kind: AITemplateMemcpyKind,
        stream_ptr: Any = None,
        sync: bool = True,
    ) -> None:
        """Copy bytes.

        Args:
            dst: A pointer; on the host an address, or an array of NumPy.
            src: Another one.
            count: Bytes.
            kind: The direction.
            stream_ptr: The stream.
            sync: Wait for a copy on the device; others are awaited always.

        Raises:
            RuntimeError: A pointer is not one of the device.
        """
        self._open()
        kind, stream = AITemplateMemcpyKind(kind), self._memory.stream_of(stream_ptr)
        with named("AITemplateMemcpy"):
            if kind is AITemplateMemcpyKind.HostToDevice:
                self._upload(int(dst), _bytes_at(src, count), stream)
            elif kind is AITemplateMemcpyKind.DeviceToHost:
                found = self._memory.at(int(src), _BYTE, [count])
                _bytes_at(dst, count)[...] = on_host(found, stream)
            else:
                to, source = (self._memory.at(int(p), _BYTE, [count]) for p in (dst, src))
                self._memory.copy(to, source, stream)
                if sync:
                    self._memory.synchronize(stream)

    def numpy_to_ait_data(self, arr: Array, stream_ptr: Any = None, sync: bool = True) -> AITData:
        """A copy of an array where the model runs, freed when the model is closed."""
        arr = np.ascontiguousarray(arr)
        pointer = self.allocate_gpu_memory(arr.nbytes)
        self.memcpy(pointer, arr, arr.nbytes, AITemplateMemcpyKind.HostToDevice, stream_ptr)
        return AITData(pointer, list(arr.shape), name_of(DType.of(arr.dtype.name)))

    def ait_data_to_numpy(
        self, ait_data: AITData, stream_ptr: Any = None, sync: bool = True
    ) -> Array:
        """A copy of a tensor as an array; waits for the work in the stream."""
        self._open()
        with named("AITemplateMemcpy"):
            shape: Sequence[int] = ait_data.shape
            found = self._memory.at(ait_data.data_ptr, type_of(ait_data.dtype), shape)
            return np.array(on_host(found, self._memory.stream_of(stream_ptr)))

    def on_device(self, array: Array) -> Held:
        """A copy of an array where the model runs, which lives as long as it."""
        self._open()
        return self._memory.copy_of(array)

    def _upload(self, pointer: int, source: Array, stream: Any) -> None:
        to = self._memory.at(pointer, _BYTE, [source.size])
        if isinstance(to, DeviceArray):
            to.device.upload(to.pointer, source, stream)
            to.device.synchronize(stream)
        else:
            to[...] = source


def _bytes_at(place: Any, count: int) -> Array:
    """Bytes of the host: at an address, or of an array."""
    if isinstance(place, np.ndarray):
        return place.reshape(-1).view(np.uint8)[:count]
    return host_array(int(place), _BYTE, [count])
