"""The metrics between two arrays that reports show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.dtypes import Array, DType

_ROW = 1 << 13
"""Elements of an inner product: from 10,000 on, OpenBLAS starts threads, which cost more than its work."""
_BLOCK = 4 * _ROW
"""Elements of a block: three blocks of float64 just stay in a cache, and calls take little of the time."""
_FAST = (np.dtype(np.float32), np.dtype(np.float64))
_NEXT_TO_NOTHING = 1e-6
"""The sum of squares beside that of the reference below which it is not computed from the difference."""
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

    They do not if elements are not finite, or so large or small that their squares are not, or if the value
    is next to nothing beside its reference.
    """
    room = np.empty((2, min(_BLOCK, a.size)))
    sums = _Sums()
    with np.errstate(all="ignore"):
        for at in range(0, a.size, _BLOCK):
            x, y = _usable(a[at : at + _BLOCK]), np.asarray(b[at : at + _BLOCK], np.float64)
            sums.add(x, y, *room[:, : y.size])
    return sums.metrics(a.size)


def _usable(x: Array) -> Array:
    """An array in a type that NumPy is fast in."""
    return x if x.dtype in _FAST else x.astype(np.float64)


class _Sums:
    """Sums and largest magnitudes over the blocks of a value x, its reference y, and d = x − y."""

    def __init__(self) -> None:
        self.yy = self.dy = self.dd = 0.0
        self.largest = self.max_abs = self.max_rel = 0.0

    def add(self, x: Array, y: Array, d: Array, relative: Array) -> None:
        """Add a block; the last two arrays are overwritten."""
        np.subtract(x, y, out=d, dtype=np.float64)
        np.divide(d, y, out=relative)
        worst = _magnitude(relative)
        if worst == inf:  # where the reference is 0; masks for every block would take long
            relative[y == 0] = 0.0
            worst = _magnitude(relative)
        self.max_rel = max(self.max_rel, worst)
        self.max_abs = max(self.max_abs, _magnitude(d))
        self.largest = max(self.largest, _magnitude(x), _magnitude(y))
        self.yy += _inner(y, y)
        self.dy += _inner(d, y)
        self.dd += _inner(d, d)

    def metrics(self, size: int) -> Metrics | None:
        """The metrics of so many elements; None if a sum of squares is not finite, or has lost small ones."""
        yy, dd = self.yy, self.dd
        xx, xy = yy + 2.0 * self.dy + dd, yy + self.dy
        if not all(total == 0.0 or _LEAST < total < _MOST for total in (dd, yy)):
            return None
        if (self.max_abs > 0.0) > (dd > 0.0) or (self.largest > 0.0) > (yy + dd > 0.0):
            return None
        if yy == 0.0 < dd or xx < _NEXT_TO_NOTHING * yy:
            return None
        relative = sqrt(dd) / sqrt(yy) if yy else 0.0
        cosine = min(1.0, max(-1.0, xy / sqrt(xx) / sqrt(yy))) if yy else 1.0
        rms = sqrt(dd / size) / self.largest if self.largest else 0.0
        return Metrics(self.max_abs, self.max_rel, relative, rms, cosine, 0, 0, 0, 0)


def _magnitude(x: Array) -> float:
    """The largest magnitude, NaN aside: two passes that read are faster than one that writes."""
    return max(float(np.fmax.reduce(x)), -float(np.fmin.reduce(x)), 0.0)


def _inner(x: Array, y: Array) -> float:
    """The inner product, made of those of ``_ROW`` elements."""
    rows = x.size // _ROW
    size = rows * _ROW
    total = float(np.dot(x[size:], y[size:]))
    if rows:
        parts = np.vecdot(x[:size].reshape(rows, _ROW), y[:size].reshape(rows, _ROW))
        total += float(np.add.reduce(parts))
    return total


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
