"""Metrics and tolerances: how far two arrays differ, and how far a type allows them to."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.program import Program

_NEGLIGIBLE = 1e-30
"""The least magnitude that an error is relative to; smaller magnitudes count as 0."""
AGREEING = 0.6
"""The fraction of the mantissa's bits that must agree; accumulated rounding may change the others."""
_MOST = 0.5
"""The largest tolerance, for types with very few bits."""


class Metric(Enum):
    """A distance between a value ``a`` and its reference ``b``, of n elements each.

    The member's value is its name in tables. All metrics are computed in float64, over the elements that
    are finite in both arrays.
    """

    RELATIVE_RMS = "relative rms"
    """``‖a − b‖₂ / ‖b‖₂``, the relative error in the 2-norm (Higham, *Accuracy and Stability of Numerical
    Algorithms*, chapter 6), also the inverse root of the signal-to-noise ratio. Tolerances bound it."""
    RMS = "rms"
    """``‖a − b‖₂ / (√n · max(max|a|, max|b|))``: ``rms_range`` of MIGraphX's ``verify.hpp``, which its driver
    and ``verify`` limit. One large element hides the errors of all others."""
    MAX_ABS = "max abs"
    """``max |a − b|``."""
    MAX_REL = "max rel"
    """``max |a − b| / |b|`` over the elements where b is not 0; 0 if there are none."""
    COSINE = "cosine"
    """``a·b / (‖a‖₂ ‖b‖₂)``, the cosine of the angle between them; 1 if both are 0, 0 if only one is."""

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is better; the cosine's best value is 1."""
        return self is not Metric.COSINE

    def of(self, value: Array, reference: Array) -> float:
        """The distance between two flat float64 arrays with equal lens and finite elements.

        The distance of empty arrays is that of equal ones.
        """
        if not value.size:
            return 0.0 if self.lower_is_better else 1.0
        return _FORMULAS[self](value, reference)


def _relative_rms(a: Array, b: Array) -> float:
    scale = max(float(np.abs(b).max()), _NEGLIGIBLE)  # squares neither overflow nor underflow
    apart, norm = float(np.linalg.norm((a - b) / scale)), float(np.linalg.norm(b / scale))
    return apart / max(norm, np.sqrt(a.size) * _NEGLIGIBLE / scale)


def _rms(a: Array, b: Array) -> float:
    largest = max(float(np.abs(a).max()), float(np.abs(b).max()), float(np.finfo(np.float64).tiny))
    return float(np.linalg.norm(a / largest - b / largest) / np.sqrt(a.size))  # no square overflows


def _max_rel(a: Array, b: Array) -> float:
    nonzero = b != 0
    return float(np.max(np.abs(a - b)[nonzero] / np.abs(b[nonzero]), initial=0.0))


def _cosine(a: Array, b: Array) -> float:
    if not a.any() or not b.any():
        return float(not a.any() and not b.any())
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # squares do not overflow
    return float(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1.0, 1.0))


def _max_abs(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max())


_FORMULAS = {
    Metric.RELATIVE_RMS: _relative_rms,
    Metric.RMS: _rms,
    Metric.MAX_ABS: _max_abs,
    Metric.MAX_REL: _max_rel,
    Metric.COSINE: _cosine,
}


# Tolerances


def type_tolerance(type: DType) -> float:
    """The relative RMS up to which values of a type count as equal: three fifths of the mantissa agree.

    ``min(½, 2^(−0.6 m))`` for a mantissa of m bits, or an integer of m bits besides its sign. Rounding errors
    with independent signs reach it after 500 operations in a row for bfloat16, after 3,000 for half.
    """
    format = type.format
    bits = format.mantissa if type.is_float else format.bits - (format.kind == "signed")
    return min(_MOST, 2.0 ** (-AGREEING * bits))


def program_tolerance(program: Program) -> float:
    """The tolerance of the narrowest float type among a program's values; 0 if it has no floats."""
    types = {
        s.type
        for i in program.instructions
        for s in (i.shape.subs or (i.shape,))
        if s.subs is None and s.type.is_float
    }
    return max(map(type_tolerance, types), default=0.0)


def difference(wanted: Any, found: Any, limit: float) -> str:
    """A text that says how a result differs from the expected one; empty if they are equal.

    Floats are equal up to a relative RMS of ``limit``, with NaN and infinities at the same positions;
    all other types must be equal exactly.
    """
    if isinstance(wanted, tuple | list):
        pairs = zip(cast("Sequence[Any]", wanted), cast("Sequence[Any]", found), strict=True)
        return next((p for p in (difference(a, b, limit) for a, b in pairs) if p), "")
    a, b = np.asarray(wanted), np.asarray(found)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{b.dtype} of lens {list(b.shape)}; it was {a.dtype} of {list(a.shape)}"
    if not DType.of(a.dtype).is_float:
        count = int(np.count_nonzero(a != b))
        return f"{count} of {a.size} elements differ" if count else ""
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    if bool(np.any(~finite & ~((x == y) | (np.isnan(x) & np.isnan(y))))):
        return "a NaN or an infinity is not where it was"
    relative = Metric.RELATIVE_RMS.of(y[finite], x[finite])
    return "" if relative <= limit else f"relative RMS {relative:.3g}, more than {limit:.3g}"
