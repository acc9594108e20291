"""Operators on bits."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("BitwiseNot")
def bitwise_not(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The complement of the bits."""
    node.expect(inputs, 1)
    return node.add("bitwise_not", inputs[0])


@onnx_op("BitShift")
def bit_shift(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Bits shifted to the left or to the right."""
    node.expect(inputs, 2)
    ops = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    direction = node.text("direction")
    if direction not in ops:
        raise node.fail(f"direction={direction!r}; expected {' or '.join(ops)}")
    return node.common(ops[direction], *inputs)


@onnx_op("BitCast")
def bit_cast(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The bits reinterpreted as another type of the same size."""
    node.expect(inputs, 1)
    return node.add("bit_cast", inputs[0], target_type=node.element_type("to"))
