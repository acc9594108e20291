"""A recording of what passes do: steps, edits, near misses and lineage, rebuilt from rows on demand."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from workbench.compiler.ir import Instruction, Module
from workbench.compiler.lineage import Lineage, Relations
from workbench.compiler.passes.base import Pass
from workbench.compiler.program import Program
from workbench.compiler.rewrite import Rule
from workbench.compiler.rows import ModuleRow, Row, Rows, build, row_of

if TYPE_CHECKING:
    from pandas import DataFrame

_OWN_FILES = ("ir.py", "program.py", "recording.py", "rewrite.py", "contextlib.py")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a program, made by one rule (or one statement of a pass) at one place."""

    index: int
    rule: str
    law: str
    file: str
    line: int
    rows: dict[int, Row | None]
    """The new row of every instruction that changed; None where it is gone."""
    added: tuple[int, ...]
    removed: tuple[int, ...]
    changed: tuple[int, ...]
    moved: tuple[int, ...]
    replaced: tuple[tuple[int, int], ...]
    """Pairs of ids: the second computes what the first computed."""
    seconds: float
    modules: dict[int, ModuleRow | None] = field(default_factory=dict[int, "ModuleRow | None"])

    @property
    def label(self) -> str:
        """The rule's name and place."""
        return f"{self.rule} ({self.file}:{self.line})"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A place where a rule's pattern was met but the rule did not apply, and why."""

    rule: str
    law: str
    instruction: int
    reason: str
    file: str
    line: int


@dataclass(eq=False)
class Step:
    """What one pass did."""

    recording: Recording
    index: int
    pass_: Pass | None
    name: str
    size_before: int
    size_after: int = 0
    edits: list[Edit] = field(default_factory=list[Edit])
    near_misses: list[NearMiss] = field(default_factory=list[NearMiss])
    seconds: float = 0.0
    error: str = ""

    @property
    def changed(self) -> bool:
        """Whether the pass changed anything."""
        return bool(self.edits)

    @property
    def before(self) -> Program:
        """The program before the pass; rebuilt, with the ids that it had."""
        return self.recording.program_after(self.index - 1)

    @property
    def after(self) -> Program:
        """The program after the pass; rebuilt, with the ids that it had."""
        return self.recording.program_after(self.index)

    def after_edit(self, index: int) -> Program:
        """The program after edit ``index`` of this step (-1: before the first)."""
        return self.recording.program_after(self.index - 1, self.edits[: index + 1])

    def __repr__(self) -> str:
        """Name and sizes."""
        sizes = f"{self.size_before} → {self.size_after} instructions"
        return f"<Step {self.index} {self.name}: {sizes}, {len(self.edits)} edits>"


