"""Operators that read and write by index."""

from __future__ import annotations

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.shape import Shape, row_major

REDUCTIONS = {"none", "add", "mul", "min", "max"}


@onnx_op("GatherElements")
def gather_elements(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """For each position, the element of an axis that the index there names."""
    node.expect(inputs, 2)
    if any(i.shape.is_dynamic for i in inputs):
        raise node.fail("values with dynamic dimensions are not supported")
    data, index = (i if i.shape.standard else node.add("contiguous", i) for i in inputs)
    rank = data.shape.ndim
    if index.shape.ndim != rank:
        raise node.fail(f"data {data.shape} and indices {index.shape}; expected equal ranks")
    axis, type = node.axis(node.integer("axis", 0), rank), index.shape.type
    lens = index.shape.lens
    index = _counted_from_front(node, index, data.shape.lens[axis])
    flat = node.reshape(data, data.shape.elements)
    steps = row_major(data.shape.lens)
    check_size(Shape(DType.INT64, lens), "GatherElements")
    places = np.indices(lens, dtype=np.int64)
    offsets = sum((places[i] * s for i, s in enumerate(steps)), np.zeros(lens, np.int64))
    base = node.literal(offsets.astype(type.numpy))
    own = node.literal(places[axis].astype(type.numpy))
    step = node.multibroadcast(node.vector(type, [steps[axis]]), lens)
    moved = node.add("mul", node.add("sub", index, own), step)
    return node.add("gather", flat, node.add("add", base, moved), axis=0)


def _counted_from_front(node: NodeContext, index: Instruction, length: int) -> Instruction:
    """Indices without negative ones."""
    known = node.constant(index)
    if known is not None and not bool((known < 0).any()):
        return index
    lens, type = index.shape.lens, index.shape.type
    zero = node.multibroadcast(node.scalar(type, 0), lens)
    count = node.multibroadcast(node.scalar(type, length), lens)
    below = node.convert(node.add("less", index, zero), DType.BOOL)
    return node.add("where", below, node.add("add", index, count), index)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """For each position, an update of the element of an axis that the index there names."""
    node.expect(inputs, 3)
    return node.add(f"scatter_{_reduction(node)}", *inputs, axis=node.integer("axis", 0))


@onnx_op("ScatterND")
def scatter_nd(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Updates of the slices that the indices name."""
    node.expect(inputs, 3)
    return node.add(f"scatternd_{_reduction(node)}", *inputs)


def _reduction(node: NodeContext) -> str:
    reduction = node.text("reduction", "none")
    if reduction not in REDUCTIONS:
        raise node.fail(f"reduction={reduction!r}; expected one of {', '.join(sorted(REDUCTIONS))}")
    return reduction


@onnx_op("TopK")
def top_k(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The largest or smallest elements along an axis, and where they are."""
    node.expect(inputs, 1, 2)
    given = node.optional(inputs, 1)
    k = node.integer("k") if given is None else node.constant_ints(given, "k")[0]
    axis, largest = node.integer("axis", -1), node.flag("largest", True)
    length = inputs[0].shape.lens[node.axis(axis, inputs[0].shape.ndim)]
    if not 0 <= k <= length:
        raise node.fail(f"k={k} of {length} elements")
    made = node.add("topk", inputs[0], k=k, axis=axis, largest=largest)
    return node.elements(made, 2)


@onnx_op("Unique")
def unique(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The distinct elements or slices, where they first are, and how often."""
    node.expect(inputs, 1)
    sorted_ = node.flag("sorted", True)
    if node.has("axis"):
        axis = node.axis(node.integer("axis"), inputs[0].shape.ndim)
        made = node.add("unique", inputs[0], axis=axis, sorted=sorted_)
    else:
        made = node.add("unique", inputs[0], sorted=sorted_)
    return node.elements(made, 4)


@onnx_op("Trilu")
def trilu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The elements on one side of a diagonal; zero elsewhere, also where they are not finite."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    lens, type = x.shape.lens, x.shape.type
    if len(lens) < 2:
        raise node.fail(f"input {x.shape}; expected rank 2 or more")
    k = 0 if given is None else node.constant_ints(given, "the diagonal")[0]
    check_size(Shape(DType.BOOL, lens[-2:]), "Trilu")
    ones = np.ones(lens[-2:], np.bool_)
    kept = np.triu(ones, k) if node.flag("upper", True) else np.tril(ones, k)
    mask = node.fit(node.literal(kept), lens)
    zero = node.multibroadcast(node.scalar(type, 0), lens)
    return node.add("where", mask, x, zero)


@onnx_op("CumSum")
def cum_sum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Sums of all elements up to each one."""
    node.expect(inputs, 2)
    axis = node.constant_ints(inputs[1], "the axis")
    if len(axis) != 1:
        raise node.fail(f"axes {list(axis)}; expected one")
    exclusive, reverse = node.flag("exclusive"), node.flag("reverse")
    return node.add(
        "prefix_scan_sum", inputs[0], axis=axis[0], exclusive=exclusive, reverse=reverse
    )


@onnx_op("ReverseSequence")
def reverse_sequence(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The first elements of each sequence of a batch in reverse order."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch, time} != {0, 1} or x.shape.ndim < 2:
        raise node.fail(f"axes {batch} and {time} of {x.shape}; expected 0 and 1")
    if given is None:
        lengths = node.integers("sequence_lens")
    else:
        lengths = node.constant_ints(given, "the list of lengths")
    count, total = x.shape.lens[batch], x.shape.lens[time]
    if len(lengths) != count or any(not 0 <= n <= total for n in lengths):
        raise node.fail(f"lengths {list(lengths)}; expected {count} from 0 to {total}")
    result: Instruction | None = None
    for b, length in enumerate(lengths):
        piece = _reversed_piece(node, x, (batch, time), b, length)
        result = piece if result is None else node.add("concat", result, piece, axis=batch)
    return x if result is None else result


def _reversed_piece(
    node: NodeContext, x: Instruction, axes: tuple[int, int], b: int, length: int
) -> Instruction:
    total = x.shape.lens[axes[1]]
    if length <= 1:
        return node.slice(x, axes, (b, 0), (b + 1, total))
    front = node.slice(x, axes, (b, 0), (b + 1, length))
    front = node.add("reverse", front, axes=(axes[1],))
    if length == total:
        return front
    rest = node.slice(x, axes, (b, length), (b + 1, total))
    return node.add("concat", front, rest, axis=axes[1])
