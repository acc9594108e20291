"""The report of a comparison: a table, a plot along the graph, and the first wrong value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler import showing
from workbench.compiler.ir.program import Program
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
    metrics: Metrics
    sources: tuple[str, ...]


class Report:
    """The error of each value of a build against its reference, in the order of the run."""

    def __init__(self, program: Program, rows: Sequence[Row], tolerance: float) -> None:
        """Keep the rows; ``tolerance`` is the relative RMS beyond which a value counts as wrong."""
        self.program = program
        self.rows = list(rows)
        self.tolerance = tolerance

    def is_wrong(self, row: Row) -> bool:
        """Whether a value is beyond the tolerance, or has a NaN or infinity that the reference lacks."""
        return not row.metrics.is_sane or not row.metrics.relative_rms <= self.tolerance

    def first_divergence(self) -> Row | None:
        """The first wrong value in the order of the run; None if all are within tolerance."""
        return next((r for r in self.rows if self.is_wrong(r)), None)

    @property
    def passed(self) -> bool:
        """Whether every compared value is within tolerance."""
        return self.first_divergence() is None

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
