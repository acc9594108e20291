"""Reductions, of whole axes and of windows that slide along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.nodes.movement import padded
from workbench.compiler.stablehlo.regions import extreme_index, functions
from workbench.compiler.stablehlo.registry import stablehlo_op

Values: TypeAlias = "list[Instruction]"
Combine: TypeAlias = "Callable[[Values, Values], Values]"

REDUCTIONS = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min"}
"""Reductions of numbers by the function of two elements."""

LOGICAL = {"add": "any", "or": "any", "max": "any", "mul": "all", "and": "all", "min": "all"}
"""Reductions of bools."""

JOINS = {
    "add": "add",
    "mul": "mul",
    "max": "max",
    "min": "min",
    "and": "bitwise_and",
    "or": "bitwise_or",
}


def _operation(kind: str, type: DType) -> str:
    """The reduction by a function, or empty if we have none."""
    if type is DType.BOOL:
        return f"reduce_{LOGICAL[kind]}" if kind in LOGICAL else ""
    return REDUCTIONS.get(kind, "")


def _identity(kind: str, type: DType) -> Array | None:
    """The element that leaves others as they are, by a function."""
    if kind in {"add", "or"} or (type is DType.BOOL and kind == "max"):
        return np.zeros((), type.numpy)
    if kind == "mul" or (type is DType.BOOL and kind in {"and", "min"}):
        return np.ones((), type.numpy)
    if kind not in {"max", "min"}:
        return None
    if type.is_float:
        return np.array(-np.inf if kind == "max" else np.inf).astype(type.numpy)
    bounds = np.iinfo(type.numpy)
    return np.array(bounds.min if kind == "max" else bounds.max, type.numpy)


def _is_identity(node: Context, initial: Instruction, kind: str) -> bool:
    known, wanted = node.constant(initial), _identity(kind, initial.shape.type)
    return known is not None and wanted is not None and bool((known == wanted).all())


def _join(node: Context, kind: str, a: Instruction, b: Instruction) -> Instruction:
    if a.shape.type is DType.BOOL:
        return node.add("logical_or" if LOGICAL[kind] == "any" else "logical_and", a, b)
    return node.add(JOINS[kind], a, b)


@stablehlo_op("reduce")
def reduce(node: Context, *operands: Instruction) -> list[Instruction]:
    """Elements along axes joined by a function: one of ours, an index of an extreme, or any other."""
    count, axes = len(operands) // 2, node.ints("dimensions")
    values, initial = list(operands[:count]), operands[count:]
    block = node.op.regions[0].blocks[0]
    kinds = functions(block, count)
    if all(_operation(k, v.shape.type) for k, v in zip(kinds, values, strict=True)):
        cases = zip(values, initial, kinds, strict=True)
        return [_reduced(node, x, first, kind, axes) for x, first, kind in cases]
    if count == 2 and len(axes) == 1 and (kind := extreme_index(block)) and _counts(node, axes[0]):
        return _extreme(node, values[0], kind, axes[0])
    return _folded(node, values, initial, axes)


def _reduced(
    node: Context, x: Instruction, initial: Instruction, kind: str, axes: Sequence[int]
) -> Instruction:
    if not axes:
        return x
    found = node.squeeze(node.add(_operation(kind, x.shape.type), x, axes=axes), *axes)
    if _is_identity(node, initial, kind):
        return found
    return _join(node, kind, node.fit(initial, found.shape.lens), found)


def _counts(node: Context, axis: int) -> bool:
    """Whether the second operand has the indices along an axis."""
    owner = node.op.operands[1].owner
    while getattr(owner, "name", "") == "stablehlo.broadcast_in_dim":
        dims = [int(d) for d in np.array(owner.attributes["broadcast_dimensions"])]
        if axis not in dims:
            return False
        axis, owner = dims.index(axis), owner.operands[0].owner
    if getattr(owner, "name", "") != "stablehlo.iota":
        return False
    return owner.attributes["iota_dimension"].value == axis


def _extreme(node: Context, x: Instruction, kind: str, axis: int) -> list[Instruction]:
    if not x.shape.lens[axis]:
        raise node.fail(f"an extreme along axis {axis} of {x.shape}; expected at least one element")
    value = node.squeeze(node.add(f"reduce_{kind}", x, axes=(axis,)), axis)
    index = node.squeeze(node.add(f"arg{kind}", x, axis=axis), axis)
    return [value, node.convert(index, node.type(1))]


# Any other function: halves of neighbours are joined until one element is left.


def _folded(
    node: Context, values: Values, initial: Sequence[Instruction], axes: Sequence[int]
) -> list[Instruction]:
    rank = values[0].shape.ndim
    rest = [a for a in range(rank) if a not in axes]
    lens = [values[0].shape.lens[a] for a in rest]
    count = prod(values[0].shape.lens[a] for a in axes)
    flat = [node.shaped(node.permuted(v, [*rest, *axes]), (*lens, count)) for v in values]
    first = [node.fit(i, lens) for i in initial]
    if not count:
        return first
    found = [node.squeeze(v, len(lens)) for v in _halved(node, flat, len(lens))]
    return _combiner(node)(first, found)


def _combiner(node: Context) -> Combine:
    """The function of an operation's region, for whole values of elements."""

    def combine(a: Values, b: Values) -> Values:
        return node.owner.elementwise(node.op.regions[0].blocks[0], node.frame, [*a, *b])

    return combine


