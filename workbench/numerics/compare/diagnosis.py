"""The diagnosis of a comparison: which rows have an error of their own, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.report.result import kernel_sources
from workbench.numerics.capture.source_values import SourceValues
from workbench.numerics.compare.culprit import Cause, Culprit
from workbench.numerics.compare.expected import Expected, lens_of
from workbench.numerics.compare.inside import Part, parts_of
from workbench.numerics.compare.measure import distance
from workbench.numerics.compare.report import Row
from workbench.numerics.metrics.metrics import Metrics
from workbench.numerics.metrics.rounding import is_narrow, precision_bound

_WORSE = 8
"""The multiple of the error of the same types in NumPy from which a kernel is blamed."""


@dataclass(frozen=True)
class Diagnosis:
    """Finds the causes of the rows of a comparison.

    Attributes:
        expected: The expected values of the compiled program.
        source: The values of the source program.
        names: Printed names by instruction id.
    """

    expected: Expected
    source: SourceValues
    names: Mapping[int, str]

    def culprits(self, rows: Iterable[Row]) -> Iterator[Culprit]:
        """A culprit for each row that has an error of its own, and for each wrong view."""
        views = list(self._views())
        yield from views
        for row in rows:
            misfits = row.id in self.expected.misfits
            if misfits or (row.local is not None and row.local.exceeds(row.bound)):
                found = None if self._reads_through(row, views) else self._blame(row)
                if found is not None:
                    yield found

    def _views(self) -> Iterator[Culprit]:
        """Views whose value is not the reference's, although what they show is."""
        for instruction, wanted in self.expected.views():
            apart = distance(self.expected[instruction], wanted)
            ran = self.expected.since(instruction)
            bound = self._narrowest if self.is_narrow else _WORSE * self.expected.bound(instruction)
            if apart.exceeds(bound):
                nodes = self._first_unlike(ran, bound) or kernel_sources(instruction)
                reason = f"it shows something else than the reference's value, by {_shown(apart)}"
                yield Culprit(
                    instruction.id, self.names[instruction.id], instruction.name, Cause.REWRITE,
                    apart.error, bound, nodes, reason,
                )  # fmt: skip

    @cached_property
    def _narrowest(self) -> float:
        return max(map(precision_bound, self.expected.program.instructions), default=0.0)

    def _reads_through(self, row: Row, views: list[Culprit]) -> bool:
        """Whether a row only has the error of a view that it reads."""
        wrong = {v.id for v in views}
        return any(i.id in wrong for i in self.expected.since(self.expected.at(row.id)))

    def _blame(self, row: Row) -> Culprit | None:
        instruction = self.expected.at(row.id)
        if instruction.id in self.expected.misfits:
            reason = f"a value of {row.shape}, unlike the reference's"
            return _culprit(row, Cause.REWRITE, inf, 0.0, reason)
        ran = self.expected.since(instruction)
        if self.is_narrow:
            return self._kernel(row, instruction) or self._doubted(
                self._precision(row, instruction, ran), instruction
            )
        return (
            self._rewrite(row, instruction, ran)
            or self._kernel(row, instruction)
            or self._precision(row, instruction, ran)
        )

    @cached_property
    def is_narrow(self) -> bool:
        """Whether the program computes in less than float anywhere; its constants are rounded, then."""
        return any(map(is_narrow, self.expected.program.instructions))

    def _rewrite(
        self, row: Row, instruction: Instruction, ran: list[Instruction]
    ) -> Culprit | None:
        """Float64 gives something else than the reference: what the compiled instructions mean differs."""
        again = distance(self.expected.recomputed(instruction), self.expected[instruction])
        bound = _WORSE * self.expected.bound(instruction)
        if not again.exceeds(bound):
            return None
        reason = (
            f"in float64, too, it differs from the reference by {_shown(again)}, so a rewrite changed "
            "what it computes"
        )
        all_nodes = tuple(dict.fromkeys(s for i in reversed(ran) for s in kernel_sources(i)))
        nodes = self._first_unlike(ran, bound) or all_nodes
        return _culprit(row, Cause.REWRITE, again.error, bound, reason, nodes)

    def _first_unlike(self, ran: list[Instruction], bound: float) -> tuple[str, ...]:
        """Nodes of the first value, of those read and computed, that differs from the source's value.

        An instruction may stand for several of the source: rewrites said that they are equal. So each is
        compared, those inside fused instructions, too. Nodes between the last right values and the first
        wrong one are named as well: nothing of them may be left.
        """
        right: set[int] = set()
        unknown: list[str] = []
        for instruction, value in self._values(ran):
            ids = self.source.ids(instruction.id)
            for id, wanted in self.source.values(ids).items():
                if lens_of(wanted) == lens_of(value) and distance(value, wanted).exceeds(bound):
                    nodes = self.source.nodes_since(id, right)
                    return tuple(dict.fromkeys([*nodes, *instruction.sources[-1:], *unknown]))
            right.update(ids)
            unknown = [] if ids else [*unknown, *instruction.sources]
        return ()

    def _values(self, ran: list[Instruction]) -> Iterator[tuple[Instruction, Value]]:
        """The values that instructions read and compute in float64, in order; first those inside of each."""
        e, own = self.expected, {i.id for i in ran}
        read = {r.id: r for i in ran for r in e.reads(i) if r.id not in own}
        for instruction in read.values():
            yield instruction, e[instruction]
        for instruction in ran:
            inside = _Inside()
            value = e.exact.value(instruction, e.operands(instruction), inside)
            yield from inside.values
            yield instruction, value

    def _kernel(self, row: Row, instruction: Instruction) -> Culprit | None:
        """The kernel, if it is worse than NumPy with the same types."""
        assert row.local is not None
        try:
            value = self.expected.as_typed(instruction)
        except EvaluationError:
            return None
        typed = distance(value, self.expected[instruction])
        if not _is_worse(row.local, typed, row.bound):
            return None
        reason = (
            f"the kernel is off by {_shown(row.local)}; NumPy with the same types on the same inputs "
            f"by {_shown(typed)}"
        )
        return _culprit(row, Cause.KERNEL, row.local.error, row.bound, reason)

    def _precision(
        self, row: Row, instruction: Instruction, ran: list[Instruction]
    ) -> Culprit | None:
        """The types, if what they cost is too much."""
        assert row.local is not None
        bound = max(map(precision_bound, ran))
        if not row.local.exceeds(bound) or self.expected.is_out_of_range(instruction):
            return None  # a value that its type cannot hold is the fault of the instruction before
        error, inner = row.local.error, self.parts(instruction)
        own = (p for p in inner if p.is_beyond)
        if (part := next(own, None) or next((p for p in inner if p.strays), None)) is not None:
            where = (
                "" if part.id == self.expected.maker(instruction).id else f"{part.name} inside it: "
            )
            reason = f"{where}{part.reason or f'off by {_shown(part.inherited)}'}"
            nodes = part.sources or row.sources
            found = _culprit(row, Cause.PRECISION, error, bound, reason, nodes, part)
            return replace(found, parts=tuple(inner))
        nodes = self._first_unlike(ran, bound) if self.is_narrow else ()
        reason = f"rounding to its types costs {_shown(row.local)}"
        return _culprit(row, Cause.PRECISION, error, bound, reason, nodes or row.sources)

    def _doubted(self, found: Culprit | None, instruction: Instruction) -> Culprit | None:
        """The culprit, with a note if types are not all: float64 is as wrong."""
        if found is None:
            return None
        again = distance(self.expected.recomputed(instruction), self.expected[instruction])
        return replace(found, is_doubtful=again.exceeds(found.bound))

    def parts(self, instruction: Instruction) -> list[Part]:
        """The instructions inside a fused one, on the expected inputs rounded to its types."""
        e = self.expected
        maker = e.maker(instruction)
        return parts_of(maker, e.rounded(maker), e.typed, e.exact)


class _Inside:
    """Keeps the values of what is inside an instruction, in order."""

    def __init__(self) -> None:
        self.values: list[tuple[Instruction, Value]] = []

    def __call__(self, instruction: Instruction, value: Value, _: Sequence[Value]) -> None:
        self.values.append((instruction, value))


def _is_worse(kernel: Metrics, typed: Metrics, bound: float) -> bool:
    if not kernel.is_sane or not typed.is_sane:
        return typed.is_sane
    return kernel.relative_rms > max(bound, _WORSE * typed.relative_rms)


def _shown(metrics: Metrics) -> str:
    if metrics.is_sane:
        return f"{metrics.relative_rms:.3g}"
    words = ((metrics.nan, "NaN"), (metrics.inf, "infinite"), (metrics.lost, "wrongly finite"))
    counts = [f"{n} {word}" for n, word in words if n]
    return " and ".join(counts)


def _culprit(
    row: Row,
    cause: Cause,
    error: float,
    bound: float,
    reason: str,
    sources: tuple[str, ...] | None = None,
    part: Part | None = None,
) -> Culprit:
    named = row.sources if sources is None else sources
    return Culprit(row.id, row.name, row.kernel, cause, error, bound, named, reason, None, part)
