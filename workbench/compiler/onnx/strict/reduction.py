"""Reductions that may overflow, and softmax along one axis."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.reduction import reduced
from workbench.compiler.onnx.registry import strict_op


@strict_op("ReduceLogSumExp")
def reduce_log_sum_exp(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The logarithm of the sum of exponentials, without a shift."""
    node.expect(inputs, 1, 2)
    return node.add("log", reduced(node, "reduce_sum", node.add("exp", inputs[0]), inputs))


@strict_op("Softmax", "LogSoftmax")
def softmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Softmax along one axis, even before opset 13."""
    node.expect(inputs, 1)
    axis = node.integer("axis", -1 if node.version >= 13 else 1)
    return node.add(node.op_type.lower(), inputs[0], axis=axis)