def _halved(node: Context, values: Values, axis: int) -> Values:
    combine = _combiner(node)
    while (count := values[0].shape.lens[axis]) > 1:
        even = count - count % 2
        pairs = [[node.cut(v, axis, k, even, 2) for v in values] for k in (0, 1)]
        joined = combine(*pairs)
        if even < count:
            last = [node.cut(v, axis, even, count) for v in values]
            joined = [
                node.add("concat", j, r, axis=axis) for j, r in zip(joined, last, strict=True)
            ]
        values = joined
    return values


# Windows


class _Window:
    """A window that slides over a value, by axis."""

    def __init__(self, node: Context, rank: int) -> None:
        ones = [1] * rank
        self.size = node.ints("window_dimensions", ones)
        self.strides = node.ints("window_strides", ones)
        self.spread = node.ints("base_dilations", ones)
        self.dilation = node.ints("window_dilations", ones)
        pads = node.ints("padding", [0] * (2 * rank))
        self.low, self.high = pads[::2], pads[1::2]
        self.axes = [a for a in range(rank) if self.size[a] > 1 or self.strides[a] > 1]

    @property
    def is_pool(self) -> bool:
        """Whether it is one that poolings have: no gaps in the value, and some of it in each window."""
        sides = zip(self.low, self.high, self.size, strict=True)
        inside = all(0 <= max(b, e) < n or (b, e) == (0, 0) for b, e, n in sides)
        least = min([*self.low, *self.high], default=0)
        return inside and least >= 0 and set(self.spread) <= {1} and 1 <= len(self.axes) <= 3


@stablehlo_op("reduce_window")
def reduce_window(node: Context, *operands: Instruction) -> list[Instruction]:
    """Elements in each window joined by a function: running sums, poolings, or any other."""
    count = len(operands) // 2
    values, initial = list(operands[:count]), list(operands[count:])
    at, kinds = _Window(node, values[0].shape.ndim), functions(node.op.regions[0].blocks[0], count)
    if count == 1 and kinds[0]:
        found = _running(node, at, values[0], initial[0], kinds[0])
        if found is None:
            found = _pooled(node, at, values[0], initial[0], kinds[0])
        if found is not None:
            return [found]
    gaps = [s - 1 for s in at.spread]
    wide = [padded(node, v, i, at.low, at.high, gaps) for v, i in zip(values, initial, strict=True)]
    for axis in at.axes:
        wide = _slid(node, at, wide, axis)
    first = [node.fit(i, wide[0].shape.lens) for i in initial]
    plain = all(_is_identity(node, i, k) for i, k in zip(initial, kinds, strict=True))
    return wide if plain else _combiner(node)(first, wide)


def _running(
    node: Context, at: _Window, x: Instruction, initial: Instruction, kind: str
) -> Instruction | None:
    """Running sums and products: the window has all elements before each, or all behind it."""
    scans = {"add": "prefix_scan_sum", "mul": "prefix_scan_prod"}
    axes = [a for a, n in enumerate(at.size) if n > 1]
    others = {*at.strides, *at.spread, *at.dilation}
    if kind not in scans or x.shape.type is DType.BOOL or len(axes) != 1 or others != {1}:
        return None
    axis, count = axes[0], x.shape.lens[axes[0]]
    sides = at.low[axis], at.high[axis]
    is_scan = at.size[axis] == count and sides in {(count - 1, 0), (0, count - 1)}
    pads = [*at.low, *at.high]
    if not is_scan or sum(pads) != count - 1 or not _is_identity(node, initial, kind):
        return None
    return node.add(scans[kind], x, axis=axis, reverse=sides[1] > 0)


