"""Differences of programs: a step from each to the next, an edit for each instruction that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.ir.operation import attribute_text
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import ModuleRow, Row, Rows, rows_of
from workbench.compiler.record.edits import Counts, Edit, Step
from workbench.compiler.record.recording import Recording

if TYPE_CHECKING:
    from pandas import DataFrame

Pairs = Mapping[int, int]
"""The ids of a program's instructions by those of their counterparts in the next one."""


class Differences:
    """Programs beside each other: added, removed and changed instructions from each to the next.

    All programs are told as one recording, whose steps lead from one program to the next. Counterparts have
    one id there, that of the first program that has them.

    Args:
        programs: The programs, at least two.
        names: A name for each.
        pairs: For each program but the first: the counterparts of its instructions in the one before it.
    """

    def __init__(
        self, programs: Sequence[Program], names: Sequence[str], pairs: Sequence[Pairs]
    ) -> None:
        """Bring the programs to one set of ids, and compare them in order."""
        self.programs = tuple(programs)
        self.names = tuple(names)
        first = rows_of(programs[0])
        facts = Program()
        facts.take_facts(programs[0])
        facts.source_nodes = {k: v for p in reversed(programs) for k, v in p.source_nodes.items()}
        first.take_facts(facts)
        self.recording = Recording(facts, first)
        """The steps from each program to the next."""
        self.ids: list[dict[int, int]] = [{id: id for id in first.instructions}]
        """For each program, the ids that its instructions have in the recording."""
        before = first
        for program, known, name in zip(programs[1:], pairs, names[1:], strict=True):
            renumbered = _Renumbered(before, self.ids[-1], program, known, self._fresh())
            self.ids.append(renumbered.ids)
            step = _Between(self.recording, None, name, _counts(before))
            step.made = _edits(before, renumbered.rows)
            step.after_count = _counts(renumbered.rows)
            self.recording.restore(first, step)
            before = renumbered.rows

    def _fresh(self) -> int:
        """An id that no program has used yet."""
        return max((id for ids in self.ids for id in ids.values()), default=0) + 1

    @cached_property
    def counts(self) -> dict[str, int]:
        """The numbers of added, removed and changed instructions over all steps."""
        found = {"added": 0, "removed": 0, "changed": 0}
        for edit in (e for step in self.recording for e in step.edits):
            for kind in found:
                found[kind] += len(getattr(edit, kind))
        return found

    @property
    def summary(self) -> str:
        """One sentence: the programs and the counts."""
        said = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items() if n) or "no difference"
        return f"{' → '.join(self.names)}: {said}"

    def table(self) -> DataFrame:
        """A row for each difference: the step, its kind, the instruction, its nodes, and what differs."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            (step.name, e.rule.split()[0], (e.added + e.removed + e.changed)[0], e.rule.partition(" ")[2],
             ", ".join(self.recording.sources_of((e.added + e.removed + e.changed)[0])), e.law)
            for step in self.recording for e in step.edits
        ]  # fmt: skip
        columns = ["program", "kind", "id", "operation", "sources", "what differs"]
        return pd.DataFrame(rows, columns=pd.Index(columns))

    def beside(self, *numbers: Any) -> DataFrame:
        """Times, kernels or errors of the programs beside each other: a row per instruction.

        Args:
            *numbers: For each program a result of a profiled run, a report of ``wb.compare``, or a mapping
                of instruction ids to numbers.

        Returns:
            For each program the name, kernels and number of the instruction, missing where it has no
            counterpart; of two programs also the difference, the second minus the first, by which the
            rows are sorted.

        Raises:
            OperationError: There is not one for each program, one is none of these or of another program,
                or a run on a device was not profiled.
        """
        return showing.view("beside")(self, numbers)

    def view(self, numbers: Sequence[Any] = (), **options: Any) -> Any:
        """Both graphs side by side, aligned; the differences in a list that selects.

        Args:
            numbers: Those that `beside` takes, for two programs: the difference is shown as colour.
            options: Those of the pass explorer.
        """
        given = {"title": " → ".join(self.names), **options}
        if numbers:
            given["overlay"] = showing.view("difference overlay")(self, numbers)
        return showing.view("explorer")(self.recording, sides=self.names, **given)

    def __repr__(self) -> str:
        """The summary."""
        return f"<Differences {self.summary}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.view()._repr_mimebundle_(**options)


class _Between(Step):
    """The step from one program to the next; no pass made its edits, so they say what differs."""

    def sentences_from(self, begun: Any = None) -> list[str]:
        """The difference of each edit."""
        return [edit.law or edit.rule for edit in self.edits]


def _counts(rows: Rows) -> Counts:
    """The numbers of instructions in the main module, and inside kernels."""
    inside = {key for key, module in rows.modules.items() if module.bypass}
    modules = [row.module for row in rows.instructions.values()]
    return Counts(modules.count(0), sum(m in inside for m in modules))


class _Renumbered:
    """A program's rows with the ids of its counterparts in the program before; others get fresh ones."""

    def __init__(
        self,
        before: Rows,
        ids_before: Mapping[int, int],
        program: Program,
        pairs: Pairs,
        fresh: int,
    ) -> None:
        self.before = before
        self.own = rows_of(program)
        self.fresh = fresh
        self.modules: dict[int, int] = {0: 0}
        self.ids = {i: ids_before[j] for i, j in pairs.items() if j in ids_before}
        self.taken = set(self.ids.values())
        # From the last instruction to the first: a counterpart's inputs are known before their own.
        for row in sorted(self.own.instructions.values(), key=lambda r: (r.module != 0, -r.order)):
            if row.op.name == "@return" and row.module == 0:
                self._match_returns(row)
            if row.id in self.ids:
                self._match_operands(row)
        self._match_bodies()
        self._match_constants()
        for id in self.own.instructions:
            self._new(id)
        self.rows = self._rows()

    def _match_returns(self, row: Row) -> None:
        other = [r for r in self.before.instructions.values() if r.op.name == "@return"]
        self._pair(row.id, next((r.id for r in other if r.module == 0), None))

    def _match_operands(self, row: Row) -> None:
        """Constants and views that feed two counterparts at one place are counterparts, too."""
        other = self.before.instructions[self.ids[row.id]]
        if len(other.inputs) != len(row.inputs):
            return
        for mine, theirs in zip(row.inputs, other.inputs, strict=True):
            a, b = self.own.instructions[mine], self.before.instructions.get(theirs)
            if b is not None and a.op.name == b.op.name:
                self._pair(mine, theirs)

    def _match_bodies(self) -> None:
        """Modules of counterparts are counterparts, and what is in them at the same place."""
        owners = [r for r in self.own.instructions.values() if r.modules and r.id in self.ids]
        for row in owners:
            other = self.before.instructions[self.ids[row.id]]
            for mine, theirs in zip(row.modules, other.modules, strict=False):
                if mine not in self.modules and theirs not in self.modules.values():
                    self.modules[mine] = theirs
                    self._match_body(mine, theirs)

    def _match_body(self, mine: int, theirs: int) -> None:
        a, b = (
            sorted(
                (r for r in rows.instructions.values() if r.module == key), key=lambda r: r.order
            )
            for rows, key in ((self.own, mine), (self.before, theirs))
        )
        for x, y in _alike(a, b):
            self._pair(x.id, y.id)

    def _match_constants(self) -> None:
        """Constants of the main modules with equal values are counterparts, whatever reads them."""
        left: dict[str, list[Row]] = {}
        for row in self.before.instructions.values():
            if row.literal is not None and row.id not in self.taken and not row.module:
                left.setdefault(str(row.shape), []).append(row)
        for row in self.own.instructions.values():
            if row.literal is not None and row.id not in self.ids and not row.module:
                same = left.get(str(row.shape), [])
                equal = next((r for r in same if r.literal == row.literal), None)
                if equal is not None:
                    same.remove(equal)
                    self._pair(row.id, equal.id)

    def _pair(self, mine: int, theirs: int | None) -> None:
        if theirs is not None and mine not in self.ids and theirs not in self.taken:
            self.ids[mine] = theirs
            self.taken.add(theirs)

    def _new(self, id: int) -> None:
        if id not in self.ids:
            self.ids[id] = self.fresh
            self.fresh += 1

    def _rows(self) -> Rows:
        used = {*self.before.modules, *self.modules.values()}
        for key in self.own.modules:
            if key not in self.modules:
                self.modules[key] = max(used, default=0) + 1
                used.add(self.modules[key])
        found = Rows(modules={self.modules[k]: m for k, m in self.own.modules.items()})
        found.take_facts(self.own)
        for row in self.own.instructions.values():
            new = self.ids[row.id]
            found.instructions[new] = row._replace(
                id=new,
                module=self.modules[row.module],
                inputs=tuple(self.ids[i] for i in row.inputs),
                modules=tuple(self.modules[m] for m in row.modules),
            )
        return found


