"""Plots of training: matplotlib Axes in, Axes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.theme import on_any_page
from workbench.compiler.training.histograms import BINS, LEAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@on_any_page
def plot_histograms(counts: Array, first: int, name: str, ax: Axes | None = None) -> Axes:
    """The share of elements in each power of two, as colours over the steps.

    Args:
        counts: A histogram for each step, ``[steps, 64]``.
        first: The number of the first of these steps.
        name: The weight.
        ax: The axes to draw on.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    some = np.flatnonzero(counts.any(axis=0))
    low, high = int(some[0]), int(some[-1]) + 1
    share = counts[:, low:high] / counts.sum(axis=1, keepdims=True)
    steps = np.arange(first, first + len(counts) + 1) - 0.5
    exponents = np.arange(low, high + 1) + LEAST
    drawn = ax.pcolormesh(
        steps, exponents, np.where(share > 0, share, np.nan).T, cmap="cividis", vmin=0
    )
    least = "; the lowest row: also smaller, and 0" if low == 0 else ""
    most = "; the highest row: also larger, infinite, NaN" if high == BINS else ""
    ax.set_title(f"gradient of {name}{least}{most}", fontsize=10)
    ax.set_xlabel("step")
    ax.set_ylabel("log₂ |g|")
    ax.figure.colorbar(drawn, ax=ax, label="share of elements")
    return ax
