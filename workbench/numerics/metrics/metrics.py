"""The metrics between two arrays that reports show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.dtypes import Array, DType

_ROW = 1 << 13
"""Elements of an inner product: from 10,000 on, OpenBLAS starts threads, which cost more than its work."""
_ROWS = 4
"""Such rows in a block: four blocks of float64 just stay in a cache, and calls take little of the time."""
_LEAST, _MOST = 1e-50, 1e300
"""Sums of squares between these: no square overflowed, and those that underflowed are negligible."""


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
    row = min(_ROW, a.size or 1)
    room = np.empty((4, row * min(_ROWS, -(-a.size // row) or 1)))
    sums = _Sums()
    with np.errstate(all="ignore"):
        for at in range(0, a.size, room.shape[1]):
            size = min(room.shape[1], a.size - at)
            x, y, d, relative = block = room[:, : -(-size // row) * row]
            x[:size], y[:size] = a[at : at + size], b[at : at + size]
            x[size:] = y[size:] = 0.0
            np.subtract(x, y, out=d)
            np.divide(d, y, out=relative)
            sums.add(block, row)
    return sums.metrics(a.size)


class _Sums:
    """Sums and largest magnitudes over the blocks of a value x, its reference y, x − y and (x − y) / y."""

    def __init__(self) -> None:
        self.xx = self.yy = self.xy = self.dd = 0.0
        self.largest = self.max_abs = self.max_rel = 0.0

    def add(self, block: Array, row: int) -> None:
        """Add a block: a row of each; its inner products are made of those of ``row`` elements."""
        most = _magnitudes(block)
        if most[3] == inf:  # where the reference is 0; masks for every block would take long
            block[3][block[1] == 0] = 0.0
            most = _magnitudes(block)
        self.largest = max(self.largest, most[0], most[1])
        self.max_abs, self.max_rel = max(self.max_abs, most[2]), max(self.max_rel, most[3])
        x, y, d = (part.reshape(-1, row) for part in block[:3])
        self.xx += float(np.vecdot(x, x).sum())
        self.yy += float(np.vecdot(y, y).sum())
        self.xy += float(np.vecdot(x, y).sum())
        self.dd += float(np.vecdot(d, d).sum())

    def metrics(self, size: int) -> Metrics | None:
        """The metrics of so many elements; None if a sum of squares is not finite, or has lost small ones."""
        xx, yy, dd = self.xx, self.yy, self.dd
        if not all(total == 0.0 or _LEAST < total < _MOST for total in (dd, xx, yy)):
            return None
        if (self.max_abs > 0.0) > (dd > 0.0) or (self.largest > 0.0) > (xx + yy > 0.0):
            return None
        if yy == 0.0 < xx:
            return None
        relative = sqrt(dd) / sqrt(yy) if yy else 0.0
        cosine = (
            min(1.0, max(-1.0, self.xy / sqrt(xx) / sqrt(yy))) if xx and yy else float(xx == yy)
        )
        rms = sqrt(dd / size) / self.largest if self.largest else 0.0
        return Metrics(self.max_abs, self.max_rel, relative, rms, cosine, 0, 0, 0, 0)


def _magnitudes(block: Array) -> list[float]:
    """The largest magnitude of each row, NaN aside: two passes that read are faster than one that writes."""
    high, low = np.fmax.reduce(block, axis=1), np.fmin.reduce(block, axis=1)
    return np.fmax(np.fmax(high, -low), 0.0).tolist()


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
