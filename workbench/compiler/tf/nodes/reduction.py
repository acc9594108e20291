"""Operators that reduce axes, matrix products and softmax."""

from __future__ import annotations

from workbench.compiler import macros
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import broadcast_lens
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op

REDUCED = {
    "Mean": "reduce_mean", "Sum": "reduce_sum", "Max": "reduce_max", "Min": "reduce_min",
    "Prod": "reduce_prod", "Any": "reduce_any",
}  # fmt: skip


@tf_op(*REDUCED)
def reduced(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A reduction along some axes, which are removed unless ``keep_dims`` is set."""
    node.expect(inputs, 2)
    axes = node.constant_ints(inputs[1], "the axes")
    if not axes:
        return inputs[0]
    for axis in axes:
        node.axis(axis, node.rank(inputs[0]))
    made = node.add(REDUCED[node.op_type], inputs[0], axes=axes)
    return made if node.flag("keep_dims") else node.squeeze(made, *axes)


@tf_op("All")
def all_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Whether all are true along some axes; not computed if only an assertion reads it."""
    node.expect(inputs, 2)
    if not node.is_needed:
        return node.to_nhwc(node.add("identity", *map(node.to_nchw, inputs)))
    axes = node.constant_ints(inputs[1], "the axes")
    made = (
        node.convert(node.add("reduce_all", inputs[0], axes=axes), DType.BOOL)
        if axes
        else inputs[0]
    )
    return made if node.flag("keep_dims") or not axes else node.squeeze(made, *axes)


@tf_op("ArgMax", "ArgMin")
def arg_of(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The index of the largest or the smallest element along an axis."""
    node.expect(inputs, 2)
    axis = node.constant_int(inputs[1], "the axis")
    node.axis(axis, node.rank(inputs[0]))
    made = node.squeeze(node.add(node.op_type.lower(), inputs[0], axis=axis), axis)
    return node.convert(made, node.element_type("output_type", DType.INT64))


@tf_op("Softmax", "LogSoftmax")
def softmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Exponentials along the last axis, divided by their sum."""
    node.expect(inputs, 1)
    rank = node.rank(inputs[0])
    axis = node.axis(node.integer("axis", -1), rank)
    op = "softmax" if node.op_type == "Softmax" else "logsoftmax"
    return node.add(op, node.standard(inputs[0]), axis=axis)


@tf_op("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product, of transposed matrices if requested; leading dimensions broadcast."""
    node.expect(inputs, 2)
    names = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    a, b = (
        _turned(node, value) if any(node.flag(name) for name in pair) else value
        for value, pair in zip(inputs, names, strict=True)
    )
    if min(a.shape.ndim, b.shape.ndim) < 2:
        raise node.fail(f"inputs {a.shape} and {b.shape}; expected matrices")
    outer = [node.lens(value)[:-2] for value in (a, b)]
    if outer[0] != outer[1]:
        lens = broadcast_lens(*outer)
        a, b = (node.fit(v, (*lens, *node.lens(v)[-2:])) for v in (a, b))
    return node.add("dot", a, b)


@tf_op("Einsum")
def einsum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Products summed over the labels that the result does not have."""
    node.expect(inputs, 1, max(len(inputs), 1))
    equation = node.text("equation")
    return macros.expand(node.module, None, "einsum", inputs, {"equation": equation})[0]


def _turned(node: NodeContext, value: Instruction) -> Instruction:
    rank = value.shape.ndim
    if rank < 2:
        raise node.fail(f"input {value.shape}; expected a matrix")
    return node.transpose(value, *range(rank - 2), rank - 1, rank - 2)


@tf_op("Cumsum")
def cumsum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The cumulative sums along an axis."""
    node.expect(inputs, 2)
    axis = node.axis(node.constant_int(inputs[1], "the axis"), node.rank(inputs[0]))
    kind = {"exclusive": node.flag("exclusive"), "reverse": node.flag("reverse")}
    return node.add("prefix_scan_sum", inputs[0], axis=axis, **kind)


@tf_op("TopKV2")
def top_k(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The largest elements of the last axis, and their indices."""
    node.expect(inputs, 2)
    k = node.constant_int(inputs[1], "k")
    both = node.add("topk", inputs[0], k=k, axis=node.rank(inputs[0]) - 1, largest=True)
    values, places = (node.add("get_tuple_elem", both, index=i) for i in range(2))
    return [values, node.convert(places, DType.INT32)]
