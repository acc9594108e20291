"""Operators that read and write by index, sorts, and selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length, dim_of
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op

REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _ranked(node: Context, *values: Instruction) -> list[Instruction]:
    """Values of rank 0 as vectors."""
    return [v if v.shape.ndim else node.reshape(v, 1) for v in values]


@torch_op("aten.gather")
def gather(node: Context, x: Instruction, dim: int, index: Instruction, *_: Any) -> Instruction:
    """For each position, the element along an axis that the index there selects."""
    if node.is_empty(index):
        return node.filled(node.dtype(), node.out_lens(), 0)
    data, places = _ranked(node, x, index)
    axis = dim % data.shape.ndim
    found = node.add("gather_elements", _cut(node, data, places, axis), places, axis=axis)
    return found if index.shape.ndim else node.reshape(found)


def _cut(node: Context, data: Instruction, index: Instruction, axis: int) -> Instruction:
    """The data without what no index can reach: PyTorch's indices may be shorter along other axes."""
    own, wanted = node.lens(data), node.lens(index)
    axes = [
        a for a in range(len(own))
        if a != axis and isinstance(wanted[a], int) and isinstance(own[a], int) and own[a] != wanted[a]
    ]  # fmt: skip
    if not axes:
        return data
    return node.slice(data, axes, [0] * len(axes), [wanted[a] for a in axes])


@torch_op("aten.index_select", "aten.embedding")
def index_select(node: Context, x: Instruction, *rest: Any) -> Instruction:
    """The slices along an axis that indices select; of an embedding, its rows."""
    if "embedding" in str(node.fx.target):
        return node.add("gather", x, rest[0], axis=0)
    dim, index = rest
    data, places = _ranked(node, x, index)
    found = node.add("gather", data, places, axis=dim % data.shape.ndim)
    return found if x.shape.ndim else node.reshape(found)


