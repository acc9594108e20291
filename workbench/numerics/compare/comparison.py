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
from workbench.numerics.compare.sides import (
    Counterpart,
    Same,
    Side,
    Values,
    first_counterpart,
    keys_of,
)
from workbench.numerics.compare.streamed import Streamed
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
        self._theirs: Counterparts = {}
        self._expected: Expected | None = None
        self._ran: dict[int, Metrics] = {}
        """The inherited errors against the reference."""
        self._alone: dict[int, Metrics] = {}
        """The local errors."""
        self._culprits: list[Culprit] = []

    def report(self) -> Report:
        """Runs everything, and reports it.

        Raises:
            KeyboardInterrupt: The user stopped it; ``error.result`` is the report of what was measured.
        """
        with ExitStack() as stack:
            values = stack.enter_context(ValueStore(self.budget))
            try:
                return self._compared(stack, values)
            except KeyboardInterrupt as error:
                vars(error)["result"] = self._report(is_complete=False)
                raise

    def _compared(self, stack: ExitStack, values: ValueStore) -> Report:
        if isinstance(self.side, Same):
            if self.side.is_streamed and not self.local and self._is_sound(self.side, values):
                return self._report()
            with self.side.capturing(self.inputs, values, self.progress) as (theirs, arriving):
                return self._measured(self.side, theirs, arriving, theirs, arriving)
        theirs = self.side.capture(self.inputs, values, self.progress)
        # At the lengths of the run, values of different lens are told apart.
        fixed = with_lengths(self.subject.source, self.inputs)
        apart = Differences(fixed, self.inputs, theirs, values).found()
        self._culprits += self._models(apart)
        own = stack.enter_context(ValueStore(self.budget))
        source = Same(self.subject, None, float64=True)
        with source.capturing(self.inputs, own, self.progress) as (known, arriving):
            return self._measured(source, known, arriving, theirs, values)

    def _is_sound(self, side: Same, values: ValueStore) -> bool:
        """Measure the inherited errors; whether they need no diagnosis. No value is kept for one."""
        at = {id: ids[0] for id, ids in self._source.items() if ids}
        results = {o.id for o in self.subject.program.outputs}
        main = {i.id: i for i in self.subject.program.main}
        wanted = {at[id] for id in at if id in results or is_computed(main[id])}
        wanted.update(key for parts in side.joined.values() for key in parts.keys)
        with side.streaming(self.inputs, values, wanted) as (theirs, arriving):
            keys = keys_of(self._source, theirs)
            shapes = {id: side.source.instruction(id).shape for id in theirs}
            self._theirs = theirs
            self._expected = expected = Streamed(
                self.subject.program, self.inputs, keys, arriving, shapes, side.joined
            )
            errors = self._as_ran(expected, theirs, arriving)
            is_sound = not self._is_suspicious(expected, errors)
        values.close()
        return is_sound

    def _measured(
        self,
        source: Same,
        own: Counterparts,
        own_values: Values,
        theirs: Counterparts,
        values: Values,
    ) -> Report:
        pinned = keys_of(self._source, own)
        self._theirs = theirs
        self._expected = expected = Expected(
            self.subject.program, self.inputs, pinned, own_values, joined=source.joined
        )
        is_known = self.side.is_same_source and bool(self._ran)
        own_errors = self._ran if is_known else self._as_ran(expected, theirs, values)
        main = self.subject.program.main
        if self.local or self._is_suspicious(expected, own_errors):
            local(self.subject, self.inputs, expected, self._alone, self.progress)
            every = [self._row(i, self._alone) for i in main if i.id in self._alone]
            self._culprits += self._diagnosis(expected).culprits(every)
        found = ranked(self._culprits)
        self._culprits = list(with_edits(found, self.subject, self.inputs, self._source))
        return self._report()

    def _report(self, is_complete: bool = True) -> Report:
        """The report of what is known by now."""
        rows = [self._row(i, self._ran) for i in self.subject.program.main if i.id in self._ran]
        return Report(
            self.subject.program,
            rows,
            self.tolerance,
            ranked(self._culprits),
            [*self._missing(is_complete)],
            self._results(),
            Recapture(self.subject, self.inputs, self.side, self.budget),
            is_complete=is_complete,
        )

    def _is_suspicious(self, expected: Expected, errors: Mapping[int, Metrics]) -> bool:
        """Whether some error is larger than its kernel's rounding and the errors of what it reads explain.

        Then a diagnosis is due. An error may double on its way through a kernel; one that grows more is due
        to an ill-conditioned operation, or to a fault.
        """
        carried: dict[int, float] = {}
        for i in self.subject.program.main:
            read = max((carried.get(x.id, 0.0) for x in expected.reads(i)), default=0.0)
            if i.id not in errors:
                carried[i.id] = read
                continue
            carried[i.id] = errors[i.id].error
            if errors[i.id].exceeds(expected.bound(i) + _GROWTH * read):
                return True
        return bool(expected.misfits) or expected.wrong_results()

    def _as_ran(
        self, expected: Expected, theirs: Counterparts, values: Values
    ) -> dict[int, Metrics]:
        """Measure the inherited errors against the reference; returns those against the expected values."""

        def wanted(instruction: Instruction) -> Value | None:
            found = self._counterpart(instruction, theirs)
            return None if found is None else values[found.key]

        def same(instruction: Instruction) -> Value | None:
            return wanted(instruction) if expected.is_misfit(instruction) else expected[instruction]

        if self.side.is_same_source:
            inherited(self.subject, self.inputs, [(same, self._ran)], self.progress)
            return self._ran
        own: dict[int, Metrics] = {}
        both = [(wanted, self._ran), (expected.__getitem__, own)]
        inherited(self.subject, self.inputs, both, self.progress)
        return own

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

    def _row(self, instruction: Instruction, errors: Mapping[int, Metrics]) -> Row:
        assert self._expected is not None  # there are errors
        found = self._counterpart(instruction, self._theirs)
        since = self._expected.since(instruction)
        return Row(
            instruction.id,
            self._named[instruction.id],
            kernel_text(instruction),
            str(instruction.shape),
            "" if found is None else found.name,
            errors[instruction.id],
            kernel_sources(instruction),
            self._alone.get(instruction.id),
            self._expected.bound(instruction),
            tuple(self._named[i.id] for i in since if i is not instruction),
            "float64" if found is None else found.how,
            self.tolerances.get(instruction.id),
        )

    def _missing(self, is_complete: bool) -> Iterator[NotCompared]:
        """The values that were computed without a row, and why."""
        for i in self.subject.program.main:
            taken = [u for u in i.users if isinstance(u.op, GetTupleElem)]
            if is_computed(i) and not any(x.id in self._ran for x in (i, *taken)):
                has = self.side.is_same_source or self._counterpart(i, self._theirs) is not None
                reason = "the target does not compute it by itself" if has else "no counterpart"
                reason = reason if is_complete else "the comparison was stopped"
                yield NotCompared(i.id, self._named[i.id], kernel_text(i), reason)

    # Causes

    def _models(self, apart: Iterable[Difference]) -> Iterator[Culprit]:
        """A culprit for each difference of the source programs."""
        for d in apart:
            id = self._compiled(d.id)
            instruction = self.subject.program.find(id)
            kernel = kernel_text(instruction) if instruction is not None else ""
            name = self._named.get(id, "")
            inside = self.side.changed_inside(d.id)
            nodes = tuple(dict.fromkeys((*inside, *d.sources)))
            reason = f"{d.reason}, at {', '.join(inside[:4])} inside of it" if inside else d.reason
            yield Culprit(id, name, kernel, d.cause, d.error, d.bound, nodes, reason)

    def _compiled(self, id: int) -> int:
        """The compiled instruction that a source instruction became, or became a part of; else itself."""
        if id in self._named:
            return id
        became = self.subject.recording.lineage(id).descendants
        main = [k for k in became if k in self._named]
        return main[0] if main else id
