"""Views and movements: shapes, broadcasts, slices, pads and joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.movement import PadMode
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor, ints
from workbench.compiler.stablehlo.write.registry import Written, writes


@writes("identity", "contiguous", "layout")
def same(call: Call) -> Written:
    """The value itself; layouts have no meaning here."""
    return call.values[0]


@writes("copy")
def copy(call: Call) -> Tensor:
    """The value; the buffer is left out."""
    return call.x


@writes("reshape", "reshape_lazy", "squeeze", "unsqueeze", "flatten", "reshape_with_dims")
def reshape(call: Call) -> Tensor:
    """The elements in other lens."""
    return call.to.reshape(call.x, call.lens)


@writes("as_shape")
def as_shape(call: Call) -> Tensor:
    """The elements in other lens, if they keep their order.

    Raises:
        ModelError: They do not.
    """
    if not (call.shape.standard and call.operands[0].shape.standard):
        raise call.refuse(
            "it reads memory in another order, and tensors of StableHLO have no layout"
        )
    return call.to.reshape(call.x, call.lens)


@writes("transpose")
def transpose(call: Call) -> Tensor:
    """The axes in another order."""
    return call.to.transpose(call.x, call.op.permutation)


@writes("multibroadcast", "broadcast_for_dot", "broadcast_with_dims")
def multibroadcast(call: Call) -> Tensor:
    """The value repeated; its axes are the last ones."""
    return call.to.broadcast(call.x, call.lens)


@writes("broadcast")
def broadcast(call: Call) -> Tensor:
    """The value repeated; its axes begin at ``axis``."""
    if not call.x.lens or call.x.lens == (1,):
        return call.to.broadcast(call.to.reshape(call.x, ()), call.lens)
    axes = range(call.op.axis, call.op.axis + len(call.x.lens))
    return call.to.broadcast(call.x, call.lens, list(axes))


@writes("scalar")
def scalar(call: Call) -> Tensor:
    """One element everywhere."""
    return call.to.broadcast(call.to.reshape(call.x, ()), call.lens)


def cut(to: Lines, x: Tensor, axis: int, start: int, end: int) -> Tensor:
    """The elements of an axis from ``start`` to ``end``."""
    starts, ends = [0] * len(x.lens), list(x.lens)
    starts[axis], ends[axis] = start, end
    return to.slice(x, starts, ends)


@writes("slice")
def slice_(call: Call) -> Tensor:
    """The elements between two bounds of some axes.

    Raises:
        ModelError: The bounds are operands.
    """
    if len(call.values) > 1:
        raise call.refuse("its bounds are known only at run time")
    lens = call.x.lens
    starts, ends = [0] * len(lens), list(lens)
    axes: list[int] = list(call.op.axes)
    for axis, start, end in zip(axes, call.op.starts, call.op.ends, strict=True):
        bounds = slice(start, end).indices(lens[axis])
        starts[axis], ends[axis] = bounds[0], max(bounds[0], bounds[1])
    return call.to.slice(call.x, starts, ends)


@writes("step")
def step(call: Call) -> Tensor:
    """Every so many elements of some axes."""
    lens = call.x.lens
    steps = dict(zip(call.op.axes, call.op.steps, strict=True))
    by = [steps.get(a, 1) for a in range(len(lens))]
    return call.to.slice(call.x, [0] * len(lens), lens, by)


@writes("reverse")
def reverse(call: Call) -> Tensor:
    """Axes backwards."""
    return backwards(call.to, call.x, call.op.axes)


def backwards(to: Lines, x: Tensor, axes: Sequence[int]) -> Tensor:
    """A value with some axes backwards."""
    return to.add("reverse", x, attributes=f"dimensions = {ints(axes)}") if axes else x


@writes("concat")
def concat(call: Call) -> Tensor:
    """Values one after the other."""
    return call.to.concat(call.inputs, call.op.axis)


@writes("pad")
def pad(call: Call) -> Tensor:
    """A constant around the value, or elements of its own, whose places are known."""
    rank = len(call.x.lens)
    low, high = call.op.pads[:rank], call.op.pads[rank:]
    if call.op.mode == PadMode.CONSTANT:
        fill = float(call.op._fill(call.x.type.numpy))  # pyright: ignore[reportPrivateUsage]
        return call.to.pad(call.x, low, high, fill)
    x = call.x
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            places = call.op._sources(before, after, x.lens[axis])  # pyright: ignore[reportPrivateUsage]
            index = call.to.constant(np.asarray(places, np.int64))
            x = taken(call.to, x, index, axis)
    return x


def taken(to: Lines, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """The slices along an axis that indices choose, which are not negative."""
    behind, rank = len(index.lens), len(x.lens)
    lens = (*x.lens[:axis], *index.lens, *x.lens[axis + 1 :])
    offsets = [*range(axis), *range(axis + behind, rank - 1 + behind)]
    numbers = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = [{_listed(offsets)}], collapsed_slice_dims = "
        f"[{axis}], start_index_map = [{axis}], index_vector_dim = {behind}>"
    )
    sizes = [1 if a == axis else n for a, n in enumerate(x.lens)]
    attributes = f"{numbers}, slice_sizes = {ints(sizes)}, indices_are_sorted = false"
    return to.add("gather", x, index, lens=lens, attributes=attributes)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


@writes("scan_slice")
def scan_slice(call: Call) -> Tensor:
    """One slice at a place that is data."""
    x, at = call.inputs
    axis = int(call.op.axis)
    length = x.lens[axis]
    index = call.to.convert(call.to.reshape(at, (1,)), DType.INT64)
    if call.op.direction:
        index = call.to.add("subtract", call.to.like(index, length - 1), index)
    return taken(call.to, x, index, axis)


@writes("dimensions_of")
def dimensions_of(call: Call) -> Tensor:
    """Lengths, which are known."""
    lens = call.operands[0].shape.array_lens[call.op.start : call.op.end]
    return call.to.constant(np.array(lens, np.int64))


@writes("fill")
def fill(call: Call) -> Tensor:
    """One element everywhere."""
    return call.to.broadcast(call.to.reshape(call.x, ()), call.lens)


@writes("onehot")
def onehot(call: Call) -> Tensor:
    """A comparison of indices with the places along a new axis.

    Raises:
        ModelError: The depth is an operand.
    """
    if call.op.depth is None or len(call.inputs) != 2:
        raise call.refuse("its depth is known only at run time")
    index, values = call.inputs
    to, lens = call.to, call.lens
    axis = call.op.axis % len(lens)
    index = cast_index(to, index, call.op.depth)
    others = [a for a in range(len(lens)) if a != axis]
    wide = to.broadcast(index, lens, others)
    here = to.compare("EQ", wide, to.iota(DType.INT64, lens, axis))
    off, on = (to.broadcast(to.reshape(cut(to, values, 0, k, k + 1), ()), lens) for k in (0, 1))
    return to.select(here, on, off)


def cast_index(to: Lines, index: Tensor, length: int) -> Tensor:
    """Indices as int64, negative ones counted from the end."""
    index = to.convert(index, DType.INT64)
    below = to.compare("LT", index, to.like(index, 0))
    return to.select(below, to.add("add", index, to.like(index, length)), index)
