"""Passes edit by edit: running up to an edit, and listing possible edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.checkpoint import Checkpoint
from workbench.compiler.ir.listener import Listener, RuleLike
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, Pipeline, RewritePass, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rule
from workbench.compiler.text.printing import instruction_text, names

if TYPE_CHECKING:
    from pandas import DataFrame


class _Enough(BaseException):
    """Raised when the requested number of edits is made. Not an ``Exception``, so nothing catches it."""

    def __str__(self) -> str:
        return ""


class _Limit(Listener):
    """A listener that stops a pass after a number of edits."""

    def __init__(self, edits: int) -> None:
        self.left = edits
        self._open = 0
        self._changed = False

    def edit_began(self, rule: RuleLike | None, root: Instruction | None) -> None:
        if not self._open and not self.left:
            raise _Enough
        self._open += 1

    def edit_ended(self) -> None:
        self._open -= 1
        if not self._open and self._changed:
            self.left -= 1
            self._changed = False

    def touched(self, instruction: Instruction) -> None:
        self._changed = True

    def removed(self, instruction: Instruction) -> None:
        self._changed = True

    def replaced(self, old: Instruction, new: Instruction) -> None:
        self._changed = True

    def module_changed(self, module: Module) -> None:
        self._changed = True


def run_recorded(pass_: Pass, program: Program, edits: int | None = None) -> Recording:
    """Run a pass on a program in place, or only its first edits, and record it.

    Raises:
        OperationError: ``edits`` is negative.
    """
    if edits is not None and edits < 0:
        raise OperationError(f"{edits} edits; expected 0 or more")
    recording = Recording(program)
    # First among the listeners, so that no other is told of an edit that is not made.
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


# Possible edits


def possible_changes(pass_: Pass, program: Program) -> DataFrame:
    """Every edit that a pass could begin with, as a table; the program is not changed."""
    import pandas as pd  # noqa: PLC0415

    rows = changes(pass_, program)
    columns = ["pass", "instruction", "text", "rule", "law", "place"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def changes(pass_: Pass, program: Program) -> list[tuple[Any, ...]]:
    """The rows of ``possible_changes``."""
    return [row for one in _passes(pass_) for row in _changes(one, program)]


def _passes(pass_: Pass) -> list[Pass]:
    if not isinstance(pass_, Pipeline):
        return [pass_]
    return list(dict.fromkeys(p for one in pass_.passes for p in _passes(one)))


def _changes(pass_: Pass, program: Program) -> list[tuple[Any, ...]]:
    named = names(program)
    if isinstance(pass_, RewritePass):
        found = _rule_changes(pass_.active, program)
        if found or type(pass_).apply is RewritePass.apply:
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
    """The first instruction of the current program that an edit touches."""
    found = next((program.find(id) for id in rows if program.find(id) is not None), None)
    return (None, "") if found is None else (found.id, instruction_text(found, named))


def _rule_changes(rules: tuple[Rule, ...], program: Program) -> list[tuple[Instruction, Rule]]:
    """The places where a rule applies to the program; each is tried on a copy and undone."""
    work = program.clone()
    found: list[tuple[Instruction, Rule]] = []
    places = [i for m in program.reachable_modules() if not m.bypass for i in m]
    with Checkpoint(work) as checkpoint:
        for instruction in places:
            for rule in rules:
                if rule.roots is not None and instruction.name not in rule.roots:
                    continue
                before = work.version
                if isinstance(rule.apply_at(work.instruction(instruction.id)), Instruction):
                    found.append((instruction, rule))
                if work.version != before:
                    checkpoint.restore()
    return found
