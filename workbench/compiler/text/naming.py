"""Printed names in messages: reasons are recorded with ids, `dot #7`, and shown with names, `dot @3`."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ID = re.compile(r"(?<![^\s(\[,])#(\d+)\b")

_keeps_ids: ContextVar[bool] = ContextVar("keeps_ids", default=False)


@contextmanager
def ids_kept() -> Generator[None]:
    """Messages that are made inside keep their ids: a view shows its own names in place of them, as links."""
    token = _keeps_ids.set(True)
    try:
        yield
    finally:
        _keeps_ids.reset(token)


def resolved(text: str, *tables: Mapping[int, str]) -> str:
    """A text with each ``#id`` as the printed name in the first table that has it.

    An id that no table has stays as it is; inside ``ids_kept`` all do.
    """
    if _keeps_ids.get():
        return text
    return _ID.sub(lambda found: name_of(int(found[1]), *tables), text)


def name_of(id: int, *tables: Mapping[int, str]) -> str:
    """The printed name of an instruction in the first table that has it; ``#id`` if none has."""
    return next((table[id] for table in tables if id in table), f"#{id}")


def ids_in(text: str) -> list[int]:
    """The ids that a recorded text names, in its order."""
    return [int(id) for id in _ID.findall(text)]
