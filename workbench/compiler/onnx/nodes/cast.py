"""Conversions between element types, including those that programs hold in wider types."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import FP8
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.quantization import narrowed
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.tensors import NARROW, element_type

EIGHT_BITS = {t.format.onnx for t in FP8} - {0}
"""ONNX's codes of the floats of 8 bits."""


@onnx_op("Cast")
def cast(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A conversion to a given type."""
    node.expect(inputs, 1)
    return _converted(node, inputs[0], node.integer("to"))


@onnx_op("CastLike")
def cast_like(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A conversion to the type of another value."""
    node.expect(inputs, 2)
    return _converted(node, inputs[0], node.code(inputs[1]))


def _converted(node: NodeContext, x: Instruction, code: int) -> Instruction:
    type = element_type(code, f"{node.op_type}: the type to convert to")
    if code == node.code(x) and code in NARROW:
        return node.add("identity", x)
    saturate = node.flag("saturate", True)
    if code in NARROW or (code in EIGHT_BITS and not saturate):
        return narrowed(node, x, code, saturate, node.text("round_mode", "up"))
    return node.add("convert", x, target_type=type)
