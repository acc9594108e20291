"""The pool of executions that runs take theirs from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Condition, RLock
from typing import Any

from workbench.compat.aitemplate.execution import DeviceExecution, HostExecution
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Device


@dataclass(eq=False)
class Slot:
    """An execution, with what its run in progress uses."""

    execution: DeviceExecution | HostExecution
    event: Any = None
    stream: Any = None
    """The stream of its last run."""
    keeps: list[Any] = field(default_factory=list[Any])
    """Inputs, outputs and constants, which have to live until the run is done."""


class Pool:
    """Executions, each used by one run at a time.

    Args:
        executions: The executions.
        device: Their device; None if they run on the host.
        closed: Makes the error of a call after ``close``.
    """

    def __init__(
        self,
        executions: Sequence[DeviceExecution | HostExecution],
        device: Device | None,
        closed: Callable[[], Exception],
    ) -> None:
        """All are available."""
        self._device = device
        self._closed = closed
        self._is_open = True
        self._slots = [Slot(e) for e in executions]
        self._available = deque(self._slots)
        self._pending: deque[Slot] = deque()
        self._changed = Condition()
        self._alone = RLock()

    def __len__(self) -> int:
        """The number of executions."""
        return len(self._slots)

    def take(self, stream: Any = None) -> Slot:
        """An execution that no run uses; waits for one.

        Args:
            stream: Where it will run; one that ran there last is preferred: then no stream waits for another.

        Raises:
            RuntimeError: The model was closed.
        """
        slot = self._next(stream)
        self._settle(slot)
        return slot

    def _next(self, stream: Any) -> Slot:
        with self._changed:
            while self._is_open:
                if not self._available:
                    self._reclaim()
                if self._available:
                    return _chosen(self._available, stream)
                if self._pending:  # its run is awaited by who takes it
                    return _chosen(self._pending, stream)
                self._changed.wait()
            raise self._closed()

    def _reclaim(self) -> None:
        device = self._device
        if device is not None:
            for slot in [s for s in self._pending if device.lost or device.is_done(s.event)]:
                self._pending.remove(slot)
                self._available.append(slot)

    def _settle(self, slot: Slot) -> None:
        """Wait for the last run of an execution; what it used is let go."""
        try:
            if slot.event is not None and self._device is not None:
                self._device.wait(slot.event)
        except BaseException:
            self.give(slot)
            raise
        slot.event = None
        slot.keeps.clear()

    def give(self, slot: Slot, is_pending: bool = False) -> None:
        """Return an execution, whose run may still be in progress."""
        with self._changed:
            (self._pending if is_pending else self._available).append(slot)
            self._changed.notify_all()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold all executions, after waiting for their runs."""
        with self._alone:
            held: list[Slot] = []
            try:
                while len(held) < len(self._slots):
                    held.append(self.take())
                yield
            finally:
                for slot in held:
                    self.give(slot)

    def close(self) -> None:
        """Wait for all runs, and free the executions. Calls that wait for an execution fail."""
        with self._changed:
            if not self._is_open:
                return
            self._is_open = False
            self._changed.notify_all()
            while len(self._available) + len(self._pending) < len(self._slots):
                self._changed.wait()
        for slot in self._slots:
            with suppress(DeviceError):  # of a device that is lost
                self._settle(slot)
            slot.keeps.clear()
            slot.execution.close()


def _chosen(slots: deque[Slot], stream: Any) -> Slot:
    """Take the execution that ran in a stream last, or else the one that waits for longest."""
    found = next((s for s in slots if s.stream == stream), slots[0])
    slots.remove(found)
    return found
