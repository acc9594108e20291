"""Reductions, softmax and norms."""

from __future__ import annotations

import math

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

PLAIN = {
    "ReduceMax": "reduce_max", "ReduceMean": "reduce_mean", "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod", "ReduceSum": "reduce_sum",
}  # fmt: skip


def reduced(
    node: NodeContext, op: str, x: Instruction, inputs: list[Instruction], *, is_kept: bool = False
) -> Instruction:
    """``x`` reduced along the axes that the node names; ``inputs[1]`` may hold them."""
    keep, noop = is_kept or node.flag("keepdims", True), node.flag("noop_with_empty_axes")
    rank = node.rank(x)
    given = node.optional(inputs, 1)
    if given is not None and (node.constant(given) is None or _is_left_open(node, given)):
        return _reduced_at_run_time(node, op, x, given, keep=keep, noop=noop)
    axes = node.integers("axes", ())
    if given is not None:
        axes = node.constant_ints(given, "the list of axes")
    if not axes and noop:
        return x
    axes = axes if axes and rank else tuple(range(x.shape.ndim))
    if not axes:  # one element is what it is reduced to
        return x
    result = node.add(op, x, axes=axes)
    return result if keep else node.squeeze(result, *axes)


def _is_left_open(node: NodeContext, axes: Instruction) -> bool:
    """Whether strict import gives a reduction an input for axes of which there are none."""
    plain = node.flag("keepdims", True) and not node.flag("noop_with_empty_axes")
    empty = not axes.shape.is_dynamic and not axes.shape.elements
    return node.strict and plain and empty and not axes.is_constant


def _reduced_at_run_time(
    node: NodeContext, op: str, x: Instruction, axes: Instruction, *, keep: bool, noop: bool
) -> Instruction:
    if not keep:
        node.required_constant(axes, "the list of axes, with keepdims=0,")
    if noop:
        return node.add(op, x, axes, axes=())
    every = tuple(range(x.shape.ndim))
    if not axes.shape.is_dynamic:
        if axes.shape.elements:
            return node.add(op, x, axes, axes=())
        return node.add(op, x, node.vector(DType.INT64, every), axes=())
    if node.strict:
        return _reduced_by_choice(node, op, x, axes)
    # An empty list means all axes.
    count, zero = node.lens(axes)[0], node.vector(DType.INT64, [0])
    is_empty = node.convert(node.add("equal", node.vector_of([count]), zero), DType.BOOL)
    rest = node.add("where", is_empty, node.vector(DType.INT64, [len(every)]), zero)
    all_ = node.add("slice", node.vector(DType.INT64, every), rest, axes=(0,), starts=(0,))
    return node.add(op, x, node.add("concat", axes, all_, axis=0), axes=())


def _reduced_by_choice(
    node: NodeContext, op: str, x: Instruction, axes: Instruction
) -> Instruction:
    """Both reductions, along the axes and along all; the program picks one at run time."""
    some = node.add(op, x, axes, axes=())
    every = node.add(op, x, node.vector(DType.INT64, range(x.shape.ndim)), axes=())
    zero = node.scalar(DType.INT64, 0)
    count = node.add("dimensions_of", axes, start=0, end=1)
    return node.add("where", node.add("equal", count, zero), every, some)


