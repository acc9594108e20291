"""The garbage collector while programs are compiled: on, but less often at work."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_ALLOCATIONS = 1_000_000
"""New objects after which the collector starts: far fewer cost a quarter of a long compilation."""

_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds as they were before each compilation that is under way."""


@contextmanager
def rarely_collected() -> Generator[None]:
    """Compile in peace: many small objects are made that stay, and to look at them over and over is waste.

    The collector is the process's own: it stays on for other threads, and is as it was when the last of
    several compilations ends.
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
