"""The states of a program within a pass, after each of its edits, on the scene of the whole recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from workbench.widgets.nodes import Node, Table
from workbench.widgets.scene import FAMILIES, Scene, node_width
from workbench.widgets.steps import Steps, in_words, marks_of
from workbench.widgets.text_diff import Marks, Texts, diff_of

PAGE_ROWS = 300_000
"""The rows of all states that an offline page stores; passes beyond them are shown as a whole only."""


Found = TypeVar("Found")


class NoRoomError(Exception):
    """The scene has no place for an instruction that is there only within a step."""

    def __init__(self, k: int, edit: int) -> None:
        """Name the step and the edit."""
        super().__init__(f"no place for an instruction after edit {edit} of step {k}")
        self.k, self.edit = k, edit


class StatesWithin:
    """The states within steps on a scene that grows: as states are laid out, and where there is no room."""

    def __init__(self, steps: Steps) -> None:
        """Nothing is made yet."""
        self.steps = steps
        self._made: EditStates | None = None

    def ask(self, question: Callable[[EditStates], Found]) -> Found:
        """The answer of the states on the scene as it is, which grows until it has room for them."""
        while True:
            if self._made is None or not self._made.is_current:
                self._made = EditStates(self.steps)
            try:
                return question(self._made)
            except NoRoomError as full:
                self.steps.admit(full.k, full.edit)


class EditStates:
    """The states within the steps of a recording; each is made when it is asked for.

    An instruction keeps the slot that it has before or after the pass. One that is there only in between gets
    that of what it replaced or of what replaced it, else a free one near its inputs, and keeps it.
    """

    def __init__(self, steps: Steps) -> None:
        """Nothing is made yet."""
        self.steps = steps
        scene = steps.scene
        self._pairs = list(zip(scene.versions, scene.slots, strict=True))
        self._known = len(self._pairs)
        self._versions = {pair: v for v, pair in enumerate(self._pairs)}
        self._between: dict[tuple[int, int, bool], int] = {}
        """The slots of instructions that are there only within a step."""
        self._main_slots: list[int] | None = None

    @property
    def is_current(self) -> bool:
        """Whether the scene is that for which these were begun; it grows as states are laid out."""
        return len(self.steps.scene.versions) == self._known

    def has(self, k: int) -> bool:
        """Whether step ``k`` has edits that can be made one by one."""
        return 0 <= k < len(self.steps.steps) and bool(self.steps.steps[k].edits)

    def data(self, k: int, first: int, last: int) -> dict[str, Any]:
        """The states of step ``k`` after the edits ``first`` to ``last``; -1 is the state before all edits.

        Each state tells how many versions it shares with the start and with the end of the one before it, and
        those between; the first is compared with the state before the step. Marks and the text diff lead to
        each but the first.

        Raises:
            NoRoomError: An instruction has no place.
        """
        scene, edits = self.steps.scene, self.steps.steps[k].edits
        order: Sequence[int] = scene.steps[self.steps.shown(k)[0]]
        states: list[Any] = []
        marks: list[Any] = []
        diffs: list[Any] = []
        made: dict[int, dict[str, Any]] = {}
        modules: dict[int, str] = {}
        texts: Texts | None = None
        for edit in range(first, last + 1):
            before, texts = texts, self.steps.texts_within(k, edit)
            table = texts.drawing.table
            state = self._state(k, edit, table)
            states.append(_changed(order, state))
            if before is not None:
                there = dict(zip(table.order, state, strict=True))
                change = marks_of(before.rows, texts.rows, [edits[edit]])
                marks.append(self._marked(change, order, there))
                said = f"{self.steps.said(k, edit)}: {in_words(change)}"
                diffs.append([said, diff_of(before, texts, change)])
            made |= {
                v: _version(scene, v, *self._pairs[v])
                for v in state
                if v >= self._known and v not in made
            }
            modules |= {m: n for m, n in table.modules.items() if scene.modules.get(m) != n}
            order = state
        return {"index": k, "first": first, "scene": self._known, "states": states, "marks": marks,
                "diffs": diffs, "versions": list(made.values()), "modules": modules}  # fmt: skip

    def stored(self) -> dict[int, dict[str, Any]]:
        """The states of all steps for an offline page, by step, as far as they fit."""
        room, found = PAGE_ROWS, dict[int, dict[str, Any]]()
        for k in filter(self.has, range(len(self.steps.steps))):
            count = len(self.steps.steps[k].edits)
            size = (count + 1) * len(self.steps.scene.steps[self.steps.shown(k)[0]])
            if size <= room:
                room -= size
                found[k] = self.data(k, -1, count - 1)
        return found

    def _marked(self, marks: Marks, order: Iterable[int], there: dict[int, int]) -> list[Any]:
        """The marks of an edit by version: before it, and after it."""
        old = {self._pairs[v][0].id: v for v in order}
        return [
            [[place[id], mark] for id, mark in found.items() if id in place]
            for found, place in zip(marks, (old, there), strict=True)
        ]

    # Versions and slots

    def _state(self, k: int, edit: int, table: Table) -> list[int]:
        """The versions after an edit; those of the first and the last state are the step's own."""
        steps, last = self.steps, len(self.steps.steps[k].edits) - 1
        if edit in (-1, last):
            return list(steps.scene.steps[steps.shown(k)[edit == last]])
        if (k, edit) in steps.admitted:
            return list(steps.scene.steps[steps.admitted[k, edit]])
        slots = self._slots(k, edit, table)
        return [
            self._version(table.nodes.get(id) or table.hoisted[id], slots.get(id, -1))
            for id in table.order
        ]

    def _version(self, node: Node, slot: int) -> int:
        v = self._versions.setdefault((node, slot), len(self._pairs))
        if v == len(self._pairs):
            self._pairs.append((node, slot))
        return v

    def _slots(self, k: int, edit: int, table: Table) -> dict[int, int]:
        """The slot of each node of a state within step ``k``."""
        first, last = map(self._homes, self.steps.shown(k))
        others = [self._homes(n) for (step, _), n in self.steps.admitted.items() if step == k]
        nodes = [node for id in table.order if (node := table.nodes.get(id))]
        found = {n.id: s for n in nodes if (s := first.get(_key(n))) is not None}
        taken = set(found.values())
        pairs = [pair for edit in self.steps.steps[k].edits for pair in edit.replaced]
        old_of, new_of = {b: a for a, b in pairs}, dict(pairs)
        for node in (n for n in nodes if n.id not in found):
            wanted = [self._between.get((k, *_key(node)))]
            wanted += [there.get(_key(node)) for there in (last, *others)]
            if not node.module:
                wanted += [first.get((i, True)) for i in _chain(node.id, old_of)]
                wanted += [last.get((i, True)) for i in _chain(node.id, new_of)]
            slot = next((s for s in wanted if s is not None and s not in taken), None)
            if slot is None and not node.module:
                slot = self._free(node, found, taken)
            if slot is None:
                raise NoRoomError(k, edit)
            found[node.id] = self._between[k, *_key(node)] = slot
            taken.add(slot)
        return found

    def _homes(self, state: int) -> dict[tuple[int, bool], int]:
        """The slots of a state's nodes, by id and whether they are in the main module."""
        pairs = (self._pairs[v] for v in self.steps.scene.steps[state])
        return {_key(node): slot for node, slot in pairs if slot >= 0}

    def _free(self, node: Node, found: dict[int, int], taken: set[int]) -> int | None:
        """A free slot of the main module near the first input's."""
        if self._main_slots is None:
            graph = self.steps.scene.graph
            self._main_slots = [s for s, g in enumerate(graph.parent) if not _is_inside(graph, g)]
        near = next((found[i] for i in node.inputs if i in found), 0)
        free = (s for s in self._main_slots if s not in taken)
        return min(free, key=lambda s: abs(s - near - 0.5), default=None)


