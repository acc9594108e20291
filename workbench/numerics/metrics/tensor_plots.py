"""Plots of one value beside its reference: matplotlib Axes in, Axes out."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.numerics.metrics.distances import QUANTILES
from workbench.numerics.metrics.tensor_samples import (
    LARGEST,
    POINTS,
    axes_of,
    bounds_of,
    channel_axis,
    edges_of,
    in_range,
    pixels,
    rounding,
    unshown,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.numerics.metrics.tensor_difference import TensorDifference

BLUE, RED, GREY, LIGHT_BLUE = "#0072B2", "#D55E00", "#8C8C8C", "#56B4E9"
_PIXELS = 256
"""The most cells of a heatmap along an axis; each then shows the largest error of several elements."""
_FEW = 2000
"""Up to so many elements are points of their own."""


def axes_or_new(ax: Axes | None) -> Axes:
    """The given Axes, or those of a new figure."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    return ax


def plain(text: str, length: int = 80) -> str:
    """A text of bounded length for matplotlib, in which a dollar sign starts no formula."""
    short = text if len(text) <= length else text[: length - 1] + "…"
    return short.replace("$", r"\$")


def _titled(ax: Axes, title: str) -> Axes:
    ax.set_title(title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _said(ax: Axes, title: str, words: str) -> Axes:
    """Words instead of a plot that has nothing to show."""
    lines = plain(fill(words, 46), 400)
    ax.text(0.5, 0.5, lines, ha="center", va="center", transform=ax.transAxes, fontsize=9)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=10)
    return ax


# Histograms


def plot_histogram(tensor: TensorDifference, ax: Axes) -> Axes:
    """The distributions of both sides' finite elements; ``TensorDifference.plot_histogram``."""
    title = "distribution of the elements"
    sides = [np.asarray(x, np.float64).ravel() for x in (tensor.reference, tensor.value)]
    finite = [x[np.isfinite(x)] for x in sides]
    both = np.concatenate(finite)
    if not both.size:
        return _said(
            ax, title, "no finite elements" if any(x.size for x in sides) else "no elements"
        )
    if (largest := float(np.abs(both).max())) > LARGEST:
        return _said(ax, title, f"elements up to {largest:.3g}, beyond the range of an axis")
    edges = edges_of(both, sides[1].size)
    counts = [np.histogram(x, edges)[0] for x in finite]
    ax.stairs(
        counts[0], edges, fill=True, color=GREY, alpha=0.45, label=_label("reference", sides[0])
    )
    ax.stairs(counts[1], edges, color=BLUE, lw=1.4, label=_label("value", sides[1]))
    ax.set_yscale("log")
    ax.set_ylim(0.7, max(c.max() for c in counts) * 6)
    ax.set_xlabel("element")
    ax.set_ylabel("count")
    ax.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)
    return _titled(ax, title)


def _label(side: str, elements: Array) -> str:
    counts = ((int(np.isnan(elements).sum()), "NaN"), (int(np.isinf(elements).sum()), "infinite"))
    others = " and ".join(f"{n:,} {word}" for n, word in counts if n)
    return f"{side}, without {others}" if others else side


# Slices


def plot_slice(tensor: TensorDifference, ax: Axes) -> Axes:
    """The errors around the worst element; ``TensorDifference.plot_slice``."""
    at, errors = tensor.worst_index, tensor.errors
    title = "absolute error"
    if at is None or errors.size == 1:
        return _said(ax, title, tensor.statement)
    kept = [k for k in axes_of(errors.shape) if errors.shape[k] > 1]
    if len(kept) < 2:
        return _profile(ax, errors.reshape(-1), title)
    index: tuple[Any, ...] = tuple(slice(None) if k in kept else i for k, i in enumerate(at))
    if errors.ndim > 2:
        title += f" at [{', '.join(':' if k in kept else str(i) for k, i in enumerate(at))}]"
    return _heatmap(ax, errors[index], tuple(at[k] for k in kept), title, kept)


def _heatmap(ax: Axes, errors: Array, at: tuple[int, ...], title: str, kept: Sequence[int]) -> Axes:
    """A picture of errors on a log scale, in which the worst element is ringed."""
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    high, low = bounds_of(errors)
    colors = colormaps["magma"].with_extremes(over=LIGHT_BLUE, under="#000004", bad="#000004")
    height, width = errors.shape
    wide = max(height, width) > 3 * min(height, width)
    image = ax.imshow(
        _pooled(errors), cmap=colors, norm=LogNorm(low, high), interpolation="nearest",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5), aspect="auto" if wide else "equal",
    )  # fmt: skip
    ax.plot(at[1], at[0], "o", ms=11, mfc="none", mec="white", mew=2.6)
    ax.plot(at[1], at[0], "o", ms=11, mfc="none", mec=RED, mew=1.3)
    lost = bool(np.isinf(errors).any())
    bar = ax.figure.colorbar(image, ax=ax, extend="max" if lost else "neither", shrink=0.9)
    bar.set_label("|value − reference|" + (", blue: not finite" if lost else ""), fontsize=8)
    ax.set_xlabel(f"axis {kept[1]}")
    ax.set_ylabel(f"axis {kept[0]}")
    ax.set_title(title, fontsize=10)
    return ax


