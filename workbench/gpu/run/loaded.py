"""The read-only part of a program on a device: its loaded kernels and uploaded constants."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from threading import Lock
from typing import Any

from workbench.gpu.code.cache import compiled
from workbench.gpu.devices.base import Code, Device, Pointer, Stream
from workbench.gpu.kernels.kernel import Root
from workbench.gpu.lowering.plan import Plan, padded


class Loaded:
    """A plan with what all of its runtimes share. Threads may use it together.

    Args:
        plan: The plan.
        device: The device.
        codes: The machine code of the plan's kernels; by default they are compiled.

    Raises:
        DeviceError: A kernel does not compile, or the device has too little memory.
    """

    def __init__(self, plan: Plan, device: Device, codes: Mapping[str, Code] | None = None) -> None:
        """Compile what is not compiled yet, and upload the constants."""
        self.plan = plan
        self.device = device
        kernels = (s.launch.kernel for s in plan.kernels)
        self.codes = compiled(kernels, device.compiler) if codes is None else codes
        self._functions: dict[str, Any] = {}
        self._captures: Stream = None
        self._lock = Lock()
        self._buffers: list[Any] = []
        weakref.finalize(self, _free, device, self._buffers)
        self.literals: dict[Root, Pointer] = {}
        """The memory of each constant of the plan."""
        for root, array in plan.literals.items():
            buffer = device.allocate(padded(root.bytes))
            self._buffers.append(buffer)
            self.literals[root] = device.pointer(buffer, 0, root.bytes)
            if array.size:
                device.upload(self.literals[root], array)

    @property
    def captures(self) -> Stream:
        """The stream in which runtimes capture their launches, one after another; nothing runs in it.

        It is shared because a device has few queues, and streams that have the same one wait for each other.
        """
        with self._lock:
            if self._captures is None:
                self._captures = self.device.stream()
            return self._captures

    def function(self, name: str) -> Any:
        """A kernel, loaded at the first call."""
        with self._lock:
            if name not in self._functions:
                self._functions[name] = self.device.load(self.codes[name], name)
            return self._functions[name]


def _free(device: Device, buffers: list[Any]) -> None:
    while buffers:
        device.free(buffers.pop())
