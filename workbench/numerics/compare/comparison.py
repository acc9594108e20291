"""A comparison: the runs that it makes, and the report of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.report.result import kernel_sources, kernel_text
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.lengths import with_lengths
from workbench.compiler.text.printing import names
from workbench.numerics.capture.source_values import SourceValues
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.compare.alignment import from_source
from workbench.numerics.compare.culprit import Culprit, ranked
from workbench.numerics.compare.diagnosis import Diagnosis
from workbench.numerics.compare.differences import Difference, Differences
from workbench.numerics.compare.expected import Expected, is_computed
from workbench.numerics.compare.guilty_edits import with_edits
from workbench.numerics.compare.measure import inherited, local
from workbench.numerics.compare.recapture import Recapture
from workbench.numerics.compare.report import NotCompared, Report, Row
from workbench.numerics.compare.sides import Counterpart, Same, Side, first_counterpart, keys_of
from workbench.numerics.metrics.metrics import Metrics

Counterparts = Mapping[int, Counterpart]
_GROWTH = 2
"""The factor by which a kernel may enlarge the errors that it reads."""


class Comparison:
    """The values of a build beside those of a reference.

    First the source of the build is compared with the reference's, if they are two: each instruction on the
    reference's values. Then the build is compared with its own source: each kernel on the source's values.
    So a difference of the models is not taken for one of the compiler.

    Args:
        subject: The build.
        inputs: An array for each parameter.
        side: The reference.
        tolerance: Relative RMS beyond which a value counts as wrong.
        tolerances: Others for single instructions, by id.
        budget: Bytes of expected values that are kept in memory; others are in a temporary folder.
        local: Measure local errors even if no inherited error is beyond its bound.
        progress: Show progress bars.
    """

    def __init__(
        self,
        subject: Build,
        inputs: Mapping[str, Any],
        side: Side,
        tolerance: float,
        tolerances: Mapping[int, float],
        budget: int,
        local: bool,
        progress: bool | None,
    ) -> None:
        """Check the inputs."""
        self.local = local
        self.subject = subject
        self.side = side
        self.tolerance = tolerance
        self.tolerances = tolerances
        self.budget = budget
        self.progress = progress
        self.inputs = check_inputs(subject.program, inputs)
        self._named = names(subject.program)
        self._source = from_source(subject)
        """The source's instructions whose value each compiled one computes, by id."""

    def report(self) -> Report:
        """Runs everything, and reports it."""
        with ExitStack() as stack:
            values = stack.enter_context(ValueStore(self.budget))
            theirs = self.side.capture(self.inputs, values, self.progress)
            if self.side.is_same_source:
                return self._report(theirs, values, theirs, values, [])
            # At the lengths of the run, values of different lens are told apart.
            fixed = with_lengths(self.subject.source, self.inputs)
            apart = Differences(fixed, self.inputs, theirs, values).found()
            own = stack.enter_context(ValueStore(self.budget))
            source = Same(self.subject, None, float64=True)
            return self._report(
                source.capture(self.inputs, own, self.progress), own, theirs, values, apart
            )

    def _report(
        self,
        own: Counterparts,
        own_values: ValueStore,
        theirs: Counterparts,
        values: ValueStore,
        apart: list[Difference],
    ) -> Report:
        pinned = keys_of(self._source, own)
        expected = Expected(self.subject.program, self.inputs, pinned, own_values)
        expected.fill(self.progress)

        ran, own_errors = self._as_ran(expected, theirs, values)
        main = self.subject.program.main
        bounds = {i.id: expected.bound(i) for i in main if i.id in own_errors}
        alone: dict[int, Metrics] = {}
        if self.local or self._is_suspicious(expected, own_errors, bounds):
            alone = local(self.subject, self.inputs, expected, self.progress)
        rows = [self._row(i, ran, alone, bounds, expected, theirs) for i in main if i.id in ran]
        every = [
            self._row(i, alone, alone, bounds, expected, theirs) for i in main if i.id in alone
        ]
        culprits = [
            *self._models(apart),
            *(self._diagnosis(expected).culprits(every) if alone else ()),
        ]
        missing = [*self._missing(ran, theirs)]
        found = list(with_edits(ranked(culprits), self.subject, self.inputs, self._source))
        sides = Recapture(self.subject, self.inputs, self.side, self.budget)
        return Report(
            self.subject.program, rows, self.tolerance, found, missing, self._results(), sides
        )

    def _is_suspicious(
        self, expected: Expected, errors: Mapping[int, Metrics], bounds: Mapping[int, float]
    ) -> bool:
        """Whether some error is larger than its kernel's rounding and the errors of what it reads explain.

        Then a diagnosis is due. An error may double on its way through a kernel; one that grows more is due
        to an ill-conditioned operation, or to a fault.
        """
        carried: dict[int, float] = {}
        for i in self.subject.program.main:
            read = max((carried.get(x.id, 0.0) for x in expected.reads(i)), default=0.0)
            if i.id not in bounds:
                carried[i.id] = read
                continue
            carried[i.id] = errors[i.id].error
            if errors[i.id].exceeds(bounds[i.id] + _GROWTH * read):
                return True
        return bool(expected.misfits) or expected.wrong_results()

    def _as_ran(
        self, expected: Expected, theirs: Counterparts, values: ValueStore
    ) -> tuple[dict[int, Metrics], dict[int, Metrics]]:
        """The inherited errors against the reference, and against the expected values: one run."""

        def wanted(instruction: Instruction) -> Value | None:
            found = self._counterpart(instruction, theirs)
            return None if found is None else values[found.key]

        if not self.side.is_same_source:
            ran, own = inherited(
                self.subject, self.inputs, [wanted, expected.__getitem__], self.progress
            )
            return ran, own

        def same(instruction: Instruction) -> Value | None:
            return (
                wanted(instruction) if instruction.id in expected.misfits else expected[instruction]
            )

        (ran,) = inherited(self.subject, self.inputs, [same], self.progress)
        return ran, ran

    def _diagnosis(self, expected: Expected) -> Diagnosis:
        return Diagnosis(
            expected, SourceValues(self.subject, self.inputs, self.budget), self._named
        )

    def _results(self) -> set[int]:
        """Ids of the instructions that compute the results; views are seen through."""
        found: set[int] = set()
        for output in self.subject.program.outputs:
            current = output
            while current.op.alias is not None and current.inputs:
                found.add(current.id)
                current = current.inputs[current.op.alias]
            found.add(current.id)
        return found

    def _counterpart(self, instruction: Instruction, theirs: Counterparts) -> Counterpart | None:
        return first_counterpart(self._source.get(instruction.id, ()), theirs)

    # Rows

    def _row(
        self,
        instruction: Instruction,
        ran: Mapping[int, Metrics],
        alone: Mapping[int, Metrics],
        bounds: Mapping[int, float],
        expected: Expected,
        theirs: Counterparts,
    ) -> Row:
        found = self._counterpart(instruction, theirs)
        since = expected.since(instruction)
        return Row(
            instruction.id,
            self._named[instruction.id],
            kernel_text(instruction),
            str(instruction.shape),
            "" if found is None else found.name,
            ran[instruction.id],
            kernel_sources(instruction),
            alone.get(instruction.id),
            bounds.get(instruction.id, 0.0),
            tuple(self._named[i.id] for i in since if i is not instruction),
            "float64" if found is None else found.how,
            self.tolerances.get(instruction.id),
        )

    def _missing(self, ran: Mapping[int, Metrics], theirs: Counterparts) -> Iterator[NotCompared]:
        """The values that were computed without a row, and why."""
        for i in self.subject.program.main:
            taken = [u for u in i.users if isinstance(u.op, GetTupleElem)]
            if is_computed(i) and not any(x.id in ran for x in (i, *taken)):
                has = self.side.is_same_source or self._counterpart(i, theirs) is not None
                reason = "the target does not compute it by itself" if has else "no counterpart"
                yield NotCompared(i.id, self._named[i.id], kernel_text(i), reason)

    # Causes

    def _models(self, apart: Iterable[Difference]) -> Iterator[Culprit]:
        """A culprit for each difference of the source programs."""
        for d in apart:
            id = self._compiled(d.id)
            instruction = self.subject.program.find(id)
            kernel = kernel_text(instruction) if instruction is not None else ""
            name = self._named.get(id, "")
            yield Culprit(id, name, kernel, d.cause, d.error, d.bound, d.sources, d.reason)

    def _compiled(self, id: int) -> int:
        """The compiled instruction that a source instruction became, or became a part of; else itself."""
        if id in self._named:
            return id
        became = self.subject.recording.lineage(id).descendants
        main = [k for k in became if k in self._named]
        return main[0] if main else id
