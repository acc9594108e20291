"""Statistics of one value: moments of its finite elements, and counts of those that lose precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.numerics.metrics.histogram import Histogram

INFINITE_IN_HALF = 65520.0
"""The least magnitude that rounds to infinity in half: midway from 65504 to 65536 (IEEE 754-2019, 4.3.1)."""
ZERO_IN_HALF = 2.0**-25
"""The largest magnitude that rounds to zero in half: half of its least subnormal number, a tie to even."""


def statistics_of(value: Array, axis: int | None = None) -> dict[str, Array]:
    """Statistics of an array, or of each index along an axis.

    Everything is computed in float64. ``min``, ``max``, ``mean`` and ``std`` (of the population) are those of
    the finite elements, NaN if there are none; ``subnormal`` counts elements below the least normal number of
    the array's own type. ``beyond half`` and ``below half`` are shares of the finite elements: those that
    become infinite in half, and those that are not zero but become zero.

    Args:
        value: The array, of any rank.
        axis: The axis whose indices are kept apart; None for the whole array.

    Returns:
        A column for each statistic, with one element, or one for each index.
    """
    rows = _rows(value, axis)
    finite, size = np.isfinite(rows), np.abs(rows)
    known = finite.sum(axis=1)
    with np.errstate(all="ignore"):
        mean = rows.sum(axis=1, where=finite) / known
        squares = np.square(rows - mean[:, None])
        return {
            "count": np.full(len(rows), rows.shape[1]),
            "min": _or_nan(rows.min(axis=1, where=finite, initial=np.inf), known),
            "max": _or_nan(rows.max(axis=1, where=finite, initial=-np.inf), known),
            "mean": mean,
            "std": np.sqrt(squares.sum(axis=1, where=finite) / known),
            "nan": np.isnan(rows).sum(axis=1),
            "inf": np.isinf(rows).sum(axis=1),
            "subnormal": ((size > 0) & (size < _least_normal(value))).sum(axis=1),
            "zero": (size == 0).sum(axis=1),
            "beyond half": (finite & (size >= INFINITE_IN_HALF)).sum(axis=1) / known,
            "below half": ((size > 0) & (size <= ZERO_IN_HALF)).sum(axis=1) / known,
        }


def histogram_of(value: Array) -> Histogram:
    """The histogram of the finite elements of an array."""
    histogram = Histogram()
    elements = np.asarray(value, np.float64).ravel()
    finite = elements[np.isfinite(elements)]
    histogram.add(finite, float(np.abs(finite).max(initial=0.0)))
    return histogram


def _rows(value: Array, axis: int | None) -> Array:
    """The elements as float64: a row for the whole, or for each index along an axis."""
    elements = np.asarray(value, np.float64)
    if axis is None:
        return elements.reshape(1, -1)
    first = np.moveaxis(elements, axis, 0)
    return first.reshape(len(first), value.size // max(len(first), 1))


def _or_nan(found: Array, known: Array) -> Any:
    return np.where(known, found, np.nan)


def _least_normal(value: Array) -> float:
    """The least normal number of the array's type; 0 for integers."""
    type = DType.of(value.dtype)
    return 2.0 ** (1 - type.format.bias) if type.is_float else 0.0
