"""A recording as data for the pass explorer: one scene over all steps, and the details of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

from workbench.compiler.ir.rows import patched
from workbench.compiler.record.lowered import PART
from workbench.compiler.record.rule_source import rule_source
from workbench.widgets import label
from workbench.widgets.drawing import Drawing
from workbench.widgets.packing import Ints
from workbench.widgets.scene import Scene, scene_of
from workbench.widgets.text_diff import ADDED, CHANGED, REMOVED, Marks, Texts, cut, diff_of

AT_ONCE = 200_000
"""The most instructions of all states together that are laid out at once."""
SAID = 1000
"""The edits of a step that its list says in words; of another it is said when it is shown."""
LONGEST = 2**31 - 1
SOURCES = 40
"""The rules of a step whose source text is sent."""


class Steps:
    """The steps of a recording on one scene; the details of a step are computed when it is shown."""

    def __init__(self, recording: Any, step: int | None = None) -> None:
        """Replay the recording, and lay out its states: all, or if they are large those of one step.

        Args:
            recording: The recording.
            step: The step to show first; by default the first that changed something that is drawn.
        """
        self.recording = recording
        self.steps = list(recording.steps)
        self.rows = [recording.start]
        self.after: list[int] = []
        self._deltas: list[Sequence[Any]] = []
        """The edits behind each state but the last."""
        self._texts: dict[Any, Texts] = {}
        """The states that were drawn last, by number, or by step and edit."""
        self._marks: dict[int, Marks] = {}
        """Those of the step that was asked for last."""
        self._said: dict[int, Sequence[str]] = {}
        """The sentences of the step that was asked for last."""
        self.replaced: list[list[tuple[int, int]]] = []
        for one in self.steps:
            if one.edits:
                self.rows.append(_replayed(self.rows[-1], one.edits))
                self._deltas.append(one.edits)
                self.replaced.append([pair for e in one.edits for pair in e.replaced])
            self.after.append(len(self.rows) - 1)
        states = list(range(len(self.rows)))
        if sum(len(r.instructions) for r in self.rows) > AT_ONCE:
            first, last = self.at(self.first_visible() if step is None else step)
            states = states[first : last + 1]
            _ = self.kin  # it is made now, for the first jump has less time
        tables = [self.texts(state).drawing.table for state in states]
        self.scene: Scene = scene_of(tables, self.replaced[states[0] :])
        self.places = {state: k for k, state in enumerate(states)}
        """The number in the scene of each state that is laid out."""
        self.admitted: dict[tuple[int, int], int] = {}
        """The same for states within steps, by step and edit, that have instructions without a place."""

    def texts(self, state: int) -> Texts:
        """A state, drawn and ready to print."""
        return self._drawn(state, lambda: self.rows[state])

    def texts_within(self, k: int, edit: int) -> Texts:
        """The program after edit ``edit`` of step ``k`` (-1: before the first), drawn and ready to print."""
        before = self.rows[self.at(k)[0]]
        return self._drawn((k, edit), lambda: _replayed(before, self.steps[k].edits[: edit + 1]))

    def _drawn(self, key: Any, rows: Callable[[], Any]) -> Texts:
        """A state; those that were drawn last are kept, for the next step begins where one ends."""
        found = self._texts.pop(key, None)
        if found is None:
            made = rows()
            other = next(reversed(self._texts), None)
            last = None if other is None else self._texts[other].drawing
            touched = None if other is None else self._touched(self._point(other), self._point(key))
            found = Texts(made, Drawing.of(made, last, touched))
        self._texts = dict([*self._texts.items()][-1:]) | {key: found}
        return found

    @property
    def last(self) -> Texts:
        """The state that was drawn last."""
        return next(reversed(self._texts.values()))

    def touched_since_last(self, *states: int) -> set[int]:
        """The ids that edits touched between the state that was drawn last and each of some others."""
        last = self._point(next(reversed(self._texts)))
        return set[int]().union(*(self._touched(last, (state, 0)) for state in states))

    def _point(self, key: Any) -> tuple[int, int]:
        """A state as another one, and the number of edits behind it."""
        if isinstance(key, int):
            return key, 0
        k, edit = key
        return self.at(k)[0], edit + 1

    def _touched(self, *points: tuple[int, int]) -> set[int]:
        """The ids that edits between two states touched."""
        (first, _), (last, _) = ends = sorted(points)
        edits = [self._deltas[state] for state in range(first, last)]
        edits += [self._deltas[state][:count] for state, count in ends if count]
        return set[int]().union(*(edit.rows for some in edits for edit in some))

    def shown(self, k: int) -> tuple[int, int]:
        """The numbers in the scene of the states before and after step ``k``; it grows if they are new."""
        first, last = (self._place(state) for state in self.at(k))
        return first, last

    def is_laid_out(self, k: int) -> bool:
        """Whether the scene has the states before and after step ``k``."""
        return all(state in self.places for state in self.at(k))

    def _place(self, state: int) -> int:
        if state not in self.places:
            self.places[state] = self.scene.add(self.texts(state).drawing.table, self.kin)
        return self.places[state]

    def admit(self, k: int, edit: int) -> None:
        """Lay out the state after an edit within step ``k``; the scene grows."""
        table = self.texts_within(k, edit).drawing.table
        self.admitted[k, edit] = self.scene.add(table, self.kin)

    @cached_property
    def kin(self) -> dict[int, list[int]]:
        """For each id those that it replaced, and the one that replaced it."""
        kin: dict[int, list[int]] = {}
        for old, new in (pair for pairs in self.replaced for pair in pairs):
            kin.setdefault(new, []).append(old)
            kin.setdefault(old, []).append(new)
        return kin

    def overview(self) -> list[dict[str, Any]]:
        """One line per step, for the timeline."""
        return [
            {
                "name": label.clipped(step.name, 80),
                "changed": bool(step.edits) or _lowered(step) is not None,
                "edits": len(step.edits),
                "made": [id for edit in step.edits for id in edit.added],
                "before": step.before_count.main,
                "after": step.after_count.main,
                "inside": step.after_count.inside,
                "ms": step.seconds * 1e3,
                "error": getattr(step, "error", ""),
            }
            for step in self.steps
        ]

    def at(self, k: int) -> tuple[int, int]:
        """The states of the program before and after step ``k``."""
        if not self.steps:
            return (0, 0)
        return (self.after[k - 1] if k else 0, self.after[k])

    def first_changed(self) -> int:
        """The first step that changed something, or 0."""
        return next((k for k, s in enumerate(self.steps) if s.edits), 0)

    def first_visible(self) -> int:
        """The first step that changed something drawn in the main module; else the first that changed."""
        found = (k for k, step in enumerate(self.steps) if step.edits and self.is_visible(k))
        return next(found, self.first_changed())

    def is_visible(self, k: int) -> bool:
        """Whether the main module's nodes differ by more than attributes and constants after step ``k``."""
        touched = {id for marks in self.marks(k) for id in marks}
        heir = dict(pair for edit in self.steps[k].edits for pair in edit.replaced)
        before, after = (
            Counter(_drawn(row, heir) for id in touched if (row := rows.get(id)) and _is_node(row))
            for rows in (self.rows[i].instructions for i in self.at(k))
        )
        return before != after

    def marks(self, k: int) -> Marks:
        """The marks of step ``k`` by id: removed or changed before it, and added or changed after it."""
        if k not in self._marks:
            first, last = (self.rows[i] for i in self.at(k))
            self._marks = {k: marks_of(first, last, self.steps[k].edits if self.steps else ())}
        return self._marks[k]

    def said(self, k: int, edit: int) -> str:
        """The effect of an edit of step ``k`` in words."""
        if k not in self._said:
            self._said = {k: self.steps[k].sentences_from(lambda: self._begun(k))}
        return label.clipped(self._said[k][edit], 300)

    def _begun(self, k: int) -> tuple[Any, dict[int, list[int]]]:
        """The rows before step ``k``, and the ids of each module."""
        texts = self.texts(self.at(k)[0])
        return texts.rows, texts.drawing.order

    def detail(self, k: int) -> dict[str, Any]:
        """Everything that the view shows of one step."""
        step = self.steps[k]
        for state in self.at(k) if step.edits else ():
            self.texts(state)  # in this order: the second differs from the first by the edits alone
        first, last = self.shown(k)
        gone, come = self.marks(k)
        lowered = _lowered(step)
        words = in_words((gone, come))
        return {
            "index": k,
            "versions": len(self.scene.versions),
            "before": Ints(self.scene.steps[first]),
            "after": Ints(self.scene.steps[last]),
            "gone": self.scene.by_version(self.scene.steps[first], gone),
            "come": self.scene.by_version(self.scene.steps[last], come),
            "replaced": [list(pair) for e in step.edits for pair in e.replaced],
            "summary": words if lowered is None else lowered.summary,
            "edits": edit_columns(step.edits)
            | {"said": [self.said(k, e) for e in range(len(step.edits))[:SAID]]},
            "misses": [_miss(m) for m in step.recorded_misses],
            "laws": laws(step.edits),
            "sources": _sources(step),
            "lowered": [_lowered_row(r) for r in lowered or ()],
            "diff": self.diff(k) if lowered is None else self.lowering(k),
        }

    def diff(self, k: int) -> list[list[Any]]:
        """The text diff of step ``k``: removed, added and changed rows, each with a row of context."""
        before, after = map(self.texts, self.at(k))
        return diff_of(before, after, self.marks(k))

    def lowering(self, k: int) -> list[list[Any]]:
        """The outcome of step ``k``, the lowering, for each instruction that is not inside a kernel."""
        texts = self.texts(self.at(k)[1])
        shown = (r for r in self.steps[k].lowered if r.kind != PART and r.id in texts.named)
        rows = (["~", r.id, texts[r.id], label.clipped(str(r), 600)] for r in shown)
        return cut(rows, "more instructions")


