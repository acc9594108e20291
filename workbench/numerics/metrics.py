"""How far one array is from another: the metrics that reports show."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Distances between a value and its reference, over the elements that are finite on both sides."""

    max_abs: float
    max_rel: float
    rms: float
    cosine: float
    nan: int
    """NaNs in the value where the reference has none."""
    inf: int
    """Infinities in the value where the reference does not have the same one."""
    reference_nan: int
    reference_inf: int

    @property
    def is_sane(self) -> bool:
        """Whether the value has no NaN or infinity that the reference has not."""
        return self.nan == 0 and self.inf == 0


INCOMPARABLE = Metrics(inf, inf, inf, 0.0, 0, 0, 0, 0)
"""The metrics between arrays of different lens: as far apart as can be."""


def compare_arrays(value: Array, reference: Array) -> Metrics:
    """The metrics between two arrays of equal lens, computed in float64."""
    a = np.asarray(value, np.float64).ravel()
    b = np.asarray(reference, np.float64).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    nan = int(np.count_nonzero(np.isnan(a) & ~np.isnan(b)))
    inf = int(np.count_nonzero(np.isinf(a) & (a != b)))
    seen = int(np.count_nonzero(np.isnan(b))), int(np.count_nonzero(np.isinf(b)))
    if not finite.all():
        a, b = a[finite], b[finite]
    if not a.size:
        return Metrics(0.0, 0.0, 0.0, 1.0, nan, inf, *seen)
    difference = np.abs(a - b)
    return Metrics(
        float(difference.max()),
        max_relative(difference, b),
        rms_error(a, b),
        cosine(a, b),
        nan,
        inf,
        *seen,
    )


def max_relative(difference: Array, reference: Array) -> float:
    """Max |a − b| / |b| over the elements where the reference is not 0; 0 if there is none."""
    scale = np.abs(reference)
    nonzero = scale > 0
    if not nonzero.any():
        return 0.0
    return float(np.max(difference[nonzero] / scale[nonzero]))


def rms_error(a: Array, b: Array) -> float:
    """sqrt(Σ(a−b)²) / (sqrt(n) · max(max|a|, max|b|, tiny)): the formula of MIGraphX's verify."""
    difference = a - b
    largest = max(float(np.abs(a).max()), float(np.abs(b).max()), float(np.finfo(np.float64).tiny))
    return float(np.sqrt(difference @ difference) / (np.sqrt(a.size) * largest))


def cosine(a: Array, b: Array) -> float:
    """a·b / (|a| |b|); 1 for two zero vectors, 0 if only one is zero."""
    norm = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    if norm == 0.0:
        return float(not a.any() and not b.any())
    return float(np.clip(a @ b / norm, -1.0, 1.0))
