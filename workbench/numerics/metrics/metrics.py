"""The metrics between two arrays that reports show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.dtypes import Array, DType

_BLOCK = 1 << 13
"""Elements of a block: a few arrays of that many float64 stay in a cache; from 10,000 on, OpenBLAS starts
threads for a product, which cost more than its work."""
_LEAST = 1e-50
"""Sums of squares from here to its inverse: no square under- or overflowed, and none is negligible."""


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
    overflow: int = 0
    """The infinities among ``inf`` where the reference is beyond the range of the value's type."""
    lost: int = 0
    """The number of finite elements of the value where the reference is NaN or infinite."""

    @property
    def is_sane(self) -> bool:
        """Whether NaN and infinities are the same on both sides."""
        return self.nan == 0 and self.inf == 0 and self.lost == 0

    @property
    def error(self) -> float:
        """The relative RMS; infinite if a NaN or an infinity is on one side only. Tables sort by it."""
        return self.relative_rms if self.is_sane and self.relative_rms < inf else inf

    def exceeds(self, bound: float) -> bool:
        """Whether the error is larger than a bound, or a value is not finite where it should be."""
        return not self.is_sane or not self.relative_rms <= bound

    @property
    def ranked(self) -> Metrics:
        """The metrics with each distance the worst if a NaN or an infinity is on one side only."""
        if self.is_sane:
            return self
        return replace(self, max_abs=inf, max_rel=inf, relative_rms=inf, rms=inf, cosine=-inf)

    @property
    def is_saturated(self) -> bool:
        """Whether nothing is wrong but overflows: a mask of -1e9 that becomes -inf in half does no harm."""
        return self.nan == self.lost == 0 and 0 < self.inf == self.overflow


INCOMPARABLE = Metrics(inf, inf, inf, inf, 0.0, 0, 0, 0, 0)
"""The metrics between arrays of different lens: the largest distances."""


def compare_arrays(value: Array, reference: Array) -> Metrics:
    """The metrics between two arrays of equal lens, computed in float64."""
    a, b = np.asarray(value).reshape(-1), np.asarray(reference).reshape(-1)
    return _in_blocks(a, b) or _carefully(a, b)


def _in_blocks(a: Array, b: Array) -> Metrics | None:
    """The metrics from sums over blocks that stay in the cache; None if these sums would not do.

    They do not if elements are not finite, or so large or small that their squares are not.
    """
    dd = aa = bb = ab = max_abs = max_rel = largest = 0.0
    with np.errstate(all="ignore"):
        for at in range(0, a.size, _BLOCK):
            x = np.asarray(a[at : at + _BLOCK], np.float64)
            y = np.asarray(b[at : at + _BLOCK], np.float64)
            d = x - y
            np.abs(d, out=d)
            dd, ab = dd + float(d @ d), ab + float(x @ y)
            aa, bb = aa + float(x @ x), bb + float(y @ y)
            max_abs = max(max_abs, float(np.maximum.reduce(d)))
            largest = max(largest, _magnitude(x), _magnitude(y))
            # 0/0 where the reference is 0: NaN, which fmax and fmin pass over. Masks take ten times as long.
            np.multiply(d, y != 0, out=d)
            np.divide(d, y, out=d)
            max_rel = max(max_rel, float(np.fmax.reduce(d)), -float(np.fmin.reduce(d)))
    if not all(total == 0.0 or _LEAST < total < 1 / _LEAST for total in (dd, aa, bb)):
        return None
    if (max_abs > 0.0) > (dd > 0.0) or (largest > 0.0) > (aa + bb > 0.0) or bb == 0.0 < aa:
        return None
    relative = sqrt(dd / bb) if bb else 0.0
    cosine = min(1.0, max(-1.0, ab / sqrt(aa) / sqrt(bb))) if aa and bb else float(aa == bb)
    rms = sqrt(dd / a.size) / largest if largest else 0.0
    return Metrics(max_abs, max_rel, relative, rms, cosine, 0, 0, 0, 0)


def _magnitude(a: Array) -> float:
    """The largest magnitude: two passes that only read are faster than one that also writes."""
    return max(float(np.maximum.reduce(a)), -float(np.minimum.reduce(a)))


def _carefully(value: Array, reference: Array) -> Metrics:
    """The metrics over the elements that are finite, and counts of the others."""
    a, b = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    nan = int(np.count_nonzero(np.isnan(a) & ~np.isnan(b)))
    inf = int(np.count_nonzero(np.isinf(a) & (a != b)))
    beyond = np.isinf(a) & np.isfinite(b) & (np.abs(b) > _largest(value))
    overflow = int(np.count_nonzero(beyond & (np.sign(a) == np.sign(b))))
    seen = int(np.count_nonzero(np.isnan(b))), int(np.count_nonzero(np.isinf(b)))
    lost = int(np.count_nonzero(np.isfinite(a) & ~np.isfinite(b)))
    a, b = a[finite], b[finite]
    with np.errstate(over="ignore"):
        return Metrics(
            Metric.MAX_ABS.of(a, b),
            Metric.MAX_REL.of(a, b),
            Metric.RELATIVE_RMS.of(a, b),
            Metric.RMS.of(a, b),
            Metric.COSINE.of(a, b),
            nan,
            inf,
            *seen,
            overflow,
            lost,
        )


def _largest(array: Array) -> float:
    """The largest finite value of an array's type; infinite for float64 and integers."""
    type = DType.of(array.dtype)
    return type.format.limits[1] if type.is_float else np.inf
