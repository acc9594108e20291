"""Memory for values: a buffer is reused once nothing refers to it, so that a run touches little memory."""

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
"""The least size in bytes of a value that is placed in a buffer; below it the allocator is as fast."""


class Buffers:
    """Buffers in which arrays are placed; a buffer is free again when its last array is gone.

    An array keeps the base of a view alive. So the reference count of a buffer tells whether
    a value, a view of one, or a caller that kept it can still read it.
    """

    def __init__(self) -> None:
        """Start without buffers."""
        self._owned: list[Array] = []
        self.made = 0
        """Number of buffers allocated."""
        self.reused = 0
        """Number of arrays placed in a buffer that was free again."""
        self.offered = 0
        """Number of operands offered for overwriting, as nothing else referred to them."""

    def empty(self, lens: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array, in the smallest free buffer that can hold it."""
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
            if free:  # replace the largest free buffer, which is too small
                self._drop(max(free, key=_bytes))
            del free
            buffer = np.empty(size, np.uint8)
            self._owned.append(buffer)
        return buffer[:size].view(dtype).reshape(lens)

    def spare(self, values: list[Any], indices: Iterable[int]) -> Array | None:
        """The first of these values that has no other reference and shares its memory with no other value.

        A broadcast view is read-only, even if its lens equals its array's.
        """
        for index in indices:
            if sys.getrefcount(values[index]) == _ONLY and isinstance(values[index], np.ndarray):
                owner = values[index].base if values[index].flags.writeable else None
                if owner is not None and sys.getrefcount(owner) == _PLACED and self._owns(owner):
                    self.offered += 1
                    return values[index]
        return None

    def release(self) -> None:
        """Give up the buffers in use, which now belong to the caller."""
        self._owned = [b for b in self._owned if sys.getrefcount(b) == _FREE]

    @property
    def bytes(self) -> int:
        """Total size of all buffers in bytes."""
        return sum(map(_bytes, self._owned))

    def _owns(self, owner: object) -> bool:
        return any(b is owner for b in self._owned)

    def _drop(self, buffer: Array) -> None:
        self._owned = [b for b in self._owned if b is not buffer]


def _bytes(buffer: Array) -> int:
    return buffer.nbytes


def _counts() -> tuple[int, int, int]:
    """Reference counts of a free buffer, of a value that only a list holds, and of the value's buffer.

    Measured in the way ``Buffers`` counts, because interpreters differ in the references they add.
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
    """Place arrays that this thread computes in ``buffers``; with None, each array has its own memory."""
    outer = current()
    _current.buffers = buffers
    try:
        yield
    finally:
        _current.buffers = outer


def current() -> Buffers | None:
    """The buffers of this thread's current run; None outside a run."""
    return getattr(_current, "buffers", None)


def empty(lens: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array, in the run's buffers if there are any."""
    buffers = current()
    return np.empty(lens, dtype) if buffers is None else buffers.empty(lens, dtype)
