"""The detailed distances between one value and its reference, for a closer look at a single tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log10
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array

if TYPE_CHECKING:
    from pandas import Series

QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""The shares of elements whose absolute error a quantile bounds."""
BINS = 128
"""Bins of the histograms whose divergence is measured."""
Norms: TypeAlias = tuple[float, float, float, float, float, float]
_PRIOR = 0.5
"""The count that every bin has beforehand (Krichevsky and Trofimov, 1981), so that none is empty."""


@dataclass(frozen=True, slots=True)
class Distances:
    """Distances between a value a and its reference b of n elements each, computed in float64.

    An element that is NaN or infinite on one side only is infinitely wrong: it makes each distance infinite,
    the cosine and the ratios minus infinity, and counts in the quantiles as the largest error. Where both
    sides are NaN, or the same infinity, they are equal. Empty arrays are equal.
    """

    count: int
    """Elements of each side."""
    not_finite: int
    """Elements that are NaN or infinite on one side and something else on the other."""
    nan: int
    """NaNs of the value."""
    inf: int
    """Infinities of the value."""
    reference_nan: int
    reference_inf: int
    max_abs: float
    """``max |a − b|``."""
    mean_abs: float
    """``Σ |a − b| / n``."""
    quantiles: tuple[float, ...]
    """The least error e with ``|a − b| ≤ e`` for each share of the elements in ``QUANTILES``."""
    max_rel: float
    """``max |a − b| / |b|`` over the elements where b is not 0; 0 if there are none."""
    mean_rel: float
    """The mean of ``|a − b| / |b|`` over the same elements."""
    relative_rms: float
    """``‖a − b‖₂ / ‖b‖₂``; ``Metric.RELATIVE_RMS``."""
    finite_relative_rms: float
    """The same over the elements that are finite on both sides, whatever the others are."""
    rms: float
    """MIGraphX's measure; ``Metric.RMS``."""
    cosine: float
    """``a·b / (‖a‖₂ ‖b‖₂)``; ``Metric.COSINE``."""
    snr: float
    """The signal-to-noise ratio ``20 log₁₀(‖b‖₂ / ‖a − b‖₂)`` in dB; infinite if they are equal."""
    psnr: float
    """The peak signal-to-noise ratio ``20 log₁₀(√n max|b| / ‖a − b‖₂)`` in dB; infinite if they are equal.

    A tensor has no nominal peak such as an image's 255, so this is the largest magnitude of the reference.
    """
    max_ulp: float
    """The most representable values of a's type from a to b rounded to that type; see ``steps_apart``."""
    mean_ulp: float
    divergence: float
    """The Kullback-Leibler divergence from the value's histogram to the reference's, in nats.

    ``Σ p ln(p / q)`` where p is the reference's share of each of 128 equal bins from the least to the
    largest finite element of both sides, and q the value's, after half a count was added to each bin.
    """
    arg_max: float
    """The share of vectors along the last axis whose largest element of a is a largest one of b."""

    def table(self) -> Series:
        """The distances by the names that tables give them, with units."""
        import pandas as pd  # noqa: PLC0415

        named = {
            "elements": self.count, "not finite on one side": self.not_finite,
            "nan": self.nan, "inf": self.inf,
            "reference nan": self.reference_nan, "reference inf": self.reference_inf,
            "max abs": self.max_abs, "mean abs": self.mean_abs,
            **{f"abs {100 * q:g} %": e for q, e in zip(QUANTILES, self.quantiles, strict=True)},
            "max rel": self.max_rel, "mean rel": self.mean_rel,
            "relative rms": self.relative_rms, "relative rms of finite": self.finite_relative_rms,
            "rms": self.rms, "cosine": self.cosine, "snr (dB)": self.snr, "psnr (dB)": self.psnr,
            "max ulp": self.max_ulp, "mean ulp": self.mean_ulp,
            "kl divergence (nats)": self.divergence, "arg max agrees": self.arg_max,
        }  # fmt: skip
        return pd.Series(named, name="distance", dtype=object)


def detailed(value: Any, reference: Any) -> Distances:
    """The distances between two arrays of equal lens and any types of numbers.

    Raises:
        InputError: The lens differ.
    """
    a, b = np.asarray(value), np.asarray(reference)
    if a.shape != b.shape:
        raise InputError(
            f"a value of lens {list(a.shape)} has no distance from a reference of lens {list(b.shape)}; "
            "expected equal lens"
        )
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        return _measured(a, b, x, y)


def _measured(a: Array, b: Array, x: Array, y: Array) -> Distances:
    """The distances of two arrays, which are also there in float64."""
    errors = element_errors(x, y)
    finite = np.isfinite(x) & np.isfinite(y)
    apart = int(np.count_nonzero(~finite & (errors > 0)))
    return Distances(
        a.size, apart,
        int(np.isnan(x).sum()), int(np.isinf(x).sum()), int(np.isnan(y).sum()), int(np.isinf(y).sum()),
        *_absolute(errors), *_relative(errors, y),
        *_norms(x[finite], y[finite], apart > 0), *_ulps(a, b),
        inf if apart else _divergence(x[finite], y[finite]), _arg_max(x, y),
    )  # fmt: skip


