"""Progress bars on long work, shown only when the work turns out to be long."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
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
    from tqdm.auto import tqdm  # noqa: PLC0415

    with tqdm(items, desc=what, delay=0 if show else _DELAY_SECONDS, leave=False) as bar:
        yield bar
