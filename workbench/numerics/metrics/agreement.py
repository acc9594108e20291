"""Agreement of two values by MIGraphX's measure and tolerances, and the report if they disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, cast

import ml_dtypes
import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.text.elements import elements_text

_PRINTED = 32
_ULPS = 80


@dataclass(frozen=True, slots=True)
class Tolerance:
    """MIGraphX's tolerance: a bound on its RMS over all elements, and bounds per element."""

    rms_tol: float = 1e-3
    atol: float = 1e-3
    rtol: float = 1e-3


SIXTEEN_BITS = Tolerance(8e-2, 4e-2, 4e-2)
"""For programs with half or bfloat16 values."""
FOUR_BITS = Tolerance(8e-1, 4e-1, 4e-1)
"""For programs with packed 4-bit floats."""


def tolerance_for(
    program: Program,
    quantize: str | None = None,
    *,
    rms_tol: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Tolerance:
    """The tolerance of MIGraphX's driver for a program.

    Args:
        program: The program; its narrowest float type decides.
        quantize: ``fp16`` or ``bf16`` if the program will be compiled to compute in that type.
        rms_tol: Overrides the default.
        atol: Overrides the default.
        rtol: Overrides the default.
    """
    types = {i.shape.type for i in program.instructions}
    found = Tolerance()
    if DType.FP4X2 in types:
        found = FOUR_BITS
    elif quantize in ("fp16", "bf16") or types & {DType.HALF, DType.BF16}:
        found = SIXTEEN_BITS
    return Tolerance(
        found.rms_tol if rms_tol is None else rms_tol,
        found.atol if atol is None else atol,
        found.rtol if rtol is None else rtol,
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """The deviation of a value from its reference."""

    name: str
    passed: bool
    rms: float
    max_diff: float = 0.0
    mismatch: int | None = None
    """The first element, in logical order, that is more than one rounding step from its reference."""
    outside: int = 0
    """The number of elements beyond ``atol + rtol * |reference|``."""
    size: int = 0
    lines: tuple[tuple[str, str], ...] = ()
    """MIGraphX's report, line by line: the level (``error`` or ``warn``) and the text."""

    def to_json(self) -> dict[str, Any]:
        """The content as plain values."""
        return {
            "name": self.name,
            "passed": self.passed,
            "rms": self.rms,
            "max diff": self.max_diff,
            "mismatch": self.mismatch,
            "outside": self.outside,
            "size": self.size,
            "lines": [text for _, text in self.lines],
        }


def agree(
    name: str,
    value: Any,
    reference: Any,
    tolerance: Tolerance | None = None,
    *,
    allclose: bool = False,
    dump: bool = False,
    equal_nan: bool = False,
) -> Agreement:
    """Compare an array with its reference as MIGraphX's ``verify_args`` does.

    It passes if MIGraphX's RMS error is at most ``rms_tol``; a NaN error never passes. An infinity makes
    the error NaN, even if the reference has the same infinity.

    Args:
        name: The name of the value in the report.
        value: An array.
        reference: The expected array.
        tolerance: By default 1e-3 throughout.
        allclose: Also require every element to be within ``atol + rtol * |reference|``.
        dump: Print both arrays whole, not only if they have fewer than 32 elements.
        equal_nan: Ignore elements where both are NaN, or the same infinity.
    """
    tolerance = tolerance or Tolerance()
    a, b = np.asarray(value), np.asarray(reference)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return unlike(name, f"{b.dtype}{list(b.shape)}", f"{a.dtype}{list(a.shape)}")
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    same = ~np.isfinite(x) & ((x == y) | (np.isnan(x) & np.isnan(y))) & equal_nan
    rms = rms_range(x[~same], y[~same])
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(x - y))
        out = ~same & ~(apart <= tolerance.atol + tolerance.rtol * np.abs(y))
    passed = rms <= tolerance.rms_tol and not (allclose and bool(out.any()))
    unequal = np.flatnonzero(~float_equal(b.ravel(), a.ravel()) & ~same)
    mismatch = int(unequal[0]) if unequal.size else None
    furthest = float(np.nanmax(apart, initial=0.0))
    found = Agreement(name, passed, rms, furthest, mismatch, int(out.sum()), x.size)
    lines = tuple(_failure(found, a, b, dump) if not passed else _warnings(x, y))
    return Agreement(name, passed, rms, furthest, mismatch, found.outside, x.size, lines)


def unlike(name: str, wanted: object, found: object) -> Agreement:
    """The outcome if types or lens differ, so that nothing can be compared."""
    lines = [f"FAILED: {name}", f"Shape mismatch {{{wanted}}} != {{{found}}}"]
    return Agreement(name, False, inf, inf, lines=tuple(("error", line) for line in lines))


def _failure(found: Agreement, a: Array, b: Array, dump: bool) -> Iterator[tuple[str, str]]:
    yield "error", f"FAILED: {found.name}"
    yield "error", f"RMS Error: {float_text(found.rms)}"
    for what, array in (("ref", b), ("target", a)):
        if array.size < _PRINTED or dump:
            yield "error", f"{what}:{elements_text(array)}"
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    zeros, others = list(_zeros(x, y)), list(_not_finite(x, y))
    yield from (("error", line) for line in zeros)
    yield "error", f"Max diff: {float_text(found.max_diff)}"
    if found.mismatch is not None:
        at = found.mismatch
        pair = f"{elements_text(b.ravel()[at : at + 1])} != {elements_text(a.ravel()[at : at + 1])}"
        yield "error", f"Mismatch at {at}: {pair}"
    yield from (("error", line) for line in others)


def _warnings(x: Array, y: Array) -> Iterator[tuple[str, str]]:
    yield from (("warn", line) for line in (*_zeros(x, y), *_not_finite(x, y)))


def _zeros(x: Array, y: Array) -> Iterator[str]:
    for what, array in (("Ref", y), ("Target", x)):
        if not array.any():
            yield f"{what} data is all zeros"


def _not_finite(x: Array, y: Array) -> Iterator[str]:
    for what, array in (("ref", y), ("target", x)):
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            value = float_text(float(array[bad[0]]))
            yield f"Non finite number found in {what} at {bad[0]}: {value}"


def rms_range(value: Any, reference: Any) -> float:
    """The RMS error of MIGraphX's ``rms_range`` (``Metric.RMS``); infinite if the sizes differ.

    NaN if an element is NaN or infinite.
    """
    a = np.asarray(value).astype(np.float64).ravel()
    b = np.asarray(reference).astype(np.float64).ravel()
    if a.size != b.size:
        return inf
    with np.errstate(invalid="ignore", over="ignore"):
        return Metric.RMS.of(a, b)


def within_ulps(value: Any, reference: Any, ulps: float = _ULPS) -> bool:
    """MIGraphX's ``verify_rms_range``: whether the RMS error is at most ``ulps`` epsilons of the type."""
    array = np.asarray(value)
    limits = cast("Any", ml_dtypes.finfo(array.dtype)) if _is_float(array) else None
    error = rms_range(array, reference)
    return not isnan(error) and error <= (float(limits.eps) if limits else 0.0) * ulps


def float_equal(a: Array, b: Array) -> Array:
    """A mask of elements that are equal or adjacent in their type; NaN and infinities are never equal."""
    if not _is_float(a):
        return a == b
    if a.dtype.kind != "f":
        return _ml_equal(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        low = np.nextafter(a, a.dtype.type(-np.inf))
        high = np.nextafter(a, a.dtype.type(np.inf))
    return np.isfinite(a) & np.isfinite(b) & (low <= b) & (b <= high)


def _ml_equal(a: Array, b: Array) -> Array:
    """``float_equal`` by the order of the bits, for types without ``nextafter`` in NumPy."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    steps = np.abs(_ordered(a) - _ordered(b))
    return np.isfinite(x) & np.isfinite(y) & ((x == y) | (steps <= 1))


def _ordered(array: Array) -> Array:
    """The number of representable steps from 0 to each element."""
    width = array.dtype.itemsize * 8
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.int64)
    sign = 1 << (width - 1)
    return np.where(bits & sign, -(bits & (sign - 1)), bits)


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and array.dtype.names is None)
