"""Plots of timings: matplotlib Axes in, Axes out; readable at notebook width in black and white."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_LABEL = 44


def plot_timings(table: DataFrame, ax: Axes | None = None, top: int = 20) -> Axes:
    """Horizontal bars of the slowest rows of ``Result.timings()``, spread as whiskers."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    shown = cast("Any", table.head(top)[::-1])
    if ax is None:
        height = 1.2 + 0.26 * max(len(shown), 3)
        _, ax = plt.subplots(figsize=(8, height), layout="constrained")
    labels = [_short(f"{n}  {k}") for n, k in zip(shown["name"], shown["kernel"], strict=True)]
    spread = shown["iqr ms"] / 2
    whiskers: dict[str, Any] = {"xerr": spread, "error_kw": {"lw": 1}} if spread.any() else {}
    ax.barh(range(len(shown)), shown["ms"], color="#0072B2", height=0.7, **whiskers)
    for row, (end, share) in enumerate(zip(shown["ms"] + spread, shown["share"], strict=True)):
        ax.annotate(
            f"{share:.1%}", (end, row), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    ax.set_yticks(range(len(shown)), labels, fontsize=8, family="monospace")
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel("ms")
    hidden = len(table) - len(shown)
    rest = f"; {hidden} faster ones not shown" if hidden > 0 else ""
    ax.set_title(f"{table['ms'].sum():.3g} ms in {len(table)} instructions{rest}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _short(text: str) -> str:
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"
