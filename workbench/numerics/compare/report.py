"""The report of a comparison: culprits, tables, a plot along the graph, and a closer look at a value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler import showing
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.report.result import kernel_sources, kernel_text
from workbench.numerics.compare.culprit import Culprit
from workbench.numerics.compare.inside import Part
from workbench.numerics.compare.measure import arrays_of
from workbench.numerics.compare.recapture import Recapture
from workbench.numerics.compare.report_facts import Facts, facts_of, facts_of_part
from workbench.numerics.metrics.metrics import Metrics
from workbench.numerics.metrics.tensor_difference import TensorDifference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Row:
    """One value: the instruction that computes it, its counterpart in the reference, and the metrics."""

    id: int
    name: str
    kernel: str
    shape: str
    reference: str
    """The counterpart's printed name; empty if the value is expected by float64 on expected inputs."""
    metrics: Metrics
    """The inherited error: of this kernel and of all before it, as it ran."""
    sources: tuple[str, ...]
    local: Metrics | None = None
    """The error of this kernel alone, on the reference's inputs; None if it was not measured."""
    bound: float = 0.0
    """The local relative RMS that rounding accounts for."""
    since: tuple[str, ...] = ()
    """What ran since the last values that the reference has, if that is more than this instruction."""
    how: str = "lineage"
    """The counterpart was found by ``lineage``, ``node``, ``tensor`` or ``structure``; or ``float64``."""
    tolerance: float | None = None
    """The inherited relative RMS that is accepted here, if it is not the report's."""


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A value without a row."""

    id: int
    name: str
    kernel: str
    reason: str


class Report:
    """The error of each value of a build against its reference, in the order of the run."""

    def __init__(
        self,
        program: Program,
        rows: Sequence[Row],
        tolerance: float,
        culprits: Sequence[Culprit] = (),
        not_compared: Sequence[NotCompared] = (),
        outputs: Collection[int] | None = None,
        sides: Recapture | None = None,
        is_complete: bool = True,
    ) -> None:
        """Keep the rows.

        Args:
            program: The compiled program.
            rows: Its values, in the order of the run.
            tolerance: Relative RMS beyond which a value counts as wrong.
            culprits: The instructions to blame, the most likely first.
            not_compared: Values without a row.
            outputs: Ids of the values that the program returns; by default the last row's.
            sides: Runs the two sides again, for ``inspect``.
            is_complete: Whether the comparison came to its end.
        """
        self.program = program
        self.rows = list(rows)
        self.tolerance = tolerance
        self.is_complete = is_complete
        """Whether the comparison came to its end; else values are missing, and causes may be."""
        self._sides = sides
        self.not_compared = list(not_compared)
        """Values without a row, each with the reason."""
        self._outputs = {r.id for r in rows[-1:]} if outputs is None else set(outputs)
        """Ids of the values that the program returns."""
        self._spreads = any(self._is_beyond(r) for r in rows if not r.metrics.is_saturated)
        self._culprits = (
            list(culprits) if self._is_hurt else [c for c in culprits if not c.is_harmless]
        )
        self._parts: dict[int, Sequence[Part]] = {c.id: c.parts for c in self._culprits if c.parts}

    def culprits(self) -> list[Culprit]:
        """The instructions that an error comes from, the most likely first; empty if there are none."""
        return list(self._culprits)

    def is_wrong(self, row: Row) -> bool:
        """Whether a value is beyond the tolerance, or has a NaN or infinity that the reference lacks.

        An overflow counts if it does harm: if it is in a result, or some other value is wrong.
        """
        if row.metrics.is_saturated and row.id not in self._outputs and not self._spreads:
            return False
        return self._is_beyond(row)

    def _is_beyond(self, row: Row) -> bool:
        tolerance = self.tolerance if row.tolerance is None else row.tolerance
        return row.metrics.exceeds(tolerance)

    @property
    def _is_hurt(self) -> bool:
        """Whether a result is wrong."""
        return any(self.is_wrong(r) for r in self.rows if r.id in self._outputs)

    def first_divergence(self) -> Row | None:
        """The first wrong value in the order of the run; None if all are within tolerance."""
        return next((r for r in self.rows if self.is_wrong(r)), None)

    @property
    def passed(self) -> bool:
        """Whether every result is within tolerance, and no instruction has an error of its own.

        An intermediate value that cancels out may be beyond it although nothing is wrong. A comparison that
        was stopped has not passed.
        """
        return self.is_complete and not self._is_hurt and not self._culprits

    # Tables

    def table(self) -> DataFrame:
        """One row per value, in the order of the run.

        A value that is NaN or infinite where the reference is not, or the reverse, has infinite distances,
        so that it is the worst however the table is sorted; ``nan``, ``inf`` and ``wrongly finite`` count
        such elements.
        """
        import pandas as pd  # noqa: PLC0415

        columns = list(self._cells(_ANY))
        return pd.DataFrame(map(self._cells, self.rows), columns=columns).set_index("id")

    def _cells(self, row: Row) -> dict[str, Any]:
        m = row.metrics.ranked
        return {
            "id": row.id, "name": row.name, "kernel": row.kernel, "sources": ", ".join(row.sources),
            "shape": row.shape, "wrong": self.is_wrong(row),
            "relative rms": m.error, "local relative rms": nan if row.local is None else row.local.error,
            "bound": row.bound, "nan": m.nan, "inf": m.inf, "wrongly finite": m.lost,
            "reference nan": m.reference_nan, "reference inf": m.reference_inf,
            "max abs": m.max_abs, "max rel": m.max_rel, "rms": m.rms, "cosine": m.cosine,
            "reference": row.reference, "how": row.how, "since": ", ".join(row.since),
        }  # fmt: skip

    def worst(self, n: int = 10) -> DataFrame:
        """The rows of the table with the largest local errors, the largest first.

        Values that are not finite on one side only come first: those made by their own kernel, then those
        that inherit it. Where no local error was measured, the inherited one counts.
        """
        order = sorted(range(len(self.rows)), key=lambda k: _rank(self.rows[k]))
        return self.table().take(order[: max(n, 0)])

    # Pictures

    def plot(self, ax: Axes | None = None) -> Axes:
        """Relative RMS along the graph on a log scale: inherited, and of each kernel alone.

        The tolerance and the bound of rounding are lines, and the first culprits are numbered. Values that
        are not finite on one side only stand at the top, errors of 0 at the bottom.
        """
        from workbench.numerics.compare.report_plot import plot_report  # noqa: PLC0415

        return plot_report(self, ax)

    def overlay(self, *, local: bool = False) -> dict[int, float]:
        """Relative RMS by instruction id, for ``GraphView(program, overlay=…)``.

        Infinite where a value is not finite on one side only.

        Args:
            local: The errors of each kernel alone, not those that include all before it.
        """
        if local:
            return {r.id: r.local.error for r in self.rows if r.local is not None}
        return {r.id: r.metrics.error for r in self.rows}

    def view(self, *, local: bool = False, **options: Any) -> Any:
        """The graph of the build, coloured by error on a log scale; the first culprit is selected.

        A fused kernel opens, its parts coloured by their own errors; tensors are inspected below the graph.

        Args:
            local: Colour by the errors of each kernel alone.
            options: Those of ``GraphView``.
        """
        return showing.view("report")(self, local=local, **options)

    def inspect(self, which: Any) -> TensorDifference:
        """One value and its reference, element by element; both sides run once more for it.

        Args:
            which: A row or a culprit; an instruction or its id; its printed name; or the name of a tensor or
                node of the model. A node inside a fused kernel means the kernel.

        Raises:
            GraphError: There is nothing of this name, or the compiled program does not compute it.
            InputError: It is none of these.
            OperationError: The report does not come from a comparison, so there are no sides to run.
        """
        sides = self._runnable()
        found = sides.find(which, {r.id for r in self.rows})
        value, wanted = sides.value(found), sides.reference(found)
        name = f"{sides.places.names[found.id]} {kernel_text(found)}"
        return TensorDifference(_whole(value), _whole(wanted), name, kernel_sources(found))

    def inside(self, which: Any) -> DataFrame:
        """The instructions inside a fused kernel, each evaluated alone in the kernel's precision.

        The kernel's inputs are the expected ones, and each instruction has the operands that it gets there.
        A row has its own error, the error with all before it in the kernel, the bound that its types account
        for, the ranges of its operands, and why its value is not finite if float64's is.

        Args:
            which: As for ``inspect``. An instruction that is not fused has one row.

        Raises:
            GraphError: There is nothing of this name, or the compiled program does not compute it.
            InputError: It is none of these.
            OperationError: The report does not come from a comparison, so there are no sides to run.
        """
        from workbench.numerics.compare.inside import table_of  # noqa: PLC0415

        found = self._runnable().find(which, {r.id for r in self.rows})
        return table_of(self.parts([found.id])[found.id])

    def parts(self, ids: Iterable[int]) -> dict[int, Sequence[Part]]:
        """The instructions inside fused ones, by the fused one's id; evaluated once.

        Args:
            ids: Ids of instructions of the compiled program.

        Raises:
            OperationError: The report does not come from a comparison, so there are no sides to run.
        """
        wanted = list(ids)
        if missing := [k for k in wanted if k not in self._parts]:
            self._parts |= self._runnable().parts(map(self.program.instruction, missing))
        return {k: self._parts[k] for k in wanted}

    # Facts, for views

    @property
    def is_live(self) -> bool:
        """Whether the sides can run again, so that values can be inspected."""
        return self._sides is not None

    def facts(self) -> dict[int, Facts]:
        """Sentences and numbers of each value as texts, by instruction id."""
        return facts_of(self)

    def facts_inside(self, ids: Iterable[int]) -> dict[int, Facts]:
        """Sentences and numbers of the instructions inside fused ones, by their ids."""
        return {p.id: facts_of_part(p) for parts in self.parts(ids).values() for p in parts}

    def _runnable(self) -> Recapture:
        if self._sides is None:
            raise OperationError("this report has rows only; expected one that wb.compare made")
        return self._sides

    # In words

    @property
    def summary(self) -> str:
        """One sentence: counts of values within, beyond and not compared, and the first culprit."""
        if self._culprits:
            return f"{self.counts}; first culprit: {self._culprits[0]}"
        first = self.first_divergence()
        return (
            self.counts
            if first is None
            else f"{self.counts}; the first is {first.name} {first.kernel}"
        )

    @property
    def counts(self) -> str:
        """The numbers of values within, beyond and not compared."""
        beyond = sum(map(self.is_wrong, self.rows))
        compared = f"{len(self.rows):,} value{'s' * (len(self.rows) != 1)} compared"
        within = f"{len(self.rows) - beyond:,} within {self.tolerance:.3g}"
        found = f"{compared}: {within}, {beyond:,} beyond, {len(self.not_compared):,} not compared"
        return found if self.is_complete else f"incomplete, the comparison was stopped; {found}"

    def __repr__(self) -> str:
        """The summary."""
        return f"<Report: {self.summary}>"

    def _repr_html_(self) -> str:
        from workbench.numerics.compare.report_page import page  # noqa: PLC0415

        return page(self)


_ANY = Row(0, "", "", "", "", Metrics(0, 0, 0, 0, 1, 0, 0, 0, 0), ())
"""A row of any kind, which has all columns."""


def _rank(row: Row) -> tuple[bool, bool, float]:
    """The key that sorts the worst rows first."""
    own = row.metrics.error if row.local is None else row.local.error
    return own < inf, row.metrics.error < inf, -own


def _whole(value: Value) -> Array:
    """An array as it is; the elements of a tuple's arrays in one row."""
    if not isinstance(value, tuple):
        return np.asarray(value)
    parts = [np.asarray(x, np.float64).ravel() for x in arrays_of(value)]
    return np.concatenate(parts) if parts else np.empty(0)
