"""The numbers behind the pictures of one value beside its reference, of bounded size for any tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isnan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType

if TYPE_CHECKING:
    from workbench.numerics.metrics.tensor_difference import TensorDifference

Index: TypeAlias = tuple[int | slice, ...]
"""The index of a slice: a number for each fixed axis, ``slice(None)`` for the one or two that are shown."""

CELLS = 7500
"""The most cells of a slice; each then stands for the element with the largest error of several."""
NEAR = 2
"""The elements on each side of one that are its neighbourhood."""
_ROWS, _COLUMNS = 256, 320
_CHANNELS = 256
_BINS = 80
_GRID = (48, 32)
"""The cells of a picture of errors by magnitude: across and up."""
POINTS = 2_000_000
"""The most elements that are counted by magnitude; of more, every k-th is taken."""
_DECADES = 8
"""The range of a colour scale of errors, in powers of ten below the largest."""
LARGEST = 1e300
"""The largest number on a linear axis: margins have to be finite, too."""
_SMALLEST = 4
"""The least height and width of an image."""
_SIGNED = {inf: "∞", -inf: "−∞"}


def text_of(element: Any, digits: int = 6) -> str:
    """A number with so many digits; ``NaN``, ``∞`` or ``−∞``."""
    number = float(element)
    return "NaN" if isnan(number) else _SIGNED.get(number) or f"{number:.{digits}g}"


def short_text_of(number: float) -> str:
    """A count in full, any other number with three digits."""
    if isinstance(number, int):
        return f"{number:,}"
    return _SIGNED.get(number) or f"{number:.3g}"


def bounds_of(errors: Array) -> tuple[float, float]:
    """The largest finite error, and the least of a log scale: some decades below at most."""
    shown = errors[np.isfinite(errors) & (errors > 0)]
    high = float(shown.max()) if shown.size else 1.0
    low = max(float(shown.min()) if shown.size else 0.1, high * 10.0**-_DECADES)
    return high, min(low, high / 10)


def axes_of(lens: Sequence[int]) -> tuple[int, ...]:
    """The axes of a slice: the last two that are longer than 1, or as many as there are."""
    long = [k for k, n in enumerate(lens) if n > 1]
    short = [k for k, n in enumerate(lens) if n <= 1]
    return tuple(sorted([*short, *long][-2:]))


# The whole tensor


def overview(tensor: TensorDifference) -> dict[str, Any]:
    """A tensor in words, distances, both histograms, errors by magnitude and by channel, ready for JSON."""
    lens = list(tensor.value.shape)
    known: Any = tensor.metrics.table() if tensor.is_comparable else {}
    found: dict[str, Any] = {
        "title": tensor.title, "statement": tensor.statement, "lens": lens,
        "type": str(tensor.value.dtype), "reference": str(tensor.reference.dtype),
        "comparable": tensor.is_comparable and tensor.value.size > 0,
        "distances": [[str(k), short_text_of(v)] for k, v in known.items()],
        "counts": {"value": _lost(tensor.value), "reference": _lost(tensor.reference)},
        "histogram": histograms(tensor),
        "worst": tensor.worst_index, "image": channel_axis(lens) if tensor.is_comparable else None,
    }  # fmt: skip
    if found["comparable"]:
        found["magnitude"] = magnitudes(tensor)
        found["channels"] = [_by_index(tensor, k) for k in range(len(lens))]
    return found


def _lost(side: Array) -> list[int]:
    """Counts of NaN, ∞ and −∞."""
    x = np.asarray(side, np.float64)
    return [int(np.isnan(x).sum()), int((x == inf).sum()), int((x == -inf).sum())]


def histograms(tensor: TensorDifference) -> dict[str, Any]:
    """The counts of both sides' finite elements in the same equal bins; or words on why there are none."""
    sides = [np.asarray(x, np.float64).ravel() for x in (tensor.reference, tensor.value)]
    finite = [x[np.isfinite(x)] for x in sides]
    both = np.concatenate(finite)
    if not both.size:
        words = "no finite elements" if any(x.size for x in sides) else "no elements"
        return {"words": words}
    if (largest := float(np.abs(both).max())) > LARGEST:
        return {"words": f"elements up to {largest:.3g}, beyond the range of an axis"}
    edges = edges_of(both, sides[1].size)
    wanted, value = ([int(n) for n in np.histogram(x, edges)[0]] for x in finite)
    return {"edges": [float(edges[0]), float(edges[-1])], "reference": wanted, "value": value}


def edges_of(both: Array, count: int) -> Array:
    """Equal bins over the range, fewer for few elements; around a single number, a range of its size."""
    low, high = float(both.min()), float(both.max())
    width = high / 2 - low / 2
    if not width > 1e-12 * max(abs(low), abs(high)):
        reach = max(abs(low), 1e-30) / 2
        low, high = low - reach, high + reach
    return np.linspace(low, high, min(_BINS, 8 + int(2 * count**0.5)) + 1)