def _pooled(
    node: Context, at: _Window, x: Instruction, initial: Instruction, kind: str
) -> Instruction | None:
    """The largest elements of windows of floats, as a pooling of images with the channels first."""
    if kind != "max" or not at.is_pool or not x.shape.type.is_float:
        return None
    if not _is_identity(node, initial, kind):
        return None
    image, back = as_image(node, x, at.axes)
    window: dict[str, Any] = {
        "padding": (*(at.low[a] for a in at.axes), *(at.high[a] for a in at.axes)),
        "stride": [at.strides[a] for a in at.axes],
        "lengths": [at.size[a] for a in at.axes],
        "dilations": [at.dilation[a] for a in at.axes],
    }
    return back(node.add("pooling", image, mode=PoolingMode.MAX, **window))


def as_image(
    node: Context, x: Instruction, axes: Sequence[int]
) -> tuple[Instruction, Callable[[Instruction], Instruction]]:
    """A value with two axes before some spatial ones, and the function that undoes that."""
    rest = [a for a in range(x.shape.ndim) if a not in axes]
    order = [*rest, *axes]
    lens = [x.shape.lens[a] for a in rest]
    front = lens if len(lens) == 2 else [1, prod(lens)]
    image = node.shaped(node.permuted(x, order), (*front, *(x.shape.lens[a] for a in axes)))

    def back(found: Instruction) -> Instruction:
        plain = node.shaped(found, (*lens, *found.shape.lens[2:]))
        return node.permuted(plain, [int(v) for v in np.argsort(order)])

    return image, back


def _slid(node: Context, at: _Window, values: Values, axis: int) -> Values:
    """Windows of one axis: those of 1, 2, 4… elements are joined to the wanted length."""
    combine, apart = _combiner(node), at.dilation[axis]
    length = values[0].shape.lens[axis] - (at.size[axis] - 1) * apart

    def part(of: Values, start: int, count: int) -> Values:
        return [node.cut(v, axis, start, start + count) for v in of]

    found: Values | None = None
    current, width, done = values, 1, 0
    while True:
        if at.size[axis] & width:
            piece = part(current, done * apart, length)
            found, done = piece if found is None else combine(found, piece), done + width
        if 2 * width > at.size[axis]:
            break
        whole = current[0].shape.lens[axis] - width * apart
        current = combine(part(current, 0, whole), part(current, width * apart, whole))
        width *= 2
    assert found is not None
    return [node.cut(v, axis, 0, length, at.strides[axis]) for v in found]


@stablehlo_op("select_and_scatter")
def select_and_scatter(
    node: Context, x: Instruction, source: Instruction, initial: Instruction
) -> Instruction:
    """Elements added at the first largest element of each window: the gradient of a pooling.

    Raises:
        ModelError: Other elements are chosen, or they are not added to 0.
    """
    at = _Window(node, x.shape.ndim)
    choice = list(node.op.regions[0].blocks[0].operations)
    is_max = len(choice) == 2 and "GE" in str(
        choice[0].operation.attributes["comparison_direction"]
    )
    added = functions(node.op.regions[1].blocks[0], 1) == ["add"]
    if not (is_max and added and at.is_pool and _is_identity(node, initial, "add")):
        raise node.fail("expected sums at the first largest element of each window, from 0 on")
    image, back = as_image(node, x, at.axes)
    given, _ = as_image(node, source, at.axes)
    places = node.add(
        "max_pool_indices", image,
        padding=(*(at.low[a] for a in at.axes), *(at.high[a] for a in at.axes)),
        stride=[at.strides[a] for a in at.axes], lengths=[at.size[a] for a in at.axes],
        dilations=[at.dilation[a] for a in at.axes],
    )  # fmt: skip
    zeros = node.filled(x.shape.type, (x.shape.elements,), 0)
    flat, places = node.reshape(given, -1), node.reshape(places, -1)
    found = node.add("scatter_add", zeros, places, flat, axis=0)
    return back(node.reshape(found, *image.shape.lens))
