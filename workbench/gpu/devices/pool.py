"""The memory pool of a device: freed memory is kept for the next buffer of similar size."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from workbench.compiler.errors import DeviceError

ALIGNMENT = 256
"""The alignment of offsets and sizes, in bytes."""
_PREFIXES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of a device, from ``allocate`` until ``free``."""

    bytes: int
    """Requested size."""
    size: int
    """Allocated size."""
    memory: Any
    """The runtime's address or memory object."""
    pool: Pool
    used: bool = field(default=True, repr=False)


class Pool:
    """The buffers of one device, in use and idle. Any thread may call it.

    Args:
        device: The device's name, for messages.
        take: Allocates a number of bytes from the runtime; returns None if there is no room.
        give: Gives memory back to the runtime.
        capacity: Most bytes to allocate in total; 0 leaves the limit to the runtime.
        total: Bytes that the device has, for messages.
    """

    def __init__(
        self,
        device: str,
        take: Callable[[int], Any | None],
        give: Callable[[Any], None],
        capacity: int = 0,
        total: int = 0,
    ) -> None:
        self.device = device
        self.in_use = 0
        """Requested bytes of the buffers in use."""
        self.count = 0
        """Number of buffers in use."""
        self.taken = 0
        """Bytes allocated from the runtime, idle buffers included."""
        self._take = take
        self._give = give
        self._capacity = capacity
        self._total = capacity or total
        self._idle: list[Buffer] = []
        self._freed: deque[Buffer] = deque()
        """Freed buffers that become idle when the lock is next free."""
        self._lock = Lock()

    def allocate(self, bytes: int) -> Buffer:
        """A buffer of at least this size, of undefined contents.

        Raises:
            DeviceError: There is no room; the message has the sizes.
        """
        if bytes < 0:
            raise DeviceError(f"{self.device}: cannot allocate {bytes} bytes; expected 0 or more")
        size = max(-(-bytes // ALIGNMENT), 1) * ALIGNMENT
        with self._locked():
            buffer = self._like(size) or self._new(size)
            if buffer is None and self._idle:
                self._drop()
                buffer = self._new(size)
            if buffer is None:
                raise DeviceError(self._full(bytes))
            buffer.bytes, buffer.used = bytes, True
            self.in_use += bytes
            self.count += 1
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Return a buffer's memory to the pool, without waiting.

        It never waits because finalizers call it, and these may run in a thread that holds the lock.

        Raises:
            DeviceError: The buffer was freed before, or belongs to another device.
        """
        self.check(buffer)
        buffer.used = False
        self._freed.append(buffer)
        self._settle()

    def _settle(self) -> None:
        """Make freed buffers idle. If the lock is taken, its holder does this when it releases the lock."""
        while self._freed and self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def _sweep(self) -> None:
        while self._freed:
            buffer = self._freed.popleft()
            self.in_use -= buffer.bytes
            self.count -= 1
            insort(self._idle, buffer, key=_size)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            with self._lock:
                self._sweep()
                yield
        finally:
            self._settle()

    def check(self, buffer: Buffer) -> None:
        """Check that a buffer belongs to this device and is in use.

        Raises:
            DeviceError: It is not.
        """
        if buffer.pool is not self:
            raise DeviceError(
                f"a buffer of {size_text(buffer.bytes)} belongs to {buffer.pool.device}, "
                f"not to {self.device}; copy its contents through the host"
            )
        if not buffer.used:
            raise DeviceError(
                f"{self.device}: a buffer of {size_text(buffer.bytes)} is used after it was freed; "
                "allocate another one"
            )

    def part(self, buffer: Buffer, offset: int, bytes: int) -> None:
        """Check that a part of a buffer is aligned and within the buffer's bounds.

        Raises:
            DeviceError: It is not.
        """
        self.check(buffer)
        if offset % ALIGNMENT:
            raise DeviceError(
                f"{self.device}: a part of a buffer begins at byte {offset}; "
                f"expected a multiple of {ALIGNMENT}"
            )
        if not 0 <= offset <= offset + bytes <= buffer.bytes:
            raise DeviceError(
                f"{self.device}: bytes {offset} to {offset + bytes} are out of bounds of a buffer of "
                f"{buffer.bytes} bytes"
            )

    def trim(self) -> None:
        """Give idle memory back to the runtime."""
        with self._locked():
            self._drop()

    def _like(self, size: int) -> Buffer | None:
        """An idle buffer at most a quarter larger than a size, if there is one."""
        place = bisect_left(self._idle, size, key=_size)
        if place < len(self._idle) and self._idle[place].size <= size + size // 4:
            return self._idle.pop(place)
        return None

    def _new(self, size: int) -> Buffer | None:
        if self._capacity and self.taken + size > self._capacity:
            return None
        memory = self._take(size)
        if memory is None:
            return None
        self.taken += size
        return Buffer(size, size, memory, self)

    def _drop(self) -> None:
        while self._idle:
            buffer = self._idle.pop()
            self.taken -= buffer.size
            self._give(buffer.memory)

    def _full(self, bytes: int) -> str:
        has = f"; the device has {size_text(self._total)}" if self._total else ""
        kept = f"{self.count} buffer{'s' * (self.count != 1)}"
        return (
            f"{self.device} is out of memory: {size_text(bytes)} asked for, with "
            f"{size_text(self.in_use)} in use in {kept}{has}. Free builds that are "
            "not needed, use a smaller batch or half precision, or choose another device"
        )


def _size(buffer: Buffer) -> int:
    return buffer.size


def size_text(bytes: int) -> str:
    """A number of bytes as text: ``1.5 GiB``."""
    for unit, name in _PREFIXES:
        if bytes >= unit:
            return f"{bytes / unit:.3g} {name}"
    return f"{bytes} bytes"
