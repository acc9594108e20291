"""Plots of a run on a device: roofline, timeline, and comparison with another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compiler.report.plots import HATCH, short
from workbench.compiler.report.theme import on_any_page
from workbench.compiler.report.timings import COPY, DEVICE, HOST, LAUNCH, Measured, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_BLUE, _ORANGE, _GREEN, _PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
_TRACKS = ((LAUNCH, "launches", _PINK), (HOST, "host", _ORANGE), (COPY, "copies", _GREEN))
_KERNELS = (DEVICE, "device", _BLUE)
_NAMED, _APART = 8, 0.12
"""The most dots that are named, and the least distance of names in decades."""
_RIGHT = 0.75
"""The part of the width from which names stand to the left of their dots."""
_SMALLEST, _LARGEST = 12, 320
"""Smallest and largest area of a roofline's dots, in points²."""


@on_any_page
def plot_roofline(measured: Measured, ax: Axes | None = None) -> Axes:
    """Kernels as dots sized by their share of the time, on logarithmic axes; the slowest are named.

    The roofs are the device's measured peaks. Kernels without arithmetic are not shown; the title says
    how much of the time they take.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    shown = [t for t in measured.rows if t.flops and t.bytes and t.spread.median]
    whole = sum(t.spread.median for t in measured.rows) or 1.0
    x = np.array([t.flops / t.bytes for t in shown])
    y = np.array([t.flops / t.spread.median * 1e-9 for t in shown])
    share = np.array([t.spread.median / whole for t in shown])
    area = _SMALLEST + (_LARGEST - _SMALLEST) * share
    ax.set_xscale("log")
    ax.set_yscale("log")
    for where, color in ((DEVICE, _BLUE), (HOST, _ORANGE)):
        chosen = np.array([t.where == where for t in shown], bool)
        if chosen.any():
            ax.scatter(
                x[chosen], y[chosen], area[chosen], color=color, alpha=0.65, lw=0, label=where
            )
    _draw_roofs(measured, ax, x, shown)
    _name_dots(shown, ax, x, y, share)
    ax.set_xlabel("FLOP a byte")
    ax.set_ylabel("GFLOP/s")
    rest = 1 - share.sum()
    hidden = f"; {rest:.0%} of the time computes nothing" if rest > 0.005 else ""
    ax.set_title(f"{len(shown)} kernels{_on(measured)}{hidden}", fontsize=10)
    if shown or measured.flops:
        ax.legend(fontsize=8, frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _on(measured: Measured) -> str:
    return f" on {measured.run.device}" if measured.run else ""


def _draw_roofs(measured: Measured, ax: Axes, x: Any, shown: list[Timing]) -> None:
    """The slope for the memory bandwidth, and the flat roof of each type that is used."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    ink = plt.rcParams["text.color"]
    used = {t.type for t in shown if t.where == DEVICE}
    roofs = {name: peak for name, peak in measured.flops.items() if name in used or name == "f32"}
    if not roofs or not measured.bandwidth:
        return
    ridge = max(roofs.values()) / measured.bandwidth
    low = min([ridge / 30, *x]) / 2
    high = max([ridge * 10, *x]) * 2
    for style, (name, peak) in zip(("-", "--", ":"), sorted(roofs.items()), strict=False):
        edge = peak / measured.bandwidth
        label = f"{name}: {peak * 1e-9:.4g} GFLOP/s"
        ax.plot([edge, high], [peak * 1e-9] * 2, style, color=ink, lw=1.2, label=label)
    slope = [measured.bandwidth * at * 1e-9 for at in (low, ridge)]
    bandwidth = f"memory: {measured.bandwidth * 1e-9:.4g} GB/s"
    ax.plot([low, ridge], slope, "-.", color=ink, lw=1.2, label=bandwidth)
    ax.set_xlim(low, high)


def _name_dots(shown: list[Timing], ax: Axes, x: Any, y: Any, share: Any) -> None:
    """Name the slowest kernels, where there is room."""
    places = np.log10(np.stack([x, y], 1)) if shown else np.empty((0, 2))
    named: list[int] = []
    for k in [int(k) for k in np.argsort(-share)[:_NAMED]]:
        if all(np.abs(places[k] - places[n]).max() > _APART for n in named):
            text = f"{shown[k].name} {short(shown[k].kernel, 24)}"
            # Names of dots on the right stand to their left: they would be cut off at the edge.
            is_right = ax.transLimits.transform(ax.transScale.transform((x[k], y[k])))[0] > _RIGHT
            ax.annotate(
                text,
                (x[k], y[k]),
                (-7 if is_right else 7, 5),
                textcoords="offset points",
                ha="right" if is_right else "left",
                fontsize=7,
                parse_math=False,
            )
            named.append(k)


