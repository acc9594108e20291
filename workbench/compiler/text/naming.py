"""Printed names in messages: reasons are recorded with ids, `dot #7`, and shown with names, `dot @3`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ID = re.compile(r"(?<![^\s(\[,])#(\d+)\b")


def resolved(text: str, *tables: Mapping[int, str]) -> str:
    """A text with each ``#id`` as the printed name in the first table that has it.

    An id that no table has stays as it is.
    """
    return _ID.sub(lambda found: name_of(int(found[1]), *tables), text)


def name_of(id: int, *tables: Mapping[int, str]) -> str:
    """The printed name of an instruction in the first table that has it; ``#id`` if none has."""
    return next((table[id] for table in tables if id in table), f"#{id}")


def ids_in(text: str) -> list[int]:
    """The ids that a recorded text names, in its order."""
    return [int(id) for id in _ID.findall(text)]
