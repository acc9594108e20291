"""Operators of onnxruntime on quantised values beyond the elementwise ones: products, attention, networks."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import compositions
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import attended_to_itself
from workbench.compiler.onnx.nodes.fused import embedded
from workbench.compiler.onnx.nodes.matmul import product
from workbench.compiler.onnx.nodes.quantize import dynamic_quantize_linear, requantized
from workbench.compiler.onnx.nodes.recurrent import network
from workbench.compiler.onnx.nodes.reduction import softmax_along
from workbench.compiler.onnx.quantization import dequantized
from workbench.compiler.onnx.registry import onnx_op


def _floats(
    node: NodeContext, inputs: list[Instruction], value: int, scale: int, zero: int, axis: int = -1
) -> Instruction:
    """The input of this number, dequantised by those that hold its scale and zero point."""
    return dequantized(node, inputs[value], inputs[scale], node.optional(inputs, zero), axis)


@onnx_op("MatMulInteger16")
def matmul_integer_16(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of 16-bit integers, in 32 bits."""
    node.expect(inputs, 2)
    signed = any(i.shape.type is DType.INT16 for i in inputs)
    type = DType.INT32 if signed else DType.UINT32
    a, b = (node.convert(value, type) for value in inputs)
    return product(node, a, b)


@onnx_op("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product of a value that is quantised here and a quantised matrix, plus a bias."""
    node.expect(inputs, 3, 5)
    a = dequantized(node, *dynamic_quantize_linear(node, inputs[:1]), axis=0)
    result = product(node, a, _floats(node, inputs, 1, 2, 3))
    bias = node.optional(inputs, 4)
    return result if bias is None else node.common("add", result, bias)


@onnx_op("QGemm")
def qgemm(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``alpha * (A @ B + C)`` of quantised matrices, quantised again if a scale is given for it."""
    node.expect(inputs, 6, 9)
    flips, alpha = (node.flag("transA"), node.flag("transB")), node.number("alpha", 1.0)
    a = _floats(node, inputs, 0, 1, 2)
    b = _floats(node, inputs, 3, 4, 5, axis=0 if flips[1] else 1)
    addend = node.optional(inputs, 6)
    if addend is not None:
        scale = node.common("mul", inputs[1], inputs[4])
        addend = node.common("mul", node.convert(addend, a.shape.type), scale)
    result = compositions.gemm(node, a, b, addend, alpha, alpha, flips)
    if node.optional(inputs, 7) is None:
        return result
    return requantized(node, result, inputs, 7, inputs[0].shape.type)


@onnx_op("QLinearSoftmax")
def qlinear_softmax(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The softmax of a quantised value, by the rules of the operator set that the node names."""
    node.expect(inputs, 4, 5)
    x = _floats(node, inputs, 0, 1, 2)
    made = softmax_along(node, x, node.integer("axis", -1), flat=node.integer("opset") < 13)
    return requantized(node, made, inputs, 3, inputs[0].shape.type)


@onnx_op("QLinearWhere")
def qlinear_where(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Elements of one quantised value or of another, with a common scale."""
    node.expect(inputs, 9)
    x, y = _floats(node, inputs, 1, 2, 3), _floats(node, inputs, 4, 5, 6)
    lens = node.common_lens(*map(node.lens, (inputs[0], x, y)))
    made = node.add("where", *[node.fit(value, lens) for value in (inputs[0], x, y)])
    return requantized(node, made, inputs, 7, inputs[1].shape.type)


@onnx_op("QAttention")
def qattention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Self-attention of a quantised value by quantised weights."""
    node.expect(inputs, 5, 9)
    x, weights = _floats(node, inputs, 0, 3, 6), _floats(node, inputs, 1, 4, 7)
    mask, past = node.optional(inputs, 5), node.optional(inputs, 8)
    return attended_to_itself(node, x, weights, node.optional(inputs, 2), mask, past)


@onnx_op("QEmbedLayerNormalization")
def qembed_layer_normalization(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Rows of quantised tables added up and normalised, and the number of words kept."""
    if len(inputs) != 18:
        raise node.fail(
            f"{len(inputs)} inputs; expected 18, of which the segments and the mask may be omitted"
        )
    has_segments = node.optional(inputs, 4) is not None
    given = [i for i in (2, 3, 4, 5, 6) if i != 4 or has_segments]
    floats = {i: _floats(node, inputs, i, i + 6, i + 11) for i in given}
    rows = [inputs[0], None, node.optional(inputs, 1)]
    tables = [floats.get(i) for i in (2, 3, 4)]
    made = embedded(node, rows, tables, [floats[5], floats[6]], node.optional(inputs, 7))
    return made[:2]


@onnx_op("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """An LSTM with quantised weights, whose matrices are transposed.

    Inputs and states stay floats: onnxruntime quantises them at every step for the sake of speed.
    """
    if len(inputs) != 12:
        raise node.fail(
            f"{len(inputs)} inputs; expected 12, of which the third to the seventh may be omitted"
        )
    weights = [
        node.transpose(_of_directions(node, inputs, value, scale), 0, 2, 1)
        for value, scale in ((1, 8), (2, 10))
    ]
    return network(node, "LSTM", [inputs[0], *weights, *inputs[3:8]])


def _of_directions(
    node: NodeContext, inputs: list[Instruction], value: int, scale: int
) -> Instruction:
    """Weights dequantised by one scale for each direction, or one for each column of each direction."""
    given = [inputs[scale], inputs[scale + 1]]
    lens = node.lens(inputs[value])
    spread = [
        node.multibroadcast(node.unsqueeze(v, *((1,) if v.shape.ndim == 2 else (1, 2))), lens)
        for v in given
    ]
    return node.add("dequantizelinear", inputs[value], *spread)