def _key(node: Node) -> tuple[int, bool]:
    """A node's id, and whether it is in the main module: a pass may move it into a body."""
    return node.id, not node.module


def _chain(id: int, following: dict[int, int]) -> Iterable[int]:
    """The ids that follow an id, one after the other, each once."""
    seen = {id}
    while (next_id := following.get(id)) is not None and next_id not in seen:
        seen.add(id := next_id)
        yield id


def _changed(before: Sequence[int], after: Sequence[int]) -> list[Any]:
    """The lengths of what both lists begin and end with, and what is between these in the second."""
    least = min(len(before), len(after))
    head = next((k for k in range(least) if before[k] != after[k]), least)
    rest = least - head
    tail = next((k for k in range(rest) if before[-1 - k] != after[-1 - k]), rest)
    return [head, tail, list(after[head : len(after) - tail])]


def _is_inside(graph: Any, g: int) -> bool:
    """Whether a group, or one around it, is the body of an instruction."""
    while g >= 0:
        if graph.groups[g].kind == "module":
            return True
        g = graph.groups[g].parent
    return False


def _version(scene: Scene, v: int, node: Node, slot: int) -> dict[str, Any]:
    """A version that the scene's columns do not have, as the browser decodes one from them."""
    named = [(name, scene.source_nodes.get(name)) for name in node.sources]
    return {
        "v": v, "id": node.id, "slot": slot, "module": node.module, "title": node.title, "fact": node.fact,
        "family": FAMILIES.index(node.family) if node.family in FAMILIES else 5, "opens": bool(node.bodies),
        "width": node_width(node), "inputs": list(node.inputs), "arguments": list(node.arguments),
        "shape": node.shape, "text": node.text, "chips": [chip._asdict() for chip in node.chips],
        "sources": [
            {"name": name, "op": s and str(s.op_type), "scope": s and "/".join(s.scope)} for name, s in named
        ],
    }  # fmt: skip
