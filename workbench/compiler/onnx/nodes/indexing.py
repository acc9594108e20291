"""Operators that read and write by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import agree, dims_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import cut_out
from workbench.compiler.onnx.nodes.creation import distances
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of, known

REDUCTIONS = {"none", "add", "mul", "min", "max"}


@onnx_op("GatherElements")
def gather_elements(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """For each position, the element along an axis that the index there selects."""
    node.expect(inputs, 2)
    return node.add("gather_elements", *inputs, axis=node.integer("axis", 0))


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """For each position, an update of the element along an axis that the index there selects."""
    node.expect(inputs, 3)
    if not agree(*[dims_of(i.shape) for i in inputs[1:]]):
        shapes = "; ".join(str(i.shape) for i in inputs[1:])
        raise node.fail(f"indices and updates {shapes}; expected equal lens")
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


@onnx_op("TensorScatter")
def tensor_scatter(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A cache with an update written along an axis, from a start position per sample."""
    node.expect(inputs, 2, 3)
    cache, update, starts = inputs[0], inputs[1], node.optional(inputs, 2)
    mode, axis = node.text("mode", "linear"), node.axis(node.integer("axis", -2), cache.shape.ndim)
    if mode not in {"linear", "circular"}:
        raise node.fail(f"mode={mode!r}; expected 'linear' or 'circular'")
    if axis == 0:
        raise node.fail("axis 0 is the batch; expected another axis")
    lens = node.lens(update)
    index = node.broadcast(node.counted(DType.INT64, lens[axis]), axis, lens)
    if starts is not None:
        index = node.add("add", index, node.broadcast(starts, 0, lens))
    if mode == "circular":
        length = node.number_of(node.lens(cache)[axis])
        index = node.add("mod", index, node.multibroadcast(length, lens))
    return node.add("scatter_none", cache, index, update, axis=axis)


def _k(node: NodeContext, given: Instruction) -> Length:
    found = node.lengths_in(given, "k")
    if len(found) != 1:
        raise node.fail(f"k has {len(found)} elements; expected one")
    return found[0]


@onnx_op("TopK")
def top_k(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The largest or smallest elements along an axis, and their indices."""
    node.expect(inputs, 1, 2)
    given = node.optional(inputs, 1)
    axis, largest = node.integer("axis", -1), node.flag("largest", True)
    place = node.axis(axis, inputs[0].shape.ndim)
    length = node.lens(inputs[0])[place]
    k = node.integer("k") if given is None else _k(node, given)
    if not dim_of(k).min <= dim_of(length).max or (isinstance(k, int) and k < 0):
        raise node.fail(f"k={k}; expected 0 to {dim_of(length).max}, the length of the axis")
    most = k if isinstance(k, int) else dim_of(length).max
    made = node.elements(node.add("topk", inputs[0], k=most, axis=axis, largest=largest), 2)
    if isinstance(k, int) and isinstance(length, int):
        return made
    return [cut_out(node.module, v, place, 0, k) for v in made]


@onnx_op("Trilu")
def trilu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The elements on one side of a diagonal; zero elsewhere, also where they are not finite."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    lens, type = node.lens(x), x.shape.type
    if len(lens) < 2:
        raise node.fail(f"input {x.shape}; expected rank 2 or more")
    kept = _triangle(node, lens, given)
    zero = node.multibroadcast(node.scalar(type, 0), lens)
    return node.add("where", node.fit(kept, lens), x, zero)


def _triangle(node: NodeContext, lens: Sequence[Length], given: Instruction | None) -> Instruction:
    """The mask of the elements that are kept."""
    upper, fixed = node.flag("upper", True), known(lens[-2:])
    diagonal = np.zeros(1) if given is None else node.constant(given)
    if diagonal is not None and fixed is not None:
        check_size(Shape(DType.BOOL, fixed), "Trilu")
        k = int(np.clip(node.element(diagonal, "the diagonal"), -max(fixed), max(fixed)))
        ones = np.ones(fixed, np.bool_)
        return node.literal(np.triu(ones, k) if upper else np.tril(ones, k))
    limit = node.scalar(DType.INT64, 0) if given is None else node.single(given)
    distance = distances(node, lens[-2], lens[-1])
    out = node.convert(node.common("less" if upper else "greater", distance, limit), DType.BOOL)
    return node.add("not", out)


@onnx_op("CumSum", "CumProd")
def cumulative(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Sums or products of all elements up to each one."""
    node.expect(inputs, 2)
    axis = node.constant_ints(inputs[1], "the axis")
    if len(axis) != 1:
        raise node.fail(f"axes {list(axis)}; expected one")
    op = {"CumSum": "prefix_scan_sum", "CumProd": "prefix_scan_prod"}[node.op_type]
    exclusive, reverse = node.flag("exclusive"), node.flag("reverse")
    return node.add(op, inputs[0], axis=axis[0], exclusive=exclusive, reverse=reverse)


@onnx_op("ReverseSequence")
def reverse_sequence(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The first elements of each sequence of a batch in reverse order."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch, time} != {0, 1} or x.shape.ndim < 2:
        raise node.fail(f"axes {batch} and {time} of {x.shape}; expected 0 and 1")
    count, total = node.lens(x)[batch], node.lens(x)[time]
    if given is not None and (x.shape.is_dynamic or node.constant(given) is None):
        return _reversed_by_index(node, x, given, (batch, time))
    if given is None:
        lengths = node.integers("sequence_lens")
    else:
        lengths = node.constant_ints(given, "the list of lengths")
    if len(lengths) != count or any(not 0 <= n <= total for n in lengths):
        raise node.fail(f"lengths {list(lengths)}; expected {count} from 0 to {total}")
    result: Instruction | None = None
    for b, length in enumerate(lengths):
        piece = _reversed_piece(node, x, (batch, time), b, length)
        result = piece if result is None else node.add("concat", result, piece, axis=batch)
    return x if result is None else result


def _reversed_by_index(
    node: NodeContext, x: Instruction, lengths: Instruction, axes: tuple[int, int]
) -> Instruction:
    """A gather of each element from its mirrored position within its sequence."""
    batch, time = axes
    lens = node.lens(x)
    places = node.unsqueeze(node.counted(DType.INT64, lens[time]), batch)
    ends = node.unsqueeze(node.convert(lengths, DType.INT64), time)
    mirrored = node.common("sub", node.common("sub", ends, node.scalar(DType.INT64, 1)), places)
    inside = node.convert(node.common("less", places, ends), DType.BOOL)
    index = node.common("where", inside, mirrored, places)
    behind = range(2, len(lens))
    index = node.unsqueeze(index, *behind) if behind else index
    return node.add("gather_elements", x, node.fit(index, lens), axis=time)


def _reversed_piece(
    node: NodeContext, x: Instruction, axes: tuple[int, int], b: int, length: int
) -> Instruction:
    total = node.lens(x)[axes[1]]
    if length <= 1:
        return node.slice(x, axes, (b, 0), (b + 1, total))
    front = node.slice(x, axes, (b, 0), (b + 1, length))
    front = node.add("reverse", front, axes=(axes[1],))
    if length == total:
        return front
    rest = node.slice(x, axes, (b, length), (b + 1, total))
    return node.add("concat", front, rest, axis=axes[1])
