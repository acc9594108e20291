"""The garbage collector during compilation, and while a view is made: enabled, but running less often."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_ALLOCATIONS = 1_000_000
"""The number of new objects that starts a collection; low numbers cost a quarter of a long compilation."""
_VIEW = 20_000_000
"""The same while a view is made: it refers to nearly everything that was made for it."""

_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The original thresholds, for each compilation that is running."""
_frozen = False
"""True once frozen objects were seen: counting walks through all of them, so it is done once."""


@contextmanager
def rarely_collected(allocations: int = _ALLOCATIONS) -> Generator[None]:
    """Run collections rarely inside: a compilation makes many small objects that live until its end.

    The collector belongs to the process, so it stays enabled for other threads; its thresholds are restored
    when the last of several concurrent compilations ends.

    Args:
        allocations: The number of new objects that starts a collection.
    """
    with _lock:
        _usual.append(gc.get_threshold())
        if 0 < gc.get_threshold()[0] < allocations:
            gc.set_threshold(allocations, *_usual[0][1:])
    try:
        yield
    finally:
        with _lock:
            if len(_usual) == 1:
                gc.set_threshold(*_usual[0])
            _usual.pop()


@contextmanager
def lasting() -> Generator[None]:
    """Make what lives as long as a view inside: it counts as old at once, and no collection looks through it.

    Of 50,000 nodes that would take as long as to draw them. Cycles that are garbage wait for the next full
    collection. Frozen objects, of a process that is about to fork, stay frozen.
    """
    global _frozen  # noqa: PLW0603
    with rarely_collected(_VIEW):
        yield
        _frozen = _frozen or gc.get_freeze_count() > 0
        if not _frozen:
            gc.freeze()
            gc.unfreeze()
