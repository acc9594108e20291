"""Bookmarks with notes: instructions and passes to come back to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.widgets import label

if TYPE_CHECKING:
    from pandas import DataFrame

Bookmark = list[Any]
"""The id of an instruction or None, the index of a pass or None, and a note."""
LONGEST_NOTE = 500
MOST = 1_000


def checked(value: Iterable[Any]) -> list[Bookmark]:
    """Bookmarks in their form.

    Raises:
        ValueError: One of them is none.
    """
    if isinstance(value, (str, Mapping)):
        raise ValueError(f"bookmarks {value!r}: expected a list")
    listed = [list(one) if isinstance(one, Sequence) else [] for one in value]
    for one in listed:
        if len(one) != 3 or not (
            _is_place(one[0]) and _is_place(one[1]) and isinstance(one[2], str)
        ):
            raise ValueError(
                f"bookmark {one!r}: expected an id or None, a pass or None, and a note"
            )
    return [[id, step, note[:LONGEST_NOTE]] for id, step, note in listed[:MOST]]


def _is_place(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def frame(
    bookmarks: Iterable[Bookmark], facts: Mapping[int, Any], passes: Sequence[str]
) -> DataFrame:
    """The bookmarks as a table.

    Args:
        bookmarks: The bookmarks.
        facts: What is known of each instruction that is shown, by id.
        passes: The names of the passes.
    """
    from pandas import DataFrame  # noqa: PLC0415

    rows = [
        {
            "id": id,
            "instruction": fact.name if (fact := facts.get(id)) is not None else "",
            "operation": fact.title if fact is not None else "",
            "nodes": ", ".join(s.name for s in fact.sources) if fact is not None else "",
            "pass": label.clipped(_name_of(step, passes), 80),
            "note": note,
        }
        for id, step, note in bookmarks
    ]
    columns = ["id", "instruction", "operation", "nodes", "pass", "note"]
    return DataFrame(rows, columns=columns).astype({"id": "Int64"})


def _name_of(step: int | None, passes: Sequence[str]) -> str:
    return passes[step] if step is not None and 0 <= step < len(passes) else ""