def _pooled(errors: Array) -> Array:
    """A smaller picture: the largest error of each block, so that a single wrong element stays visible."""
    for axis, length in enumerate(errors.shape):
        if length > _PIXELS:
            starts = np.arange(_PIXELS) * length // _PIXELS
            errors = np.maximum.reduceat(errors, starts, axis=axis)
    return errors


def _profile(ax: Axes, errors: Array, title: str) -> Axes:
    """Errors by position; those that are not finite stand at the top."""
    high, low = bounds_of(errors)
    lost = np.isinf(errors)
    marker = "." if errors.size <= _FEW else ","
    places = np.arange(errors.size)
    known = ~lost & (errors > 0)
    ax.semilogy(places[known], errors[known], marker, color=BLUE, ms=5, ls="none")
    ax.set_ylim(low / 3, high * 10)
    ax.set_xlim(-0.5 - 0.02 * errors.size, errors.size - 0.5 + 0.02 * errors.size)
    if lost.any():
        ax.plot(places[lost], np.full(lost.sum(), high * 5), "x", color=RED, label="not finite")
        ax.legend(fontsize=8, frameon=False)
    equal = int((errors == 0).sum())
    ax.set_xlabel("index" + (f" ({equal:,} equal elements not shown)" if equal else ""))
    ax.set_ylabel("|value − reference|")
    return _titled(ax, title)


# Errors by magnitude


def plot_magnitude(tensor: TensorDifference, ax: Axes) -> Axes:
    """Errors against the magnitude of the reference; ``TensorDifference.plot_magnitude``."""
    title = "error against magnitude"
    errors = tensor.errors.ravel()
    if errors.size == 1 or not errors.any():
        return _said(ax, title, tensor.statement)
    size = np.abs(np.asarray(tensor.reference, np.float64)).ravel()
    shown = np.isfinite(errors) & (errors > 0) & (size > 0) & np.isfinite(size)
    if not shown.any():
        return _said(ax, title, unshown(errors, size) or tensor.statement)
    step = 1 + int(shown.sum()) // POINTS
    _density(ax, size[shown][::step], errors[shown][::step])
    _one_rounding(ax, tensor, size[shown])
    ax.set_xlabel("|reference|")
    ax.set_ylabel("|value − reference|")
    words = unshown(errors, size)
    if words:
        ax.text(0.02, 0.98, words, transform=ax.transAxes, fontsize=8, va="top")
    return _titled(ax, title)


def _density(ax: Axes, size: Array, errors: Array) -> None:
    """Points if there are few, else hexagons coloured by their count."""
    if size.size <= _FEW:
        ax.loglog(size, errors, ".", color=BLUE, ms=4, alpha=0.6)
    else:
        cells = ax.hexbin(
            size, errors, xscale="log", yscale="log", bins="log", gridsize=45, mincnt=1,
            cmap="viridis", linewidths=0.1,
        )  # fmt: skip
        ax.figure.colorbar(cells, ax=ax, shrink=0.9).set_label("elements", fontsize=8)
    ax.set_ylim(float(errors.min()) / 3, float(errors.max()) * 40)


def _one_rounding(ax: Axes, tensor: TensorDifference, size: Array) -> None:
    """The line of the largest error of one rounding to the value's type."""
    if not (one := rounding(tensor)):
        return
    ends = np.array([size.min(), size.max()])
    if ends[0] == ends[1]:
        ends = ends * np.array([0.5, 2.0])
    share, label = one["rounding"], f"one rounding of {one['rounded']}"
    ax.set_ylim(bottom=min(ax.get_ylim()[0], ends[0] * share / 3))
    ax.plot(ends, ends * share, "--", color=RED, lw=1.2, label=label)
    ax.legend(fontsize=8, frameon=False, loc="lower right")


# Channels


