"""Checks of rules by their laws: a rule is tried on programs that match it, and must change no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.errors import EvaluationError, RewriteError, WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.laws.sample_programs import Grower, Unfit, numbers
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rule, drive
from workbench.compiler.run.reference import Interpreter

_TRIES = 4000
_MOST_EDITS = 200


@dataclass
class RuleReport:
    """The report on a rule; ``passed`` says whether its law held in every trial."""

    rule: Rule
    fired: int = 0
    """Number of programs to which it applied."""
    declined: Counter[str] = field(default_factory=Counter[str])
    """The reasons for which it declined, each with the number of programs."""
    failure: str = ""
    """The failure, if there was one; otherwise empty."""
    before: Program | None = None
    """The program on which it failed."""
    after: Program | None = None
    """That program after the rule."""
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """The inputs for which the results differ."""

    @property
    def passed(self) -> bool:
        """Whether it applied somewhere, and never changed a result."""
        return not self.failure

    def __bool__(self) -> bool:
        """Whether it passed."""
        return self.passed

    def __str__(self) -> str:
        """The verdict, and the program that breaks the law."""
        head = f"{self.rule.name}: {self.rule.law}"
        lines = [head, f"applied to {self.fired} programs"]
        lines += [f"declined {n}: {reason}" for reason, n in self.declined.most_common(5)]
        lines += [f"FAILED: {self.failure}"] if self.failure else ["the law holds on all of them"]
        lines += [f"before\n{self.before}"] if self.before is not None else []
        lines += [f"after\n{self.after}"] if self.after is not None else []
        return "\n".join(lines)

    __repr__ = __str__


def check_rule(
    rule: Rule,
    programs: Iterable[Program] = (),
    *,
    count: int = 100,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> RuleReport:
    """Try a rule by its law on random programs that match its pattern, and on given ones.

    Each program is run before and after the rule, with every float in float64: the results must be equal,
    the program valid, and repeated application of the rule must end.

    Args:
        rule: The rule; made by ``wb.rule``.
        programs: More programs to try it on; they are not changed.
        count: The number of random programs to which it must apply before the check ends.
        tolerance: Relative RMS up to which results are equal: more than 1e-6 for an approximation.
        seed: Seed of the random programs and of all inputs.

    Returns:
        The report; if the law is broken, with the program, its inputs, and the program after the rule.

    Raises:
        RewriteError: The argument is not a rule.
    """
    if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RewriteError(
            f"{rule!r} is not a rule; make one from a function with @wb.rule(pattern)"
        )
    report = RuleReport(rule)
    random = Random(seed)
    for program in programs:
        if not _try(report, program.clone(), random, tolerance):
            return report
    given = report.fired
    for _ in range(_TRIES):
        if report.fired - given >= count:
            break
        program = _grown(rule, random)
        if program is not None and not _try(report, program, random, tolerance):
            return report
    if not report.fired:
        report.failure = (
            f"no program in {_TRIES} tries matched its pattern; pass some that do as programs="
            if not report.declined
            else "it declined everywhere; pass programs to which it applies as programs="
        )
    return report


def _grown(rule: Rule, random: Random) -> Program | None:
    """A program whose last instruction the rule may match."""
    grower = Grower(random)
    try:
        with np.errstate(all="ignore"):
            root = grower.grow(rule.pattern)
    except (Unfit, WorkbenchError):
        return None
    found = rule.match(root)
    return None if found is None else grower.program


def _try(report: RuleReport, program: Program, random: Random, tolerance: float) -> bool:
    """Apply the rule everywhere in a program; returns whether its law held."""
    before = program.clone()
    inputs = {n: numbers(random, _static(s)) for n, s in program.parameters.items()}
    try:
        validate(program)
        _results(program, inputs, True)
    except WorkbenchError:
        return True  # the program fails even without the rule
    try:
        with Recording(program) as recording:
            edits = drive(program, (report.rule,), _MOST_EDITS)
        validate(program)
    except WorkbenchError as error:
        return _fail(report, f"{error}", before, program, inputs)
    report.declined.update({_without_ids(m.reason) for m in recording.near_misses()})
    if not edits:
        return True
    report.fired += 1
    failure = _difference(before, program, inputs, tolerance)
    return _fail(report, failure, before, program, inputs) if failure else True


def _difference(before: Program, after: Program, inputs: dict[str, Any], tolerance: float) -> str:
    """The difference of results, both in float64 and as typed; empty if there is none.

    One alone can differ for reasons outside the law: as typed, sums are rounded in another order; in
    float64, a conversion to a narrow type neither rounds nor saturates.
    """
    found = ""
    for float64 in (True, False):
        limit = tolerance if float64 else max(tolerance, program_tolerance(after))
        try:
            pairs = zip(
                _results(before, inputs, float64), _results(after, inputs, float64), strict=True
            )
        except EvaluationError as error:
            return f"a run fails: {error}"
        reasons = [(i, difference(a, b, limit)) for i, (a, b) in enumerate(pairs)]
        reason = next((f"output {i}: {r}" for i, r in reasons if r), "")
        if not reason:
            return ""
        found = found or reason
    return found


def _results(program: Program, inputs: dict[str, Any], float64: bool) -> list[Any]:
    with np.errstate(all="ignore"):
        return list(Interpreter(program, float64=float64).run(inputs))


def _static(shape: Shape) -> Shape:
    """A shape with its ranges at their first optimal length, or else at their minimum."""
    if shape.dims is None:
        return shape
    return Shape(shape.type, [(d.optimals or (d.min,))[0] for d in shape.dims])


def _without_ids(reason: str) -> str:
    return " ".join(w if not w.startswith("#") else "#…" for w in reason.split(" "))


def _fail(
    report: RuleReport, failure: str, before: Program, after: Program, inputs: dict[str, Any]
) -> bool:
    report.failure, report.before, report.after = failure, before, after
    report.inputs.update(inputs)
    return False
