"""Passes taken edit by edit: run up to one, take it back, and list what could be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import GraphError, OperationError
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import fill
from workbench.compiler.passes.base import Pass, Pipeline, RewritePass, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rule
from workbench.compiler.text.printing import instruction_text, names

if TYPE_CHECKING:
    from pandas import DataFrame


class _Enough(BaseException):
    """The edits that were asked for are made. No error, so nothing on the way catches it."""

    def __str__(self) -> str:
        return ""


class _Limit:
    """A listener that ends a pass before the edit that is one too many."""

    def __init__(self, edits: int) -> None:
        self.left = edits
        self._open = 0
        self._changed = False

    def edit_began(self, *_: Any, **__: Any) -> None:
        if not self._open and not self.left:
            raise _Enough
        self._open += 1

    def edit_ended(self) -> None:
        self._open -= 1
        if not self._open and self._changed:
            self.left -= 1
            self._changed = False

    def _heard(self, *_: Any, **__: Any) -> None:
        self._changed = True

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    touched = removed = replaced = module_changed = _heard
    near_miss = pass_began = pass_ended = _ignore


def run_recorded(pass_: Pass, program: Program, edits: int | None = None) -> Recording:
    """Run a pass on a program in place and record it, or only its first edits.

    Raises:
        OperationError: A negative number of edits.
    """
    if edits is not None and edits < 0:
        raise OperationError(f"{edits} edits; expected 0 or more")
    recording = Recording(program)
    # First among the listeners: no other one hears of an edit that is not made.
    limit = [] if edits is None else [_Limit(edits)]
    program.listeners[:0] = limit
    try:
        with recording:
            run_pass(pass_, program)
    except _Enough:
        pass
    finally:
        for one in limit:
            program.listeners.remove(one)
    return recording


def undo(recording: Recording, count: int = 1) -> None:
    """Take the last edits of a recording back, in the program itself; a step without edits goes too.

    Instructions are made anew, with the ids that they had.

    Raises:
        GraphError: There are fewer edits, or the program was changed since.
    """
    _expect_ended(recording)
    edits = [(step, e) for step in recording for e in step.edits]
    if not 0 <= count <= len(edits):
        raise GraphError(f"{count} edits cannot be taken back: the recording has {len(edits)}")
    _expect_current(recording)
    for step, edit in reversed(edits[len(edits) - count :]):
        step.made.remove(edit)
        recording.undone.append((step, edit))
    _restore(recording)


def redo(recording: Recording, count: int = 1) -> None:
    """Make the edits that were taken back last once more.

    Raises:
        GraphError: Fewer were taken back, or the program was changed since.
    """
    _expect_ended(recording)
    if not 0 <= count <= len(recording.undone):
        found = len(recording.undone)
        raise GraphError(f"{count} edits cannot be made again: {found} were taken back")
    _expect_current(recording)
    for _ in range(count):
        step, edit = recording.undone.pop()
        step.made.append(edit)
    _restore(recording)


def _expect_ended(recording: Recording) -> None:
    if recording in recording.program.listeners:
        raise GraphError("the recording goes on; leave its `with` block first")


def _expect_current(recording: Recording) -> None:
    if str(recording.program) != str(recording.last):
        raise GraphError("the program was changed since it was recorded; record those edits too")


def _restore(recording: Recording) -> None:
    """Make the recording's program what its steps say."""
    rows = recording.rows_now()
    recording.program.clear()
    recording.rebase(rows, fill(recording.program, rows))


# What could be done


def possible_changes(pass_: Pass, program: Program) -> DataFrame:
    """Every edit that a pass could begin with, as a table; the program is left as it is."""
    import pandas as pd  # noqa: PLC0415

    rows = [row for one in _passes(pass_) for row in _changes(one, program)]
    columns = ["pass", "instruction", "text", "rule", "law", "place"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _passes(pass_: Pass) -> list[Pass]:
    if not isinstance(pass_, Pipeline):
        return [pass_]
    return list(dict.fromkeys(p for one in pass_.passes for p in _passes(one)))


def _changes(pass_: Pass, program: Program) -> list[tuple[Any, ...]]:
    named = names(program)
    if isinstance(pass_, RewritePass):
        found = _rule_changes(pass_.active, program)
        if found:
            return [(pass_.name, i.id, instruction_text(i, named), *_named(r)) for i, r in found]
    work = program.clone()
    steps = run_recorded(pass_, work).steps
    edits = [e for step in steps for e in step.edits]
    return [
        (pass_.name, *_first_touched(e.rows, program, named), e.rule, e.law, f"{e.file}:{e.line}")
        for e in edits
    ]


def _named(rule: Rule) -> tuple[str, str, str]:
    return rule.name, rule.law, f"{rule.file}:{rule.line}"


def _first_touched(
    rows: dict[int, Any], program: Program, named: dict[int, str]
) -> tuple[int | None, str]:
    """The first instruction of the program, as it is now, that an edit concerns."""
    found = next((program.find(id) for id in rows if program.find(id) is not None), None)
    return (None, "") if found is None else (found.id, instruction_text(found, named))


def _rule_changes(rules: tuple[Rule, ...], program: Program) -> list[tuple[Instruction, Rule]]:
    """The places where a rule applies to the program as it is; each is tried on a copy."""
    work = program.clone()
    found: list[tuple[Instruction, Rule]] = []
    places = [i for m in program.reachable_modules() if not m.bypass for i in m]
    for instruction in places:
        for rule in rules:
            if rule.roots is not None and instruction.name not in rule.roots:
                continue
            before = work.version
            if isinstance(rule.apply_at(work.instruction(instruction.id)), Instruction):
                found.append((instruction, rule))
            if work.version != before:
                work = program.clone()
    return found
