"""The plot of a comparison: errors along the graph, with the culprits numbered."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.theme import on_any_page
from workbench.numerics.compare.culprit import Culprit
from workbench.numerics.metrics.tensor_plots import BLUE, GREY, RED, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.numerics.compare.report import Report

_ORANGE = "#E69F00"
_CULPRITS = 6
"""The most culprits that are numbered; the legend says how many more there are."""
_APART = 0.035
"""The least distance of two numbers, as a share of the width."""
_FLOOR = 1e-18
_FEW = 60
"""Up to so many points have large marks."""


@on_any_page
def plot_report(report: Report, ax: Axes | None = None) -> Axes:
    """Errors of a report along the graph; ``Report.plot``."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        lines = min(len(report.culprits()), _CULPRITS + 1)
        _, ax = plt.subplots(figsize=(10, 4 + 0.16 * lines), layout="constrained")
    if not report.rows:
        ax.text(0.5, 0.5, "no value was compared", ha="center", transform=ax.transAxes)
        return ax
    plot = _Plot(report, ax)
    plot.draw()
    return ax


class _Plot:
    """One drawing of a report on Axes."""

    def __init__(self, report: Report, ax: Axes) -> None:
        rows = report.rows
        self.report, self.ax = report, ax
        self.places = np.arange(len(rows))
        self.inherited = np.array([r.metrics.error for r in rows])
        self.local = np.array([np.nan if r.local is None else r.local.error for r in rows])
        self.bounds = np.array([r.bound for r in rows])
        self.low, self.high = self._ends()
        self.top = self.high * (self.high / self.low) ** 0.08
        """The height of what is not finite."""

    def draw(self) -> None:
        """Lines, series, and culprits."""
        ax, report = self.ax, self.report
        self._series(self.inherited, "inherited, as it ran", BLUE, ".-")
        if any(r.local is not None for r in report.rows):
            self._series(self.local, "of the kernel alone", _ORANGE, "D")
        ax.step(self.places, np.maximum(self.bounds, self.low), where="mid", color=GREY, lw=0.9, ls=":",
                label="bound of its rounding")  # fmt: skip
        ax.axhline(report.tolerance, color="black", ls="--", lw=0.9,
                   label=f"tolerance {report.tolerance:.3g}")  # fmt: skip
        self._wrong()
        self._frame()
        self._culprits()

    def _ends(self) -> tuple[float, float]:
        """The powers of ten around everything that is drawn."""
        drawn = np.concatenate([self.inherited, self.local, self.bounds, [self.report.tolerance]])
        shown = drawn[np.isfinite(drawn) & (drawn > _FLOOR)]
        low = 10.0 ** np.floor(np.log10(shown.min() if shown.size else _FLOOR))
        return low / 10, 10.0 ** np.ceil(np.log10(shown.max() if shown.size else 1.0))

    def _held(self, errors: Array) -> Array:
        """Heights: those of 0 at the bottom, those not finite at the top."""
        return np.where(errors == inf, self.top, np.maximum(errors, self.low))

    def _series(self, errors: Array, label: str, color: str, style: str) -> None:
        few = len(errors) <= _FEW
        size = (6.0 if few else 3.5) if style != "D" else (3.5 if few else 2.0)
        heights = np.where(errors == 0, np.nan, self._held(errors))
        self.ax.semilogy(self.places, heights, style, color=color, lw=0.8, ms=size, label=label)

    def _wrong(self) -> None:
        wrong = [k for k, r in enumerate(self.report.rows) if self.report.is_wrong(r)]
        size, width = (6.0, 1.4) if len(wrong) <= _FEW else (3.0, 0.7)
        if wrong:
            self.ax.plot(wrong, self._held(self.inherited)[wrong], "x", color=RED, ms=size, mew=width,
                         label=f"{len(wrong):,} beyond the tolerance")  # fmt: skip

    def _frame(self) -> None:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

        ax, margin = self.ax, max(0.5, 0.01 * len(self.places))
        ax.set_ylim(self.low / 1.5, self.top * (self.high / self.low) ** 0.16)
        ax.set_xlim(-margin, len(self.places) - 1 + margin)
        if (self.inherited == inf).any() or (self.local == inf).any():
            ax.text(
                1.0,
                self.top,
                " not\n finite",
                transform=ax.get_yaxis_transform(),
                fontsize=8,
                va="center",
            )
        zeros = np.flatnonzero(self.inherited == 0)
        ax.plot(zeros, np.full(zeros.size, self.low), "|", color=BLUE, ms=4, mew=0.7)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("value, in the order of the run")
        ax.set_ylabel("relative RMS error" + (" (0 at the bottom)" if zeros.size else ""))
        ax.set_title(plain(self.report.counts, 140), fontsize=10, pad=24, loc="left")
        ax.legend(fontsize=8, frameon=False, ncols=5, loc="lower left", bbox_to_anchor=(0, 1),
                  borderaxespad=0.2, columnspacing=1.2, handletextpad=0.5)  # fmt: skip
        ax.spines[["top", "right"]].set_visible(False)

    # Culprits

    def _culprits(self) -> None:
        """A number for each of the first, with a line to its value; the words are below."""
        found = self.report.culprits()
        at = {r.id: k for k, r in enumerate(self.report.rows)}
        numbered = [(k, c) for k, c in enumerate(found[:_CULPRITS], 1) if c.id in at]
        numbered.sort(key=lambda pair: at[pair[1].id])
        places = _spread([at[c.id] for _, c in numbered], *self.ax.get_xlim())
        for (number, culprit), place in zip(numbered, places, strict=True):
            self._number(number, at[culprit.id], place, culprit)
        if found:
            self.ax.annotate(
                self._words(found), (0, 0), xycoords="axes fraction", xytext=(0, -34),
                textcoords="offset points", va="top", fontsize=8, linespacing=1.4,
            )  # fmt: skip

    def _number(self, number: int, at: int, place: float, culprit: Culprit) -> None:
        error = self.local[at] if np.isfinite(self.local[at]) else culprit.error
        height = float(self._held(np.array(error)))
        self.ax.annotate(
            str(number), (at, height), xytext=(place, 0.96), fontsize=8, color="white", ha="center",
            textcoords=self.ax.get_xaxis_transform(), va="center",
            arrowprops={"arrowstyle": "-", "color": RED, "lw": 0.8, "shrinkA": 0, "shrinkB": 0},
            bbox={"boxstyle": "circle,pad=0.25", "fc": RED, "ec": "none"},
        )  # fmt: skip

    def _words(self, found: Sequence[Culprit]) -> str:
        lines = [plain(f"{k}  {c.cause}: {c}", 150) for k, c in enumerate(found[:_CULPRITS], 1)]
        more = len(found) - _CULPRITS
        return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _spread(places: Sequence[float], low: float, high: float) -> list[float]:
    """Rising places moved apart as little as needed, within bounds."""
    step = _APART * (high - low)
    found: list[float] = []
    for place in places:
        found.append(max(place, low + step / 2, *(p + step for p in found[-1:])))
    limit = high - step / 2
    for k in reversed(range(len(found))):
        found[k] = min(found[k], limit)
        limit = found[k] - step
    return found
