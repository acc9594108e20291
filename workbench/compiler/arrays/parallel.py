"""Threads for large arrays, split into parts; NumPy releases the interpreter's lock while it works."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache

from workbench.knobs import knobs

_within = threading.local()


def threads() -> int:
    """The number of threads that work on a large array: the option, or one per core."""
    return knobs.threads or _cores()


@cache
def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SHARED = 1 << 18
"""The least number of elements of an array that is split into parts."""

_divides: ContextVar[bool] = ContextVar("divides", default=True)


@contextmanager
def undivided() -> Generator[None]:
    """Compute inside with whole arrays, in this thread alone."""
    token = _divides.set(False)
    try:
        yield
    finally:
        _divides.reset(token)


def is_divided(elements: int, least: int = SHARED) -> bool:
    """Whether an array with this many elements is split: from ``least`` elements on."""
    return elements >= least and _divides.get()


WAKING = 1 << 22
"""The least number of simple operations on elements for which waking other threads pays."""


def spread(work: Callable[[int], None], count: int, operations: int) -> None:
    """Call ``work(0)`` to ``work(count - 1)``, each once; a thread takes consecutive indices.

    The split must not depend on the number of threads, so that no result does.
    """
    alone = operations < WAKING or getattr(_within, "busy", False) or not _divides.get()
    shares = 1 if alone else min(threads(), count)
    if shares < 2:
        for part in range(count):
            work(part)
        return
    bounds = [count * i // shares for i in range(shares + 1)]

    def share(i: int) -> None:
        for part in range(bounds[i], bounds[i + 1]):
            work(part)

    others: list[Future[None]] = []
    try:
        run = _pool(shares - 1).submit
        others += [run(copy_context().run, _busily, share, i) for i in range(1, shares)]
        share(0)
    finally:
        wait(others)
    for other in others:
        other.result()


def _busily(share: Callable[[int], None], i: int) -> None:
    """Run a share in a pool thread; nested calls of ``spread`` do not wait for the same pool."""
    _within.busy = True
    share(i)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "workbench")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
