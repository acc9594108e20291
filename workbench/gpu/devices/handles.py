"""Handles of a runtime's objects: streams, events, modules and graphs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

from workbench.gpu.devices.base import Stream


class Handle:
    """A handle of the runtime; when it is collected, its number goes to a list of unused ones.

    The device recycles or destroys the handles in that list later, in a thread and at a time of its
    own choice, because the garbage collector may run anywhere.
    """

    __slots__ = ("number", "unused")

    def __init__(self, number: int, unused: list[int]) -> None:
        self.number = number
        self.unused = unused

    def __del__(self) -> None:
        self.unused.append(self.number)


@contextmanager
def uncollected() -> Generator[None]:
    """No garbage collection inside the block: finalizers may wait for the device, which ends a capture.

    Only one thread at a time may be in such a block.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def again(unused: list[int]) -> int:
    """An unused handle, or 0 if there is none; safe while other threads take handles too."""
    try:
        return unused.pop()
    except IndexError:
        return 0


def number_of(stream: Stream) -> int:
    """The runtime's handle of a stream; another library's stream is its own handle."""
    return stream.number if isinstance(stream, Handle) else int(stream or 0)
