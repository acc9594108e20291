"""Windows that slide over values: poolings, running sums, sums of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.accumulate import sum_type
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.windows import Window, both_sides
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor, ints
from workbench.compiler.stablehlo.write.operations.conversion import cast
from workbench.compiler.stablehlo.write.operations.movement import taken
from workbench.compiler.stablehlo.write.operations.reduction import bound, comparable
from workbench.compiler.stablehlo.write.registry import writes


def windowed(
    to: Lines, x: Tensor, op: str, initial: Any, size: Sequence[int], pads: Sequence[tuple[int, int]],
    lens: Sequence[int], stride: Sequence[int] | None = None, dilation: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Elements in windows joined by an operation."""
    ones = [1] * len(size)
    window = {"size": size, "stride": stride or ones, "dilation": dilation or ones, "pads": pads}
    attributes = window_text(window)
    first = to.full(x.type, (), initial)
    regions = [to.reducer(op, x.type)]
    return to.add("reduce_window", x, first, lens=lens, attributes=attributes, regions=regions)


def window_text(window: dict[str, Any]) -> str:
    """A window as attributes."""
    rank = len(window["size"])
    pairs = ", ".join(f"[{low}, {high}]" for low, high in window["pads"])
    return (
        f"window_dimensions = {ints(window['size'])}, window_strides = {ints(window['stride'])}, "
        f"base_dilations = {ints([1] * rank)}, window_dilations = {ints(window['dilation'])}, "
        f"padding = dense<[{pairs}]> : tensor<{rank}x2xi64>"
    )


@writes("prefix_scan_sum", "prefix_scan_prod")
def scan(call: Call) -> Tensor:
    """Running sums and products: windows over all elements before each, or behind it."""
    to, own, axis = call.to, call.x.type, int(call.op.axis)
    x = to.convert(call.x, DType.of(sum_type(own.numpy)))
    is_sum, count, rank = call.op.name == "prefix_scan_sum", x.lens[axis], len(x.lens)
    if not count:
        return call.x
    if call.op.exclusive:
        by = -1 if call.op.reverse else 1
        moved = [by if a == axis else 0 for a in range(rank)]
        x = to.pad(x, moved, [-m for m in moved], 0 if is_sum else 1)
    size, pads = [1] * rank, [(0, 0)] * rank
    size[axis] = count
    pads[axis] = (0, count - 1) if call.op.reverse else (count - 1, 0)
    op = "add" if is_sum else "multiply"
    return to.convert(windowed(to, x, op, 0 if is_sum else 1, size, pads, x.lens), own)


@writes("pooling")
def pooling(call: Call) -> Tensor:
    """The largest elements, the means or the norms of windows."""
    to, own, op = call.to, call.x.type, call.op
    window = op._window(call.x.lens[2:])  # pyright: ignore[reportPrivateUsage]
    shape = _shape(window, call.x.lens)
    if op.mode == PoolingMode.MAX:
        x = comparable(to, call.x)
        return to.convert(windowed(to, x, "maximum", bound(x.type, is_max=True), **shape), own)
    x = to.convert(call.x, DType.DOUBLE if not own.is_float else DType.of(sum_type(own.numpy)))
    if op.mode == PoolingMode.AVERAGE:
        counts = np.asarray(op._counts(window), x.type.numpy)  # pyright: ignore[reportPrivateUsage]
        sums = windowed(to, x, "add", 0, **shape)
        divisors = to.broadcast(to.constant(counts), sums.lens)
        return cast(to, to.add("divide", sums, divisors), own)
    return _norm(call, x, shape)


def _shape(window: Window, lens: Sequence[int]) -> dict[str, Any]:
    """A window over the axes behind the first two, as ``windowed`` takes it."""
    need = [
        (o - 1) * s + k for o, s, k in zip(window.output, window.stride, window.span, strict=True)
    ]
    ends = [n - i - b for n, i, b in zip(need, window.input, window.begin, strict=True)]
    return {
        "size": [1, 1, *window.size], "stride": [1, 1, *window.stride],
        "dilation": [1, 1, *window.dilation],
        "pads": [(0, 0), (0, 0), *((b, max(e, 0)) for b, e in zip(window.begin, ends, strict=True))],
        "lens": (*lens[:2], *window.output),
    }  # fmt: skip


