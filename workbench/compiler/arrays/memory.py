"""Memory for values: what nothing refers to any more is used again, so that a run touches little."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array

LARGE = 1 << 16
"""Bytes from which a value is worth placing; below that the allocator is as good."""


class Buffers:
    """Memory that arrays are placed in, and that is free again when the last of them is gone.

    Every array keeps what it is a view of alive, so the number of references to a buffer tells
    whether a value, a view of one, or a caller who kept it can still see it.
    """

    def __init__(self) -> None:
        """Own nothing yet."""
        self._owned: list[Array] = []
        self.made = 0
        """How many buffers were allocated."""
        self.reused = 0
        """How many arrays were placed in a buffer that was free again."""
        self.offered = 0
        """How many operands were offered to be written over, as nobody else could see them."""

    def empty(self, lens: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An array of undefined elements, in the smallest free buffer that can hold it."""
        size = prod(lens) * dtype.itemsize
        if size < LARGE:
            return np.empty(lens, dtype)
        free = [b for b in self._owned if sys.getrefcount(b) == _FREE]
        fits = [b for b in free if b.nbytes >= size]
        if fits:
            self.reused += 1
            buffer = min(fits, key=_bytes)
        else:
            self.made += 1
            if free:  # a larger one takes its place
                self._drop(max(free, key=_bytes))
            del free
            buffer = np.empty(size, np.uint8)
            self._owned.append(buffer)
        return buffer[:size].view(dtype).reshape(lens)

    def spare(self, values: list[Any], indices: Iterable[int]) -> Array | None:
        """The first of these values that nothing refers to but the list, nor anything to its memory.

        A view that broadcasts is read-only, even one to the lens that its array has.
        """
        for index in indices:
            if sys.getrefcount(values[index]) == _ONLY and isinstance(values[index], np.ndarray):
                owner = values[index].base if values[index].flags.writeable else None
                if owner is not None and sys.getrefcount(owner) == _PLACED and self._owns(owner):
                    self.offered += 1
                    return values[index]
        return None

    def release(self) -> None:
        """Forget the buffers that are in use: they are the caller's now."""
        self._owned = [b for b in self._owned if sys.getrefcount(b) == _FREE]

    @property
    def bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(map(_bytes, self._owned))

    def _owns(self, owner: object) -> bool:
        return any(b is owner for b in self._owned)

    def _drop(self, buffer: Array) -> None:
        self._owned = [b for b in self._owned if b is not buffer]


def _bytes(buffer: Array) -> int:
    return buffer.nbytes


def _counts() -> tuple[int, int, int]:
    """References to a free buffer, to a value that only a list holds, and to the buffer it is in.

    Counted as ``Buffers`` counts them, because how many an interpreter adds is its own affair.
    """
    owned = [np.empty(8, np.uint8)]
    free = [sys.getrefcount(b) for b in owned]
    values = [owned[0][:4].view(np.int32).reshape(1)]
    only = sys.getrefcount(values[0])
    owner = values[0].base
    return free[0], only, sys.getrefcount(owner)


_FREE, _ONLY, _PLACED = _counts()

_current = threading.local()


@contextmanager
def using(buffers: Buffers | None) -> Generator[None]:
    """Place what this thread computes in ``buffers``; None is memory of its own for each array."""
    outer = current()
    _current.buffers = buffers
    try:
        yield
    finally:
        _current.buffers = outer


def current() -> Buffers | None:
    """The buffers of this thread's run; None outside a run."""
    return getattr(_current, "buffers", None)


def empty(lens: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An array of undefined elements: placed in a run's buffers, or anew outside of one."""
    buffers = current()
    return np.empty(lens, dtype) if buffers is None else buffers.empty(lens, dtype)
