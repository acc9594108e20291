"""The text diff of two states of a program: rows that changed by more than their place, with neighbours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from workbench.compiler.text.printing import RowNames, row_text
from workbench.widgets import label
from workbench.widgets.drawing import Drawing

ADDED, REMOVED, CHANGED = range(3)
Marks = tuple[dict[int, int], dict[int, int]]
Marked = Mapping[int, int]
DIFF_LIMIT = 2000
"""The most rows of a text diff: each is an element of the page."""
FOLD = "…"
"""The kind of what stands for unchanged rows."""


class Texts:
    """The lines of a state: its ids in printing order, and the text of each that is asked for."""

    def __init__(self, rows: Any, drawing: Drawing) -> None:
        """Print none yet; ``drawing`` is that of the rows."""
        self.rows, self.drawing = rows, drawing

    @cached_property
    def named(self) -> RowNames:
        """The name of each instruction."""
        return RowNames(self.rows, self.drawing.order)

    @cached_property
    def ids(self) -> list[int]:
        """The ids in printing order."""
        order, callers, rows = self.drawing.order, self.drawing.callers, self.rows.instructions
        reached: dict[int, None] = {}
        stack = [0]
        while stack:
            if (module := stack.pop()) not in reached:
                reached[module] = None
                found = (rows[id].modules for id in reversed(callers.get(module, ())))
                stack += [m for modules in found for m in reversed(modules)]
        modules = reached | dict.fromkeys(sorted(self.rows.modules))
        return [id for m in modules for id in order.get(m, ())]

    def __getitem__(self, id: int) -> str:
        """The line of an instruction."""
        return label.clipped(row_text(self.rows, id, self.named), 600)


def diff_of(before: Texts, after: Texts, marks: Marks) -> list[list[Any]]:
    """The rows of the text diff between two states."""
    if not any(marks):
        return []
    return cut(_rows(before, after, marks), "more rows differ")


def cut(rows: Iterable[list[Any]], rest: str) -> list[list[Any]]:
    """The first rows; if there are more, the last says so."""
    found = list(islice(rows, DIFF_LIMIT + 1))
    if len(found) > DIFF_LIMIT:
        found[DIFF_LIMIT:] = [[FOLD, None, rest]]
    return found


def _rows(before: Texts, after: Texts, marks: Marks) -> Iterator[list[Any]]:
    for kind, id in merged(before.ids, after.ids, *marks):
        if kind == FOLD:
            yield [FOLD, None, f"{id:,} unchanged row{'' if id == 1 else 's'}"]
        elif kind == "~":
            yield [kind, id, before[id], after[id]]
        else:
            yield [kind, id, (before if kind == "-" else after)[id]]


def merged(
    before: Sequence[int], after: Sequence[int], gone: Marked, come: Marked
) -> Iterator[tuple[str, int]]:
    """One list of two: the order after the step, with removed rows behind their former predecessors.

    Of the unchanged rows it has the neighbours of others, and the numbers of those between.
    """
    behind = _behind(before, gone)
    yield from (("-", id) for id in behind.get(None, ()))
    last = -1
    for k in _near(after, behind, gone, come):
        if not last < k < len(after):
            continue
        if k > last + 1:
            yield FOLD, k - last - 1
        id = after[k]
        is_new = come.get(id) == ADDED or gone.get(id) == REMOVED
        yield "+" if is_new else "~" if id in come else "=", id
        yield from (("-", other) for other in behind.get(id, ()))
        last = k
    if last + 1 < len(after):
        yield FOLD, len(after) - last - 1


def _near(
    after: Sequence[int], behind: Collection[int | None], gone: Marked, come: Marked
) -> Iterator[int]:
    """The places of rows that differ and of their neighbours, some more than once."""
    if None in behind:
        yield 0
    for k, id in enumerate(after):
        differs = id in come or id in gone
        if differs:
            yield k - 1
        if differs or id in behind:
            yield k
            yield k + 1


def _behind(before: Iterable[int], gone: Mapping[int, int]) -> dict[int | None, list[int]]:
    """The removed rows behind each row that stays; None stands for the start."""
    removed = {id for id, mark in gone.items() if mark == REMOVED}
    behind: dict[int | None, list[int]] = {}
    kept: int | None = None
    for id in before if removed else ():
        if id in removed:
            behind.setdefault(kept, []).append(id)
        else:
            kept = id
    return behind
