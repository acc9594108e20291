"""The diagnosis of a comparison: which rows have an error of their own, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.report.result import kernel_sources
from workbench.numerics.culprit import Cause, Culprit
from workbench.numerics.expected import Expected
from workbench.numerics.inside import Part, parts_of
from workbench.numerics.measure import distance
from workbench.numerics.metrics import Metrics
from workbench.numerics.report import Row
from workbench.numerics.rounding import precision_bound, rounding_bound

_WORSE = 8
"""How many times a kernel's error must be that of the same types in NumPy before the kernel is blamed."""


@dataclass(frozen=True)
class Diagnosis:
    """Finds the causes of the rows of a comparison.

    Attributes:
        expected: The expected values of the compiled program.
    """

    expected: Expected

    def culprits(self, rows: Iterable[Row]) -> Iterator[Culprit]:
        """A culprit for each row that has an error of its own."""
        for row in rows:
            misfits = row.id in self.expected.misfits
            if misfits or (row.local is not None and beyond(row.local, row.bound)):
                found = self._blame(row)
                if found is not None:
                    yield found

    def _blame(self, row: Row) -> Culprit | None:
        instruction = self.expected.at(row.id)
        if instruction.id in self.expected.misfits:
            reason = f"a value of {row.shape}, unlike the reference's"
            return _culprit(row, Cause.REWRITE, inf, 0.0, reason)
        ran = self.expected.since(instruction)
        return self._rewrite(row, instruction, ran) or self._kernel_or_type(row, instruction)

    def _rewrite(
        self, row: Row, instruction: Instruction, ran: list[Instruction]
    ) -> Culprit | None:
        """Float64 gives something else than the reference: what the compiled instructions mean differs."""
        again = distance(self.expected.recomputed(instruction), self.expected[instruction])
        bound = max(map(_rewrite_bound, ran))
        if not beyond(again, bound):
            return None
        sources = tuple(dict.fromkeys(s for i in reversed(ran) for s in kernel_sources(i)))
        reason = (
            f"in float64, too, it differs from the reference by {_shown(again)}, so a rewrite changed "
            "what it computes"
        )
        return _culprit(row, Cause.REWRITE, _error(again), bound, reason, sources)

    def _kernel_or_type(self, row: Row, instruction: Instruction) -> Culprit | None:
        """The kernel, if it is worse than NumPy with the same types; else the types, if that is too much."""
        assert row.local is not None
        known = self.expected.rounded(instruction)
        wanted = self.expected[instruction]
        try:
            typed = distance(self.expected.typed.value(instruction, known), wanted)
        except EvaluationError:
            typed = row.local
        if _is_worse(row.local, typed, row.bound):
            reason = (
                f"the kernel is off by {_shown(row.local)}; NumPy with the same types on the same inputs "
                f"by {_shown(typed)}"
            )
            return _culprit(row, Cause.KERNEL, _error(row.local), row.bound, reason)
        if not beyond(row.local, precision_bound(instruction)):
            return None
        return self._precision(row, instruction)

    def _precision(self, row: Row, instruction: Instruction) -> Culprit:
        assert row.local is not None
        inner = self.parts(instruction)
        first = next((p for p in inner if p.is_beyond), None)
        reason = f"rounding to its types costs {_shown(row.local)}"
        sources = row.sources
        if first is not None:
            sources = first.sources or row.sources
            reason = f"{first.name} inside it: {first.reason or f'off by {_shown(first.local)}'}"
        bound = precision_bound(instruction)
        return _culprit(row, Cause.PRECISION, _error(row.local), bound, reason, sources, first)

    def parts(self, instruction: Instruction) -> list[Part]:
        """The instructions inside a fused one, on the expected inputs rounded to its types."""
        e = self.expected
        return parts_of(instruction, e.rounded(instruction), e.typed, e.exact)


def beyond(metrics: Metrics, bound: float) -> bool:
    """Whether an error is larger than a bound, or a value is not finite where it should be."""
    return not metrics.is_sane or not metrics.relative_rms <= bound


def _is_worse(kernel: Metrics, typed: Metrics, bound: float) -> bool:
    if not kernel.is_sane or not typed.is_sane:
        return typed.is_sane
    return kernel.relative_rms > max(bound, _WORSE * typed.relative_rms)


def _rewrite_bound(instruction: Instruction) -> float:
    """The error that constants rounded to the instruction's types may cause in float64."""
    return _WORSE * rounding_bound(instruction)


def _error(metrics: Metrics) -> float:
    return metrics.relative_rms if metrics.is_sane else inf


def _shown(metrics: Metrics) -> str:
    if metrics.is_sane:
        return f"{metrics.relative_rms:.3g}"
    counts = [f"{n} {word}" for n, word in ((metrics.nan, "NaN"), (metrics.inf, "infinite")) if n]
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
