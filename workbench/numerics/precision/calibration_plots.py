"""Plots of calibration: matplotlib Axes in, Axes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.report.theme import on_any_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.numerics.precision.calibration import Captured

_BLUE, _RED = "#0072B2", "#D55E00"


@on_any_page
def plot_histogram(row: Captured, ax: Axes | None = None) -> Axes:
    """The frequency of an argument's values on a log scale, between the bounds of its codes."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
    counts = row.histogram.counts.reshape(-1, 4).sum(axis=1)
    ax.stairs(counts, row.histogram.edges[::4], fill=True, color=_BLUE, alpha=0.8, label="values")
    low, high = row.bounds
    for i, bound in enumerate((low, high)):
        ax.axvline(bound, color=_RED, ls="--", lw=1, label="" if i else "range of the codes")
    if counts.any():
        ax.set_yscale("log")
        ax.set_ylim(0.7, counts.max() * 5)
        reach = 1.08 * max(abs(low), abs(high), abs(row.least), abs(row.largest))
        if np.isfinite(reach):
            ax.set_xlim(-reach, reach)
    lost = f"; {row.nan} NaN, {row.inf} infinite" if row.nan or row.inf else ""
    ax.set_title(
        f"{row.index}: {row.name}, {row.precision}, step {row.scale:.3g}{lost}", fontsize=10
    )
    ax.set_xlabel("value")
    ax.set_ylabel("count")
    ax.legend(fontsize=8, frameon=False, loc="upper center", ncols=2)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


@on_any_page
def plot_ranges(rows: Sequence[Captured], ax: Axes | None = None, top: int = 30) -> Axes:
    """Bars from the least to the largest value of each argument, in units of its RMS.

    A range that is wide relative to its RMS costs precision: such ranges come first.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415

    shown = sorted((r for r in rows if r.rms and np.isfinite(r.max_abs)), key=_spread)[-top:]
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 1.2 + 0.24 * max(len(shown), 3)), layout="constrained")
    lows = [r.least / r.rms for r in shown]
    widths = [(r.largest - r.least) / r.rms for r in shown]
    ax.barh(range(len(shown)), widths, left=lows, color=_BLUE, height=0.7)
    labels = [f"{r.index}: {r.name}" for r in shown]
    ax.set_yticks(range(len(shown)), labels, fontsize=8, family="monospace")
    ax.axvline(0, color=_RED, lw=0.8)
    ax.use_sticky_edges = False
    ax.set_xlabel("least to largest value, in multiples of the RMS")
    hidden = len(rows) - len(shown)
    rest = f"; {hidden} not shown" if hidden else ""
    ax.set_title(f"{len(shown)} captured arguments{rest}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _spread(row: Captured) -> float:
    return row.max_abs / row.rms