def magnitudes(tensor: TensorDifference) -> dict[str, Any]:
    """Counts of elements by the magnitudes of the reference and of the error, on log scales.

    ``cells`` has the column, the row and the count of each cell that is not empty; ``words`` name the
    elements that log scales cannot have.
    """
    errors = tensor.errors.ravel()
    size = np.abs(np.asarray(tensor.reference, np.float64)).ravel()
    shown = np.isfinite(errors) & (errors > 0) & (size > 0) & np.isfinite(size)
    found: dict[str, Any] = {"words": unshown(errors, size)}
    if not shown.any():
        return found
    step = 1 + int(shown.sum()) // POINTS
    x, y = np.log10(size[shown][::step]), np.log10(errors[shown][::step])
    ends = [_decades(x), _decades(y)]
    counts = np.histogram2d(x, y, bins=_GRID, range=ends)[0]
    at = np.argwhere(counts)
    cells = [[int(i), int(j), int(counts[i, j])] for i, j in at]
    return found | {"x": ends[0], "y": ends[1], "grid": _GRID, "cells": cells, **rounding(tensor)}


def rounding(tensor: TensorDifference) -> dict[str, Any]:
    """The largest relative error of one rounding to the value's type, if that is a float."""
    type = DType.of(tensor.value.dtype)
    if not type.is_float:
        return {}
    name = type.type_name.removesuffix("_type")
    return {"rounding": type.format.epsilon / 2, "rounded": name}


def _decades(logs: Array) -> tuple[float, float]:
    low, high = floor(float(logs.min())), ceil(float(logs.max()))
    return float(low), float(max(high, low + 1))


def unshown(errors: Array, size: Array) -> str:
    """The elements that a plot with two log scales cannot have."""
    counts = (
        (int(np.isinf(errors).sum()), "not finite on one side"),
        (int((errors == 0).sum()), "equal"),
        (int(((size == 0) & (errors > 0) & np.isfinite(errors)).sum()), "expected to be 0"),
    )
    found = ", ".join(f"{n:,} {word}" for n, word in counts if n)
    return f"not shown: {found}" if found else ""


def _by_index(tensor: TensorDifference, axis: int) -> dict[str, Any]:
    """The largest and the mean finite error by index along an axis, and the elements that are not finite."""
    others = tuple(k for k in range(tensor.errors.ndim) if k != axis)
    lost = np.isinf(tensor.errors)
    held = np.where(lost, 0.0, tensor.errors)
    length = tensor.errors.shape[axis]
    starts = np.arange(min(_CHANNELS, length)) * length // min(_CHANNELS, length)
    count = np.add.reduceat((~lost).sum(axis=others), starts)
    found = {
        "largest": np.maximum.reduceat(held.max(axis=others), starts),
        "mean": np.add.reduceat(held.sum(axis=others), starts) / np.maximum(count, 1),
    }
    return {k: [float(f"{e:.4g}") for e in v.tolist()] for k, v in found.items()} | {
        "lost": np.add.reduceat(lost.sum(axis=others), starts).tolist()
    }


# A slice


@dataclass(frozen=True, eq=False)
class Cells:
    """A slice of both sides and of the errors, as rows and columns of at most a few thousand cells.

    Attributes:
        lens: The rows and columns of the slice.
        value: The cells' values in float64.
        reference: Those of the reference.
        errors: Their absolute errors.
        where: The element of each cell, by its position in the slice; None if each element has a cell.
    """

    lens: tuple[int, int]
    value: Array
    reference: Array
    errors: Array
    where: Array | None


def cells(tensor: TensorDifference, index: Index, most: int = CELLS) -> Cells:
    """A slice, in which a cell shows the element with the largest error of its block.

    So one wrong element of many stays visible; where all are equal, one that is not finite does.
    """
    value, wanted, errors = (
        np.asarray(x[index], np.float64) for x in (tensor.value, tensor.reference, tensor.errors)
    )
    lens = (1,) * (2 - value.ndim) + value.shape
    rows, columns = (int(n) for n in lens)
    value, wanted, errors = (x.reshape(rows, columns) for x in (value, wanted, errors))
    fewer = _fewer(rows, columns, most)
    if fewer == (rows, columns):
        return Cells(fewer, value, wanted, errors, None)
    where = _largest(value, errors, fewer)
    value, wanted, errors = (x.ravel()[where] for x in (value, wanted, errors))
    return Cells((rows, columns), value, wanted, errors, where)


