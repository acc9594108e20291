"""Einsum as MIGraphX composes it."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import expand
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes import einsum as general
from workbench.compiler.onnx.registry import strict_op


@strict_op("Einsum")
def einsum(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Sums of products over named axes; static ones must be supported by the macro."""
    node.expect(inputs, 1, len(inputs))
    if any(i.shape.is_dynamic for i in inputs):
        return general.einsum(node, inputs)
    return expand(node.module, None, "einsum", inputs, {"equation": node.text("equation")})[0]
