"""Edits as a recording hears them, before anyone reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.compiler.ir.listener import RuleLike
from workbench.compiler.ir.rows import ModuleRow, State

if TYPE_CHECKING:
    from workbench.compiler.record.edits import Step


class Heard(NamedTuple):
    """An edit as received; ``Recording.digest`` makes an Edit of it."""

    step: Step
    rule: RuleLike | None
    place: tuple[str, str, int] | None
    seconds: float
    states: list[State]
    removed: list[int]
    pairs: list[tuple[int, int]]
    modules: dict[int, ModuleRow | None]

    def described(self) -> tuple[str, str, str, int]:
        """Name, law, file and line of the rule or the statement that made the edit."""
        rule, own = self.rule, self.step.pass_
        if rule is not None:
            return rule.name, rule.law, rule.file, rule.line
        function, file, line = self.place or ("edit", "", 0)
        if own is not None:
            return own.name, own.summary, file, line
        return function, "", file, line
