"""Checks of rules by their laws: a rule is tried on programs that match it, and must change no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from typing import cast as typed

import numpy as np

from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.errors import EvaluationError, RewriteError, WorkbenchError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.laws.sample_programs import Grower, Unfit, numbers
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.elementwise import cast
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rule, drive
from workbench.compiler.run.inputs import repeated
from workbench.compiler.run.reference import Interpreter, Known, run

_TRIES = 4000
_VAIN_TRIES = 1000
"""Tries after which a rule that applied to given programs, and to none that was made, has no more made."""
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
    the program valid, and repeated application of the rule must end. They must also be equal
    at the edges of types (NaN, infinities, the largest numbers, subnormals, the ends of integers, empty
    axes), except those that the rule declares.

    Args:
        rule: The rule; made by ``wb.rule``.
        programs: More programs to try it on; they are not changed.
        count: The number of random programs to which it must apply before the check ends; the second
            half of them have constants at an edge.
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
    trial = _Trial(RuleReport(rule), Random(seed), tolerance)
    if all(trial.holds(p.clone(), None) for p in programs):
        given = trial.report.fired
        for tried in range(_TRIES):
            made = trial.report.fired - given
            if made >= count or (given and not made and tried >= _VAIN_TRIES):
                break
            if not trial.holds_on_a_made_program(usual=given + count // 2):
                break
        _expect_tried(trial.report)
    return trial.report


def _expect_tried(report: RuleReport) -> None:
    """A failure, if there is none yet and the rule applied nowhere."""
    if not report.fired and not report.failure:
        report.failure = (
            f"no program in {_TRIES} tries matched its pattern; pass some that do as programs="
            if not report.declined
            else "it declined everywhere; pass programs to which it applies as programs="
        )


@dataclass
class _Trial:
    report: RuleReport
    random: Random
    tolerance: float

    @property
    def edges(self) -> list[Edge]:
        """The edges at which the law has to hold."""
        return [e for e in Edge if e not in self.report.rule.except_at]

    def holds_on_a_made_program(self, usual: int) -> bool:
        """Whether the law holds on one more program; the first ``usual`` ones have no edges."""
        edge = None if self.report.fired < usual or not self.edges else self._edge()
        grower = Grower(self.random, edge)
        try:
            with np.errstate(all="ignore"):
                root = grower.grow(self.report.rule.pattern)
        except (Unfit, WorkbenchError):
            return True
        if self.report.rule.match(root) is None:
            return True
        return self.holds(grower.program, edge)

    def _edge(self) -> Edge:
        return self.random.choice(self.edges)

    def holds(self, program: Program, edge: Edge | None) -> bool:
        """Apply the rule everywhere in a program; whether its law held, at an edge and elsewhere."""
        before = program.clone()
        inputs = self._inputs(program, edge)
        try:
            validate(program)
            _results(program, inputs, True)
        except WorkbenchError:
            return True  # the program fails even without the rule
        try:
            with Recording(program) as recording:
                edits = drive(program, (self.report.rule,), _MOST_EDITS)
            validate(program)
        except WorkbenchError as error:
            return self._fail(f"{error}", before, program, inputs)
        missed = (_without_ids(m.reason) for s in recording for m in s.recorded_misses)
        self.report.declined.update(missed)
        if not edits:
            return True
        self.report.fired += 1
        if edge is None:
            if failure := _difference(before, program, inputs, self.tolerance):
                return self._fail(failure, before, program, inputs)
            edge = self._edge() if self.edges else None
            inputs = self._inputs(before, edge)
        if failure := _difference_at_an_edge(before, program, inputs, self.tolerance):
            where = "" if edge is None else f"at {edge.value}, "
            return self._fail(f"{where}{failure}", before, program, inputs)
        return True

    def _inputs(self, program: Program, edge: Edge | None) -> dict[str, Any]:
        return {
            n: repeated(numbers(self.random, _static(s), edge), s)
            for n, s in program.parameters.items()
        }

    def _fail(self, failure: str, before: Program, after: Program, inputs: dict[str, Any]) -> bool:
        report = self.report
        report.failure, report.before, report.after = failure, before, after
        report.inputs.update(inputs)
        return False


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


# At the edges of types


class _Exactly(Interpreter):
    """Computes in float64, but converts as typed; knows the largest number that was on the way."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, float64=True)
        self.largest = 0.0

    def _value(self, instruction: Instruction, inputs: list[Value], known: Known) -> Value:
        value = super()._value(instruction, inputs, known)
        type = instruction.shape.type
        if isinstance(instruction.op, Convert) and type.is_float:
            value = cast(np.asarray(value), type.numpy).astype(np.float64)
        for part in value if isinstance(value, tuple) else (value, *inputs):
            self._measure(part)
        return value

    def _measure(self, value: Value) -> None:
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            finite = np.abs(value[np.isfinite(value)])
            self.largest = max(self.largest, float(finite.max(initial=0)))


def _difference_at_an_edge(
    before: Program, after: Program, inputs: dict[str, Any], tolerance: float
) -> str:
    """The difference of results in float64, or as typed if those agree; empty where there is none.

    What may be rounded elsewhere is as large as the largest number on the way: near the end of a type's
    range, that is more than most results.
    """
    with np.errstate(all="ignore"):
        exactly = _Exactly(before)
        try:
            wanted = exactly.run(inputs)
        except EvaluationError:
            return ""  # an index out of range
        try:
            found = _Exactly(after).run(inputs)
            reason = _apart(wanted, found, tolerance, exactly.largest)
            if reason:
                rough = max(tolerance, program_tolerance(after))
                as_typed = _apart(run(before, inputs), run(after, inputs), rough, exactly.largest)
                reason = reason if as_typed else ""
        except EvaluationError as error:
            return f"a run fails: {error}"
    return reason


def _apart(wanted: list[Any], found: list[Any], limit: float, largest: float) -> str:
    """The first output that differs, by more than a rounding of the largest number; empty if none does."""
    for i, (a, b) in enumerate(zip(wanted, found, strict=True)):
        reason = difference(a, b, limit)
        if reason and not _is_near(a, b, limit * largest):
            return f"output {i}: {reason}"
    return ""


def _is_near(a: Any, b: Any, limit: float) -> bool:
    """Whether two float arrays differ by no more than a limit anywhere."""
    one, other = typed("Array", a), typed("Array", b)
    if not isinstance(a, np.ndarray) or not DType.of(one.dtype).is_float:
        return False
    x, y = one.astype(np.float64), other.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return bool(np.all(same | (np.abs(x - y) <= limit)))


def _static(shape: Shape) -> Shape:
    """A shape with its ranges at their first optimal length, or else at their minimum."""
    if shape.dims is None:
        return shape
    return Shape(shape.type, [(d.optimals or (d.min,))[0] for d in shape.dims])


def _without_ids(reason: str) -> str:
    return " ".join(w if not w.startswith("#") else "#…" for w in reason.split(" "))
