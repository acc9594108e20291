"""Reductions, running sums, orders and windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.accumulate import lowest, sum_type, widened
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor
from workbench.compiler.stablehlo.write.operations.conversion import cast
from workbench.compiler.stablehlo.write.registry import Written, writes


def _axes(call: Call) -> list[int]:
    """The axes of a reduction; all if none are listed."""
    if len(call.values) > 1:
        raise call.refuse("its axes are known only at run time")
    return list(call.op.axes) or list(range(len(call.x.lens)))


@writes("reduce_sum", "reduce_prod", "reduce_mean")
def total(call: Call) -> Tensor:
    """Sums and products in float32 or 64 bits at least."""
    axes, own = _axes(call), call.x.type
    wide = call.to.convert(call.x, DType.of(sum_type(own.numpy)))
    is_product = call.op.name == "reduce_prod"
    found = call.to.reduce(wide, "multiply" if is_product else "add", int(is_product), axes)
    if call.op.name == "reduce_mean":
        count = max(math.prod(call.x.lens[a] for a in axes), 1)
        found = call.to.add("divide", found, call.to.like(found, count))
    return call.to.convert(found, own)


@writes("reduce_max", "reduce_min")
def extreme(call: Call) -> Tensor:
    """The largest or the smallest element."""
    axes, own = _axes(call), call.x.type
    wide = comparable(call.to, call.x)
    return call.to.convert(_extreme(call.to, wide, call.op.name == "reduce_max", axes), own)


def comparable(to: Lines, x: Tensor) -> Tensor:
    """A value in a type that has comparisons and a least element."""
    wide = DType.of(widened(np.zeros(0, x.type.numpy)).dtype)
    return to.convert(x, DType.UINT8 if wide is DType.BOOL else wide)


def _extreme(to: Lines, x: Tensor, is_max: bool, axes: Sequence[int]) -> Tensor:
    return to.reduce(x, "maximum" if is_max else "minimum", bound(x.type, is_max), axes)


def bound(type: DType, is_max: bool) -> Any:
    """The least element for a maximum, the greatest for a minimum."""
    least = lowest(type.numpy)
    if is_max:
        return least
    if type.is_float:
        return math.inf
    return np.iinfo(type.numpy).max


@writes("reduce_all", "reduce_any")
def logical(call: Call) -> Tensor:
    """Whether all or some elements differ from 0."""
    axes = _axes(call)
    is_all = call.op.name == "reduce_all"
    bools = call.to.convert(call.x, DType.BOOL)
    return call.narrowed(call.to.reduce(bools, "and" if is_all else "or", is_all, axes))


@writes("argmax", "argmin")
def index(call: Call) -> Tensor:
    """The first or last place of an extreme: the least or greatest place where the element equals it."""
    to, axis = call.to, int(call.op.axis)
    x = comparable(to, call.x)
    best = to.broadcast(
        _extreme(to, x, call.op.name == "argmax", [axis]), x.lens, range(len(x.lens))
    )
    here = to.compare("EQ", x, best)
    if x.type.is_float:  # an extreme that is NaN is at the first NaN
        here = to.add("or", here, to.compare("NE", x, x))
    places = to.iota(DType.INT64, x.lens, axis)
    last = call.op.select_last_index
    none = to.like(places, -1 if last else x.lens[axis])
    return _extreme(to, to.select(here, places, none), last, [axis])


@writes("softmax", "logsoftmax")
def softmax(call: Call) -> Tensor:
    """Exponentials along an axis, less the maximum, divided by their sum; or the logarithm of that."""
    to, axes = call.to, [call.op.axis]
    wide = DType.DOUBLE if not call.x.type.is_float else DType.of(sum_type(call.x.type.numpy))
    x = to.convert(call.x, wide)

    def spread(value: Tensor) -> Tensor:
        return to.broadcast(value, x.lens, range(len(x.lens)))

    shifted = to.add("subtract", x, spread(_extreme(to, x, is_max=True, axes=axes)))
    powers = to.add("exponential", shifted)
    sums = to.reduce(powers, "add", 0, axes)
    if call.op.name == "softmax":
        return cast(to, to.add("divide", powers, spread(sums)), call.x.type)
    return cast(to, to.add("subtract", shifted, spread(to.add("log", sums))), call.x.type)


@writes("topk")
def topk(call: Call) -> Written:
    """A stable sort of elements with their places, of which the first are kept.

    Raises:
        ModelError: A second operand gives the places.
    """
    if len(call.values) > 1:
        raise call.refuse("its indices are an operand, and decide among equal elements")
    to, axis = call.to, int(call.op.axis)
    x = comparable(to, call.x)
    places = to.iota(DType.INT64, x.lens, axis)
    values, order = to.several(
        "stablehlo.sort", [x, places], [(x.type, x.lens), (DType.INT64, x.lens)],
        f"dimension = {axis} : i64, is_stable = true", [_before(to, x.type, call.op.largest)],
    )  # fmt: skip
    starts, ends = [0] * len(x.lens), list(x.lens)
    ends[axis] = min(call.op.k, ends[axis])
    first = [to.slice(v, starts, ends) for v in (values, order)]
    return to.convert(first[0], call.x.type), first[1]


def _before(to: Lines, type: DType, largest: bool) -> str:
    """The region that says whether an element comes before another: NaN counts as the largest."""
    pair: list[tuple[DType, Sequence[int]]] = [
        (type, ()),
        (type, ()),
        (DType.INT64, ()),
        (DType.INT64, ()),
    ]
    direction = "GT" if largest else "LT"

    def fill(inner: Lines, a: Tensor, b: Tensor, *_: Tensor) -> Sequence[Tensor]:
        if not type.is_float:
            return [inner.compare(direction, a, b)]
        zero, nan = inner.like(a, 0), inner.like(a, math.nan)
        keys = [inner.select(inner.compare("EQ", v, zero), zero, v) for v in (a, b)]
        keys = [inner.select(inner.compare("NE", v, v), nan, v) for v in keys]
        attribute = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
            "compare_type = #stablehlo<comparison_type TOTALORDER>"
        )
        return [inner.add("compare", *keys, type=DType.BOOL, attributes=attribute)]

    return to.body(pair, fill)
