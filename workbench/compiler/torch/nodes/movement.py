"""Operators that move elements: views, joins, pads, and parts written into a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length, Size, known
from workbench.compiler.ops.movement import PadMode
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.view", "aten._unsafe_view", "aten.reshape", "aten.view_copy")
def view(node: Context, x: Instruction, *_: Any) -> Instruction:
    """The elements with other lens."""
    return node.reshape(x, *node.out_lens())


@torch_op("aten.permute", "aten.permute_copy")
def permute(node: Context, x: Instruction, dims: Sequence[int]) -> Instruction:
    """The axes in another order."""
    return node.transpose(x, *[d % x.shape.ndim for d in dims]) if dims else node.add("identity", x)


@torch_op("aten.t", "aten.transpose.int")
def transpose(node: Context, x: Instruction, first: int = 0, second: int = 1) -> Instruction:
    """Two axes exchanged."""
    order = list(range(x.shape.ndim))
    if len(order) < 2:
        return node.add("identity", x)
    order[first], order[second] = order[second], order[first]
    return node.transpose(x, *order)


@torch_op("aten.expand", "aten.expand_copy")
def expand(node: Context, x: Instruction, *_: Any) -> Instruction:
    """The value repeated along axes of length 1, and along new ones."""
    return node.fit(x, node.out_lens())


@torch_op("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze")
def squeeze(node: Context, x: Instruction, dims: Any = None) -> Instruction:
    """The value without the axes of length 1 among some, or all."""
    axes = node.axes(dims, x.shape.ndim) if dims != [] else ()
    gone = [a for a in axes if node.lens(x)[a] == 1]
    return node.squeeze(x, *gone) if gone else node.add("identity", x)


@torch_op("aten.unsqueeze")
def unsqueeze(node: Context, x: Instruction, dim: int) -> Instruction:
    """A new axis of length 1."""
    return node.unsqueeze(x, dim % (x.shape.ndim + 1))


@torch_op("aten.cat")
def cat(node: Context, tensors: Sequence[Instruction], dim: int = 0) -> Instruction:
    """Values one after the other along an axis; PyTorch leaves out vectors without elements."""
    type = node.dtype()
    rank = len(node.result().shape)
    kept = [t for t in tensors if t.shape.ndim == rank]
    values = [node.convert(t, type) for t in kept]
    return values[0] if len(values) == 1 else node.add("concat", *values, axis=dim % rank)


@torch_op("aten.split_with_sizes", "aten.split_with_sizes_copy")
def split(
    node: Context, x: Instruction, sizes: Sequence[Length], dim: int = 0
) -> list[Instruction]:
    """Parts of these lengths along an axis."""
    start: Length = 0
    parts: list[Instruction] = []
    for size in sizes:
        parts.append(node.slice(x, [dim % x.shape.ndim], [start], [start + size]))
        start = start + size
    return parts


@torch_op("aten.split.Tensor")
def split_even(node: Context, x: Instruction, _: Any, dim: int = 0) -> list[Instruction]:
    """Parts of one length along an axis."""
    axis = dim % x.shape.ndim
    return split(node, x, [node.out_lens(k)[axis] for k in range(len(node.result()))], dim)


@torch_op("aten.unbind.int")
def unbind(node: Context, x: Instruction, dim: int = 0) -> list[Instruction]:
    """The slices along an axis."""
    axis, count = dim % x.shape.ndim, len(node.result())
    return [node.squeeze(node.slice(x, [axis], [k], [k + 1]), axis) for k in range(count)]


@torch_op("aten.select.int", "aten.select_copy.int")
def select(node: Context, x: Instruction, dim: int, index: Length) -> Instruction:
    """The slice at an index along an axis."""
    axis = dim % x.shape.ndim
    if isinstance(index, Size):
        return node.add("gather", x, node.number_of(index), axis=axis)
    length = node.lens(x)[axis]
    start = index if index >= 0 else length + index
    return node.squeeze(node.slice(x, [axis], [start], [start + 1]), axis)


def bounds(node: Context, x: Instruction, axis: int, start: Any, end: Any) -> tuple[Length, Length]:
    """The bounds of a slice, counted from the front and within the axis."""
    length = node.lens(x)[axis]
    first = _within(0 if start is None else start, length)
    last = _within(length if end is None else end, length)
    fixed = known([first, last])
    return (first, max(fixed)) if fixed is not None else (first, last)


def _within(place: Length, length: Length) -> Length:
    if isinstance(place, int) and place < 0:
        place = length + place if isinstance(length, Size) else max(length + place, 0)
    if isinstance(place, int) and isinstance(length, int):
        return min(place, length)
    if isinstance(place, int) and isinstance(length, Size) and place >= length.dim.max:
        return length
    return place


@torch_op("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    node: Context, x: Instruction, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Instruction:
    """Elements from a start up to an end, every ``step``-th of them."""
    axis = dim % x.shape.ndim
    first, last = bounds(node, x, axis, start, end)
    whole = isinstance(first, int) and first == 0 and last is node.lens(x)[axis]
    if isinstance(last, Size) and isinstance(node.lens(x)[axis], Size):
        length = node.lens(x)[axis]
        whole = first == 0 and isinstance(length, Size) and length.dim.name == last.dim.name != ""
    found = x if whole else node.slice(x, [axis], [first], [last])
    every = node.whole(step, "the step")
    if every != 1:
        found = node.add("step", found, axes=(axis,), steps=(every,))
    return node.add("identity", x) if found is x else found


@torch_op("aten.flip")
def flip(node: Context, x: Instruction, dims: Sequence[int]) -> Instruction:
    """The elements in reverse order along axes."""
    axes = tuple(sorted({d % x.shape.ndim for d in dims})) if x.shape.ndim else ()
    return node.add("reverse", x, axes=axes) if axes else node.add("identity", x)


@torch_op("aten.repeat")
def repeat(node: Context, x: Instruction, repeats: Sequence[Length]) -> Instruction:
    """The value repeated along each axis, the new ones included."""
    lens = (*[1] * (len(repeats) - x.shape.ndim), *node.lens(x))
    split_lens = [n for length in lens for n in (1, length)]
    pairs = [n for pair in zip(repeats, lens, strict=True) for n in pair]
    return node.reshape(node.fit(node.reshape(x, *split_lens), pairs), *node.out_lens())


@torch_op("aten.diagonal", "aten.diagonal_copy")
def diagonal(
    node: Context, x: Instruction, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Instruction:
    """A diagonal of two axes, as a new last axis."""
    rank = x.shape.ndim
    first, second = dim1 % rank, dim2 % rank
    others = [a for a in range(rank) if a not in (first, second)]
    order = [first, second, *others]
    moved = node.transpose(x, *order)
    count = node.whole(node.out_lens()[-1], "the length of the diagonal")
    rows = np.arange(count) + max(-offset, 0)
    places = np.stack([rows, np.arange(count) + max(offset, 0)], axis=-1).astype(np.int64)
    found = node.add("gathernd", moved, node.literal(places.reshape(count, 2)), batch_dims=0)
    return node.transpose(found, *range(1, rank - 1), 0) if others else found


@torch_op("aten.as_strided", "aten.as_strided_copy")
def as_strided(
    node: Context, x: Instruction, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Instruction:
    """Elements at regular distances in the memory of a contiguous value."""
    given = node.given(0)
    if not given.is_contiguous():
        raise node.fail("a view by strides of a value that is not contiguous in memory")
    lens, steps = node.ints(size, "a length"), node.ints(stride, "a stride")
    first = given.storage_offset() if offset is None else node.whole(offset, "the offset")
    places = np.full((), first - given.storage_offset(), np.int64)
    for n, step in zip(lens, steps, strict=True):
        places = places[..., None] + np.arange(n, dtype=np.int64) * step
    if places.size and (places.min() < 0 or places.max() >= x.shape.elements):
        raise node.fail("a view by strides beyond the elements of the value")
    return node.add("gather", node.reshape(x, -1), node.literal(places), axis=0)


@torch_op("aten.constant_pad_nd")
def pad(node: Context, x: Instruction, pads: Sequence[int], value: Any = 0) -> Instruction:
    """Elements of one value added around a value; negative pads cut off."""
    return padded(node, x, node.ints(pads, "a pad"), PadMode.CONSTANT, value)


@torch_op("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def pad_reflected(node: Context, x: Instruction, pads: Sequence[int]) -> Instruction:
    """The value, mirrored beyond its edges."""
    return padded(node, x, node.ints(pads, "a pad"), PadMode.REFLECT)


@torch_op("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def pad_replicated(node: Context, x: Instruction, pads: Sequence[int]) -> Instruction:
    """The value with its edges repeated."""
    return padded(node, x, node.ints(pads, "a pad"), PadMode.EDGE)


def padded(
    node: Context, x: Instruction, pads: Sequence[int], mode: PadMode, value: float = 0
) -> Instruction:
    """A pad, given from the last axis to the first, of which negative parts are cut off."""
    rank, count = x.shape.ndim, len(pads) // 2
    begins, ends = [0] * rank, [0] * rank
    for k in range(count):
        begins[rank - 1 - k], ends[rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
    found = x
    if any(p < 0 for p in pads):
        axes = [a for a in range(rank) if begins[a] < 0 or ends[a] < 0]
        lens = node.lens(x)
        starts = [max(-begins[a], 0) for a in axes]
        found = node.slice(x, axes, starts, [lens[a] - max(-ends[a], 0) for a in axes])
    grown = [max(p, 0) for p in (*begins, *ends)]
    if not any(grown):
        return node.add("identity", x) if found is x else found
    if x.shape.type is DType.BOOL:  # the value is a float
        wide = node.add(
            "pad",
            node.convert(found, DType.UINT8),
            mode=mode,
            pads=tuple(grown),
            value=float(value),
        )
        return node.convert(wide, DType.BOOL)
    return node.add("pad", found, mode=mode, pads=tuple(grown), value=float(value))


@torch_op("aten.select_scatter")
def select_scatter(
    node: Context, x: Instruction, source: Instruction, dim: int, index: Length
) -> Instruction:
    """A value with one slice along an axis replaced."""
    axis = dim % x.shape.ndim
    length = node.lens(x)[axis]
    start = index if not isinstance(index, int) or index >= 0 else length + index
    return _written(node, x, node.unsqueeze(source, axis), axis, (start, start + 1, 1))


@torch_op("aten.slice_scatter")
def slice_scatter(
    node: Context, x: Instruction, source: Instruction, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Instruction:  # fmt: skip
    """A value with every ``step``-th slice of a range along an axis replaced."""
    axis = dim % x.shape.ndim
    first, last = bounds(node, x, axis, start, end)
    return _written(node, x, source, axis, (first, last, node.whole(step, "the step")))


def _written(
    node: Context, x: Instruction, source: Instruction, axis: int, part: tuple[Length, Length, int]
) -> Instruction:
    source = node.convert(source, x.shape.type)
    (start, stop, step), length = part, node.lens(x)[axis]
    fixed = known([start, stop, length])
    if fixed is None or step != 1:
        return _at_places(node, x, source, axis, part)
    first, last, total = fixed
    source = node.fit(
        source, [last - first if a == axis else n for a, n in enumerate(node.lens(x))]
    )
    pieces = [node.slice(x, [axis], [a], [b]) for a, b in ((0, first), (last, total)) if a < b]
    if last <= first:
        return node.add("identity", x)
    front = pieces[:1] if first > 0 else []
    back = pieces[-1:] if last < total else []
    joined = [*front, source, *back]
    return node.add("concat", *joined, axis=axis) if len(joined) > 1 else source


def _at_places(
    node: Context, x: Instruction, source: Instruction, axis: int, part: tuple[Length, Length, int]
) -> Instruction:
    lens = node.lens(source)
    places: Operand = node.counted(DType.INT64, lens[axis])
    places = node.apply("mul", places, part[2], type=DType.INT64)
    places = node.apply("add", places, part[0], type=DType.INT64)
    return node.add("scatter_none", x, node.broadcast(places, axis, lens), source, axis=axis)


@torch_op("aten.unfold")
def unfold(node: Context, x: Instruction, dim: int, size: int, step: int) -> Instruction:
    """The windows along an axis, whose elements are along a last axis.

    Raises:
        ModelError: The length of the axis is open.
    """
    if not x.shape.ndim:
        return node.slice(node.reshape(x, 1), [0], [0], [size])
    axis = dim % x.shape.ndim
    length = node.whole(node.lens(x)[axis], "the length of the axis")
    starts = np.arange(0, length - size + 1, step)
    found = node.add("gather", x, node.literal(starts[:, None] + np.arange(size)), axis=axis)
    rest = [a for a in range(found.shape.ndim) if a != axis + 1]
    return node.transpose(found, *rest, axis + 1)
