"""The garbage collector during compilation: enabled, but running less often."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_ALLOCATIONS = 1_000_000
"""The number of new objects that starts a collection; low numbers cost a quarter of a long compilation."""

_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The original thresholds, for each compilation that is running."""


@contextmanager
def rarely_collected() -> Generator[None]:
    """Run collections rarely inside: a compilation makes many small objects that live until its end.

    The collector belongs to the process, so it stays enabled for other threads; its thresholds are restored
    when the last of several concurrent compilations ends.
    """
    with _lock:
        _usual.append(gc.get_threshold())
        if 0 < _usual[0][0] < _ALLOCATIONS:
            gc.set_threshold(_ALLOCATIONS, *_usual[0][1:])
    try:
        yield
    finally:
        with _lock:
            if len(_usual) == 1:
                gc.set_threshold(*_usual[0])
            _usual.pop()
