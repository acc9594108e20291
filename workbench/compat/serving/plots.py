"""Plots of models under load, and of their streams over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.compiler.report.theme import on_any_page
from workbench.compiler.report.timings import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, SKY = "#0072b2", "#d55e00", "#56b4e9"
_LINEAR = 10
"""The greatest ratio of two latencies that are drawn on a linear axis."""
_QUANTILES = (("p50 ms", "o"), ("p90 ms", "s"), ("p99 ms", "^"))


@on_any_page
def plot_load(rows: Sequence[Mapping[str, Any]], about: str, ax: Axes | None = None) -> Axes:
    """Throughput as bars from the left axis, quantiles of the latency as marks from the right one."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(max(5, 1.5 + 0.8 * len(rows)), 4), layout="constrained")
    places = range(len(rows))
    ax.bar(places, [r["samples/s"] for r in rows], color=BLUE, alpha=0.6, label="samples/s")
    ax.set_ylabel("samples/s")
    ax.set_xticks(list(places), [_label(r) for r in rows], fontsize=8)
    right = ax.twinx()
    for name, mark in _QUANTILES:
        right.plot(places, [r[name] for r in rows], mark, color=ORANGE, ms=5, label=name)
    shown = [r[name] for r in rows for name, _ in _QUANTILES]
    if max(shown) > _LINEAR * min(shown):
        right.set_yscale("log")
    else:
        right.set_ylim(bottom=0)
    right.set_ylabel("latency in ms")
    handles, labels = ax.get_legend_handles_labels()
    others = right.get_legend_handles_labels()
    ax.legend(
        handles + others[0], labels + others[1], fontsize=8, frameon=False, ncols=4,
        loc="lower center", bbox_to_anchor=(0.5, 1.0),
    )  # fmt: skip
    ax.set_title(about, fontsize=10, pad=24, parse_math=False)
    ax.spines["top"].set_visible(False)
    right.spines["top"].set_visible(False)
    return ax


def _label(row: Mapping[str, Any]) -> str:
    def several(count: int, what: str) -> str:
        return f"{count} {what}{'s' * (count != 1)}"

    return "\n".join(
        [
            several(row["streams"], "stream"),
            several(row["runtimes"], "runtime"),
            f"batch {row['batch']}",
        ]
    )


@on_any_page
def plot_streams(
    measured: Measured, title: str, ax: Axes | None = None, chosen: Collection[int] = ()
) -> Axes:
    """A track for each stream, with the kernels of its runs; those of chosen rows stand out."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    tracks = sorted({s.row for s in measured.spans}, key=lambda row: int(row.split()[1]))
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 1.1 + 0.45 * len(tracks)), layout="constrained")
    end = max((s.start + s.seconds for s in measured.spans), default=0.0)
    scale, unit = (1e3, "ms") if end > 2e-3 else (1e6, "us")
    for place, track in enumerate(reversed(tracks)):
        spans = [s for s in measured.spans if s.row == track]
        ax.broken_barh(
            [(s.start * scale, s.seconds * scale) for s in spans],
            (place - 0.36, 0.72),
            facecolors=[ORANGE if s.timing in chosen else (BLUE, SKY)[s.run % 2] for s in spans],
            linewidth=0,
        )
    ax.set_yticks(range(len(tracks)), tracks[::-1])
    ax.set_xlim(0, end * scale or 1)
    ax.set_xlabel(unit)
    ax.set_title(title, fontsize=10, parse_math=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
