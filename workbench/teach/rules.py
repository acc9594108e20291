"""Rules that students write: checked by their law, then on programs that the exercise keeps to itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.builds.differences import differences
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.compiler.laws.check import RuleReport, check_rule
from workbench.compiler.rewrite import Rule, drive
from workbench.compiler.text.parsing import parse
from workbench.teach.exercise import Exercise, Feedback


class WriteRule(Exercise):
    """Write a rule that changes some programs and leaves others alone.

    Its law is checked on random programs, with numbers at the edges of their types; then the cases of the
    exercise. A counterexample is shown as the graph before and after.

    Args:
        question: The question.
        changes: Programs with what they must become; as programs or texts. Names, and what is unused, do not
            count.
        leaves: Programs that the rule must leave alone.
        tolerance: Relative RMS up to which results are equal.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.

    Raises:
        TextError: A text does not parse.
    """

    expects = "a rule, made with @wb.rule(pattern)"

    def __init__(
        self,
        question: str,
        changes: Sequence[tuple[Program | str, Program | str]],
        leaves: Sequence[Program | str] = (),
        *,
        tolerance: float = 1e-6,
        because: str = "",
        **options: Any,
    ) -> None:
        """Ask for a rule."""
        super().__init__(question, **options)
        self.changes = [(_program(a), _program(b)) for a, b in changes]
        self.leaves = [_program(p) for p in leaves]
        self.tolerance, self.because = tolerance, because

    def _check(self, given: Any) -> Feedback:
        if not isinstance(given, Rule):
            return Feedback(False, f"Expected {self.expects}; found {type(given).__name__}.")
        given_programs = [*(a for a, _ in self.changes), *self.leaves]
        report = check_rule(given, given_programs, count=20, tolerance=self.tolerance)
        broken = _broken(report)
        return self._cases(given) if broken is None else broken

    def _cases(self, rule: Rule) -> Feedback:
        for before, wanted in self.changes:
            found = _after(rule, before)
            if str(found) == str(before):
                return _seen(
                    "The rule does not apply to this program, but it should.", before, wanted
                )
            if str(found) != str(_after(rule, wanted)):
                return _seen(
                    "The results are equal, but something simpler is asked for.", found, wanted
                )
        for program in self.leaves:
            found = _after(rule, program)
            if str(found) != str(program):
                return _seen(
                    "The rule changes a program that it should leave alone.", program, found
                )
        return Feedback(True, self.because)


def _program(given: Program | str) -> Program:
    return parse(given, fill_seed=0) if isinstance(given, str) else given


def _after(rule: Rule, program: Program) -> Program:
    """A copy of a program after the rule."""
    made = program.clone()
    drive(made, [rule])
    return made


def _broken(report: RuleReport) -> Feedback | None:
    """The feedback to a rule that breaks its law, or never applies; None if it holds."""
    if report.passed:
        return None
    message = f"The law {report.rule.law!r} does not hold: {report.failure}"
    if report.before is None or report.after is None:
        return Feedback(False, message)
    return _seen(message, report.before, report.after)


def _seen(message: str, before: Program, after: Program) -> Feedback:
    """Feedback with two programs beside each other."""
    try:
        shown = differences(before, after, names=["before", "after"])
    except WorkbenchError:  # the rule made a program that is none
        shown = None
    return Feedback(False, message, shown)