def _lowered(step: Any) -> Any:
    """The lowering of the program, if the step is the lowering."""
    return getattr(step, "lowered", None)


def _lowered_row(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "became": label.clipped(row.became, 300),
        "place": label.clipped(", ".join(map(str, row.places)), 300),
    }


def edit_columns(edits: Sequence[Any]) -> dict[str, Any]:
    """Edits as columns: the rule, the time in 100 ns, and the ids added, removed and changed."""
    rules: dict[tuple[Any, ...], int] = {}
    numbers = [rules.setdefault((e.rule, e.law, e.file, e.line), len(rules)) for e in edits]
    ids = [ids for e in edits for ids in (e.added, e.removed, e.changed)]
    return {
        "rules": [(rule, label.clipped(law, 300), *place) for rule, law, *place in rules],
        "rule": Ints(numbers),
        "time": Ints(min(int(e.seconds * 1e7), LONGEST) for e in edits),
        "ids": Ints(chain.from_iterable(ids)),
        "ends": Ints(accumulate(map(len, ids))),
    }


def _replayed(rows: Any, edits: Sequence[Any]) -> Any:
    return replace(
        rows,
        modules=patched(rows.modules, (e.modules for e in edits)),
        instructions=patched(rows.instructions, (e.rows for e in edits)),
    )


