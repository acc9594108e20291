"""A recording of passes: steps, edits, near misses and lineage, rebuilt from rows on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.errors import GraphError, WorkbenchError
from workbench.compiler.ir.listener import Listener, PassLike, RuleLike
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import (
    ModuleRow,
    Row,
    Rows,
    Snapshot,
    build,
    patched,
    row_of,
    states_of,
)
from workbench.compiler.record.edits import Counts, Edit, NearMiss, Step
from workbench.compiler.record.heard import Heard
from workbench.compiler.record.lineage import Lineage, Relations
from workbench.compiler.record.statement import statement
from workbench.compiler.text.printing import row_names

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.record.lowered import Lowered

LOWERING = "lowering"
"""The step that follows all passes."""


class Recording(Listener):
    """Listens to a program and stores every row once; a context manager around any edits.

    For example::

        with Recording(program) as recording:
            MyPass().apply(program)
    """

    def __init__(self, program: Program, start: Rows | Snapshot | None = None) -> None:
        """Start from the program's current state; ``start`` is this state, if the caller has it."""
        self.program = program
        self.steps: list[Step] = []
        self.seconds = 0.0
        """Duration of everything recorded in seconds, including the cost of recording."""
        self._start = start or Snapshot(program)
        self._keys: dict[Module, int] = {m: k for k, m in enumerate(program.modules.values())}
        self._heard: list[Heard] = []
        self._programs: dict[int, Program] = {}
        self._names: dict[int, dict[int, str]] = {}
        self._relations: Relations | None = None
        """What ``relations`` found; worked out again after a further step."""
        self._last: tuple[int, int, Rows] | None = None
        """The step after which the program was rebuilt last, the edits until then, and the rows."""
        self.undone: list[tuple[Step, Edit]] = []
        """Undone edits, the first one to redo last; a new edit clears them."""
        self._step: Step | None = None
        self._counted: tuple[int, Counts] | None = None
        self._open = 0
        self._reset()

    # Reading

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
    def start(self) -> Rows:
        """The program at the start, as rows."""
        return self._start.rows if isinstance(self._start, Snapshot) else self._start

    @cached_property
    def _now(self) -> dict[int, Row]:
        """The rows after the edits that were turned into records so far."""
        return dict(self.start.instructions)

    @property
    def first(self) -> Program:
        """The program at the start."""
        return self.program_after(-1)

    @property
    def last(self) -> Program:
        """The program at the end."""
        return self.program_after(len(self.steps) - 1)

    def program_after(self, index: int, edits: Iterable[Edit] | None = None) -> Program:
        """The program after step ``index`` (-1: the start), and then after the given further edits."""
        if edits is not None:
            return build(self._replay(index, edits))
        if index not in self._programs:
            self._programs[index] = build(self._replay(index, ()))
        return self._programs[index]

    def names_after(self, index: int) -> dict[int, str]:
        """The printed name of every instruction after step ``index`` (-1: at the start)."""
        if index not in self._names:
            self._names[index] = row_names(self._replay(index, ()))
        return self._names[index]

    def _replay(self, index: int, more: Iterable[Edit]) -> Rows:
        self.digest()
        first, edits, rows = self._last or (-1, 0, self.start)
        if first > index or edits != self._count(first):  # an edit was undone
            first, rows = -1, self.start
        made = self._after(rows, (e for s in self.steps[first + 1 : index + 1] for e in s.made))
        self._last = index, self._count(index), made
        return self._after(made, more)

    def _count(self, index: int) -> int:
        """The number of edits until the end of a step."""
        return sum(len(step.made) for step in self.steps[: index + 1])

    def _after(self, rows: Rows, edits: Iterable[Edit]) -> Rows:
        """A copy of some rows after some edits."""
        listed = list(edits)
        made = Rows(
            modules=patched(rows.modules, (e.modules for e in listed)),
            instructions=patched(rows.instructions, (e.rows for e in listed)),
        )
        made.take_facts(self.program)
        return made

    def rows_after(self, index: int) -> Rows:
        """The program after step ``index`` (-1: the start), as rows."""
        return self._replay(index, ())

    def rows_now(self) -> Rows:
        """The program at the end, as rows."""
        return self.rows_after(len(self.steps) - 1)

    def undo(self, edits: int = 1) -> None:
        """Undo the last edits in the program itself; ``redo`` makes them again.

        Raises:
            GraphError: There are fewer edits, or the program has changed since.
        """
        from workbench.compiler.record.undo import undo  # noqa: PLC0415

        undo(self, edits)

    def redo(self, edits: int = 1) -> None:
        """Redo undone edits in the program itself.

        Raises:
            GraphError: Fewer edits were undone, or the program has changed since.
        """
        from workbench.compiler.record.undo import redo  # noqa: PLC0415

        redo(self, edits)

    def rebase(self, rows: Rows, modules: dict[int, Module]) -> None:
        """Continue from these rows; ``modules`` are the program's modules by key."""
        self._now = dict(rows.instructions)
        self._keys = {module: key for key, module in modules.items()}
        self._programs.clear()
        self._names.clear()
        self._last = None
        self._relations = None

    def table(self) -> DataFrame:
        """A row per pass: instructions, edits, near misses, milliseconds.

        Instructions are those of the main module before and after; those inside kernels are counted apart.
        """
        import pandas as pd  # noqa: PLC0415

        columns = {
            "pass": [s.name for s in self.steps],
            "instructions before": [s.size_before for s in self.steps],
            "instructions after": [s.size_after for s in self.steps],
            "inside kernels": [s.after_count.inside for s in self.steps],
            "edits": [len(s.edits) for s in self.steps],
            "near misses": [len(s.recorded_misses) for s in self.steps],
            "ms": [round(s.seconds * 1e3, 3) for s in self.steps],
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self.steps), name="step"))

    @property
    def lowered(self) -> Lowered | None:
        """The target's lowering of each instruction; None if the target runs the program unchanged."""
        return self.steps[-1].lowered if self.steps else None

    def near_misses(self) -> list[NearMiss]:
        """All near misses, each once, in the printed names of the step where it was first met."""
        found: dict[NearMiss, NearMiss] = {}
        for step in self.steps:
            for recorded, miss in zip(step.recorded_misses, step.near_misses, strict=True):
                found.setdefault(recorded, miss)
        return list(found.values())

    @property
    def relations(self) -> Relations:
        """The relations of instructions: equal values, and origins."""
        if self._relations is None:
            edits = [e for s in self.steps for e in s.edits]
            bodies = [key for key, module in self.start.modules.items() if module.bypass]
            self._relations = Relations(set(self.start.instructions), set(self._now), edits, bodies)
        return self._relations

    def lineage(self, instruction: Instruction | int) -> Lineage:
        """The origins and successors of an instruction of any step.

        Raises:
            GraphError: No step had an instruction with that id.
        """
        id = instruction if isinstance(instruction, int) else instruction.id
        if id not in self.start.instructions and not any(
            id in e.rows for s in self.steps for e in s.edits
        ):
            raise GraphError(f"no instruction #{id} was in any step of this recording")
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
        return showing.view("explorer")(self, **options)

    def filmstrip(self, *passes: str, most: int = 3) -> Any:
        """A still picture of the program before and after some passes, for slides and print.

        Args:
            *passes: Names of passes; by default those that change the most instructions, and something drawn.
            most: Most passes to show.

        Raises:
            OperationError: One of the passes changed nothing, or there is none of that name.
        """
        return showing.view("filmstrip")(self, passes, most=most)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table()
        return {"text/plain": table.to_string(), "text/html": table.to_html(border=0)}

    def restore(self, start: Rows, step: Step) -> None:
        """Append a step read from a file; ``start`` is the rows of the first program."""
        self._start = start
        self._last = None
        self.steps.append(step)
        self.seconds += step.seconds
        for edit in step.made:
            _apply_delta(self._now, edit.rows)

    def lower(self, make: Callable[[], Lowered | None]) -> None:
        """Record the target's lowering of the program as the last step, if there is one.

        Args:
            make: Lowers the program; returns None if the target runs it unchanged.
        """
        step = Step(self, None, LOWERING, Counts.of(self.program))
        began = perf_counter()
        try:
            step.lowered = make()
        except WorkbenchError as error:
            step.error = str(error)
            raise
        finally:
            step.seconds = perf_counter() - began
            if step.lowered is not None or step.error:
                self.steps.append(step)
                self.seconds += step.seconds

    # Listening

    def __enter__(self) -> Recording:
        """Start listening."""
        self.program.listeners.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop listening; edits made outside any pass become a step of their own."""
        self.program.listeners.remove(self)
        self._close_raw()
        if self._step is not None:
            self._end_step(str(error[1] or ""))

    def touched(self, instruction: Instruction) -> None:
        """Record that a row may have changed, outside of an edit."""
        self.digest()
        new = instruction.id not in self._now and instruction not in self._touched
        if new and self._raw_replaced:
            self._close_raw()
        self._note_raw()
        self._touched[instruction] = None

    def touched_by_edit(self, instructions: Mapping[Instruction, None]) -> None:
        """Record that rows may have changed."""
        self._touched = dict(instructions)

    def removed(self, instruction: Instruction) -> None:
        """Record that a row was removed."""
        if not self._open:  # what an edit touches is told at its end
            self._note_raw()
            self._touched.pop(instruction, None)
        self._removed.append(instruction.id)

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Record that two instructions compute the same value."""
        if not self._open:
            if self._raw_replaced:
                self._close_raw()
            self._note_raw()
            self._raw_replaced = True
        self._pairs.append((old.id, new.id))

    def module_changed(self, module: Module) -> None:
        """Record that a module was added, removed or renamed."""
        self._note_raw()
        key = self._keys.setdefault(module, len(self._keys))
        alive = self.program.modules.get(module.name) is module
        self._module_rows[key] = ModuleRow(module.name, module.bypass) if alive else None

    def edit_began(self, rule: RuleLike | None, root: Instruction | None) -> None:
        """Begin an edit; nested edits belong to it."""
        if not self._open:
            if self._place is not None:
                self._close_raw()
            self._began = perf_counter()
            self._rule = rule
            if rule is None:
                self._place = statement()
        self._open += 1

    def edit_ended(self) -> None:
        """Store the edit."""
        self._open -= 1
        if not self._open:
            self._store()

    def near_miss(self, rule: RuleLike, instruction: Instruction, reason: str) -> None:
        """Store a near miss."""
        self._current_step().missed.append((rule, instruction.id, reason))

    def pass_began(self, pass_: PassLike) -> None:
        """Begin a step."""
        self._close_raw()
        if self._step is not None:
            self._end_step("")
        self._begin_step(pass_, str(pass_))

    def pass_ended(self, pass_: PassLike, error: BaseException | None) -> None:
        """End the step."""
        self._close_raw()
        if self._step is not None:
            self._end_step(str(error or ""))

    # Storing

    def _reset(self) -> None:
        self._touched: dict[Instruction, None] = {}
        self._removed: list[int] = []
        self._pairs: list[tuple[int, int]] = []
        self._module_rows: dict[int, ModuleRow | None] = {}
        self._rule: RuleLike | None = None
        self._place: tuple[str, str, int] | None = None
        self._began = 0.0
        self._raw_replaced = False

    def _note_raw(self) -> None:
        """Outside an edit, remember the statement of the pass that makes the change."""
        if not self._open and self._place is None:
            self._began = perf_counter()
            self._place = statement()

    def _close_raw(self) -> None:
        if not self._open and (self._touched or self._removed or self._pairs or self._module_rows):
            self._store()

    def _current_step(self) -> Step:
        return self._step or self._begin_step(None, "edits")

    def _begin_step(self, pass_: PassLike | None, name: str) -> Step:
        step = Step(self, pass_, name, self._counts())
        self._step_began = perf_counter()
        self.steps.append(step)
        self._step = step
        return step

    def _counts(self) -> Counts:
        """The program's counts, which are computed again only after a change."""
        version = self.program.version
        if self._counted is None or self._counted[0] != version:
            self._counted = version, Counts.of(self.program)
        return self._counted[1]

    def _end_step(self, error: str) -> None:
        step = self._step
        assert step is not None
        step.seconds = perf_counter() - self._step_began
        step.after_count = self._counts()
        step.error = error
        self.seconds += step.seconds
        self._step = None
        self._relations = None

    def _store(self) -> None:
        """Store the current states; rows, and the difference, are made when they are needed."""
        if not (self._touched or self._removed or self._pairs or self._module_rows):
            self._rule = self._place = None  # a rule declined
            return
        seconds = perf_counter() - self._began
        self._heard.append(
            Heard(
                self._current_step(),
                self._rule,
                self._place,
                seconds,
                states_of(self._touched),
                self._removed,
                self._pairs,
                self._module_rows,
            )
        )
        self._reset()

    def digest(self) -> None:
        """Turn the edits received since the last call into Edit records."""
        heard, self._heard = self._heard, []
        if heard:
            self.undone.clear()
            self._last = None
        for entry in heard:
            edit = self._edit_of(entry)
            if edit.rows or edit.modules or edit.replaced:
                entry.step.made.append(edit)

    def _edit_of(self, entry: Heard) -> Edit:
        rule, law, file, line = entry.described()
        rows: dict[int, Row | None] = {}
        added: list[int] = []
        changed: list[int] = []
        moved: list[int] = []
        for row in [row_of(state, self._keys) for state in entry.states]:
            old = self._now.get(row.id)
            if old == row:
                continue
            if old is None:
                added.append(row.id)
            else:
                same = old[:2] == row[:2] and old[3:] == row[3:]
                (moved if same else changed).append(row.id)
            rows[row.id] = self._now[row.id] = row
        removed = [i for i in entry.removed if self._now.pop(i, None) is not None]
        rows.update(dict.fromkeys(removed))
        return Edit(
            index=len(entry.step.made),
            rule=rule,
            law=law,
            file=file,
            line=line,
            rows=rows,
            added=tuple(added),
            removed=tuple(removed),
            changed=tuple(changed),
            moved=tuple(moved),
            replaced=tuple(entry.pairs),
            seconds=entry.seconds,
            modules=entry.modules,
        )


def _apply_delta(table: dict[int, Any], delta: dict[int, Any]) -> None:
    for key, row in delta.items():
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row
