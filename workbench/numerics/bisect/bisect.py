"""Finds where a compilation goes wrong: the pass, the edit, the instruction and its nodes of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.garbage import rarely_collected
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.targets import target_named
from workbench.compiler.errors import DeviceError, EvaluationError, InputError, WorkbenchError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selectors, select
from workbench.compiler.laws.claims import Claim, claims, unchanged
from workbench.compiler.passes.base import Pass
from workbench.compiler.progress import progress_bar
from workbench.compiler.record.edits import Step
from workbench.compiler.record.recording import LOWERING, Recording
from workbench.compiler.report.result import kernel_sources
from workbench.compiler.run.failures import place
from workbench.compiler.run.results import as_result
from workbench.numerics.bisect.bisection import Bisection, Check, WrongValue
from workbench.numerics.bisect.evaluations import Evaluation, Evaluations
from workbench.numerics.metrics.limits import Distance, Limits, expect_tolerance, limits_of, worst

_INCOMPARABLE = Distance(float("inf"), 0.0)


def bisect(
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    target: str = "auto",
    metric: Metric = Metric.RELATIVE_RMS,
    tolerance: float | None = None,
    passes: Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]] | None = None,
    disable: str | Iterable[str] = (),
    precision: str | None = None,
    keep: Selectors = (),
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Bisection:
    """Find the pass, the edit and the instruction where a compilation goes wrong.

    The program is compiled, and programs of the recording are run on NumPy in float64, where rounding does
    not hide a fault. Binary search finds the step after which outputs first differ from the source's, then
    the edit inside that step. A program runs only where it differs from those that ran before. If all passes
    are right, the target's own run is compared, value by value.

    Random operations draw the same numbers in every run. Lengths that the program leaves open are those of
    the inputs.

    Args:
        program: The program to compile.
        inputs: An array for each parameter, by name; omitted ones are generated from ``seed``.
        target: The target to compile for and to run on.
        metric: The metric that is compared with the tolerance.
        tolerance: The largest error of a right value; by default that of the narrowest type that a
            step of the compilation rounds to (docs/numbers.md), and integers have to be equal.
        passes: As for ``compile``.
        disable: As for ``compile``.
        precision: As for ``compile``.
        keep: As for ``compile``.
        device: As for ``compile``.
        seed: Seed of the generated inputs.
        progress: Show a progress bar; by default if it takes longer than a second.

    Returns:
        What was found. A pass that fails is found, too, as is a run on the target that fails.

    Raises:
        InputError: An input does not fit its parameter.
        OperationError: The target, a pass or an option is unknown, or the metric needs a tolerance.
        EvaluationError: The program itself fails on these inputs.
        DeviceError: All passes are right, but the device is not there to run on.
    """
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = type(program).__name__
        raise InputError(f"bisect: expected a program that is not compiled, found {found}")
    given = completed_inputs(program, inputs, seed)
    expect_tolerance(metric, tolerance)
    chosen = target_named(target)
    select(program, keep)  # a selector that chooses nothing is the caller's mistake, not a pass's
    try:
        build = compile(
            program,
            target,
            passes=passes,
            disable=disable,
            precision=precision,
            keep=keep,
            device=device,
        ).specialised(given)
    except WorkbenchError as error:
        if not (error.recording and error.recording.steps):
            raise
        return _failed(error, chosen.name, limits_of(metric, tolerance, error.recording))
    with rarely_collected():
        limits = limits_of(metric, tolerance, build.recording)
        checks = range(_most_checks(build.recording))
        with progress_bar(checks, progress, "bisect") as bar:
            return _Search(build, given, limits, iter(bar)).found()


def _failed(error: WorkbenchError, target: str, limits: Limits) -> Bisection:
    """The answer for a compilation that stopped."""
    recording: Recording = error.recording
    step = recording.steps[-1]
    kind = "kernel" if step.name == LOWERING else "pass"
    check = Check(step.index, step.name, None, _INCOMPARABLE, 0, str(error))
    return Bisection(kind, target, limits, recording, (check,), 0, 0, step=step, problem=str(error))


def _most_checks(recording: Recording) -> int:
    changed = [len(s.edits) for s in recording if s.changed]
    return 3 + len(changed).bit_length() + max(changed, default=0).bit_length()


def where_it_went_wrong(
    build: Build, inputs: Mapping[str, Any], value: int, tolerance: float
) -> Bisection:
    """Find the pass and the edit of a build after which one value of the source has changed.

    Args:
        build: A build that was recorded.
        inputs: An array for each parameter.
        value: The id of an instruction of the source.
        tolerance: The largest relative RMS of a right value.

    Raises:
        EvaluationError: The program itself fails on these inputs.
    """
    limits = replace(limits_of(Metric.RELATIVE_RMS, None, build.recording), tolerance=tolerance)
    return _Search(build, inputs, limits, iter(()), value).passes()


class _Search:
    """One bisection: the checks that were made, and the last right and the first wrong program."""

    def __init__(
        self,
        build: Build,
        given: Mapping[str, Any],
        limits: Limits,
        ticks: Iterator[int],
        value: int | None = None,
    ) -> None:
        self.build = build
        self.value = value
        """The source's instruction whose value is compared; None compares outputs."""
        self.given = given
        self.limits = limits
        self.ticks = ticks
        self.recording = build.recording
        self.checks: list[Check] = []
        self.all = Evaluations(build.source, given)
        self.source = self.all.of(build.source)
        self.right: Evaluation = self.source
        self.wrong: Evaluation | None = None
        self.problem = ""
        self.failed: Instruction | None = None

    def found(self) -> Bisection:
        """Search the passes, then the run."""
        answer = self.passes()
        return answer if answer.found else self._run()

    def passes(self) -> Bisection:
        """Search the passes."""
        self.checks.append(Check(-1, "source", None, Distance(0.0, 0.0), self.all.evaluated))
        changed = [s for s in self.recording if s.changed]
        if not changed or self._is_right(changed[-1]):
            return self._answer("none")
        step = changed[self._first_wrong(len(changed), lambda k: self._is_right(changed[k]))]
        edits = step.edits
        edit = edits[self._first_wrong(len(edits), lambda k: self._is_right(step, k))]
        culprit = self._culprit(step, edit.index) if self.wrong else _failing(self.failed)
        return self._answer("pass", step=step, edit=edit, culprit=culprit, problem=self.problem)

    def _first_wrong(self, count: int, is_right: Callable[[int], bool]) -> int:
        """The first of several, the last of which is known to be wrong."""
        low, high = -1, count - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_right(middle) else (low, middle)
        return high

    def _answer(self, kind: str, **found: Any) -> Bisection:
        made = self.build.target.name, self.limits, self.recording, tuple(self.checks)
        return Bisection(kind, *made, self.all.runs, self.all.evaluated, **found)

    # Programs of the recording

    def _is_right(self, step: Step, edit: int | None = None) -> bool:
        """Whether outputs after a step, or after an edit of it, are within tolerance; keeps the program."""
        next(self.ticks, None)
        before = self.all.evaluated
        distance, problem, evaluation = _INCOMPARABLE, "", None
        try:
            evaluation = self.all.of(self._program(step, edit))
            distance, problem = self._distance(evaluation), self._unlike(evaluation)
        except WorkbenchError as error:
            problem, self.failed = f"a run fails: {error}", getattr(error, "instruction", None)
        done = self.all.evaluated - before
        self.checks.append(Check(step.index, step.name, edit, distance, done, problem))
        if evaluation is not None and self.checks[-1].within:
            self.right = evaluation
            return True
        self.wrong, self.problem = evaluation, problem
        return False

    def _program(self, step: Step, edit: int | None) -> Program:
        """The program after a step, or after an edit of it."""
        if edit is not None:
            return step.after_edit(edit)
        later = self.recording.steps[step.index + 1 :]
        return step.after if any(s.changed for s in later) else self.build.program

    def _distance(self, found: Evaluation) -> Distance:
        if self.value is not None and (alive := self._alive(found)) is not None:
            wanted = self.source.values({self.value})[self.value]
            return self.limits.between(found.values({alive})[alive], wanted)
        pairs = zip(found.outputs, self.source.outputs, strict=False)
        return worst([self.limits.between(a, b) for a, b in pairs])

    def _alive(self, found: Evaluation) -> int | None:
        """The instruction of a program that computes the value that is compared."""
        equal = self.recording.relations.equals(self.value or 0)
        return next((i.id for i in reversed(found.program.main) if i.id in equal), None)

    def _unlike(self, found: Evaluation) -> str:
        """A difference of outputs that needs no look at elements: their number or type; empty without."""
        ours, theirs = ([o.shape for o in e.program.outputs] for e in (found, self.source))
        if len(ours) != len(theirs):
            return f"{len(ours)} outputs; the source has {len(theirs)}"
        changed = [k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.type != b.type]
        if changed:
            a, b = ours[changed[0]].type, theirs[changed[0]].type
            return f"output {changed[0]} is {a.type_name}; the source's is {b.type_name}"
        return ""

    # The instruction

    def _culprit(self, step: Step, edit: int) -> WrongValue | None:
        """The first value that the edit made another one than it says."""
        before, after = self.right, self.wrong
        assert after is not None  # a program that fails has no values
        stated = claims(step.edits[edit], before.program, after.program)
        for pairs in (stated, unchanged(before.program, after.program)):
            if (found := self._first_broken(pairs, before, after)) is not None:
                return found
        return None

    def _first_broken(
        self, pairs: Sequence[Claim], before: Evaluation, after: Evaluation
    ) -> WrongValue | None:
        wanted = before.values({c.before.id for c in pairs})
        found = after.values({c.after.id for c in pairs})
        for claim in pairs:
            distance = self.limits.between(found[claim.after.id], wanted[claim.before.id])
            if not distance.within:
                return _blamed(claim, distance)
        return None

    # The run on the target

    def _run(self) -> Bisection:
        """Compare the target's run with the compiled program in float64."""
        next(self.ticks, None)
        name = f"run on {self.build.target.name}"
        at = len(self.recording.steps) - 1
        given = completed_inputs(self.build.program, self.given)
        try:
            outputs = self.build.evaluator().run(given)
        except (EvaluationError, DeviceError) as error:
            if isinstance(error, DeviceError) and error.instruction is None:
                raise  # no fault of the compilation
            self.checks.append(Check(at, name, None, _INCOMPARABLE, 0, str(error)))
            return self._answer("kernel", problem=str(error), culprit=_failing(error.instruction))
        distance = worst(self._as_run(outputs))
        self.checks.append(Check(at, name, None, distance, 0))
        if distance.within:
            return self._answer("none")
        return self._answer("kernel", culprit=self._wrong_as_run(given))

    def _as_run(self, outputs: Sequence[Any]) -> Iterator[Distance]:
        last = self.right
        for value, wanted, output in zip(outputs, last.outputs, last.program.outputs, strict=True):
            yield self.limits.between(value, as_result(wanted, output.shape))

    def _wrong_as_run(self, given: Mapping[str, Any]) -> WrongValue | None:
        """The first value that its own computation makes wrong as run; else the first wrong value."""
        values: dict[int, Any] = {}

        def keep(instruction: Instruction, value: Any, _: object) -> None:
            values[instruction.id] = value

        self.build.evaluator().run(given, hook=keep)
        main = [i for i in self.right.program.main if i.id in values]
        wanted = self.right.values({i.id for i in main})
        first: WrongValue | None = None
        for i in main:
            distance = self.limits.between(values[i.id], wanted[i.id])
            if distance.within:
                continue
            if not self._is_right_alone(i, values):
                return WrongValue(i.id, place(i), kernel_sources(i), distance)
            first = first or WrongValue(i.id, place(i), kernel_sources(i), distance, shares=True)
        return first

    def _is_right_alone(self, i: Instruction, values: Mapping[int, Any]) -> bool:
        """Whether a value as run is within tolerance of float64 on the same operands."""
        try:
            alone = self.right.computed_from(i, values)
        except EvaluationError:
            return False
        return self.limits.between(values[i.id], alone).within


def _failing(i: Instruction | None) -> WrongValue | None:
    """The instruction that failed, if it is known."""
    return None if i is None else WrongValue(i.id, place(i), kernel_sources(i), _INCOMPARABLE)


def _blamed(claim: Claim, distance: Distance) -> WrongValue:
    old, new = claim
    sources = dict.fromkeys([*kernel_sources(new), *kernel_sources(old)])
    same = old.id == new.id and old.op == new.op
    text = "" if same else place(old)
    return WrongValue(new.id, place(new), tuple(sources), distance, old.id, text)
