"""Progress of long work: a bar that appears after a second, or a listener that may also stop the work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from time import monotonic
from typing import TextIO, TypeVar

from workbench.knobs import knobs

T = TypeVar("T")

_DELAY_SECONDS = 1.0

Listener = Callable[[str, int, int], None]
"""Hears before each item: the name of the work, the number of items done, and that of all."""
_listener: ContextVar[Listener | None] = ContextVar("progress listener", default=None)


@contextmanager
def progress_to(listener: Listener) -> Generator[None]:
    """Report the progress of the work inside to a listener instead of bars; what it raises ends the work."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress_bar(items: Sequence[T], show: bool | None, what: str) -> Generator[Iterable[T]]:
    """The items, with a bar that appears after a second (``None``), at once (True) or never (False).

    A listener set by ``progress_to`` takes the place of the bar.
    """
    if (listener := _listener.get()) is not None:
        yield _told(items, listener, what)
        return
    if show is False or (show is None and not knobs.progress):
        yield items
        return
    shown = _shown(items, 0 if show else _DELAY_SECONDS, what)
    try:
        yield shown
    finally:
        shown.close()


def is_followed(show: bool | None) -> bool:
    """Whether somebody sees the progress of work from its beginning: a bar, or a listener."""
    return show is True or _listener.get() is not None


def _told(items: Sequence[T], listener: Listener, what: str) -> Generator[T]:
    for done, item in enumerate(items):
        listener(what, done, len(items))
        yield item


def _shown(items: Sequence[T], delay: float, what: str) -> Generator[T]:
    """The items; the bar is created, and its library loaded, only when it is to be shown."""
    start, done = monotonic(), 0
    while done < len(items) and monotonic() - start < delay:
        yield items[done]
        done += 1
    if done == len(items):
        return
    from tqdm import tqdm  # noqa: PLC0415

    rest, total = islice(items, done, None), len(items)
    with tqdm(rest, desc=what, total=total, initial=done, leave=False, file=_place()) as bar:
        yield from bar


def _place() -> TextIO:
    """The stream of bars, which are text in notebooks too: a saved one has no kernel for a widget."""
    is_notebook = type(sys.stdout).__module__.startswith("ipykernel")
    return sys.stdout if is_notebook else sys.stderr
