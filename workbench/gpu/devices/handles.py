"""Handles of a runtime's objects: streams, events, modules and graphs."""

from __future__ import annotations

from workbench.gpu.devices.base import Stream


class Handle:
    """A number of the runtime's, which goes to a list when nobody needs it any more.

    The device takes it from there, to use it again or to destroy it, in a thread and at a time that
    are its own: what is collected may be collected anywhere.
    """

    __slots__ = ("number", "unused")

    def __init__(self, number: int, unused: list[int]) -> None:
        self.number = number
        self.unused = unused

    def __del__(self) -> None:
        self.unused.append(self.number)


def again(unused: list[int]) -> int:
    """One of those that nobody needs any more, for another thread may be asking too; else 0."""
    try:
        return unused.pop()
    except IndexError:
        return 0


def number_of(stream: Stream) -> int:
    """The runtime's handle of a stream; another library's stream is its handle already."""
    return stream.number if isinstance(stream, Handle) else int(stream or 0)