@writes("max_pool_indices")
def max_pool_indices(call: Call) -> Tensor:
    """The places of the largest elements of windows, of which the first wins; 0 for padding alone."""
    to, op, lens = call.to, call.op, call.x.lens
    x = comparable(to, call.x)
    spatial = lens[2:]
    begin, end = both_sides(op, op.padding, len(spatial))
    window = Window(spatial, op.lengths, op.stride, op.dilations, begin, end, op.ceil_mode)
    count = np.arange(math.prod(spatial))
    own = count.reshape(spatial[::-1]).T if op.column_major else count.reshape(spatial)
    order = to.broadcast(to.constant(np.ascontiguousarray(count.reshape(spatial))), lens)
    shape = _shape(window, lens)
    first = [to.full(x.type, (), bound(x.type, is_max=True)), to.full(DType.INT64, (), count.size)]
    outputs = [(x.type, shape["lens"]), (DType.INT64, shape["lens"])]
    found = to.several(
        "stablehlo.reduce_window", [x, order, *first], outputs, window_text(shape), [_larger(to, x.type)]
    )[1]  # fmt: skip
    place = to.add("minimum", found, to.like(found, max(count.size - 1, 0)))
    place = to.select(to.compare("EQ", found, to.like(found, count.size)), to.like(found, 0), place)
    if op.column_major:
        place = taken(to, to.constant(np.ascontiguousarray(own).reshape(-1)), place, 0)
    images = np.arange(math.prod(lens[:2])).reshape(*lens[:2], *[1] * len(spatial)) * count.size
    return to.add("add", place, to.broadcast(to.constant(images), place.lens))


def _larger(to: Lines, type: DType) -> str:
    """The region that chooses the larger of two elements with their places, or the one before the other."""
    element: list[tuple[DType, Sequence[int]]] = [(type, ()), (DType.INT64, ())]

    def fill(inner: Lines, a: Tensor, i: Tensor, b: Tensor, j: Tensor) -> Sequence[Tensor]:
        greater = inner.compare("GT", a, b)
        if type.is_float:
            greater = inner.add("or", greater, inner.compare("NE", a, a))
        tie = inner.add("and", inner.compare("EQ", a, b), inner.compare("LT", i, j))
        wins = inner.add("or", greater, tie)
        return [inner.select(wins, a, b), inner.select(wins, i, j)]

    return to.body([*element, *element], fill)


def _norm(call: Call, x: Tensor, shape: dict[str, Any]) -> Tensor:
    """The norm of each window.

    Raises:
        ModelError: Its order is 0, or the elements are integers, whose norms round in their own way.
    """
    to, order = call.to, call.op.lp_order
    if order < 1 or not call.x.type.is_float:
        raise call.refuse(f"a norm of order {order} of {call.x.type.type_name}")
    powers = to.add("power", to.add("abs", x), to.like(x, order))
    sums = windowed(to, powers, "add", 0, **shape)
    return cast(to, to.add("power", sums, to.like(sums, 1 / order)), call.x.type)


@writes("lrn")
def lrn(call: Call) -> Tensor:
    """Elements divided by a power of the sum of squares of their neighbours among the channels."""
    to, op, own = call.to, call.op, call.x.type
    x = comparable(to, call.x)
    rank, size = len(x.lens), [1] * len(x.lens)
    size[1] = op.size
    pads = [(0, 0)] * rank
    pads[1] = (op.size - 1) // 2, op.size // 2
    sums = windowed(to, to.add("multiply", x, x), "add", 0, size, pads, x.lens)
    scale = to.add("multiply", sums, to.like(x, op.alpha / op.size))
    scale = to.add("add", scale, to.like(x, op.bias))
    return to.convert(to.add("multiply", x, to.add("power", scale, to.like(x, -op.beta))), own)