def plot_channels(tensor: TensorDifference, ax: Axes, axis: int | None = None) -> Axes:
    """Errors by index along an axis; ``TensorDifference.plot_channels``."""
    rank = tensor.value.ndim
    if not rank or not tensor.errors.size:
        return _said(ax, "error by channel", tensor.statement)
    chosen = (1 if rank > 1 else 0) if axis is None else axis
    table = tensor.by_channel(chosen)
    title = f"error by index along axis {chosen % rank}"
    if not tensor.errors.any():
        return _said(ax, title, tensor.statement)
    largest, mean = (np.asarray(table[k], np.float64) for k in ("max abs", "mean abs"))
    high, low = bounds_of(np.concatenate([largest, mean]))
    for heights, color, label in ((largest, GREY, "largest"), (mean, BLUE, "mean")):
        held = np.clip(heights, low / 3, high * 3)
        ax.stairs(
            held,
            np.arange(len(held) + 1) - 0.5,
            baseline=low / 3,
            fill=True,
            color=color,
            label=label,
        )
    lost = np.flatnonzero(np.isinf(largest))
    if lost.size:
        ax.plot(
            lost, np.full(lost.size, high * 6), "x", color=RED, label="not finite", clip_on=False
        )
    ax.set_yscale("log")
    ax.set_ylim(low / 3, high * (60 if lost.size else 12))
    ax.set_xlim(-0.5, len(largest) - 0.5)
    ax.set_xlabel(f"index along axis {chosen % rank}")
    ax.set_ylabel("|value − reference|")
    ax.legend(fontsize=8, frameon=False, ncols=3, loc="upper left")
    return _titled(ax, title)


def plot_quantiles(tensor: TensorDifference, ax: Axes) -> Axes:
    """Errors in order of size; ``TensorDifference.plot_quantiles``."""
    title = "errors in order of size"
    errors = np.sort(tensor.errors.ravel())
    if errors.size == 1 or not errors.any():
        return _said(ax, title, tensor.statement)
    high, low = bounds_of(errors)
    shares = 100 * (np.arange(errors.size) + 1) / errors.size
    known = (errors > 0) & np.isfinite(errors)
    ax.semilogy(shares[known], errors[known], ".-", color=BLUE, ms=3, lw=1)
    for share in QUANTILES:
        ax.axvline(100 * share, color=GREY, ls=":", lw=0.8)
    counts = ((int((errors == 0).sum()), "equal"), (int(np.isinf(errors).sum()), "not finite"))
    words = ", ".join(f"{n:,} {word}" for n, word in counts if n)
    ax.set_ylim(low / 3, high * 10)
    ax.set_xlim(0, 101)
    ax.set_xlabel("share of elements, %" + (f" (not shown: {words})" if words else ""))
    ax.set_ylabel("|value − reference|")
    return _titled(ax, title)


# Images


def plot_image(tensor: TensorDifference, ax: Axes) -> Axes:
    """The value, the reference and the error as images; ``TensorDifference.plot_image``."""
    axis = channel_axis(tensor.value.shape)
    if axis is None or not tensor.value.size:
        return _said(ax, "image", tensor.statement)
    at = tensor.worst_index or (0,) * tensor.value.ndim
    value, wanted, errors = (
        pixels(x, at, axis) for x in (tensor.value, tensor.reference, tensor.errors)
    )
    images = [_marked(in_range(x, wanted), ~np.isfinite(x).all(axis=2)) for x in (value, wanted)]
    parts = [*images, _as_colors(errors.max(axis=2))]
    gap = np.ones((value.shape[0], max(1, value.shape[1] // 24), 3))
    strips = [x for part in parts for x in (part, gap)][:-1]
    ax.imshow(np.concatenate(strips, axis=1), interpolation="nearest")
    pitch = value.shape[1] + gap.shape[1]
    ax.set_xticks(
        [k * pitch + value.shape[1] / 2 - 0.5 for k in range(3)],
        ["value", "reference", "|error|, log"],
    )
    ax.tick_params(length=0, labelsize=9)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    where = f" {at[0]} of the batch" if tensor.value.ndim == 4 else ""
    ax.set_title(f"image{where}", fontsize=10)
    return ax


def _as_colors(errors: Array) -> Array:
    """Errors on the log scale of the heatmaps."""
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    high, low = bounds_of(errors)
    lost = np.isinf(errors)
    held = np.clip(np.where(lost, high, errors), low, high)
    colors: Array = np.asarray(colormaps["magma"](LogNorm(low, high)(held)))[..., :3]
    return _marked(colors, lost)


def _marked(colors: Array, lost: Any) -> Array:
    """Colours with those pixels in blue that are not finite."""
    from matplotlib.colors import to_rgb  # noqa: PLC0415

    return np.where(lost[..., None], np.array(to_rgb(LIGHT_BLUE)), colors)
