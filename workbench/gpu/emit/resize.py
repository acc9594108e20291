"""Values of resized tensors, from the exact position of each output in the input.

Positions are affine in the output's index. If the coefficients are fractions of small integers, as
they nearly always are, elements and weights are computed in integers; otherwise in doubles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any, TypeAlias, cast

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.resize import Resize
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar, c_type, number
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.sums import clamped, finished, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of

_LARGE = 1 << 30
"""The bound on numerators, so that they fit in 32 bits."""
_DENOMINATORS = (64, 4096, 1 << 16)
_PLACES = frozenset({
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
})  # fmt: skip
_ROUNDINGS = {
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round_prefer_floor": "floor({0}) + ({0} > floor({0}) + 0.5)",
    "round_prefer_ceil": "floor({0}) + ({0} >= floor({0}) + 0.5)",
}
"""Rounding without an addition that the compiler could contract with the product of a position."""

Line: TypeAlias = tuple[int, int, int]
"""``(a, b, c)`` for the position ``(a * i + b) / c`` of output i."""


@dataclass(frozen=True)
class _Axis:
    """A resized axis: its lengths in the input and the output, and the scale between them."""

    op: Resize
    number: int
    input: int
    output: int
    scale: float


def axes_of(i: Instruction) -> list[_Axis]:
    """The axes that a resize changes."""
    op, lens = cast("Resize", i.op), i.inputs[0].shape.lens
    scales = op.scales or [m / n if n else 1.0 for n, m in zip(lens, i.shape.lens, strict=True)]
    rows = enumerate(zip(lens, i.shape.lens, scales, strict=True))
    return [_Axis(op, k, n, m, float(s)) for k, (n, m, s) in rows if n != m or s != 1]


def _is_known(i: Instruction) -> bool:
    """Whether the lengths are attributes, and the modes are supported."""
    op = cast("Resize", i.op)
    rounds = op.mode != "nearest" or op.nearest_mode in _ROUNDINGS
    return len(i.inputs) == 1 and op.coordinate_transformation_mode in _PLACES and rounds


@value_of(Resize, when=_is_known)
def resized(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The nearest element, or the weighted sum of the elements around, as nested sums over the axes."""
    axes = axes_of(i)
    op, place = cast("Resize", i.op), list(index)
    if op.mode == "nearest":
        for axis in axes:
            place[axis.number] = _nearest_element(t, axis, index[axis.number])
        return t.at(i.inputs[0], place)
    work = real_type(i.shape.type)
    taps = [_taps(t, axis, index[axis.number], work) for axis in axes]
    # The outermost sum is over the axis that the reference resizes last.
    total = _weighted(t, i, place, list(zip(axes, taps, strict=True))[::-1], work)
    return finished(t.w, total, i.shape.type)


def _weighted(
    t: Tensors, i: Instruction, place: list[Index], rest: list[tuple[_Axis, Any]], work: DType
) -> Scalar:
    if not rest:
        return converted(t.w, t.at(i.inputs[0], place), work)
    (axis, taps), *inner = rest
    terms: list[str] = []
    for at, weight in taps:
        place[axis.number] = at
        terms.append(f"{_weighted(t, i, place, inner, work).text} * {weight}")
    return Scalar(t.w.let(c_type(work), " + ".join(terms)), work)


# Nearest


@lru_cache(1024)
def nearest(axis: _Axis) -> Line | None:
    """A line that, rounded down, gives the reference's element for every output, if there is one."""
    fraction = position(axis)
    if fraction is None:
        return None
    a, b, c = fraction
    shifts = {"floor": (1, 0, 1), "ceil": (1, c - 1, 1), "round_prefer_floor": (2, c - 1, 2)}
    k, more, by = shifts.get(axis.op.nearest_mode, (2, c, 2))
    found = (a * k, b * k + more, c * by)
    return found if _gives(found, _reference(axis), axis.input) else None


def _reference(axis: _Axis) -> Array:
    """The source element of each output, as the operation itself computes it."""
    sizes = (axis.output,) if axis.op.sizes else ()
    one = replace(axis.op, sizes=sizes, scales=() if sizes else (axis.scale,))
    return one.compute(np.arange(axis.input))


def _gives(line: Line, wanted: Array, n: int) -> bool:
    a, b, c = line
    if max(abs(a) * len(wanted) + abs(b), c) >= _LARGE:
        return False
    found = (np.arange(len(wanted)) * a + b) // c
    return bool(np.array_equal(np.clip(found, 0, n - 1), wanted))


def _nearest_element(t: Tensors, axis: _Axis, index: Index) -> Index:
    line, last = nearest(axis), axis.input - 1
    if line is not None:
        a, b, c = line
        found, _ = (index * a + b).divmod(c, t.w)
        return clamped(t.w, found, last)
    at = _kept(t, _coordinate(t, axis, index), last)
    whole = t.w.let("f64", _ROUNDINGS[axis.op.nearest_mode].format(at))
    return Index.of(Variable(t.w.integer(f"({t.w.integer_type}){_kept(t, whole, last)}"), 0, last))


