"""Activations that are composed of simpler operations."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import compositions
from workbench.compiler.onnx import builders
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


def _spread(node: NodeContext, x: Instruction, value: float) -> Instruction:
    """A scalar literal broadcast to the lens of ``x``."""
    return node.multibroadcast(node.scalar(x.shape.type, value), node.lens(x))


def _hard_sigmoid(node: NodeContext, x: Instruction, alpha: float, beta: float) -> Instruction:
    scalars = [node.scalar(x.shape.type, v) for v in (alpha, beta, 0.0, 1.0)]
    a, b, zero, one = (node.multibroadcast(s, node.lens(x)) for s in scalars)
    return node.add("clip", node.add("add", b, node.add("mul", a, x)), zero, one)


@onnx_op("HardSigmoid")
def hard_sigmoid(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``max(0, min(1, alpha * x + beta))``."""
    node.expect(inputs, 1)
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return _hard_sigmoid(node, inputs[0], alpha, beta)


@onnx_op("HardSwish")
def hard_swish(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``x * HardSigmoid(x)`` with alpha 1/6."""
    node.expect(inputs, 1)
    return node.add("mul", inputs[0], _hard_sigmoid(node, inputs[0], 1 / 6, 0.5))


@onnx_op("Celu")
def celu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    node.expect(inputs, 1)
    if node.strict and inputs[0].shape.type is not DType.FLOAT:
        raise node.fail(f"input {inputs[0].shape}; strict import expects float_type")
    return compositions.celu(node, inputs[0], node.number("alpha", 1.0))


@onnx_op("Selu")
def selu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``gamma * x`` above zero and ``gamma * alpha * (exp(x) - 1)`` below; finite for large ``x``."""
    node.expect(inputs, 1)
    x = inputs[0]
    alpha = _spread(node, x, node.number("alpha", 1.67326319217681884765625))
    gamma = _spread(node, x, node.number("gamma", 1.05070102214813232421875))
    zero, one = _spread(node, x, 0.0), _spread(node, x, 1.0)
    above = node.add("max", x, zero)
    below = node.add("sub", node.add("exp", node.add("min", x, zero)), one)
    return node.add("mul", gamma, node.add("add", above, node.add("mul", alpha, below)))


@onnx_op("Shrink")
def shrink(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Zero within ``lambd`` of zero; elsewhere moved towards zero by ``bias``."""
    node.expect(inputs, 1)
    x, limit = inputs[0], node.number("lambd", 0.5)
    bias, low, high = (
        node.scalar(DType.FLOAT, v) for v in (node.number("bias", 0.0), -limit, limit)
    )
    raised, lowered = node.common("add", x, bias), node.common("sub", x, bias)
    below = node.common("less", x, low)
    above = node.common("greater", x, high)
    left = node.common("mul", below, raised)
    right = node.common("mul", above, lowered)
    return node.convert(node.common("add", left, right), x.shape.type)


@onnx_op("Softplus")
def softplus(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``log(1 + exp(x))``, as ``max(x, 0) + log(1 + exp(-|x|))`` so that it is finite for large ``x``."""
    node.expect(inputs, 1)
    x = inputs[0]
    zero, one = _spread(node, x, 0.0), _spread(node, x, 1.0)
    decayed = node.add("exp", node.add("neg", node.add("abs", x)))
    return node.add("add", node.add("max", x, zero), node.add("log", node.add("add", decayed, one)))


@onnx_op("Softsign")
def softsign(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``x / (1 + |x|)``."""
    node.expect(inputs, 1)
    x = inputs[0]
    one = _spread(node, x, 1.0)
    return node.add("div", x, node.add("add", node.add("abs", x), one))


@onnx_op("ThresholdedRelu")
def thresholded_relu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``x`` above alpha, zero elsewhere."""
    node.expect(inputs, 1)
    x = inputs[0]
    scalars = [node.scalar(x.shape.type, v) for v in (0.0, node.number("alpha", 1.0))]
    zero, alpha = (node.multibroadcast(s, node.lens(x)) for s in scalars)
    above = node.convert(node.add("greater", x, alpha), DType.BOOL)
    return node.add("where", above, x, zero)


@onnx_op("Gelu", "BiasGelu", "BiasSplitGelu", "FastGelu", "QuickGelu")
def gelu(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The Gaussian error linear unit and its approximations, after an optional bias."""
    node.expect(inputs, 1, 2)
    x = inputs[0]
    if x.shape.type not in builders.FLOATS:
        raise node.fail(f"element type {x.shape.type.type_name}; expected a float")
    if node.op_type == "QuickGelu":
        alpha = node.number("alpha", None if node.strict else 1.702)
        return compositions.gelu_quick(node, x, alpha)
    bias = node.optional(inputs, 1)
    if node.strict and node.op_type == "FastGelu" and x.shape.type is DType.DOUBLE:
        raise node.fail("element type double_type; expected float_type, half_type or bf16_type")
    if node.strict and bias is not None and bias.shape.type is not x.shape.type:
        raise node.fail(f"a bias {bias.shape}; expected the type of the input {x.shape}")
    if bias is not None:
        x = node.common("add", x, bias)
    if node.op_type == "BiasSplitGelu":
        return builders.gelu_split(node, x)
    if node.op_type == "FastGelu":
        return compositions.gelu_tanh(node, x, fast=True)
    if node.text("approximate", "none") == "tanh":
        return compositions.gelu_tanh(node, x)
    return compositions.gelu_erf(node, x)
