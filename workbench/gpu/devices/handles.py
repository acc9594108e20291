"""Handles of a runtime's objects: streams, events, modules and graphs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

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


_turn = Lock()
_without = [0, False]
"""How many threads are in a block without collection, and whether it was on before the first one."""


@contextmanager
def uncollected() -> Generator[None]:
    """No garbage collection inside the block: finalizers may wait for the device, which ends a capture.

    Several threads may be in such a block, each for a device of its own; the last one turns it on again.
    """
    with _turn:
        if not _without[0]:
            _without[1] = gc.isenabled()
            gc.disable()
        _without[0] += 1
    try:
        yield
    finally:
        with _turn:
            _without[0] -= 1
            if not _without[0] and _without[1]:
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