def marks_of(
    before: Any, after: Any, edits: Sequence[Any], ids: Iterable[int] | None = None
) -> Marks:
    """The marks by id, between two states and the edits that lead from one to the other.

    Args:
        before: The rows before the edits.
        after: The rows after them.
        edits: The edits.
        ids: Those to mark; by default all that differ.
    """
    gone: dict[int, int] = {}
    come: dict[int, int] = {}
    heir = dict(pair for edit in edits for pair in edit.replaced)
    touched = set[int]().union(*(edit.rows for edit in edits)) if ids is None else ids
    for id in sorted(touched):
        old, new = before.instructions.get(id), after.instructions.get(id)
        if old is new:
            continue
        if old is not None and (new is None or new.module != old.module):
            gone[id] = REMOVED
        if new is not None and old is None:
            come[id] = ADDED
        if old is not None and new is not None and _differs(old, new, heir):
            come[id] = CHANGED
            gone.setdefault(id, CHANGED)
    return gone, come


def _is_node(row: Any) -> bool:
    """Whether an instruction is in the main module, and no constant of the model."""
    return not row.module and row.literal is None


def _drawn(row: Any, heir: dict[int, int]) -> tuple[Any, ...]:
    """The operation and the inputs of an instruction; what replaced an input counts as that input."""
    return row.op.name, tuple(_last_heir(i, heir) for i in row.inputs)


def _differs(old: Any, new: Any, heir: dict[int, int]) -> bool:
    """Whether anything changed but the position in the order and inputs that were replaced."""
    if (old.op, old.modules, old.shape, old.module) != (new.op, new.modules, new.shape, new.module):
        return True
    return old.inputs != new.inputs and (
        [_last_heir(i, heir) for i in old.inputs] != [_last_heir(i, heir) for i in new.inputs]
    )


def _last_heir(id: int, heir: dict[int, int]) -> int:
    if id not in heir:
        return id
    seen = {id}
    while (following := heir.get(id)) is not None and following not in seen:
        seen.add(id := following)
    return id


def _miss(miss: Any) -> dict[str, Any]:
    return {
        "rule": miss.rule,
        "reason": label.clipped(miss.reason, 300),
        "instruction": int(getattr(miss.instruction, "id", miss.instruction)),
        "file": miss.file,
        "line": miss.line,
    }


def laws(edits: Iterable[Any]) -> list[dict[str, Any]]:
    """The laws that edits applied, with their counts."""
    listed = list(edits)
    counts = Counter(e.rule for e in listed)
    found = {e.rule: e for e in listed if e.law}
    return [
        {
            "rule": e.rule,
            "law": label.clipped(e.law, 300),
            "count": counts[e.rule],
            "file": e.file,
            "line": e.line,
        }
        for e in found.values()
    ]


def _sources(step: Any) -> dict[str, Any]:
    """The source text of the rules of a step's edits and near misses, by file and line."""
    places = dict.fromkeys((e.file, e.line) for e in (*step.edits, *step.recorded_misses) if e.file)
    found = {f"{f}:{n}": rule_source(f, n, step.pass_) for f, n in list(places)[:SOURCES]}
    return {place: source for place, source in found.items() if source is not None}


def in_words(marks: Marks) -> str:
    """``2 added, 1 removed``."""
    gone, come = marks
    counts = Counter(come.values()) + Counter({REMOVED: sum(m == REMOVED for m in gone.values())})
    words = enumerate(("added", "removed", "changed"))
    return ", ".join(f"{counts[m]} {w}" for m, w in words if counts[m]) or "nothing changed"
