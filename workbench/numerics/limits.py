"""How far a value is from its reference, and how far it may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, NamedTuple, cast

import numpy as np

from workbench.compiler.arrays.metrics import Metric, type_tolerance
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.program import Program
from workbench.numerics.compare import rounding_tolerance

RELATIVE = (Metric.RELATIVE_RMS, Metric.RMS, Metric.MAX_REL)
"""The metrics that the tolerances of types are for."""
ROUNDED = (DType.INT8, DType.UINT8)
"""The integers that programs round floats to, so that neighbours may be equally right."""


class Distance(NamedTuple):
    """An error, and the largest that is allowed."""

    error: float
    limit: float

    @property
    def within(self) -> bool:
        """Whether the error is allowed; NaN is not."""
        return self.error <= self.limit

    @property
    def excess(self) -> float:
        """The error in units of the limit."""
        if self.limit:
            return self.error / self.limit
        return 0.0 if self.within else inf


@dataclass(frozen=True)
class Limits:
    """A metric, and how much of it is allowed."""

    metric: Metric
    tolerance: float
    given: bool = False
    """Whether the tolerance was asked for. It holds for integers, too, which have to be equal otherwise,
    except 8-bit ones: these may have the error of a rounding of floats."""

    def between(self, found: Any, wanted: Any) -> Distance:
        """The distance of a value from its reference; of tuples, that of the worst part.

        Other lens, and a NaN or an infinity on one side only, are infinitely far.
        """
        return worst(self._distance(a, b) for a, b in _pairs(found, wanted))

    def _distance(self, found: Array | None, wanted: Array | None) -> Distance:
        if found is None or wanted is None or found.shape != wanted.shape:
            return Distance(inf, self.tolerance)
        return Distance(apart(self.metric, found, wanted), self._limit(wanted.dtype))

    def _limit(self, dtype: np.dtype[Any]) -> float:
        type = DType.of(dtype)
        if self.given or type.is_float:
            return self.tolerance
        return max(self.tolerance, type_tolerance(type)) if type in ROUNDED else 0.0


def limits_of(metric: Metric, tolerance: float | None, *programs: Program) -> Limits:
    """The limits with this tolerance; by default that of the narrowest type that the programs round to.

    Raises:
        OperationError: The tolerance is not a number from 0, or is missing for a metric that depends on the
            unit of a value.
    """
    if tolerance is None:
        if metric not in RELATIVE:
            raise OperationError(
                f"metric {metric.value!r} has no tolerance by default: those of types are for relative "
                "errors; give one with tolerance="
            )
        return Limits(metric, max(map(rounding_tolerance, programs)))
    if not tolerance >= 0:
        raise OperationError(f"tolerance {tolerance}; expected a number from 0")
    return Limits(metric, float(tolerance), given=True)


def worst(distances: Iterable[Distance]) -> Distance:
    """The distance that exceeds its limit most; none is no distance."""
    return max(distances, key=lambda d: d.excess, default=Distance(0.0, 0.0))


def apart(metric: Metric, found: Array, wanted: Array) -> float:
    """The metric between two arrays of equal lens, as an error: for a cosine, what it lacks of 1."""
    a = np.asarray(found, np.float64).ravel()
    b = np.asarray(wanted, np.float64).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not bool((finite | same).all()):
        return inf
    error = metric.of(a[finite], b[finite])
    if isnan(error):  # of elements so large that their squares are not finite
        return inf
    return error if metric.lower_is_better else 1.0 - error


def _pairs(found: Any, wanted: Any) -> Iterator[tuple[Array | None, Array | None]]:
    """The arrays of two values side by side; None stands for one that the other lacks."""
    if isinstance(found, tuple | list) and isinstance(wanted, tuple | list):
        ours, theirs = cast("list[Any]", found), cast("list[Any]", wanted)
        if len(ours) != len(theirs):
            yield None, None
        for a, b in zip(ours, theirs, strict=False):
            yield from _pairs(a, b)
    elif isinstance(found, tuple | list) or isinstance(wanted, tuple | list):
        yield None, None
    elif found is not None or wanted is not None:
        yield _array(found), _array(wanted)


def _array(value: Any) -> Array | None:
    return None if value is None else np.asarray(value)