@torch_op("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(node: Context, x: Instruction, indices: Sequence[Instruction | None]) -> Instruction:
    """Elements or slices at index tuples; a mask counts as the places where it holds."""
    given = _expanded(node, indices)
    axes = [a for a, i in enumerate(given) if i is not None]
    places = [_wrapped(node, i) for i in given if i is not None]
    rest = [a for a in range(x.shape.ndim) if a not in axes]
    if len(places) == 1 and places[0].shape.ndim:
        return node.add("gather", x, places[0], axis=axes[0])
    lens = node.common_lens(*map(node.lens, places))
    tuples = _tuples(node, places, lens)
    found = node.add("gathernd", node.transpose(x, *axes, *rest), tuples, batch_dims=0)
    return _placed(node, found, axes, rest, len(lens))


def _expanded(node: Context, indices: Sequence[Instruction | None]) -> list[Instruction | None]:
    """The indices with each mask replaced by the places where it holds, one vector per axis."""
    found: list[Instruction | None] = []
    for given in indices:
        if given is None or given.shape.type not in (DType.BOOL, DType.UINT8):
            found.append(given)
            continue
        (places,) = node.operator("NonZero", given)
        count = given.shape.ndim
        found += [node.squeeze(node.slice(places, [0], [k], [k + 1]), 0) for k in range(count)]
    return found


def _wrapped(node: Context, index: Instruction) -> Instruction:
    return node.convert(index, DType.INT64)


def _tuples(node: Context, places: Sequence[Instruction], lens: Sequence[Length]) -> Instruction:
    """Index tuples along a new last axis."""
    last = len(lens)
    spread = [node.unsqueeze(node.fit(p, lens), last) for p in places]
    return spread[0] if len(spread) == 1 else node.add("concat", *spread, axis=last)


def _placed(
    node: Context, found: Instruction, axes: Sequence[int], rest: Sequence[int], rank: int
) -> Instruction:
    """The axes of the indices moved to where the first of them was, if they are adjacent."""
    if not axes or list(axes) != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return found
    before = sum(a < axes[0] for a in rest)
    order = [*range(rank, rank + before), *range(rank), *range(rank + before, rank + len(rest))]
    return node.transpose(found, *order)


@torch_op("aten.index_put", "aten._unsafe_index_put")
def index_put(
    node: Context, x: Instruction, indices: Sequence[Instruction | None], values: Instruction,
    accumulate: bool = False, *_: Any,
) -> Instruction:  # fmt: skip
    """A value with elements or slices at index tuples replaced, or added to."""
    mask = indices[0]
    full = mask is not None and mask.shape.type is DType.BOOL and len(indices) == 1
    if full and mask is not None and not accumulate and values.shape.elements == 1:
        behind = x.shape.ndim - mask.shape.ndim
        spread = node.unsqueeze(mask, *range(mask.shape.ndim, x.shape.ndim)) if behind else mask
        single = node.reshape(values)
        return node.choose(spread, single, x, x.shape.type)
    given = _expanded(node, indices)
    axes = [a for a, i in enumerate(given) if i is not None]
    places = [_wrapped(node, i) for i in given if i is not None]
    rest = [a for a in range(x.shape.ndim) if a not in axes]
    lens = node.common_lens(*map(node.lens, places))
    tuples, moved = _tuples(node, places, lens), node.transpose(x, *axes, *rest)
    own = node.lens(x)
    adjacent = list(axes) == list(range(axes[0], axes[-1] + 1))
    before = [own[a] for a in rest if a < axes[0]] if adjacent else []
    after = [own[a] for a in rest][len(before) :]
    spread = node.fit(node.convert(values, x.shape.type), (*before, *lens, *after))
    if before:
        middle = range(len(before), len(before) + len(lens))
        tail = range(len(before) + len(lens), len(before) + len(lens) + len(after))
        spread = node.transpose(spread, *middle, *range(len(before)), *tail)
    op = "scatternd_add" if accumulate else "scatternd_none"
    found = node.add(op, node.standard(moved), tuples, spread)
    return _back(node, found, [*axes, *rest])


def _back(node: Context, value: Instruction, order: Sequence[int]) -> Instruction:
    """A value whose axes are in an order, with them in their own."""
    return node.transpose(value, *[order.index(a) for a in range(len(order))])


@torch_op("aten.scatter.src", "aten.scatter.value", "aten.scatter_add", "aten.scatter_reduce.two")
def scatter(
    node: Context, x: Instruction, dim: int, index: Instruction, source: Operand, reduce: str = "",
    include_self: bool = True,
) -> Instruction:  # fmt: skip
    """A value with elements along an axis replaced, or combined, at indices."""
    data, places = _ranked(node, x, index)
    axis = dim % data.shape.ndim
    if places.shape.elements == 0 and not places.shape.is_dynamic:
        return node.add("identity", x)
    updates = node.operand(source, x.shape.type)
    if updates.shape.ndim < data.shape.ndim:
        updates = node.fit(updates, node.lens(places))
    updates = _trimmed(node, updates, places)
    kind = "add" if "scatter_add" in str(node.fx.target) else "none"
    if reduce:
        return _reduced(node, x, (data, places, updates), axis, reduce, include_self)
    found = node.add(f"scatter_{kind}", data, places, updates, axis=axis)
    return found if x.shape.ndim else node.reshape(found)


def _trimmed(node: Context, updates: Instruction, index: Instruction) -> Instruction:
    """The updates that have an index: PyTorch allows more."""
    own, wanted = node.lens(updates), node.lens(index)
    axes = [a for a in range(len(own)) if isinstance(own[a], int) and own[a] != wanted[a]]
    if not axes:
        return updates
    return node.slice(updates, axes, [0] * len(axes), [wanted[a] for a in axes])


def _reduced(
    node: Context, x: Instruction, parts: tuple[Instruction, Instruction, Instruction], axis: int,
    reduce: str, include_self: bool,
) -> Instruction:  # fmt: skip
    data, places, updates = parts
    type = data.shape.type
    mean = reduce == "mean"
    if not include_self:
        data = _cleared(node, data, places, axis, reduce)
    found = node.add(f"scatter_{REDUCTIONS.get(reduce, 'add')}", data, places, updates, axis=axis)
    if mean:
        found = _averaged(node, found, places, axis, include_self)
    return node.convert(found, type) if x.shape.ndim else node.reshape(node.convert(found, type))


def _cleared(
    node: Context, data: Instruction, places: Instruction, axis: int, reduce: str
) -> Instruction:
    """The data with the neutral element of a reduction at each index."""
    low, high = data.shape.type.format.limits
    bounds = (float("-inf"), float("inf")) if data.shape.type.is_float else (low, high)
    neutral = {"prod": 1, "amax": bounds[0], "amin": bounds[1]}.get(reduce, 0)
    fill = node.fit(node.scalar(data.shape.type, neutral), node.lens(places))
    return node.add("scatter_none", data, places, fill, axis=axis)


def _averaged(
    node: Context, sums: Instruction, places: Instruction, axis: int, include_self: bool
) -> Instruction:
    type = sums.shape.type
    own = node.fit(node.scalar(type, int(include_self)), node.lens(sums))
    ones = node.fit(node.scalar(type, 1), node.lens(places))
    counts = node.add("scatter_add", own, places, ones, axis=axis)
    counts = node.apply("max", counts, 1, type=type)
    if type.is_float:
        return node.add("div", sums, counts)
    rest = node.add("mod", sums, counts)
    return node.add("div", node.add("sub", sums, rest), counts)


@torch_op("aten.masked_scatter")
def masked_scatter(
    node: Context, x: Instruction, mask: Instruction, source: Instruction
) -> Instruction:
    """A value whose masked elements are replaced by those of a source, in order."""
    lens = node.common_lens(node.lens(x), node.lens(mask))
    spread, data = node.fit(mask, lens), node.fit(x, lens)
    flat = node.reshape(node.convert(spread, DType.INT64), -1)
    order = node.add("prefix_scan_sum", flat, axis=0, exclusive=True)
    elements = node.reshape(source, -1)
    last = node.apply("sub", node.count(source), 1, type=DType.INT64)
    places = node.apply(
        "max", node.apply("min", order, last, type=DType.INT64), 0, type=DType.INT64
    )
    found = node.reshape(node.add("gather", elements, places, axis=0), *lens)
    return node.choose(spread, found, data, x.shape.type)


@torch_op("aten.nonzero")
def nonzero(node: Context, x: Instruction) -> Instruction:
    """The places of elements that differ from 0, a row for each."""
    value = x if x.shape.ndim else node.reshape(x, 1)
    (found,) = node.operator("NonZero", node.convert(value, DType.BOOL))
    rows = node.transpose(found, 1, 0)
    if not x.shape.ndim:
        rows = node.slice(rows, [1], [0], [0])
    wanted = node.result().shape[0]
    if not isinstance(wanted, int):
        node.graph_importer.symbols.bind(wanted, rows, 0)
    return rows


@torch_op("aten.sort", "aten.sort.stable")
def sort(node: Context, x: Instruction, *rest: Any) -> list[Instruction]:
    """The elements along an axis in order, and where they were."""
    dim: int = rest[-2]
    descending: bool = rest[-1]
    if not x.shape.ndim:
        return [node.add("identity", x), node.scalar(DType.INT64, 0)]
    count = node.whole(node.lens(x)[dim], "the length of a sorted axis")
    return _ordered(node, x, count, dim % x.shape.ndim, descending)


@torch_op("aten.topk")
def topk(
    node: Context, x: Instruction, k: Length, dim: int = -1, largest: bool = True, *_: Any
) -> list[Instruction]:
    """The largest or smallest elements along an axis, and where they were."""
    if not x.shape.ndim:
        return [node.add("identity", x), node.scalar(DType.INT64, 0)]
    return _ordered(node, x, node.whole(k, "k"), dim % x.shape.ndim, largest)


def _ordered(node: Context, x: Instruction, k: int, axis: int, largest: bool) -> list[Instruction]:
    if k == 0 or dim_of(node.lens(x)[axis]).max == 0:
        return [node.filled(node.dtype(i), node.out_lens(i), 0) for i in (0, 1)]
    wide = node.convert(x, DType.INT32) if x.shape.type is DType.BOOL else x
    values, places = node.elements(node.add("topk", wide, k=k, axis=axis, largest=largest), 2)
    return [node.convert(values, x.shape.type), places]


@torch_op("aten.embedding_dense_backward")
def embedding_backward(
    node: Context,
    given: Instruction,
    places: Instruction,
    rows: Length,
    padding: Length,
    by_frequency: bool,
) -> Instruction:
    """The gradient of a table: what its rows gave to results, added up."""
    width = node.lens(given)[-1]
    flat = node.convert(node.reshape(places, -1), DType.INT64)
    slopes = node.reshape(given, node.count(places), width)
    type = given.shape.type
    if isinstance(padding, int) and padding >= 0:
        is_padding = node.unsqueeze(node.test("equal", flat, padding, type=DType.INT64), 1)
        slopes = node.choose(is_padding, 0, slopes, type)
    zeros = node.fit(node.scalar(type, 0), (rows, width))
    if by_frequency:
        counts = node.fit(node.scalar(type, 0), (rows,))
        ones = node.fit(node.scalar(type, 1), node.lens(flat))
        counts = node.add("scatter_add", counts, flat, ones, axis=0)
        slopes = node.apply(
            "div", slopes, node.unsqueeze(node.add("gather", counts, flat, axis=0), 1), type=type
        )
    return node.add("scatternd_add", zeros, node.unsqueeze(flat, 1), slopes)


@torch_op("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    node: Context, table: Instruction, places: Instruction, offsets: Instruction, by_frequency: bool = False,
    mode: int = 0, sparse: bool = False, weights: Instruction | None = None, last: bool = False,
    padding: int = -1,
) -> list[Instruction]:  # fmt: skip
    """Sums, means or maxima of the rows of a table, by bags that begin at offsets.

    Raises:
        ModelError: Maxima are asked for, or the number of bags or places is not fixed.
    """
    if mode == 2:
        raise node.fail("maxima of bags")
    count = node.whole(node.lens(places)[0], "the number of indices")
    bags = node.whole(node.out_lens(0)[0], "the number of bags")
    type = table.shape.type
    starts = node.convert(offsets, DType.INT64)
    starts = node.slice(starts, [0], [0], [bags])
    order = node.literal(np.arange(count, dtype=np.int64)[:, None])
    reached = node.test("less", order, node.unsqueeze(starts, 0), type=DType.INT64)
    bag = node.reduce("reduce_sum", node.convert(node.add("not", reached), DType.INT64), (1,))
    bag = node.apply("sub", bag, 1, type=DType.INT64)
    kept = node.add("not", node.test("equal", places, padding, type=DType.INT64))
    rows = node.choose(node.unsqueeze(kept, 1), node.add("gather", table, places, axis=0), 0, type)
    if weights is not None:
        rows = node.apply("mul", rows, node.unsqueeze(weights, 1), type=type)
    target = node.unsqueeze(bag, 1)
    zeros = node.filled(type, node.out_lens(0), 0)
    found = node.add("scatternd_add", zeros, target, rows)
    counts = node.add(
        "scatternd_add", node.filled(type, (bags,), 0), target, node.convert(kept, type)
    )
    if mode == 1:
        divisor = node.unsqueeze(node.apply("max", counts, 1, type=type), 1)
        found = node.apply("div", found, divisor, type=type)
    return _bag_results(node, found, bag, counts)


def _bag_results(
    node: Context, found: Instruction, bag: Instruction, counts: Instruction
) -> list[Instruction]:
    """The result with PyTorch's notes for its gradient, where these have the same lens."""
    rest = [node.filled(node.dtype(k), node.out_lens(k), 0) for k in (1, 2, 3)]
    for k, value in ((0, bag), (1, counts)):
        if node.lens(value) == node.lens(rest[k]):
            rest[k] = node.convert(value, rest[k].shape.type)
    return [found, *rest]
