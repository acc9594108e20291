"""Operators of onnxruntime on quantised values beyond the elementwise ones: products, attention, networks."""

from __future__ import annotations

import onnx

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import compositions
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import attended_to_itself
from workbench.compiler.onnx.nodes.fused import embedded
from workbench.compiler.onnx.nodes.matmul import codes_of, product
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


@onnx_op("GatherBlockQuantized")
def gather_block_quantized(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The slices of a quantised table that the indices select, dequantised with a scale per block."""
    node.expect(inputs, 3, 4)
    data, indices, scales = inputs[:3]
    rank, bits = data.shape.ndim, node.integer("bits", 4)
    across = node.axis(node.integer("gather_axis", 0), rank)
    along = node.axis(node.integer("quantize_axis", 1), rank)
    is_packed = node.code(data) == onnx.TensorProto.UINT8
    if is_packed and (bits not in {2, 4, 8} or (across, along) != (0, rank - 1) or rank < 2):
        raise node.fail(
            f"bits={bits}, gather_axis={across}, quantize_axis={along} of uint8 values {data.shape}; "
            "expected 2, 4 or 8 bits, the first axis and the last"
        )
    zero = node.optional(inputs, 3)
    if zero is None and is_packed:
        middle = node.scalar(DType.UINT8, 1 << (bits - 1))
        zero = node.multibroadcast(middle, node.lens(scales))
    elif zero is not None and is_packed:
        (count,) = node.fixed(node.lens(scales)[-1:], "the number of scales of a row")
        zero = _unpacked(node, zero, bits, count)
    lens = list(node.lens(data))
    lens[along] = node.lens(scales)[along]
    scales = node.multibroadcast(scales, lens)
    block = node.integer("block_size", 128)
    if across == along:
        values = dequantized(node, data, scales, zero, along, block)
        return node.add("gather", values, indices, axis=across)
    parts = [data, scales] if zero is None else [data, scales, zero]
    data, scales, *zeros = (node.add("gather", part, indices, axis=across) for part in parts)
    if is_packed:
        data = _unpacked(node, data, bits)
    along += (indices.shape.ndim - 1) * (along > across)
    return dequantized(node, data, scales, zeros[0] if zeros else None, along, block)


def _unpacked(
    node: NodeContext, packed: Instruction, bits: int, count: int | None = None
) -> Instruction:
    """The codes of few bits in bytes, along the last axis, cut to the first ``count`` of them."""
    *lens, last = node.lens(packed)
    (bytes,) = node.fixed([last], "the bytes of a row")
    count = bytes * (8 // bits) if count is None else count
    return node.reshape(codes_of(node, node.reshape(packed, -1, bytes), bits, count), *lens, count)


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