def _fewer(rows: int, columns: int, most: int) -> tuple[int, int]:
    rows, columns = min(rows, _ROWS), min(columns, _COLUMNS)
    side = int(most**0.5)
    if rows * columns <= most:
        return rows, columns
    if min(rows, columns) >= side:
        return side, side
    return (rows, most // rows) if rows < columns else (most // columns, columns)


def _largest(value: Array, errors: Array, fewer: tuple[int, int]) -> Array:
    """The position of the element that stands for each block."""
    least = np.where(np.isfinite(value), 0.0, 5e-324)
    key = np.maximum(errors, least)
    starts = [np.arange(n) * length // n for n, length in zip(fewer, key.shape, strict=True)]
    counts = [np.diff([*s, n]) for s, n in zip(starts, key.shape, strict=True)]
    best = np.maximum.reduceat(np.maximum.reduceat(key, starts[0], axis=0), starts[1], axis=1)
    spread = best.repeat(counts[0], axis=0).repeat(counts[1], axis=1)
    blocks = np.arange(best.size).reshape(fewer).repeat(counts[0], axis=0).repeat(counts[1], axis=1)
    at = np.flatnonzero(key == spread)
    where = np.zeros(best.size, np.int64)
    where[blocks.ravel()[at][::-1]] = at[::-1]  # the last that is written is the first of its block
    return where.reshape(fewer)


def around(tensor: TensorDifference, at: Sequence[int], axes: Sequence[int]) -> dict[str, Any]:
    """The neighbourhood of an element along the axes of a slice: rows, columns, and both sides as texts."""
    sides = [
        range(max(0, at[k] - NEAR), min(tensor.value.shape[k], at[k] + NEAR + 1)) for k in axes
    ]
    spans = [range(1)] * (2 - len(sides)) + sides
    near = tuple(slice(s.start, s.stop) for s in sides)
    index: list[Any] = list(at)
    for k, part in zip(axes, near, strict=True):
        index[k] = part
    shape = tuple(map(len, spans))
    texts = {
        name: [[text_of(e, 8) for e in row] for row in np.asarray(x[tuple(index)]).reshape(shape)]
        for name, x in _sides(tensor).items()
    }
    return {"rows": list(spans[0]), "columns": list(spans[1]), **texts}


def _sides(tensor: TensorDifference) -> Mapping[str, Array]:
    return {"value": tensor.value, "reference": tensor.reference, "error": tensor.errors}


# Images


def channel_axis(lens: Sequence[int]) -> int | None:
    """The axis of the channels if these are the lens of images; None if they are not."""
    rank, colors = len(lens), (1, 3, 4)
    if rank == 4 and lens[1] in colors and _are_sides(lens[2:]):
        return 1
    if rank in (3, 4) and lens[-1] in colors and _are_sides(lens[-3:-1]):
        return rank - 1
    if rank == 3 and lens[0] in colors and _are_sides(lens[1:]):
        return 0
    return None


def _are_sides(lens: Sequence[int]) -> bool:
    return min(lens) >= _SMALLEST


def pixels(array: Array, at: Sequence[int], axis: int) -> Array:
    """One image in float64, with its channels last."""
    if array.ndim == 4:
        array, axis = array[at[0]], axis - 1
    return np.moveaxis(np.asarray(array, np.float64), axis, 2)


def in_range(image: Array, wanted: Array) -> Array:
    """Three colours from 0 to 1: the reference's range becomes black to white."""
    known = wanted[np.isfinite(wanted)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    with np.errstate(all="ignore"):
        scaled = np.clip((image - low) / ((high - low) or 1.0), 0.0, 1.0)
    return scaled[..., :3] if image.shape[2] >= 3 else np.repeat(scaled[..., :1], 3, axis=2)


def image(tensor: TensorDifference, at: Sequence[int], most: int = CELLS) -> dict[str, Any] | None:
    """The image with an element: ``value`` and ``reference`` as bytes of colours, and the largest errors.

    A colour of 0, 0, 1 is an element that is not finite. None if the lens are not those of images.
    """
    axis = channel_axis(tensor.value.shape)
    if axis is None or not tensor.is_comparable or not tensor.value.size:
        return None
    sides = [pixels(x, at, axis) for x in (tensor.value, tensor.reference, tensor.errors)]
    lens = sides[0].shape[:2]
    fewer = _fewer(lens[0], lens[1], most)
    rows, columns = (np.arange(f) * n // f for f, n in zip(fewer, lens, strict=True))
    worst = np.maximum.reduceat(
        np.maximum.reduceat(sides[2].max(axis=2), rows, axis=0), columns, axis=1
    )
    value, wanted = (
        _bytes(x[rows][:, columns], in_range(x[rows][:, columns], sides[1])) for x in sides[:2]
    )
    return {"lens": fewer, "value": value, "reference": wanted, "errors": worst}


def _bytes(image: Array, colors: Array) -> Array:
    shown = np.nan_to_num(colors * 254 + 1).astype(np.uint8)
    lost = np.asarray(~np.isfinite(image).all(axis=2))
    return np.where(lost[..., None], np.array([0, 0, 1], np.uint8), shown)