def _kept(t: Tensors, at: str, last: int) -> str:
    """A double, clamped between 0 and the last element's index."""
    return t.w.let("f64", f"{at} < 0 ? 0 : {at} > {last} ? {last} : {at}")


# Positions


@lru_cache(1024)
def position(axis: _Axis) -> Line | None:
    """The position of an output in the input, in integers; None if it is not a fraction of small integers."""
    exact = axis.op.positions(axis.input, axis.output, axis.scale)
    index = np.arange(axis.output)
    simple = [Fraction(axis.scale).limit_denominator(d) for d in _DENOMINATORS]
    for scale in (Fraction(axis.output, axis.input), *simple):
        slope, start = _line(axis, scale) if scale else (Fraction(0), Fraction(0))
        c = lcm(slope.denominator, start.denominator)
        a, b = int(slope * c), int(start * c)
        if max(abs(a) * axis.output + abs(b), c * axis.input) >= _LARGE:
            continue
        found = np.clip((index * a + b) / c, 0, axis.input - 1)
        if np.allclose(found, exact, rtol=0, atol=1e-9 * axis.input):
            return a, b, c
    return None


def _line(axis: _Axis, scale: Fraction) -> tuple[Fraction, Fraction]:
    """Slope and intercept of the positions."""
    half, mode = Fraction(1, 2), axis.op.coordinate_transformation_mode
    if mode in ("align_corners", "pytorch_half_pixel") and axis.output == 1:
        return Fraction(0), Fraction(0)
    if mode == "align_corners":
        return Fraction(axis.input - 1, axis.output - 1), Fraction(0)
    starts = {"asymmetric": Fraction(0), "tf_half_pixel_for_nn": half / scale}
    return 1 / scale, starts.get(mode, half / scale - half)


# Weights


def _taps(t: Tensors, axis: _Axis, index: Index, work: DType) -> list[tuple[Index, str]]:
    """The elements whose weighted sum an output is, with their weights."""
    cubic = axis.op.mode == "cubic"
    line = position(axis)
    if line is None:
        low, part = _from_doubles(t, axis, index, work, cubic)
    else:
        low, part = _from_whole(t, axis, line, index, work, cubic)
    last = axis.input - 1
    if cubic:
        at = [clamped(t.w, low + k, last) for k in (-1, 0, 1, 2)]
        return list(zip(at, _cubic_weights(t, axis.op.cubic_coeff_a, part, work), strict=True))
    rest = t.w.let(c_type(work), f"1 - {part}")
    return [(low, rest), (clamped(t.w, low + 1, last), part)]


def _from_whole(
    t: Tensors, axis: _Axis, line: Line, index: Index, work: DType, cubic: bool
) -> tuple[Index, str]:
    """The element below a position, and the position's distance from it."""
    a, b, c = line
    at = index * a + b
    at = at if cubic else clamped(t.w, at, (axis.input - 1) * c)
    low, rest = at.divmod(c, t.w)
    kind = c_type(work)
    return low, t.w.let(kind, f"({kind})({rest.text()}) / {number(c, work).text}")


def _from_doubles(
    t: Tensors, axis: _Axis, index: Index, work: DType, cubic: bool
) -> tuple[Index, str]:
    """The element and distance in doubles, as the reference computes them."""
    last, kind = axis.input - 1, c_type(work)
    at = _coordinate(t, axis, index)
    at = at if cubic else _kept(t, at, last)
    below = t.w.let("f64", f"floor({at})")
    reach = int(2 * axis.input + 2 / axis.scale) + 2
    low, high = (-reach, reach) if cubic else (0, last)
    name = t.w.integer(f"({t.w.integer_type}){below}")
    return Index.of(Variable(name, low, high)), t.w.let(kind, f"({kind})({at} - {below})")


def _coordinate(t: Tensors, axis: _Axis, index: Index) -> str:
    """The position of an output in the input, as a double."""
    mode, whole = axis.op.coordinate_transformation_mode, f"(f64)({index.text()})"
    if mode == "align_corners":
        factor = number((axis.input - 1) / (axis.output - 1), DType.DOUBLE).text
        return t.w.let("f64", f"{whole} * {factor}")
    before = "" if mode == "asymmetric" else " + 0.5"
    after = " - 0.5" if mode.endswith("half_pixel") else ""
    scale = number(axis.scale, DType.DOUBLE).text
    return t.w.let("f64", f"({whole}{before}) / {scale}{after}")


def _cubic_weights(t: Tensors, a: float, part: str, work: DType) -> list[str]:
    kind = c_type(work)
    k = [number(v, work).text for v in (a, a + 2, a + 3, 5 * a, 8 * a, 4 * a)]

    def near(d: str) -> str:
        return t.w.let(kind, f"({k[1]} * {d} - {k[2]}) * {d} * {d} + 1")

    def far(d: str) -> str:
        return t.w.let(kind, f"(({k[0]} * {d} - {k[3]}) * {d} + {k[4]}) * {d} - {k[5]}")

    rest = t.w.let(kind, f"1 - {part}")
    return [far(f"({part} + 1)"), near(part), near(rest), far(f"({rest} + 1)")]