def _alike(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """The rows of two bodies that stand for each other: by place if they are as many, else equal runs."""
    if len(a) == len(b):
        pairs = zip(a, b, strict=True)
        yield from (p for p in pairs if len({r.op.name.startswith("@") for r in p}) == 1)
        return
    names = [[r.op.name for r in rows] for rows in (a, b)]
    for i, j, n in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        yield from zip(a[i : i + n], b[j : j + n], strict=True)


def _edits(before: Rows, after: Rows) -> list[Edit]:
    """An edit for each difference, in the order of the programs.

    Constants and what is inside fused instructions follow from those that use them. The first edit carries
    them, and the new order.
    """
    found = [*_removed(before, after), *_added(before, after), *_changed(before, after)]
    if not found:
        return []
    place = {id: row.order for rows in (before, after) for id, row in rows.instructions.items()}
    found.sort(key=lambda edit: place[next(iter(edit.rows))])
    told = {id for edit in found for id in edit.rows}
    rest: dict[int, Row | None] = {
        id: row for id, row in after.instructions.items() if before.instructions.get(id) != row
    }
    rest |= {id: None for id in before.instructions if id not in after.instructions}
    found[0].rows.update({id: row for id, row in rest.items() if id not in told})
    found[0].modules.update(_modules(before.modules, after.modules))
    for index, edit in enumerate(found):
        edit.index = index
    return found


def _removed(before: Rows, after: Rows) -> Iterator[Edit]:
    for id, row in before.instructions.items():
        if id not in after.instructions and _is_listed(row):
            yield _edit("removed", row, "", None, removed=(id,))


def _added(before: Rows, after: Rows) -> Iterator[Edit]:
    for id, row in after.instructions.items():
        if id not in before.instructions and _is_listed(row):
            yield _edit("added", row, "", row, added=(id,))


def _changed(before: Rows, after: Rows) -> Iterator[Edit]:
    inside = _inside(before, after)
    for id, row in after.instructions.items():
        old = before.instructions.get(id)
        if old is None or row.module:
            continue
        said = "; ".join([*_changes(old, row), *inside.get(id, ())])
        if said and row.op.name != "@return":
            yield _edit("changed", row, said, row, changed=(id,))


def _is_listed(row: Row) -> bool:
    """Whether an instruction that only one program has is a difference by itself."""
    return row.module == 0 and row.literal is None and row.op.name not in ("@literal", "@return")


def _inside(before: Rows, after: Rows) -> dict[int, list[str]]:
    """The differences inside fused instructions that both programs have, by the id of the outermost one."""
    owners = {key: row for row in after.instructions.values() for key in row.modules}
    found: dict[int, list[str]] = {}
    for rows, other in ((before, after), (after, before)):
        for id, row in rows.instructions.items():
            if not row.module or row.op.name.startswith("@"):
                continue
            there = other.instructions.get(id)
            if there is None:
                said = [f"{'−' if rows is before else '+'} {row.op.name}"]
            else:
                said = (
                    [f"{row.op.name}: {c}" for c in _changes(there, row)] if rows is after else []
                )
            if said and (owner := _outermost(row.module, owners)) in before.instructions:
                found.setdefault(owner, []).extend(said)
    return found


def _outermost(module: int, owners: Mapping[int, Row]) -> int:
    """The id of the instruction of the main module whose body, at any depth, a module is; else -1."""
    while module:
        owner = owners.get(module)
        if owner is None:
            return -1
        if not owner.module:
            return owner.id
        module = owner.module
    return -1


def _edit(kind: str, row: Row, said: str, new: Row | None, **ids: tuple[int, ...]) -> Edit:
    some = {"added": (), "removed": (), "changed": (), **ids}
    return Edit(
        0, f"{kind} {row.op.name}", said, "", 0, {row.id: new}, some["added"], some["removed"],
        some["changed"], moved=(), replaced=(), seconds=0.0,
    )  # fmt: skip


def _changes(old: Row, new: Row) -> Iterator[str]:
    """The ways in which two counterparts differ, in words."""
    if old.op.name != new.op.name:
        yield f"{old.op.name} → {new.op.name}"
    elif old.op != new.op:
        before, after = old.op.attributes(), new.op.attributes()
        for name in (n for n in after if before.get(n) != after[n]):
            yield f"{name}: {attribute_text(before.get(name))} → {attribute_text(after[name])}"
    if old.shape != new.shape:
        yield f"shape: {old.shape} → {new.shape}"
    if old.literal is not None and new.literal is not None and old.literal != new.literal:
        yield "other values"
    if old.inputs != new.inputs:
        yield "other inputs"
    if old.module != new.module:
        yield "in another module"


def _modules(
    before: Mapping[int, ModuleRow], after: Mapping[int, ModuleRow]
) -> dict[int, ModuleRow | None]:
    found: dict[int, ModuleRow | None] = {k: m for k, m in after.items() if before.get(k) != m}
    return found | {k: None for k in before if k not in after}
