"""Choices and masks."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape, broadcast_lens
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op
from workbench.compiler.onnx.sizes import known


@strict_op("Where")
def where(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A choice between two values; dynamic lens must be equal without broadcasting."""
    node.expect(inputs, 3)
    dynamic = [i.shape.is_dynamic for i in inputs]
    if all(dynamic):
        return node.add("where", *inputs)
    if any(dynamic):
        shapes = "; ".join(str(i.shape) for i in inputs)
        raise node.fail(f"inputs {shapes}; expected all of them dynamic, or none")
    lens = broadcast_lens(*[i.shape.lens for i in inputs])
    return node.add("where", *[node.fit(i, lens) for i in inputs])


@strict_op("Trilu")
def trilu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value times ones on one side of a diagonal and zeros on the other."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    lens = node.lens(x)
    if len(lens) < 2:
        raise node.fail(f"input {x.shape}; expected rank 2 or more")
    k = 0
    if given is not None:
        diagonal = node.required_constant(given, "the diagonal")
        k = int(np.clip(node.element(diagonal, "the diagonal"), -(1 << 31), 1 << 31))
    fixed = known(lens[-2:])
    if fixed is None:
        raise node.fail(f"a matrix of {x.shape}; expected fixed lengths")
    check_size(Shape(x.shape.type, fixed), "Trilu")
    k = int(np.clip(k, -max(fixed), max(fixed)))
    ones = np.ones(fixed, x.shape.type.numpy)
    mask = np.triu(ones, k) if node.flag("upper", True) else np.tril(ones, k)
    return node.common("mul", node.literal(mask), x)


@strict_op("Identity")
def identity(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value; an undefined one stays undefined."""
    if len(inputs) == 1 and inputs[0].op.name == "undefined":
        return node.add("undefined")
    node.expect(inputs, 1)
    return node.add("identity", inputs[0])
