"""Reductions, softmax and norms."""

from __future__ import annotations

import math

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.shape import Shape

PLAIN = {
    "ReduceMax": "reduce_max", "ReduceMean": "reduce_mean", "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod", "ReduceSum": "reduce_sum",
}  # fmt: skip


def _reduced(node: NodeContext, op: str, x: Instruction, inputs: list[Instruction]) -> Instruction:
    """``x`` reduced along the axes that the node names; ``inputs[1]`` may hold them."""
    keep, noop = node.flag("keepdims", True), node.flag("noop_with_empty_axes")
    rank = x.shape.ndim
    given = node.optional(inputs, 1)
    if given is not None and node.constant(given) is None:
        return _reduced_at_run_time(node, op, x, given, keep=keep, noop=noop)
    axes = node.integers("axes", ())
    if given is not None:
        axes = node.constant_ints(given, "the list of axes")
    if not axes and noop:
        return x
    if x.shape == Shape.scalar(x.shape.type):
        return node.add(op, x, axes=(0,)) if keep else node.squeeze(node.add(op, x, axes=(0,)), 0)
    axes = axes or tuple(range(rank))
    result = node.add(op, x, axes=axes)
    return result if keep else node.squeeze(result, *axes)


def _reduced_at_run_time(
    node: NodeContext, op: str, x: Instruction, axes: Instruction, *, keep: bool, noop: bool
) -> Instruction:
    if not keep:
        raise node.fail("axes that are computed at run time need keepdims=1")
    if noop:
        return node.add(op, x, axes, axes=())
    every = tuple(range(x.shape.ndim))
    if not axes.shape.is_dynamic:
        if axes.shape.elements:
            return node.add(op, x, axes, axes=())
        return node.add(op, x, node.vector(DType.INT64, every), axes=())
    some = node.add(op, x, axes, axes=())
    all_ = node.add(op, x, node.vector(DType.INT64, every), axes=())
    zero = node.scalar(DType.INT64, 0)
    count = node.add("dimensions_of", axes, start=0, end=1)
    return node.add("where", node.add("equal", count, zero), all_, some)


@onnx_op(*PLAIN)
def reduce(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A reduction that is one operation; bool is reduced as a number."""
    node.expect(inputs, 1, 2)
    return _reduced(node, PLAIN[node.op_type], inputs[0], inputs)


@onnx_op("ReduceL1")
def reduce_l1(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The sum of absolute values."""
    node.expect(inputs, 1, 2)
    return _reduced(node, "reduce_sum", node.add("abs", inputs[0]), inputs)


@onnx_op("ReduceL2")
def reduce_l2(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The root of the sum of squares."""
    return node.add("sqrt", reduce_sum_square(node, inputs))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The sum of squares."""
    node.expect(inputs, 1, 2)
    return _reduced(node, "reduce_sum", node.add("mul", inputs[0], inputs[0]), inputs)


@onnx_op("ReduceLogSum")
def reduce_log_sum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logarithm of the sum."""
    node.expect(inputs, 1, 2)
    return node.add("log", _reduced(node, "reduce_sum", inputs[0], inputs))


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logarithm of the sum of exponentials."""
    node.expect(inputs, 1, 2)
    return node.add("log", _reduced(node, "reduce_sum", node.add("exp", inputs[0]), inputs))


@onnx_op("Softmax", "LogSoftmax")
def softmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Softmax along an axis; before opset 13, over that axis and all behind it together."""
    node.expect(inputs, 1)
    x, op = inputs[0], node.op_type.lower()
    axis = node.integer("axis", -1 if node.version >= 13 else 1)
    if node.version >= 13 or x.shape.is_dynamic:
        return node.add(op, x, axis=axis)
    rank = x.shape.ndim
    front = rank if axis == rank else node.axis(axis, rank)
    if front < rank and math.prod(x.shape.lens[front + 1 :]) == 1:
        return node.add(op, x, axis=axis)
    lens = x.shape.lens
    flat = node.reshape(x, math.prod(lens[:front]), math.prod(lens[front:]))
    return node.reshape(node.add(op, flat, axis=1), *lens)


@onnx_op("Hardmax")
def hardmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One at the first maximum along an axis, zero elsewhere."""
    node.expect(inputs, 1)
    x = inputs[0]
    lens = x.shape.lens
    axis = node.integer("axis", -1 if node.version >= 13 else 1)
    if node.version < 13:
        front = node.axis(axis, len(lens))
        x = node.reshape(x, math.prod(lens[:front]), math.prod(lens[front:]))
        axis = 1
    index = node.add("argmax", x, axis=axis)
    zeros = node.multibroadcast(node.scalar(x.shape.type, 0), x.shape.lens)
    ones = node.multibroadcast(node.scalar(x.shape.type, 1), index.shape.lens)
    result = node.add("scatter_none", zeros, index, ones, axis=axis)
    return result if node.version >= 13 else node.reshape(result, *lens)


@onnx_op("LpNormalization")
def lp_normalization(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value over its norm along an axis; a zero norm leaves it as it is."""
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
    norm = node.multibroadcast(norm, x.shape.lens)
    zero = node.multibroadcast(node.scalar(x.shape.type, 0), x.shape.lens)
    one = node.multibroadcast(node.scalar(x.shape.type, 1), x.shape.lens)
    is_zero = node.convert(node.add("equal", norm, zero), DType.BOOL)
    return node.add("div", x, node.add("where", is_zero, one, norm))


@onnx_op("ArgMax", "ArgMin")
def arg_extreme(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The index of the largest or smallest element along an axis."""
    node.expect(inputs, 1)
    axis = node.integer("axis", 0)
    last = node.flag("select_last_index")
    found = node.add(node.op_type.lower(), inputs[0], axis=axis, select_last_index=last)
    return found if node.flag("keepdims", True) else node.squeeze(found, axis)
