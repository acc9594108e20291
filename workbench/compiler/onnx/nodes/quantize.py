"""Quantisation, and operators on quantised values: dequantise, compute in float, quantise again."""

from __future__ import annotations

import onnx

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import ONE, dims_of
from workbench.compiler.onnx.broadcast import common_type
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.cast import EIGHT_BITS
from workbench.compiler.onnx.nodes.convolution import convolve
from workbench.compiler.onnx.nodes.matmul import product
from workbench.compiler.onnx.nodes.pooling import MODES, globally_pooled, pooled
from workbench.compiler.onnx.quantization import (
    dequantized,
    narrowed,
    paired_floats,
    quantized,
    within,
)
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.tensors import NARROW, element_type

_T = onnx.TensorProto


@onnx_op("QuantizeLinear")
def quantize_linear(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``x / scale + zero``, rounded and saturated."""
    node.expect(inputs, 2, 3)
    x, scale = inputs[:2]
    zero, given = node.optional(inputs, 2), node.integer("output_dtype", 0)
    if node.strict:
        _expect_like_scale(node, scale, zero)
        differ = x.shape.type.is_float and x.shape.type is not scale.shape.type
        if differ and 19 <= node.version < 23:
            raise node.fail(f"input {x.shape} and scale {scale.shape}; expected one type")
    code = node.code(zero) if zero is not None else given or _T.UINT8
    if given not in {0, code}:
        names = " and ".join(_T.DataType.Name(c) for c in (given, code))
        raise node.fail(
            f"output_dtype and the type of the zero point differ: {names}; expected one type"
        )
    type = element_type(code, "output_dtype")
    if node.integer("precision", 0):
        x, scale = (node.convert(v, node.element_type("precision")) for v in (x, scale))
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    saturate = node.flag("saturate", True)
    if code == _T.FLOAT4E2M1 or (code in EIGHT_BITS and not saturate):
        zero = None if zero is None else node.convert(zero, DType.FLOAT)
        type = None if zero else DType.FLOAT
        wide = quantized(node, x, scale, zero, axis, block, type)
        if code == _T.FLOAT4E2M1:
            return node.declared(paired_floats(node, wide), code)
        return narrowed(node, wide, code, saturate)
    default = None if zero or not given else type
    result = quantized(node, x, scale, zero, axis, block, default)
    return within(node, result, code) if code in NARROW and not node.strict else result


@onnx_op("DequantizeLinear")
def dequantize_linear(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``(x - zero) * scale``, in the type of the scale or of the result, whichever is wider."""
    node.expect(inputs, 2, 3)
    x, scale = inputs[:2]
    if node.strict:
        _expect_like_scale(node, scale, node.optional(inputs, 2))
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    given = node.integer("output_dtype", 0)
    type = node.element_type("output_dtype") if given else scale.shape.type
    scale = node.convert(scale, common_type([scale.shape.type, type]))
    result = dequantized(node, x, scale, node.optional(inputs, 2), axis, block)
    return node.convert(result, type)


def _expect_like_scale(node: NodeContext, scale: Instruction, zero: Instruction | None) -> None:
    if zero is not None and dims_of(zero.shape) != dims_of(scale.shape):
        raise node.fail(f"scale {scale.shape} and zero point {zero.shape}; expected equal lens")


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Quantisation to uint8 with a scale and a zero point taken from the values."""
    node.expect(inputs, 1)
    x = inputs[0]
    type, axes = x.shape.type, tuple(range(x.shape.ndim))
    zero = node.scalar(type, 0)
    high = node.common("max", zero, node.add("reduce_max", x, axes=axes))
    low = node.common("min", zero, node.add("reduce_min", x, axes=axes))
    span, least, most = (node.filled(type, node.lens(high), v) for v in (255, 0, 255))
    scale = node.common("div", node.common("sub", high, low), span)
    if not node.strict:  # as onnxruntime: a scale of 0 would make NaN of the zero point
        one = node.filled(type, node.lens(high), 1)
        scale = node.add("where", node.add("equal", high, low), one, scale)
    start = node.common("sub", least, node.common("div", low, scale))
    point = node.add("nearbyint", node.add("clip", start, least, most))
    zero_point = node.convert(point, DType.UINT8)
    spread = [node.multibroadcast(v, node.lens(x)) for v in (scale, zero_point)]
    result = node.add("quantizelinear", x, *spread)
    if node.strict:
        return [result, scale, zero_point]
    return [result, node.squeeze(scale, *axes), node.squeeze(zero_point, *axes)]


def _check(node: NodeContext, *values: Instruction) -> None:
    for value in values:
        if value.shape.type not in {DType.INT8, DType.UINT8}:
            raise node.fail(f"element type {value.shape.type.type_name}; expected int8 or uint8")


def _alike(node: NodeContext, x: Instruction, value: Instruction, axis: int) -> Instruction:
    """A scale or zero point broadcast to the lens of ``x``: a single one, or one per index of an axis."""
    dims = dims_of(value.shape)
    if len(dims) != 1 or dims[0] == ONE:
        return node.multibroadcast(value, node.lens(x))
    return node.broadcast(value, axis, node.lens(x))


def _from(node: NodeContext, inputs: list[Instruction], at: int, axis: int = 0) -> Instruction:
    """The input at an index, dequantised by the scale and zero point that follow it."""
    x, zero = inputs[at], node.optional(inputs, at + 2)
    given = [inputs[at + 1]] if zero is None else [inputs[at + 1], zero]
    return node.add("dequantizelinear", x, *(_alike(node, x, v, axis) for v in given))


def requantized(
    node: NodeContext, value: Instruction, inputs: list[Instruction], at: int, like: DType
) -> Instruction:
    """The value quantised by the scale at an index and the zero point that follows it."""
    scale, zero = inputs[at], node.optional(inputs, at + 1)
    meet = common_type([value.shape.type, scale.shape.type])
    value, scale = node.convert(value, meet), node.convert(_alike(node, value, scale, 0), meet)
    if zero is not None:
        return node.add("quantizelinear", value, scale, _alike(node, value, zero, 0))
    if like is DType.UINT8 or node.strict:
        return node.add("quantizelinear", value, scale)
    return node.add("quantizelinear", value, scale, out_type=like)


@onnx_op("QLinearAdd", "QLinearMul")
def qlinear_binary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A sum or product of quantised values."""
    node.expect(inputs, 7, 8)
    _check(node, inputs[0], inputs[3])
    a, b = _from(node, inputs, 0), _from(node, inputs, 3)
    op = "add" if node.op_type == "QLinearAdd" else "mul"
    return requantized(node, node.common(op, a, b), inputs, 6, inputs[0].shape.type)


@onnx_op("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An activation of a quantised value."""
    node.expect(inputs, 4, 5)
    _check(node, inputs[0])
    x = _from(node, inputs, 0)
    if node.op_type == "QLinearSigmoid":
        result = node.add("sigmoid", x)
    else:
        result = node.add("leaky_relu", x, alpha=node.number("alpha", 0.01))
    return requantized(node, result, inputs, 3, inputs[0].shape.type)


@onnx_op("QLinearConcat")
def qlinear_concat(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Quantised values concatenated, with a common scale."""
    node.expect(inputs, 5, len(inputs))
    if len(inputs) % 3 != 2:
        raise node.fail(f"{len(inputs)} inputs; expected two, and three for each value")
    parts = [_from(node, inputs, at) for at in range(2, len(inputs), 3)]
    result = node.add("concat", *parts, axis=node.integer("axis"))
    return requantized(node, result, inputs, 0, inputs[2].shape.type)


@onnx_op("QLinearConv")
def qlinear_conv(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution of quantised values."""
    node.expect(inputs, 8, 9)
    x, weights, rank = _from(node, inputs, 0), _from(node, inputs, 3), inputs[0].shape.ndim
    channels_last = node.flag("channels_last")
    if channels_last:
        x = node.transpose(x, 0, rank - 1, *range(1, rank - 1))
    result = convolve(node, x, weights)
    bias = node.optional(inputs, 8)
    if bias is not None:
        x_scale = node.multibroadcast(inputs[1], node.lens(inputs[4]))
        scale = node.fit(node.add("mul", x_scale, inputs[4]), node.lens(bias))
        values = node.add("dequantizelinear", bias, scale)
        spread = node.broadcast(values, 1, node.lens(result))
        result = node.add("add", result, node.convert(spread, result.shape.type))
    if channels_last:
        result = node.transpose(result, 0, *range(2, rank), 1)
    return requantized(node, result, inputs, 6, inputs[0].shape.type)


@onnx_op("QLinearMatMul")
def qlinear_matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of quantised values."""
    a, b = qlinear_operands(node, inputs)
    return requantized(node, product(node, a, b), inputs, 6, inputs[0].shape.type)


def qlinear_operands(
    node: NodeContext, inputs: list[Instruction]
) -> tuple[Instruction, Instruction]:
    """Both matrices of a product, dequantised; their scales are per row and per column."""
    node.expect(inputs, 8)
    _check(node, inputs[0], inputs[3])
    a = _from(node, inputs, 0, max(0, inputs[0].shape.ndim - 2))
    return a, _from(node, inputs, 3, inputs[3].shape.ndim - 1)


@onnx_op("QLinearAveragePool", "QLinearGlobalAveragePool")
def qlinear_pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An average of quantised values."""
    node.expect(inputs, 4, 5)
    _check(node, inputs[0])
    x, mode, rank = _from(node, inputs, 0), MODES[node.op_type], inputs[0].shape.ndim
    pooling = globally_pooled if "Global" in node.op_type else pooled
    if node.flag("channels_last"):
        first = node.transpose(x, 0, rank - 1, *range(1, rank - 1))
        result = node.transpose(pooling(node, first, mode), 0, *range(2, rank), 1)
    else:
        result = pooling(node, x, mode)
    return requantized(node, result, inputs, 3, inputs[0].shape.type)