@onnx_op(*PLAIN)
def reduce(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A reduction that is one operation; bool is reduced as a number."""
    node.expect(inputs, 1, 2)
    return reduced(node, PLAIN[node.op_type], inputs[0], inputs)


@onnx_op("ReduceL1")
def reduce_l1(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The sum of absolute values."""
    node.expect(inputs, 1, 2)
    return reduced(node, "reduce_sum", node.add("abs", inputs[0]), inputs)


@onnx_op("ReduceL2")
def reduce_l2(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The root of the sum of squares."""
    return node.add("sqrt", reduce_sum_square(node, inputs))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The sum of squares."""
    node.expect(inputs, 1, 2)
    return reduced(node, "reduce_sum", node.add("mul", inputs[0], inputs[0]), inputs)


@onnx_op("ReduceLogSum")
def reduce_log_sum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logarithm of the sum."""
    node.expect(inputs, 1, 2)
    return node.add("log", reduced(node, "reduce_sum", inputs[0], inputs))


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logarithm of the sum of exponentials, shifted by the maximum so that none overflows."""
    node.expect(inputs, 1, 2)
    type = inputs[0].shape.type
    x = inputs[0] if type.is_float else node.convert(inputs[0], DType.DOUBLE)
    top = reduced(node, "reduce_max", x, inputs, is_kept=True)
    top = node.common("where", node.add("isinf", top), node.scalar(x.shape.type, 0), top)
    powers = node.add("exp", node.common("sub", x, top))
    total = node.add("log", reduced(node, "reduce_sum", powers, inputs, is_kept=True))
    result = node.convert(node.common("add", total, top), type)
    if node.flag("keepdims", True):
        return result
    given = node.optional(inputs, 1)
    axes = node.integers("axes", ()) if given is None else node.constant_ints(given, "the axes")
    if not axes and node.flag("noop_with_empty_axes"):
        return result
    return node.squeeze(result, *(axes or range(x.shape.ndim)))


@onnx_op("Softmax", "LogSoftmax")
def softmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Softmax along an axis; before opset 13, over that axis and all later ones together."""
    node.expect(inputs, 1)
    x, op = inputs[0], node.op_type.lower()
    axis = node.integer("axis", -1 if node.version >= 13 else 1)
    if node.op_type == "Softmax" and _is_pinned(x):
        return _in_steps(node, x, axis)
    return softmax_along(node, x, axis, op, flat=node.version < 13)


def softmax_along(
    node: NodeContext, x: Instruction, axis: int, op: str = "softmax", *, flat: bool
) -> Instruction:
    """Softmax along an axis, or with ``flat`` over that axis and all later ones together."""
    if not flat:
        return node.add(op, x, axis=axis)
    lens, rank = node.lens(x), x.shape.ndim
    front = rank if axis == rank else node.axis(axis, rank)
    if front < rank and all(n == 1 for n in lens[front + 1 :]):
        return node.add(op, x, axis=axis)
    if node.is_empty(x):
        return x
    rows = node.reshape(x, math.prod(lens[:front]), math.prod(lens[front:]))
    return node.reshape(node.add(op, rows, axis=1), *lens)


def _is_pinned(x: Instruction) -> bool:
    """Whether a value comes from a cast to its own type, which fixes the precision of what follows.

    The body of Attention has such a cast before its softmax; other models have no use for one.
    """
    narrow = x.shape.type in {DType.HALF, DType.BF16}
    return narrow and x.op.name == "convert" and x.inputs[0].shape.type is x.shape.type


def _in_steps(node: NodeContext, x: Instruction, axis: int) -> Instruction:
    """Softmax by operations that each round to the type."""
    shifted = node.common("sub", x, node.add("reduce_max", x, axes=(axis,)))
    powers = node.add("exp", shifted)
    return node.common("div", powers, node.add("reduce_sum", powers, axes=(axis,)))


@onnx_op("Hardmax")
def hardmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One at the first maximum along an axis, zero elsewhere."""
    node.expect(inputs, 1)
    x = inputs[0]
    lens = node.lens(x)
    if node.is_empty(x):
        return x
    axis = node.integer("axis", -1 if node.version >= 13 else 1)
    if node.version < 13:
        front = node.axis(axis, len(lens))
        x = node.reshape(x, math.prod(lens[:front]), math.prod(lens[front:]))
        axis = 1
    index = node.add("argmax", x, axis=axis)
    zeros = node.multibroadcast(node.scalar(x.shape.type, 0), node.lens(x))
    ones = node.multibroadcast(node.scalar(x.shape.type, 1), node.lens(index))
    result = node.add("scatter_none", zeros, index, ones, axis=axis)
    return result if node.version >= 13 else node.reshape(result, *lens)


@onnx_op("LpNormalization")
def lp_normalization(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value over its norm along an axis; unchanged if the norm is zero."""
    node.expect(inputs, 1)
    x, p = inputs[0], node.integer("p", 2)
    axis = node.integer("axis", -1)
    node.axis(axis, x.shape.ndim)
    if p not in {1, 2}:
        raise node.fail(f"p={p}; expected 1 or 2")
    powers = node.add("abs", x) if p == 1 else node.add("mul", x, x)
    norm = node.add("reduce_sum", powers, axes=(axis,))
    if p == 2:
        norm = node.add("sqrt", norm)
    norm = node.multibroadcast(norm, node.lens(x))
    zero = node.multibroadcast(node.scalar(x.shape.type, 0), node.lens(x))
    one = node.multibroadcast(node.scalar(x.shape.type, 1), node.lens(x))
    is_zero = node.add("equal", norm, zero)
    if not node.strict:
        is_zero = node.convert(is_zero, DType.BOOL)
    return node.add("div", x, node.add("where", is_zero, one, norm))


@onnx_op("ArgMax", "ArgMin")
def arg_extreme(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The index of the largest or smallest element along an axis."""
    node.expect(inputs, 1)
    axis = node.integer("axis", 0)
    last = node.flag("select_last_index")
    found = node.add(node.op_type.lower(), inputs[0], axis=axis, select_last_index=last)
    return found if node.flag("keepdims", True) else node.squeeze(found, axis)
