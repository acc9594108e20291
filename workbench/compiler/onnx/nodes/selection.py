"""Operators that select elements; the number of results is known only at run time."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("NonZero")
def non_zero(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The indices of nonzero elements; for a value of rank 0, columns without rows."""
    node.expect(inputs, 1)
    x = inputs[0]
    found = _places(node, x, is_exact=node.importer.options.use_dyn_output)
    return found if node.rank(x) else node.slice(found, [0], [0], [0])


def _places(node: NodeContext, x: Instruction, *, is_exact: bool) -> Instruction:
    """Indices of nonzero elements, a column per element; padded with zeros unless exact."""
    known = node.constant(x)
    if known is not None:
        return node.literal(np.array(np.nonzero(known), np.int64))
    x = x if x.shape.standard or x.shape.is_dynamic else node.add("contiguous", x)
    found = node.add("nonzero", x)
    if not is_exact:
        return found
    ones = node.convert(node.convert(x, DType.BOOL), DType.INT64)
    count = node.add("reduce_sum", node.reshape(ones, -1), axes=(0,))
    return node.add("slice", found, count, axes=(1,), starts=(0,))


@onnx_op("Compress")
def compress(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The slices along an axis, or the elements, for which a condition holds."""
    node.expect(inputs, 2)
    x, condition = inputs
    if condition.shape.ndim != 1:
        raise node.fail(f"condition {condition.shape}; expected one dimension")
    if not node.has("axis"):
        x = node.reshape(x, -1)
    axis = node.axis(node.integer("axis", 0), x.shape.ndim)
    places = node.squeeze(_places(node, condition, is_exact=True), 0)
    return node.add("gather", x, places, axis=axis)


@onnx_op("Unique")
def unique(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The distinct elements or slices, with their first indices, inverse indices and counts."""
    node.expect(inputs, 1)
    x, sorted_ = inputs[0], node.flag("sorted", True)
    if node.has("axis"):
        axis = node.axis(node.integer("axis"), x.shape.ndim)
        made = node.add("unique", x, axis=axis, sorted=sorted_)
    else:
        made = node.add("unique", x, sorted=sorted_)
    return node.elements(made, 4)


@onnx_op("Unique", domain="com.microsoft")
def unique_in_order(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The distinct elements in order of first occurrence, the inverse indices, and counts."""
    node.expect(inputs, 1)
    values, _, inverse, counts = node.elements(node.add("unique", inputs[0], sorted=False), 4)
    return [values, inverse, counts]
