"""The distance of a value from its reference, and the largest that is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, NamedTuple, cast

import numpy as np

from workbench.compiler.arrays.metrics import Metric, type_tolerance
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.rows import Row
from workbench.compiler.record.recording import Recording

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


def limits_of(metric: Metric, tolerance: float | None, recording: Recording) -> Limits:
    """The limits with this tolerance; by default that of the narrowest type that a step rounded to.

    Raises:
        OperationError: The tolerance is not a number from 0, or is missing for a metric that depends on the
            unit of a value.
    """
    expect_tolerance(metric, tolerance)
    if tolerance is None:
        return Limits(metric, recorded_tolerance(recording))
    return Limits(metric, float(tolerance), given=True)


def expect_tolerance(metric: Metric, tolerance: float | None) -> None:
    """Check a tolerance, or that the metric has one by default.

    Raises:
        OperationError: The tolerance is not a number from 0, or is missing for a metric that depends on the
            unit of a value.
    """
    if tolerance is None and metric not in RELATIVE:
        raise OperationError(
            f"metric {metric.value!r} has no tolerance by default: those of types are for relative "
            "errors; give one with tolerance="
        )
    if tolerance is not None and not tolerance >= 0:
        raise OperationError(f"tolerance {tolerance}; expected a number from 0")


def recorded_tolerance(recording: Recording) -> float:
    """The tolerance of the narrowest type that any program of a recording rounds to, integers included.

    A constant that was rounded to half stays so when later passes compute in float again.
    """
    rows: dict[int, Row] = dict(recording.start.instructions)
    found = set[DType]()
    _note_rounded(list(rows.values()), rows, found)
    for edit in (e for step in recording for e in step.edits):
        new = [row for row in edit.rows.values() if row is not None]
        rows.update({row.id: row for row in new})
        _note_rounded(new, rows, found)
    return max(map(type_tolerance, found), default=0.0)


def _note_rounded(new: Iterable[Row], rows: Mapping[int, Row], found: set[DType]) -> None:
    """Add the types that instructions round to: floats, and integers that are made of floats."""
    for row in new:
        shape = row.shape
        if shape.subs is None and shape.type in found:
            continue
        for part in shape.subs or (shape,):
            if part.subs is None and part.type.is_float:
                found.add(part.type)
        type = shape.type
        if type not in found and type.is_integral and type is not DType.BOOL:
            reads = (rows[x].shape.type for x in row.inputs if x in rows)
            if any(x.is_float for x in reads):
                found.add(type)


def worst(distances: Iterable[Distance]) -> Distance:
    """The distance that exceeds its limit most; none is no distance."""
    return max(distances, key=lambda d: d.excess, default=Distance(0.0, 0.0))


def apart(metric: Metric, found: Array, wanted: Array) -> float:
    """The metric between two arrays of equal lens, as an error: for a cosine, 1 minus it."""
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
