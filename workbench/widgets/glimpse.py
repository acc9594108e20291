"""A large step as far as it shows: what is outside closed groups is drawn first, the rest comes after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from workbench.compiler.ir.rows import patched
from workbench.widgets.drawing import Drawing
from workbench.widgets.packing import Ints
from workbench.widgets.scopes import Graph
from workbench.widgets.steps import Steps, edit_columns, marks_of
from workbench.widgets.text_diff import FOLD
from workbench.widgets.union import MOST_SEEN

LARGE = 5_000
"""A step that touches fewer rows is drawn as a whole: that takes about 0.3 s at most."""
SHARE = 4
"""A step is drawn as a whole, too, if more of its rows show than one in so many."""


class Glimpse:
    """The states around a step in which only rows that show differ from the state that was drawn last."""

    def __init__(self, steps: Steps, k: int, opened: Collection[str]) -> None:
        """Find the rows that differ in step ``k`` from the state that was drawn last.

        Args:
            steps: The steps of the recording.
            k: The number of the step.
            opened: The keys of the groups that are open.
        """
        self.steps, self.k, self.opened = steps, k, opened
        self.states = steps.at(k)
        self.fresh = [
            steps.rows[state].instructions for state in self.states if state not in steps.places
        ]
        """The rows of those of the two states that are not laid out yet."""
        self.touched = steps.touched_since_last(*self.states)

    @property
    def is_of_use(self) -> bool:
        """Whether it is a large step, of which little shows."""
        size = len(self.touched) if self.fresh else 0
        return size >= LARGE and len(self.shown) * SHARE < size

    @cached_property
    def shown(self) -> set[int]:
        """The touched ids that show, and those that are needed to draw these."""
        found = self._known() | self._loose()
        waiting = [*found]
        for id in waiting:
            more = [i for i in self._needed(id) if i in self.touched and i not in found]
            found.update(more)
            waiting += more
        return found

    def _known(self) -> set[int]:
        """The touched ids that were ever drawn where it shows, and those of the constants on them."""
        scene = self.steps.scene
        places = np.array(self._shows)[np.array(scene.slots, np.int32)].nonzero()[0]
        nodes = [scene.versions[v] for v in places.tolist()]
        found = {node.id for node in nodes}.union(*(node.arguments for node in nodes))
        return found & self.touched

    def _loose(self) -> set[int]:
        """The new ids that replace none, and that use what shows: they may be outside closed groups."""
        here, shows, found = self._here, self._shows, set[int]()
        for row in chain.from_iterable(self._new):
            if row.inputs and not row.module:
                uses = any(i in found or shows[here.get(i, -1)] for i in row.inputs)
                if uses and self._forebear(row.id) == row.id:
                    found.add(row.id)
        return found

    @cached_property
    def _new(self) -> list[list[Any]]:
        """The rows of these states that the state drawn last has not, by id."""
        new = sorted(self.touched - self.steps.last.rows.instructions.keys())
        return [[row for id in new if (row := rows.get(id))] for rows in self.fresh]

    @cached_property
    def _here(self) -> dict[int, int]:
        return self.steps.scene.union.here

    @cached_property
    def _shows(self) -> list[bool]:
        """Whether each slot shows; the last stands for none."""
        return [*shown(self.steps.scene.graph, self.opened), False]

    def _needed(self, id: int) -> Iterable[int]:
        """The ids without which a row would be drawn wrongly."""
        last, here = self.steps.last, self._here
        there = last.rows.instructions
        forebear = id if id in there else self._forebear(id)
        if forebear != id:
            yield forebear  # its slot becomes free
        slot = here.get(id, here.get(forebear, -1))
        if slot >= 0 and not self._shows[slot]:
            return
        for rows, (members, owners) in zip(self.fresh, self._bodies, strict=True):
            row = rows.get(id)
            if row is None:
                yield from () if slot < 0 else last.drawing.users.get(id, ())
                continue
            yield from (i for i in row.inputs if here.get(i, -1) < 0 or _is_away(there.get(i), row))
            yield from owners.get(row.module, ())
            for module in row.modules:
                yield from members.get(module, ())

    def _forebear(self, id: int) -> int:
        """The drawn id that a new one stands for, or the new one itself if there is none."""
        there, kin = self.steps.last.rows.instructions, self.steps.kin
        seen = [id]
        for other in seen:
            if other in there:
                return other
            seen += [i for i in kin.get(other, ()) if i not in seen][: MOST_SEEN - len(seen)]
        return id

    @cached_property
    def _bodies(self) -> list[tuple[dict[int, list[int]], dict[int, list[int]]]]:
        """For each of these states the touched ids in each body, and those of its owners."""
        found: list[tuple[dict[int, list[int]], dict[int, list[int]]]] = []
        for rows in self.fresh:
            members, owners = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
            for row in filter(None, map(rows.get, self.touched)):
                if row.module:
                    members[row.module].append(row.id)
                if row.modules:
                    for module in row.modules:
                        owners[module].append(row.id)
            found.append((members, owners))
        return found

    def detail(self) -> dict[str, Any]:
        """The part of `Steps.detail` that the view has first; the scene grows by what that needs."""
        steps, scene = self.steps, self.steps.scene
        before, after = self._orders()
        first, last = (steps.rows[state] for state in self.states)
        gone, come = marks_of(first, last, steps.steps[self.k].edits, self.shown)
        return {
            "index": self.k,
            "partial": "…",
            "versions": len(scene.versions),
            "before": Ints(before),
            "after": Ints(after),
            "gone": scene.by_version(before, gone),
            "come": scene.by_version(after, come),
            "replaced": [],
            "summary": "The rest of this pass is loading.",
            "edits": edit_columns(()) | {"said": []},
            **dict.fromkeys(("misses", "laws", "lowered"), ()),
            "sources": {},
            "diff": [[FOLD, None, "loading"]],
        }

    def _orders(self) -> list[list[int]]:
        """The versions of both states; hidden rows that differ are as they were drawn last."""
        steps, scene = self.steps, self.steps.scene
        last = steps.last
        drawing, found = last.drawing, list[list[int]]()
        for state in self.states:
            if state in steps.places:
                found.append(scene.steps[steps.places[state]])
            else:
                drawing = Drawing.of(self._mixed(steps.rows[state]), drawing, self.shown)
                found.append(scene.pass_by(drawing.table, steps.kin))
        return found

    def _mixed(self, rows: Any) -> Any:
        """A state's rows as far as they show, and constants that are gone; of the others those drawn last."""
        last, here, now = self.steps.last.rows, self._here, rows.instructions
        changes = {i: row for i in self.shown if (row := now.get(i)) or here.get(i, -1) >= 0}
        mixed = patched(last.instructions, [changes])
        return replace(rows, instructions=mixed, modules=last.modules | rows.modules)


def _is_away(was: Any, user: Any) -> bool:
    """Whether a row was not drawn beside its user."""
    return was is None or was.module != user.module


def shown(graph: Graph, opened: Collection[str]) -> list[bool]:
    """Whether each slot is outside of all closed scopes, or has an edge that is."""
    around = np.array([*_closed(graph, opened), -1])[graph.parent]
    shows = around < 0
    ends = np.fromiter(chain.from_iterable(graph.edges), np.int32).reshape(-1, 2)
    shows[ends[around[ends[:, 0]] != around[ends[:, 1]]]] = True
    return shows.tolist()


def _closed(graph: Graph, opened: Collection[str]) -> list[int]:
    """For each group the outermost closed scope that is it or around it, or -1; bodies count as open."""
    groups = graph.groups
    known = {-1: -1}

    def closed(k: int) -> int:
        if k not in known:
            group = groups[k]
            is_open = group.kind != "scope" or group.key in opened
            around = closed(group.parent)
            known[k] = around if around >= 0 or is_open else k
        return known[k]

    return [closed(k) for k in range(len(groups))]
