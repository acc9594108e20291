"""Plots of timings and memory as matplotlib Axes, readable at notebook width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.report.theme import on_any_page
from workbench.compiler.report.timings import DEVICE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from workbench.compiler.report.memory_plan import Buffer, MemoryPlan

HATCH = "////"
"""The hatching of steps that the device does not run."""
_LABEL = 44
_NAMED = 12
_TONES = {
    "contraction": "#d55e00",
    "pointwise": "#009e73",
    "reduce": "#cc79a7",
    "movement": "#b8a100",
    "control": "#e69f00",
    "kernel": "#0072b2",
}
_PREFIXES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


@on_any_page
def plot_timings(table: DataFrame, ax: Axes | None = None, top: int = 20) -> Axes:
    """Horizontal bars of the slowest rows of ``Result.timings()``, with spread as whiskers.

    For a run on a device, host steps and copies are orange and hatched.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415

    shown = cast("Any", table.head(top)[::-1])
    if ax is None:
        height = 1.2 + 0.26 * max(len(shown), 3)
        _, ax = plt.subplots(figsize=(8, height), layout="constrained")
    labels = [short(f"{n}  {k}") for n, k in zip(shown["name"], shown["kernel"], strict=True)]
    spread = shown["iqr ms"] / 2
    ink = plt.rcParams["text.color"]
    whiskers: dict[str, Any] = (
        {"xerr": spread, "error_kw": {"lw": 1, "ecolor": ink}} if spread.any() else {}
    )
    bars = ax.barh(range(len(shown)), shown["ms"], color="#0072B2", height=0.7, **whiskers)
    if "device" in table.attrs:
        _mark_host(bars, shown["where"])
    for row, (end, share) in enumerate(zip(shown["ms"] + spread, shown["share"], strict=True)):
        ax.annotate(
            f"{share:.1%}", (end, row), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    ax.set_yticks(range(len(shown)), labels, fontsize=8, family="monospace", parse_math=False)
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel("ms")
    hidden = len(table) - len(shown)
    rest = f"; {hidden} faster ones not shown" if hidden > 0 else ""
    what = f"steps on {table.attrs['device']}" if "device" in table.attrs else "instructions"
    ax.set_title(f"{table['ms'].sum():.3g} ms in {len(table)} {what}{rest}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _mark_host(bars: Any, where: Any) -> None:

    for bar, place in zip(bars, where, strict=True):
        if place != DEVICE:
            bar.set(facecolor="#d55e00", edgecolor="white", hatch=HATCH)


def short(text: str, most: int = _LABEL) -> str:
    """A label of bounded length."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


@on_any_page
def plot_memory(plan: MemoryPlan, ax: Axes | None = None) -> Axes:
    """The buffers of a plan over the instructions, and the live bytes at each instruction.

    Text and lines use the colours of the current style, so dark styles work too.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    ink = plt.rcParams["text.color"]
    scale, unit = next(p for p in _PREFIXES if plan.peak >= p[0] or p[0] == 1)
    _draw_buffers(plan, ax, scale)
    live = [n / scale for n in plan.live]
    ax.step(range(len(live) + 1), [*live, *live[-1:]], where="post", color=ink, lw=1.4)
    if live:
        _name_peak(plan, ax, live[plan.busiest], unit)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlim(0, max(1, len(plan.steps)))
    ax.set_ylim(0, max(1.0, plan.peak / scale) * 1.18)
    ax.set_xlabel("instruction of main")
    ax.set_ylabel(unit)
    shared = f"{plan.peak / scale:.4g} of {plan.total / scale:.4g} {unit}"
    ax.set_title(f"{len(plan.buffers)} buffers share {shared}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_buffers(plan: MemoryPlan, ax: Axes, scale: int) -> None:
    rows = plan.buffers
    if not rows:
        return

    ax.bar(
        [b.first for b in rows],
        [b.bytes / scale for b in rows],
        [b.last - b.first + 1 for b in rows],
        [b.offset / scale for b in rows],
        align="edge",
        color=[_TONES.get(b.family, "#8c8c8c") for b in rows],
        edgecolor="white",
        linewidth=0.8 if len(rows) < 200 else 0.2,
        alpha=0.55,
    )
    for buffer in sorted(rows, key=_area)[-_NAMED:]:
        place = ((buffer.first + buffer.last + 1) / 2, (buffer.offset + buffer.bytes / 2) / scale)
        wide = (buffer.last - buffer.first + 1) / len(plan.steps) > 0.08
        if wide and buffer.bytes > plan.peak / 20:
            ax.annotate(buffer.op, place, ha="center", va="center", fontsize=7, clip_on=True)


def _area(buffer: Buffer) -> int:
    return buffer.bytes * (buffer.last - buffer.first + 1)


def _name_peak(plan: MemoryPlan, ax: Axes, most: float, unit: str) -> None:
    """Mark the instruction with the most live bytes, and the size of the arena."""
    right = plan.busiest > len(plan.steps) / 2
    ax.annotate(
        f"{short(plan.steps[plan.busiest])}: {most:.4g} {unit}",
        (plan.busiest + 0.5, most),
        (0, 12),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "lw": 0.8},
    )
    ax.plot([plan.busiest + 0.5], [most], "o", ms=4, color="#d55e00")
