"""The metrics between two arrays that reports show."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.dtypes import Array


@dataclass(frozen=True, slots=True)
class Metrics:
    """Distances between a value and its reference, over the elements that are finite on both sides."""

    max_abs: float
    max_rel: float
    relative_rms: float
    """The metric that tolerances bound."""
    rms: float
    """MIGraphX's measure."""
    cosine: float
    nan: int
    """The number of NaNs in the value where the reference has none."""
    inf: int
    """The number of infinities in the value where the reference does not have the same one."""
    reference_nan: int
    reference_inf: int

    @property
    def is_sane(self) -> bool:
        """Whether every NaN and infinity of the value is in the reference, too."""
        return self.nan == 0 and self.inf == 0


INCOMPARABLE = Metrics(inf, inf, inf, inf, 0.0, 0, 0, 0, 0)
"""The metrics between arrays of different lens: the largest distances."""


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
    return Metrics(
        Metric.MAX_ABS.of(a, b),
        Metric.MAX_REL.of(a, b),
        Metric.RELATIVE_RMS.of(a, b),
        Metric.RMS.of(a, b),
        Metric.COSINE.of(a, b),
        nan,
        inf,
        *seen,
    )
