"""Operators that move, cut, join and reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tflite.context import Context
from workbench.compiler.tflite.registry import tflite_op


@tflite_op("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def reshape(node: Context, x: Instruction, *_: Instruction | None) -> Instruction:
    """The elements in the lens of the output, which the model says."""
    if x.shape.elements != node.result(0).shape.elements:
        raise node.fail(f"{x.shape} as {node.result(0).shape}; expected as many elements")
    return node.reshape(x, *node.out_lens) if x.shape.lens != node.out_lens else x


@tflite_op("TRANSPOSE")
def transpose(node: Context, x: Instruction, order: Instruction) -> Instruction:
    """The axes in another order."""
    return node.permuted(x, *node.ints_of(order, "the order"))


@tflite_op("CONCATENATION")
def concat(node: Context, *values: Instruction) -> Instruction:
    """Values one after the other."""
    options = node.options("ConcatenationOptions")
    axis = node.axis(int(options.Axis()), len(node.out_lens))
    made = node.add("concat", *values, axis=axis)
    return node.activated(made, options.FusedActivationFunction())


@tflite_op("PACK")
def pack(node: Context, *values: Instruction) -> Instruction:
    """Values along a new axis."""
    axis = node.axis(int(node.options("PackOptions").Axis()), len(node.out_lens))
    return node.add("concat", *(node.unsqueeze(v, axis) for v in values), axis=axis)


@tflite_op("UNPACK")
def unpack(node: Context, x: Instruction) -> list[Instruction]:
    """The slices of an axis, without it."""
    axis = node.axis(int(node.options("UnpackOptions").Axis()), x.shape.ndim)
    count = len(node.operator.outputs)
    return [node.squeeze(_part(node, x, axis, k, k + 1), axis) for k in range(count)]


def _part(node: Context, x: Instruction, axis: int, start: int, end: int) -> Instruction:
    return node.add("slice", x, axes=(axis,), starts=(start,), ends=(end,))


@tflite_op("SPLIT")
def split(node: Context, axis: Instruction, x: Instruction) -> list[Instruction]:
    """Equal parts of an axis."""
    count = max(len(node.operator.outputs), 1)
    place = node.axis(node.ints_of(axis, "the axis")[0], x.shape.ndim)
    return _parts(node, x, place, [x.shape.lens[place] // count] * count)


@tflite_op("SPLIT_V")
def split_v(
    node: Context, x: Instruction, sizes: Instruction, axis: Instruction
) -> list[Instruction]:
    """Parts of given lengths, of which one may be what is left."""
    place = node.axis(node.ints_of(axis, "the axis")[0], x.shape.ndim)
    given = node.ints_of(sizes, "the lengths")
    rest = x.shape.lens[place] - sum(n for n in given if n >= 0)
    return _parts(node, x, place, [n if n >= 0 else rest for n in given])


def _parts(node: Context, x: Instruction, axis: int, sizes: Sequence[int]) -> list[Instruction]:
    ends = list(accumulate(sizes))
    return [_part(node, x, axis, e - n, e) for n, e in zip(sizes, ends, strict=True)]


@tflite_op("SLICE")
def slice_(node: Context, x: Instruction, begin: Instruction, size: Instruction) -> Instruction:
    """A part of given lens; -1 means up to the end."""
    starts, sizes = node.ints_of(begin, "begin"), node.ints_of(size, "size")
    ends = [n if m < 0 else s + m for s, m, n in zip(starts, sizes, x.shape.lens, strict=True)]
    return node.add(
        "slice", x, axes=tuple(range(len(ends))), starts=tuple(starts), ends=tuple(ends)
    )


@tflite_op("STRIDED_SLICE")
def strided_slice(
    node: Context, x: Instruction, begin: Instruction, end: Instruction, strides: Instruction
) -> Instruction:
    """The slice ``x[a:b:c, …]`` of Python.

    Raises:
        ModelError: It has an ellipsis or new axes, or ends are offsets.
    """
    options = node.options("StridedSliceOptions")
    if options.EllipsisMask() or options.NewAxisMask() or options.Offset():
        raise node.fail("an ellipsis, new axes or offsets; expected bounds of each axis")
    bounds = [
        node.ints_of(v, what) for v, what in ((begin, "begin"), (end, "end"), (strides, "strides"))
    ]
    masks = int(options.BeginMask()), int(options.EndMask()), int(options.ShrinkAxisMask())
    gone: list[int] = []
    for axis, (start, stop, step) in enumerate(zip(*bounds, strict=True)):
        if masks[2] >> axis & 1:
            gone.append(axis)
        x = _strided(node, x, axis, _range(x, axis, start, stop, step, masks))
    return node.squeeze(x, *gone) if gone else x


def _range(
    x: Instruction, axis: int, start: int, stop: int, step: int, masks: tuple[int, int, int]
) -> range:
    length = x.shape.lens[axis]
    if masks[2] >> axis & 1:
        place = start % length
        return range(place, place + 1)
    first = None if masks[0] >> axis & 1 else start
    last = None if masks[1] >> axis & 1 else stop
    return range(*slice(first, last, step).indices(length))


def _strided(node: Context, x: Instruction, axis: int, places: range) -> Instruction:
    if places == range(x.shape.lens[axis]):
        return x
    if places.step < 0:
        places, is_turned = places[::-1], True
    else:
        is_turned = False
    x = _part(node, x, axis, places.start, max(places.stop, places.start))
    if places.step > 1:
        x = node.add("step", x, axes=(axis,), steps=(places.step,))
    return node.add("reverse", x, axes=(axis,)) if is_turned else x


@tflite_op("PAD", "PADV2")
def pad(
    node: Context, x: Instruction, pads: Instruction, value: Instruction | None = None
) -> Instruction:
    """A number around a value."""
    sides = node.ints_of(pads, "the padding")
    fill = (
        0.0 if value is None else float(node.required_constant(value, "the number").reshape(-1)[0])
    )
    return node.add("pad", x, pads=(*sides[::2], *sides[1::2]), value=fill)


@tflite_op("MIRROR_PAD")
def mirror_pad(node: Context, x: Instruction, pads: Instruction) -> Instruction:
    """The mirrored value around itself.

    Raises:
        ModelError: The edge itself is repeated.
    """
    if node.options("MirrorPadOptions").Mode():
        raise node.fail("the mode SYMMETRIC; expected REFLECT")
    sides = node.ints_of(pads, "the padding")
    return node.add("pad", x, pads=(*sides[::2], *sides[1::2]), mode=1)


@tflite_op("GATHER")
def gather(node: Context, x: Instruction, index: Instruction) -> Instruction:
    """Slices along an axis.

    Raises:
        ModelError: Axes are batches.
    """
    options = node.options("GatherOptions")
    if options.BatchDims():
        raise node.fail("batch axes; expected none")
    return node.add("gather", x, index, axis=node.axis(int(options.Axis()), x.shape.ndim))


@tflite_op("GATHER_ND")
def gather_nd(node: Context, x: Instruction, index: Instruction) -> Instruction:
    """Slices at tuples of places."""
    return node.add("gathernd", x, index)


@tflite_op("TILE", "BROADCAST_TO")
def tile(node: Context, x: Instruction, given: Instruction) -> Instruction:
    """The value repeated."""
    if node.operator.name == "BROADCAST_TO":
        return node.fit(x, node.out_lens)
    return node.emitted("Tile", x, node.convert(given, DType.INT64))[0]


@tflite_op("FILL")
def fill(node: Context, lens: Instruction, value: Instruction) -> Instruction:
    """One element everywhere."""
    return node.fit(value, node.out_lens)


@tflite_op("SHAPE")
def shape(node: Context, x: Instruction) -> Instruction:
    """The lens, which are known."""
    return node.module.add_literal(np.array(x.shape.lens, node.result(0).shape.type.numpy))


@tflite_op("REVERSE_V2")
def reverse(node: Context, x: Instruction, axes: Instruction) -> Instruction:
    """Axes backwards."""
    places = [node.axis(a, x.shape.ndim) for a in node.ints_of(axes, "the axes")]
    return node.add("reverse", x, axes=tuple(places))


@tflite_op("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def blocks(node: Context, x: Instruction) -> Instruction:
    """Blocks of an image as channels, or channels as blocks."""
    to_depth = node.operator.name == "SPACE_TO_DEPTH"
    options = node.options("SpaceToDepthOptions" if to_depth else "DepthToSpaceOptions")
    size, (n, h, w, c) = int(options.BlockSize()), x.shape.lens
    if size < 1:
        raise node.fail(f"blocks of {size}; expected at least 1")
    if to_depth:
        split = node.reshape(x, n, h // size, size, w // size, size, c)
        return node.reshape(node.permuted(split, 0, 1, 3, 2, 4, 5), *node.out_lens)
    split = node.reshape(x, n, h, w, size, size, c // size**2)
    return node.reshape(node.permuted(split, 0, 1, 3, 2, 4, 5), *node.out_lens)


# Reductions

REDUCTIONS = {
    "MEAN": "reduce_mean", "SUM": "reduce_sum", "REDUCE_MAX": "reduce_max", "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod", "REDUCE_ANY": "reduce_any", "REDUCE_ALL": "reduce_all",
}  # fmt: skip


def _reduction(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, x: Instruction, axes: Instruction) -> Instruction:
        places = tuple(sorted({node.axis(a, x.shape.ndim) for a in node.ints_of(axes, "the axes")}))
        if not places:
            return x
        found = node.add(op, x, axes=places)
        return found if node.options("ReducerOptions").KeepDims() else node.squeeze(found, *places)

    return handler


for _name, _op in REDUCTIONS.items():
    tflite_op(_name)(_reduction(_op))


@tflite_op("ARG_MAX", "ARG_MIN")
def extreme(node: Context, x: Instruction, axis: Instruction) -> Instruction:
    """The first place of an extreme."""
    place = node.axis(node.ints_of(axis, "the axis")[0], x.shape.ndim)
    found = node.add("argmax" if node.operator.name == "ARG_MAX" else "argmin", x, axis=place)
    return node.convert(node.squeeze(found, place), node.result(0).shape.type)


@tflite_op("TOPK_V2")
def topk(node: Context, x: Instruction, count: Instruction) -> list[Instruction]:
    """The largest elements along the last axis, and their places."""
    k = node.ints_of(count, "the number")[0]
    values, places = node.elements(node.add("topk", x, k=k, axis=x.shape.ndim - 1), 2)
    return [values, node.convert(places, node.result(1).shape.type)]


@tflite_op("CUMSUM")
def cumsum(node: Context, x: Instruction, axis: Instruction) -> Instruction:
    """Running sums."""
    options = node.options("CumsumOptions")
    place = node.axis(node.ints_of(axis, "the axis")[0], x.shape.ndim)
    exclusive, reverse = bool(options.Exclusive()), bool(options.Reverse())
    return node.add("prefix_scan_sum", x, axis=place, exclusive=exclusive, reverse=reverse)


@tflite_op("L2_NORMALIZATION")
def l2_normalization(node: Context, x: Instruction) -> Instruction:
    """Elements divided by the norm along the last axis."""
    sums = node.add("reduce_sum", node.add("mul", x, x), axes=(x.shape.ndim - 1,))
    least = node.common("max", sums, node.typed(x, 1e-12))
    return node.common("mul", x, node.add("rsqrt", least))
