"""Progress bars, shown only for work that takes long."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice
from time import monotonic
from typing import TypeVar

from workbench.knobs import knobs

T = TypeVar("T")

_DELAY_SECONDS = 1.0


@contextmanager
def progress_bar(items: Sequence[T], show: bool | None, what: str) -> Generator[Iterable[T]]:
    """The items, with a bar that appears after a second (``None``), at once (True) or never (False)."""
    if show is False or (show is None and not knobs.progress):
        yield items
        return
    shown = _shown(items, 0 if show else _DELAY_SECONDS, what)
    try:
        yield shown
    finally:
        shown.close()


def _shown(items: Sequence[T], delay: float, what: str) -> Generator[T]:
    """The items; the bar is created, and its library loaded, only when it is to be shown."""
    start, done = monotonic(), 0
    while done < len(items) and monotonic() - start < delay:
        yield items[done]
        done += 1
    if done == len(items):
        return
    from tqdm.auto import tqdm  # noqa: PLC0415

    rest = islice(items, done, None)
    with tqdm(rest, desc=what, total=len(items), initial=done, leave=False) as bar:
        yield from bar
