"""Activations computed by their plain formulas, which overflow where the exponential does."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op

_ALPHA, _GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


@strict_op("Selu")
def selu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Both branches in one formula: the sign selects the branch."""
    node.expect(inputs, 1)
    x = inputs[0]
    type, lens = x.shape.type, node.lens(x)
    alpha = node.vector(type, [node.number("alpha", _ALPHA)])
    half = node.vector(type, [node.number("gamma", _GAMMA) / 2])
    if lens != (1,):
        alpha, half = node.multibroadcast(alpha, lens), node.multibroadcast(half, lens)
    sign = node.add("sign", x)
    below = node.add("sub", node.add("mul", alpha, node.add("exp", x)), alpha)
    both, apart = node.add("add", below, x), node.add("sub", below, x)
    return node.add("mul", node.add("sub", both, node.add("mul", sign, apart)), half)


@strict_op("Shrink")
def shrink(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The values below and the values above the limits, each multiplied by its mask."""
    node.expect(inputs, 1)
    x, limit = inputs[0], node.number("lambd", 0.5)
    bias, low, high = (
        node.scalar(DType.FLOAT, v) for v in (node.number("bias", 0.0), -limit, limit)
    )
    raised, lowered = node.common("add", x, bias), node.common("sub", x, bias)
    below = node.common("less", x, low)
    rest = node.common("not", below)
    above = node.common("logical_and", rest, node.common("greater", x, high))
    left, right = node.common("mul", below, raised), node.common("mul", above, lowered)
    return node.convert(node.common("add", left, right), x.shape.type)


@strict_op("Softplus")
def softplus(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``log(exp(x) + 1)``."""
    node.expect(inputs, 1)
    x = inputs[0]
    one = node.multibroadcast(node.scalar(x.shape.type, 1), node.lens(x))
    return node.add("log", node.add("add", node.add("exp", x), one))


@strict_op("ThresholdedRelu")
def thresholded_relu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``x`` above alpha, zero elsewhere; the comparison has the type of its operands."""
    node.expect(inputs, 1)
    x = inputs[0]
    scalars = [node.scalar(x.shape.type, v) for v in (0.0, node.number("alpha", 1.0))]
    zero, alpha = (node.multibroadcast(s, node.lens(x)) for s in scalars)
    return node.add("where", node.add("greater", x, alpha), x, zero)