class Recording:
    """Listens to a program and stores every row once; a context manager around any edits.

    For example::

        with Recording(program) as recording:
            MyPass().apply(program)
    """

    def __init__(self, program: Program) -> None:
        """Start from the program as it is now."""
        self.program = program
        self.steps: list[Step] = []
        self.seconds = 0.0
        """Time of everything recorded, in seconds; what the recording itself cost is in it."""
        self._keys: dict[Module, int] = {m: k for k, m in enumerate(program.modules.values())}
        self._now = {i.id: row_of(i, self._keys) for m in self._keys for i in m}
        modules = {k: ModuleRow(m.name, m.bypass) for m, k in self._keys.items()}
        self.start = self._tables(dict(self._now), modules)
        """The program at the start, as rows."""
        self._programs: dict[int, Program] = {}
        self._step: Step | None = None
        self._open = 0
        self._reset()

    # Reading it

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.steps)

    def __getitem__(self, index: int) -> Step:
        """A step."""
        return self.steps[index]

    def __iter__(self) -> Iterator[Step]:
        """The steps in order."""
        return iter(self.steps)

    @property
    def first(self) -> Program:
        """The program at the start."""
        return self.program_after(-1)

    @property
    def last(self) -> Program:
        """The program at the end."""
        return self.program_after(len(self.steps) - 1)

    def program_after(self, index: int, edits: Iterable[Edit] | None = None) -> Program:
        """The program after step ``index`` (-1: the start), and then after some more edits."""
        if edits is not None:
            return build(self._replay(index, edits))
        if index not in self._programs:
            self._programs[index] = build(self._replay(index, ()))
        return self._programs[index]

    def _replay(self, index: int, more: Iterable[Edit]) -> Rows:
        rows, modules = dict(self.start.instructions), dict(self.start.modules)
        done = [e for step in self.steps[: index + 1] for e in step.edits]
        for edit in [*done, *more]:
            _apply_delta(rows, edit.rows)
            _apply_delta(modules, edit.modules)
        return self._tables(rows, modules)

    def _tables(self, rows: dict[int, Row], modules: dict[int, ModuleRow]) -> Rows:
        p = self.program
        return Rows(p.name, p.output_names, p.source_nodes, modules, rows)

    def table(self) -> DataFrame:
        """A row a pass: instructions before and after, edits, near misses, milliseconds."""
        import pandas as pd  # noqa: PLC0415

        columns = {
            "pass": [s.name for s in self.steps],
            "instructions before": [s.size_before for s in self.steps],
            "instructions after": [s.size_after for s in self.steps],
            "edits": [len(s.edits) for s in self.steps],
            "near misses": [len(s.near_misses) for s in self.steps],
            "ms": [round(s.seconds * 1e3, 3) for s in self.steps],
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self.steps), name="step"))

    def near_misses(self) -> list[NearMiss]:
        """All near misses, each once."""
        return list(dict.fromkeys(m for s in self.steps for m in s.near_misses))

    @cached_property
    def relations(self) -> Relations:
        """Which instructions compute equal values, and which come from which."""
        return Relations(
            set(self.start.instructions), set(self._now), [e for s in self.steps for e in s.edits]
        )

    def lineage(self, instruction: Instruction | int) -> Lineage:
        """Where an instruction of any step came from, and where it went."""
        id = instruction if isinstance(instruction, int) else instruction.id
        return self.relations.lineage(id, self.sources_of(id))

    def sources_of(self, id: int) -> tuple[str, ...]:
        """Names of the model's nodes that an instruction came from."""
        for edit in reversed([e for s in self.steps for e in s.edits if id in e.rows]):
            if (row := edit.rows[id]) is not None:
                return row.sources
        start = self.start.instructions.get(id)
        return start.sources if start is not None else ()

    def explore(self, **options: Any) -> Any:
        """The pass explorer widget."""
        from workbench.widgets.explorer import PassExplorer  # noqa: PLC0415

        return PassExplorer(self, **options)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table()
        return {"text/plain": table.to_string(), "text/html": table.to_html(border=0)}

    def restore(self, start: Rows, step: Step) -> None:
        """Append a step that was read from a file; ``start`` are the rows that it all began with."""
        self.start = start
        self.steps.append(step)
        self.seconds += step.seconds
        for edit in step.edits:
            _apply_delta(self._now, edit.rows)

    # Listening

    def __enter__(self) -> Recording:
        """Start listening."""
        self.program.listeners.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop listening; edits made outside of any pass become a step of their own."""
        self.program.listeners.remove(self)
        self._close_raw()
        if self._step is not None:
            self._end_step(str(error[1] or ""))

    def touched(self, instruction: Instruction) -> None:
        """Note that a row may have changed."""
        new = instruction.id not in self._now and instruction.id not in self._touched
        if new and not self._open and self._raw_replaced:
            self._close_raw()
        self._note_raw()
        self._touched[instruction.id] = instruction

    def removed(self, instruction: Instruction) -> None:
        """Note that a row is gone."""
        self._note_raw()
        self._touched.pop(instruction.id, None)
        self._removed[instruction.id] = None

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Note that two instructions compute the same value."""
        if not self._open and self._raw_replaced:
            self._close_raw()
        self._note_raw()
        self._raw_replaced = not self._open
        self._pairs.append((old.id, new.id))

    def module_changed(self, module: Module) -> None:
        """Note that a module came, went, or was renamed."""
        self._note_raw()
        key = self._keys.setdefault(module, len(self._keys))
        alive = self.program.modules.get(module.name) is module
        self._module_rows[key] = ModuleRow(module.name, module.bypass) if alive else None

    def edit_began(self, rule: Rule | None, root: Instruction | None) -> None:
        """Begin an edit; edits inside it belong to it."""
        if not self._open:
            self._close_raw()
            self._began = perf_counter()
            self._rule = rule
            if rule is None:
                self._place = _caller()
        self._open += 1

    def edit_ended(self) -> None:
        """Store the edit."""
        self._open -= 1
        if not self._open:
            self._store()

    def near_miss(self, rule: Rule, instruction: Instruction, reason: str) -> None:
        """Store a near miss."""
        miss = NearMiss(rule.name, rule.law, instruction.id, reason, rule.file, rule.line)
        step = self._current_step()
        if miss not in self._missed:
            self._missed.add(miss)
            step.near_misses.append(miss)

    def pass_began(self, pass_: Pass) -> None:
        """Begin a step."""
        self._close_raw()
        if self._step is not None:
            self._end_step("")
        self._begin_step(pass_, str(pass_))

    def pass_ended(self, pass_: Pass) -> None:
        """End the step."""
        self._close_raw()
        if self._step is not None:
            self._end_step(str(sys.exc_info()[1] or ""))

    # Storing

    def _reset(self) -> None:
        self._touched: dict[int, Instruction] = {}
        self._removed: dict[int, None] = {}
        self._pairs: list[tuple[int, int]] = []
        self._module_rows: dict[int, ModuleRow | None] = {}
        self._missed: set[NearMiss] = getattr(self, "_missed", set())
        self._rule: Rule | None = None
        self._place: tuple[str, str, int] | None = None
        self._began = 0.0
        self._raw_replaced = False

    def _note_raw(self) -> None:
        """Outside of an edit: remember which statement of which pass is at work."""
        if not self._open and self._place is None:
            self._began = perf_counter()
            self._place = _caller()

    def _close_raw(self) -> None:
        if not self._open and (self._touched or self._removed or self._pairs or self._module_rows):
            self._store()

    def _current_step(self) -> Step:
        return self._step or self._begin_step(None, "edits")

    def _begin_step(self, pass_: Pass | None, name: str) -> Step:
        step = Step(self, len(self.steps), pass_, name, len(self._now))
        self._step_began = perf_counter()
        self._missed = set()
        self.steps.append(step)
        self._step = step
        return step

    def _end_step(self, error: str) -> None:
        step = self._step
        assert step is not None
        step.seconds = perf_counter() - self._step_began
        step.size_after = len(self._now)
        step.error = error
        self.seconds += step.seconds
        self._step = None
        self.__dict__.pop("relations", None)

    def _store(self) -> None:
        seconds = perf_counter() - self._began
        rows, added, changed, moved = self._delta()
        removed = tuple(i for i in self._removed if i in self._now)
        for id in removed:
            del self._now[id]
            rows[id] = None
        if rows or self._module_rows or self._pairs:
            self._append(rows, added, removed, changed, moved, seconds)
        self._reset()

    def _delta(self) -> tuple[dict[int, Row | None], list[int], list[int], list[int]]:
        rows: dict[int, Row | None] = {}
        added: list[int] = []
        changed: list[int] = []
        moved: list[int] = []
        for id, instruction in self._touched.items():
            row = row_of(instruction, self._keys)
            old = self._now.get(id)
            if old == row:
                continue
            if old is None:
                added.append(id)
            else:
                (moved if old._replace(order=row.order) == row else changed).append(id)
            rows[id] = self._now[id] = row
        return rows, added, changed, moved

    def _append(
        self,
        rows: dict[int, Row | None],
        added: list[int],
        removed: tuple[int, ...],
        changed: list[int],
        moved: list[int],
        seconds: float,
    ) -> None:
        step = self._current_step()
        rule = self._rule
        name, law, file, line = _described(rule, self._place, step)
        step.edits.append(
            Edit(
                index=len(step.edits),
                rule=name,
                law=law,
                file=file,
                line=line,
                rows=rows,
                added=tuple(added),
                removed=removed,
                changed=tuple(changed),
                moved=tuple(moved),
                replaced=tuple(self._pairs),
                seconds=seconds,
                modules=self._module_rows,
            )
        )


def _apply_delta(table: dict[int, Any], delta: dict[int, Any]) -> None:
    for key, row in delta.items():
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row


def _described(
    rule: Rule | None, place: tuple[str, str, int] | None, step: Step
) -> tuple[str, str, str, int]:
    if rule is not None:
        return rule.name, rule.law, rule.file, rule.line
    function, file, line = place or ("edit", "", 0)
    own = step.pass_
    if own is not None:
        return own.name, own.summary, file, line
    return function, "", file, line


def _caller() -> tuple[str, str, int]:
    """Function, file and line of the statement that made an edit, outside of the IR itself."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.rsplit("/", 1)[-1] in _OWN_FILES:
        frame = frame.f_back
    file = frame.f_code.co_filename
    short = "workbench/" + file.rsplit("/workbench/", 1)[1] if "/workbench/" in file else file
    return (
        frame.f_code.co_name,
        short.rsplit("/", 1)[-1] if short is file else short,
        frame.f_lineno,
    )
