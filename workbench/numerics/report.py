"""The report of a comparison: a table, a plot along the graph, and the first wrong value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler import showing
from workbench.compiler.ir.program import Program
from workbench.numerics.culprit import Culprit
from workbench.numerics.metrics import Metrics

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
    ) -> None:
        """Keep the rows; ``tolerance`` is the relative RMS beyond which a value counts as wrong."""
        self.program = program
        self.rows = list(rows)
        self.tolerance = tolerance
        self.not_compared = list(not_compared)
        """Values without a row, each with the reason."""
        self._outputs = {r.id for r in rows[-1:]} if outputs is None else set(outputs)
        """Ids of the values that the program returns."""
        self._spreads = any(self._is_beyond(r) for r in rows if not r.metrics.is_saturated)
        self._culprits = (
            list(culprits) if self._is_hurt else [c for c in culprits if not c.is_harmless]
        )

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
        return not row.metrics.is_sane or not row.metrics.relative_rms <= self.tolerance

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

        A value between that cancels may be beyond the tolerance although nothing is wrong.
        """
        return not self._is_hurt and not self._culprits

    def table(self) -> DataFrame:
        """One row per value: names here and in the reference, kernel, metrics, sources."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "id": r.id, "name": r.name, "reference": r.reference, "kernel": r.kernel, "shape": r.shape,
                "max abs": r.metrics.max_abs, "max rel": r.metrics.max_rel,
                "relative rms": r.metrics.relative_rms, "rms": r.metrics.rms,
                "cosine": r.metrics.cosine, "nan": r.metrics.nan, "inf": r.metrics.inf,
                "wrong": self.is_wrong(r), "sources": ", ".join(r.sources),
            }
            for r in self.rows
        ]  # fmt: skip
        columns = ["id", "name", "reference", "kernel", "shape", "max abs", "max rel",
                   "relative rms", "rms", "cosine", "nan", "inf", "wrong", "sources"]  # fmt: skip
        return pd.DataFrame(rows, columns=columns).set_index("id")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Relative RMS along the graph on a log scale; the tolerance and the first wrong value are marked."""
        import matplotlib.pyplot as plt  # noqa: PLC0415

        if ax is None:
            _, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
        floor = 1e-18
        errors = np.array([max(r.metrics.relative_rms, floor) for r in self.rows])
        positions = np.arange(len(errors))
        ax.semilogy(positions, errors, ".-", color="#0072B2", lw=0.8, ms=4, label="relative RMS")
        ax.axhline(
            self.tolerance, color="black", ls="--", lw=0.8, label=f"tolerance {self.tolerance:.3g}"
        )
        self._mark_wrong(ax, errors)
        ax.set_xlabel("value, in the order of the run")
        ax.set_ylabel("relative RMS error")
        ax.set_title(self.summary, fontsize=10)
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _mark_wrong(self, ax: Axes, errors: Any) -> None:
        wrong = [i for i, r in enumerate(self.rows) if self.is_wrong(r)]
        if not wrong:
            return
        ax.plot(wrong, errors[wrong], "x", color="#D55E00", label=f"{len(wrong)} beyond tolerance")
        row = self.rows[wrong[0]]
        ax.annotate(
            f"{row.name} {row.kernel}", (wrong[0], errors[wrong[0]]), fontsize=8, xytext=(6, 8),
            textcoords="offset points",
        )  # fmt: skip

    @property
    def summary(self) -> str:
        """One sentence: the number of values that agree, or the first that does not."""
        first = self.first_divergence()
        if first is None:
            return f"all {len(self.rows)} compared values within {self.tolerance:.3g}"
        wrong = sum(map(self.is_wrong, self.rows))
        counted = f"{wrong} of {len(self.rows)} values beyond {self.tolerance:.3g}"
        return f"{counted}; first {first.name} {first.kernel}"

    def overlay(self) -> dict[int, float]:
        """Relative RMS error by instruction id, for ``GraphView(program, overlay=…)``."""
        return {r.id: r.metrics.relative_rms for r in self.rows}

    def view(self, **options: Any) -> Any:
        """The graph of the build, coloured by error."""
        return showing.view("graph")(self.program, overlay=self.overlay(), **options)

    def __repr__(self) -> str:
        """The summary."""
        return f"<Report: {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        worst = self.table().sort_values("relative rms", ascending=False).head(10)
        return f"<p>{escape(self.summary)}</p>{worst.to_html(border=0)}"