@on_any_page
def plot_timeline(measured: Measured, ax: Axes | None = None) -> Axes:
    """One run over time, with one track each for launches, host instructions, copies and the device.

    The host's and the device's clocks are aligned at the first event; a kernel ends at its event, and begins
    its median time before it.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415

    used = {s.row for s in measured.spans}
    tracks = [t for t in (*_TRACKS, _KERNELS) if t[0] in used] or [_KERNELS]
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 0.9 + 0.55 * len(tracks)), layout="constrained")
    end = max((s.start + s.seconds for s in measured.spans), default=0.0)
    scale, unit = (1e3, "ms") if end > 2e-3 else (1e6, "us")
    for row, (track, _, color) in enumerate(reversed(tracks)):
        spans = [s for s in measured.spans if s.row == track and s.timing >= 0]
        hatch = None if track in (DEVICE, LAUNCH) or measured.run is None else HATCH
        _draw_track(ax, row, [(s.start * scale, s.seconds * scale) for s in spans], color, hatch)
        for span in spans:
            if span.seconds > end / 9 and span.seconds:
                middle = (span.start + span.seconds / 2) * scale
                text = short(span.name, int(90 * span.seconds / end))
                _say(ax, text, (middle, row))
    ax.set_yticks(range(len(tracks)), [name for _, name, _ in reversed(tracks)])
    ax.set_xlim(0, end * scale or 1)
    ax.set_xlabel(unit)
    ax.set_title(f"one run{_on(measured)}: {end * scale:.3g} {unit}", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _draw_track(
    ax: Axes, row: int, spans: list[tuple[float, float]], color: str, hatch: str | None
) -> None:

    ax.broken_barh(
        spans,
        (row - 0.36, 0.72),
        facecolor=color,
        edgecolor="white",
        linewidth=0.5 if len(spans) < 200 else 0.0,
        hatch=hatch,
    )


def _say(ax: Axes, text: str, place: tuple[float, float]) -> None:
    ax.annotate(
        text,
        place,
        ha="center",
        va="center",
        fontsize=7,
        color="white",
        clip_on=True,
        parse_math=False,
    )


@on_any_page
def plot_comparison(
    table: DataFrame, names: tuple[str, str], ax: Axes | None = None, top: int = 20
) -> Axes:
    """Bars of two runs side by side, the longest first; differences within noise are pale."""
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.colors import to_rgba  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    parts = cast("Any", table)[table["kind"] != "total"]
    worst = parts[["ms a", "ms b"]].max(axis=1).sort_values(ascending=False)
    shown = cast("list[dict[str, Any]]", parts.loc[worst.index[:top][::-1]].to_dict("records"))
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 1.2 + 0.36 * max(len(shown), 3)), layout="constrained")
    at = np.arange(len(shown))
    keys: list[Any] = []
    for column, color, shift, name in zip(
        ("ms a", "ms b"), (_ORANGE, _BLUE), (0.19, -0.19), names, strict=True
    ):
        lengths = [np.nan_to_num(row[column]) for row in shown]
        fills = [to_rgba(color, 0.4 if row["within noise"] else 1.0) for row in shown]
        ax.barh(at + shift, lengths, 0.36, color=fills)
        keys.append(Patch(color=color, label=name))
    # Names of nodes often differ only at their ends.
    labels = [short(row["computes"][::-1])[::-1] for row in shown]
    ax.set_yticks(range(len(shown)), labels, fontsize=8, parse_math=False)
    _say_ratios(shown, ax)
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel("ms")
    hidden = f"; {len(parts) - len(shown)} more not shown" if len(parts) > len(shown) else ""
    total = cast("dict[str, float]", table.iloc[-1].to_dict())
    title = f"{names[0]} {total['ms a']:.3g} ms, {names[1]} {total['ms b']:.3g} ms{hidden}"
    ax.set_title(title, fontsize=10, parse_math=False)
    ax.legend(handles=keys, fontsize=8, frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _say_ratios(shown: list[dict[str, Any]], ax: Axes) -> None:
    for row, at in enumerate(shown):
        if not np.isnan(at["ratio"]):
            text = "≈" if at["within noise"] else f"{at['ratio']:.3g}×"
            end = (max(at["ms a"], at["ms b"]), row)
            ax.annotate(text, end, (4, 0), textcoords="offset points", va="center", fontsize=8)
