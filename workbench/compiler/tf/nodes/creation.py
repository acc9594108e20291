"""Constants, and values computed from lens: shapes, ranges, fills."""

from __future__ import annotations

import math

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.tensors import MAX_FILLED_BYTES
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.graph import described
from workbench.compiler.tf.registry import tf_op
from workbench.compiler.tf.tensors import as_scalar


@tf_op("Const")
def const(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A literal; one of rank 4 can be the kernel of a convolution."""
    node.expect(inputs, 0)
    value = node.tensor("value")
    made = node.literal(as_scalar(value) if node.importer.options.strict else value)
    if made.shape.ndim == 4 and node.is_nhwc:
        node.importer.laid_out[made] = node.to_nhwc(made)
    return made


@tf_op("Shape")
def shape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The lens of a value, as a constant."""
    node.expect(inputs, 1)
    return whole(node, node.lens(inputs[0]))


def whole(node: NodeContext, values: tuple[int, ...]) -> Instruction:
    """A literal of lens, in the node's output type."""
    type = node.element_type("out_type", DType.INT32)
    return node.literal(np.asarray(values, np.int64).astype(type.numpy))


@tf_op("ShapeN")
def shapes(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The lens of several values."""
    return [whole(node, node.lens(value)) for value in inputs]


@tf_op("Rank", "Size")
def count(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The number of dimensions, or of elements."""
    node.expect(inputs, 1)
    if node.op_type == "Rank":
        return node.scalar(DType.INT32, node.rank(inputs[0]))
    return node.scalar(node.element_type("out_type", DType.INT32), math.prod(node.lens(inputs[0])))


@tf_op("OneHot")
def one_hot(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Rows of a matrix that is "on" on its diagonal, selected by indices, placed along ``axis``."""
    node.expect(inputs, 4)
    depth = node.constant_int(inputs[1], "the depth")
    on, off = (
        node.one(node.required_constant(v, what).reshape(-1), what)
        for v, what in ((inputs[2], "on_value"), (inputs[3], "off_value"))
    )
    type = inputs[2].shape.type
    if depth < 1:
        raise node.fail(f"a depth of {depth}; expected 1 or more")
    check_size(Shape(type, (depth, depth)), described(node.node))
    table: Array = np.full((depth, depth), off, type.numpy)
    np.fill_diagonal(table, on)
    made = node.add("gather", node.literal(table), inputs[0], axis=0)
    rank = node.rank(inputs[0])
    axis = node.axis(node.integer("axis", -1), rank + 1)
    if axis == rank:
        return made
    order = [*range(axis), rank, *range(axis, rank)]
    return node.transpose(made, *order)


@tf_op("Range")
def range_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Numbers at equal distances."""
    node.expect(inputs, 3)
    names = ("start", "limit", "delta")
    first, last, step = (
        node.one(node.required_constant(v, what).reshape(-1), what)
        for v, what in zip(inputs, names, strict=True)
    )
    type = inputs[0].shape.type
    if step == 0:
        raise node.fail("a delta of 0; expected a nonzero delta")
    if type.is_integral:
        length = max(0, -((int(first) - int(last)) // int(step)))
    else:
        length = max(0, math.ceil((float(last) - float(first)) / float(step)))
    check_size(Shape(type, (length,)), described(node.node))
    wide = np.int64 if type.is_integral else np.float64
    values = np.arange(length, dtype=wide) * wide(step) + wide(first)
    return node.literal(values.astype(type.numpy))


@tf_op("Fill")
def fill(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A tensor of one repeated value."""
    node.expect(inputs, 2)
    lens = node.constant_ints(inputs[0], "the lens")
    if not lens:
        return inputs[1]
    value = node.constant(inputs[1])
    if value is None:
        return node.add("multibroadcast", inputs[1], out_lens=lens)
    return filled(node, inputs[1].shape.type, lens, node.one(value.reshape(-1), "the value"))


def filled(node: NodeContext, type: DType, lens: tuple[int, ...], value: object) -> Instruction:
    """A literal whose elements are all equal, without memory for each."""
    if any(n < 0 for n in lens):
        raise node.fail(f"lens {list(lens)}; expected no negative length")
    made = Shape(type, lens)
    check_size(made, described(node.node), MAX_FILLED_BYTES)
    one = np.asarray(value).astype(type.numpy).reshape(())
    return node.literal(Argument(made, np.broadcast_to(one, made.lens)))


@tf_op("ZerosLike", "OnesLike")
def alike(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Zeros or ones, with the lens of a value."""
    node.expect(inputs, 1)
    value = 1 if node.op_type == "OnesLike" else 0
    return filled(node, inputs[0].shape.type, node.lens(inputs[0]), value)
