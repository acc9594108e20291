"""Matrix products."""

from __future__ import annotations

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx import builders
from workbench.compiler.onnx.broadcast import broadcasted
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.quantization import dequantized, unpacked
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("Gemm")
def gemm(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``alpha * A @ B + beta * C``."""
    node.expect(inputs, 2, 3)
    return builders.gemm(
        node,
        inputs[0],
        inputs[1],
        node.optional(inputs, 2),
        node.number("alpha", 1.0),
        node.number("beta", 1.0),
        (node.flag("transA"), node.flag("transB")),
    )


def product(node: NodeContext, a: Instruction, b: Instruction, op: str = "dot") -> Instruction:
    """A matrix product in which vectors count as matrices of one row or column."""
    if a.shape.is_dynamic or b.shape.is_dynamic:
        return builders.dot(node, a, b, op)
    left, right = a.shape.ndim == 1, b.shape.ndim == 1
    a = node.unsqueeze(a, 0) if left else a
    b = node.unsqueeze(b, 1) if right else b
    result = builders.dot(node, a, b, op)
    if left:
        result = node.squeeze(result, result.shape.ndim - 2)
    if right:
        result = node.squeeze(result, result.shape.ndim - 1)
    return result


@onnx_op("MatMul")
def matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product with broadcasting, as NumPy's."""
    node.expect(inputs, 2)
    return product(node, inputs[0], inputs[1])


@onnx_op("MatMulInteger")
def matmul_integer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of integers, each less its zero point."""
    node.expect(inputs, 2, 4)
    a, b = inputs[:2]
    zeros = [_offset(node, v, node.optional(inputs, i)) for i, v in ((2, a), (3, b))]
    if all(zero is None for zero in zeros):
        return product(node, _signed(node, a), _signed(node, b), "quant_dot")
    if zeros[0] is not None and zeros[0].shape.elements > 1 and zeros[0].shape.ndim == 1:
        zeros[0] = node.unsqueeze(zeros[0], 1)  # one for each row
    wide = [node.convert(v, DType.INT32) for v in (a, b)]
    # In int8 the difference of a value and its zero point could wrap around.
    a, b = (v if z is None else node.common("sub", v, z) for v, z in zip(wide, zeros, strict=True))
    return product(node, a, b)


def _signed(node: NodeContext, value: Instruction) -> Instruction:
    """A uint8 value less 128, as int8."""
    if value.shape.type is not DType.UINT8:
        return value
    half = node.convert(value, DType.HALF)
    return node.convert(node.common("add", half, node.scalar(DType.HALF, -128)), DType.INT8)


def _offset(node: NodeContext, value: Instruction, zero: Instruction | None) -> Instruction | None:
    """The zero point of an operand, or None where the operand can be taken as int8 without it."""
    type = value.shape.type
    if type not in {DType.INT8, DType.UINT8}:
        raise node.fail(f"element type {type.type_name}; expected int8 or uint8")
    if zero is None:
        return node.scalar(type, 0) if type is DType.UINT8 else None
    if zero.shape.type is not type:
        raise node.fail(f"a zero point of {zero.shape.type.type_name}; expected {type.type_name}")
    known = node.constant(zero)
    middle = 128 if type is DType.UINT8 else 0
    return None if known is not None and bool(np.all(known == middle)) else zero


@onnx_op("MatMulIntegerToFloat")
def matmul_integer_to_float(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of quantised matrices, as floats, plus a bias."""
    node.expect(inputs, 4, 7)
    a, b, a_scale, b_scale = inputs[:4]
    operands: list[Instruction] = []
    for index, (value, scale) in enumerate(((a, a_scale), (b, b_scale))):
        zero = node.optional(inputs, 4 + index)
        lens = value.shape.lens
        length = scale.shape.lens[0]
        axes = [i for i, n in enumerate(lens) if n == length]
        operands.append(dequantized(node, value, scale, zero, axes[-1] if axes else 1))
    result = builders.dot(node, operands[0], operands[1])
    bias = node.optional(inputs, 6)
    return result if bias is None else node.common("add", result, bias)


def _blocks(node: NodeContext, value: Instruction, size: int, columns: int) -> Instruction:
    """Each column repeated ``size`` times, cut to so many columns."""
    rows, count = value.shape.lens
    spread = node.multibroadcast(node.unsqueeze(value, 2), (rows, count, size))
    return _columns(node, node.reshape(spread, rows, -1), columns)


def _columns(node: NodeContext, value: Instruction, count: int) -> Instruction:
    return value if value.shape.lens[1] <= count else node.slice(value, [1], [0], [count])


@onnx_op("MatMulNBits")
def matmul_n_bits(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product with a matrix of 4-bit weights, each block with a scale of its own."""
    node.expect(inputs, 3, 4)
    a, packed, scales = inputs[:3]
    rows, inner = node.integer("N"), node.integer("K")
    block, bits = node.integer("block_size"), node.integer("bits", 4)
    if bits != 4 or block < 16 or block & (block - 1):
        raise node.fail(
            f"bits={bits}, block_size={block}; expected 4 bits, and a power of 2 from 16"
        )
    count = -(-inner // block)
    weights = unpacked(node, node.reshape(packed, rows, -1))
    weights = _columns(node, weights, inner)
    spread = _blocks(node, node.reshape(scales, rows, -1), block, inner)
    zero = node.optional(inputs, 3)
    if zero is None:
        zeros = node.multibroadcast(node.vector(DType.UINT8, [8]), weights.shape.lens)
    else:
        codes = unpacked(node, node.reshape(zero, rows, -1))
        zeros = _blocks(node, _columns(node, codes, count), block, inner)
    matrix = node.add("dequantizelinear", weights, spread, zeros)
    return _times(node, a, matrix)


def _times(node: NodeContext, a: Instruction, weights: Instruction) -> Instruction:
    """``a`` times the transpose of a matrix."""
    matrix = node.transpose(weights, 1, 0)
    rank = a.shape.ndim
    if rank == 1:
        result = node.add("dot", node.unsqueeze(a, 0), matrix)
        return node.squeeze(result, result.shape.ndim - 2)
    if rank > 2:
        matrix = broadcasted(node.module, matrix, (*a.shape.lens[:-2], *matrix.shape.lens))
    return node.add("dot", a, matrix)


NORMAL_FLOAT = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


@onnx_op("MatMulBnb4")
def matmul_bnb4(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product with a matrix of 4-bit codes, each block with its largest absolute value."""
    node.expect(inputs, 3)
    a, packed, largest = inputs
    rows, inner, block = node.integer("N"), node.integer("K"), node.integer("block_size")
    kind, total = node.integer("quant_type"), rows * inner
    codes = node.reshape(unpacked(node, packed), rows, inner)
    spread = node.multibroadcast(node.unsqueeze(largest, 1), (largest.shape.lens[0], block))
    flat = node.reshape(spread, largest.shape.lens[0] * block)
    if flat.shape.lens[0] > total:
        flat = node.slice(flat, [0], [0], [total])
    scales = node.reshape(flat, rows, inner)
    if kind == 0:
        eight = node.fit(node.scalar(DType.FLOAT, 8), (rows, inner))
        values = node.add("div", node.convert(codes, DType.FLOAT), eight)
    elif kind == 1:
        table = node.vector(DType.FLOAT, NORMAL_FLOAT)
        values = node.add("gather", table, node.convert(codes, DType.INT64), axis=0)
    else:
        raise node.fail(f"quant_type={kind}; expected 0 or 1")
    return _times(node, a, node.add("mul", values, scales))