def element_errors(value: Array, reference: Array) -> Array:
    """``|a − b|`` of each element; infinite where one side alone is not finite, 0 where both are equal."""
    a, b = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(apart), inf, apart))


def _absolute(errors: Array) -> tuple[float, float, tuple[float, ...]]:
    """The largest, the mean, and the quantiles."""
    if not errors.size:
        return 0.0, 0.0, (0.0,) * len(QUANTILES)
    found = np.quantile(errors, QUANTILES, method="inverted_cdf")
    return float(errors.max()), float(errors.mean()), tuple(map(float, found))


def _relative(errors: Array, reference: Array) -> tuple[float, float]:
    """The largest and the mean error in proportion to the reference, where that is not 0."""
    known = (reference != 0) & (np.isfinite(reference) | (errors > 0))
    size, apart = np.abs(reference[known]), errors[known]
    if not apart.size:
        return 0.0, 0.0
    found = np.where(np.isinf(apart), inf, apart / size)
    return float(found.max()), float(found.mean())


def _norms(a: Array, b: Array, is_apart: bool) -> Norms:
    """The distances made of norms: relative RMS, that of finite elements, RMS, cosine, SNR and PSNR."""
    relative = Metric.RELATIVE_RMS.of(a, b)
    if is_apart:
        return inf, relative, inf, -inf, -inf, -inf
    snr = -inf if a.any() and not b.any() else _decibels(relative)
    rms, cosine = Metric.RMS.of(a, b), Metric.COSINE.of(a, b)
    return relative, relative, rms, cosine, snr, _peak_ratio(a, b)


def _peak_ratio(a: Array, b: Array) -> float:
    if not a.size or (a == b).all():
        return inf
    peak = float(np.abs(b).max())
    if peak == 0.0:
        return -inf
    return _decibels(float(np.linalg.norm((a - b) / peak)) / np.sqrt(a.size))


def _decibels(noise: float) -> float:
    """The ratio of a signal of amplitude 1 to a noise."""
    if noise in (0.0, inf):
        return inf if noise == 0.0 else -inf
    return -20 * log10(noise)


# Units in the last place


def steps_apart(value: Array, reference: Array) -> Array:
    """The steps between neighbouring values of a type from each element to its reference.

    The reference is rounded to the type of the value first, at most to its largest number. So 0 means that
    the value is correctly rounded, and 1 that it is a neighbour of that. Floats are counted by the order of
    their bits, through 0 and the subnormal numbers; integers and truth values by their difference. Infinite
    where one side alone is NaN or infinite.
    """
    a, b = np.asarray(value), np.asarray(reference)
    apart = element_errors(a, b)
    known = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64))
    if a.dtype.kind in "biu":
        return apart if b.dtype.kind in "biu" else np.where(known, np.rint(apart), apart)
    most = float(cast("Any", ml_dtypes.finfo(a.dtype)).max)
    with np.errstate(all="ignore"):
        held = np.clip(b.astype(np.float64), -most, most)
        places, wanted = _place(a), _place(held.astype(a.dtype))
    steps: Array = (np.maximum(places, wanted) - np.minimum(places, wanted)).astype(np.float64)
    return np.where(known, steps, apart)


def _place(array: Array) -> Array:
    """The position of each float among all of its type, as unsigned integers; −0 is where 0 is."""
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    wide = bits.astype(np.uint64)
    bits_of_type: int = cast("Any", ml_dtypes.finfo(array.dtype)).bits
    sign = np.uint64(1 << (bits_of_type - 1))
    size = wide & (sign - np.uint64(1))
    return np.where(wide & sign, sign - size, sign + size)


def _ulps(value: Array, reference: Array) -> tuple[float, float]:
    steps = steps_apart(value, reference)
    return (float(steps.max()), float(steps.mean())) if steps.size else (0.0, 0.0)


# Distributions and classes


def _divergence(a: Array, b: Array) -> float:
    """The Kullback-Leibler divergence of two samples' histograms."""
    if not a.size or (a == b).all():
        return 0.0
    low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
    scale = max(abs(low), abs(high))  # as the width of the range itself may be infinite
    edges = np.linspace(low / scale, high / scale, BINS + 1)
    if not np.all(np.diff(edges) > 0):
        return 0.0
    p, q = (_smoothed(np.histogram(x / scale, edges)[0]) for x in (b, a))
    return max(0.0, float(np.sum(p * np.log(p / q))))


def _smoothed(counts: Array) -> Array:
    return (counts + _PRIOR) / (counts.sum() + _PRIOR * BINS)


def _arg_max(a: Array, b: Array) -> float:
    """The share of vectors along the last axis in which the arg max agrees; a tie of b's may go to either."""
    if not a.size:
        return 1.0
    x, y = (np.atleast_1d(v).reshape(-1, v.shape[-1] if v.ndim else 1) for v in (a, b))
    chosen = np.take_along_axis(y, x.argmax(axis=1)[:, None], axis=1)[:, 0]
    best = np.isnan(y).all(axis=1) | (chosen == np.where(np.isnan(y), -inf, y).max(axis=1))
    lost = (np.isnan(x) != np.isnan(y)).any(axis=1)
    return float((best & ~lost).mean())
