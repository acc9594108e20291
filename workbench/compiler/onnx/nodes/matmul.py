"""Matrix products."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim
from workbench.compiler.macros import compositions
from workbench.compiler.onnx import builders
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.quantization import dequantized
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("Gemm")
def gemm(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``alpha * A @ B + beta * C``."""
    node.expect(inputs, 2, 3)
    return compositions.gemm(
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
    """A matrix product of integers minus their zero points."""
    node.expect(inputs, 2, 4)
    a, b = inputs[:2]
    zeros = [_offset(node, v, node.optional(inputs, i)) for i, v in ((2, a), (3, b))]
    if all(zero is None for zero in zeros):
        return product(node, _signed(node, a), _signed(node, b), "quant_dot")
    # Nothing is shifted to int8 here, so the middle of uint8 is subtracted as any other number.
    zeros = [
        node.scalar(DType.UINT8, 128) if z is None and v.shape.type is DType.UINT8 else z
        for v, z in zip((a, b), zeros, strict=True)
    ]
    if zeros[0] is not None and zeros[0].shape.elements > 1 and zeros[0].shape.ndim == 1:
        zeros[0] = node.unsqueeze(zeros[0], 1)  # one per row
    wide = [node.convert(v, DType.INT32) for v in (a, b)]
    # In int8 the difference of a value and its zero point could wrap around.
    a, b = (v if z is None else node.common("sub", v, z) for v, z in zip(wide, zeros, strict=True))
    return product(node, a, b)


def _signed(node: NodeContext, value: Instruction) -> Instruction:
    """A uint8 value minus 128, as int8."""
    if value.shape.type is not DType.UINT8:
        return value
    half = node.convert(value, DType.HALF)
    return node.convert(node.common("add", half, node.scalar(DType.HALF, -128)), DType.INT8)


def _offset(node: NodeContext, value: Instruction, zero: Instruction | None) -> Instruction | None:
    """The zero point of an operand, or None if a shift to int8 makes it 0."""
    type = value.shape.type
    if zero is None and type is DType.UINT8:
        return node.scalar(type, 0)
    return zero_point(node, value, zero)


def zero_point(
    node: NodeContext, value: Instruction, zero: Instruction | None
) -> Instruction | None:
    """The zero point of 8-bit integers, or None if it is omitted or the middle of its type."""
    type = value.shape.type
    if type not in {DType.INT8, DType.UINT8}:
        raise node.fail(f"element type {type.type_name}; expected int8 or uint8")
    if zero is not None and zero.shape.type is not type:
        raise node.fail(f"a zero point of {zero.shape.type.type_name}; expected {type.type_name}")
    return None if zero is None or is_middle(node, zero) else zero


def is_middle(node: NodeContext, zero: Instruction) -> bool:
    """Whether a zero point is known to be the middle of its type."""
    known, middle = node.constant(zero), 128 if zero.shape.type is DType.UINT8 else 0
    return known is not None and bool(np.all(known == middle))


@onnx_op("MatMulIntegerToFloat")
def matmul_integer_to_float(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of quantised matrices, as floats, plus a bias."""
    node.expect(inputs, 4, 7)
    result = float_product(node, inputs, [node.optional(inputs, i) for i in (4, 5)])
    bias = node.optional(inputs, 6)
    return result if bias is None else node.common("add", result, bias)


def float_product(
    node: NodeContext, inputs: list[Instruction], zeros: list[Instruction | None]
) -> Instruction:
    """A matrix product of two quantised matrices as floats; their scales follow them in ``inputs``."""
    _check_scales(node, inputs[2:4], node.optional(inputs, 6))
    operands: list[Instruction] = []
    for value, scale, zero in zip(inputs[:2], inputs[2:4], zeros, strict=True):
        lens = node.lens(value)
        axes = [i for i, n in enumerate(lens) if (n,) == node.lens(scale)]
        operands.append(dequantized(node, value, scale, zero, axes[-1] if axes else 1))
    return builders.dot(node, operands[0], operands[1])


def _check_scales(node: NodeContext, scales: list[Instruction], bias: Instruction | None) -> None:
    """Refuse scales that are not lists of floats, and a bias of another type."""
    type = scales[0].shape.type
    for scale in scales:
        if type not in {DType.HALF, DType.FLOAT} or scale.shape.type is not type:
            raise node.fail(f"scale {scale.shape}; expected both scales float, or both half")
        if scale.shape.ndim > 1:
            raise node.fail(f"scale {scale.shape}; expected a scalar or a list")
    if bias is not None and (bias.shape.type is not type or bias.shape.ndim != 1):
        raise node.fail(
            f"bias {bias.shape}; expected a list of {type.type_name}, the type of the scales"
        )


def _blocks(node: NodeContext, value: Instruction, size: int, columns: int) -> Instruction:
    """Each column repeated ``size`` times, cut to ``columns`` columns."""
    rows, count = node.lens(value)
    spread = node.multibroadcast(node.unsqueeze(value, 2), (rows, count, size))
    return _columns(node, node.reshape(spread, rows, -1), columns)


def _columns(node: NodeContext, value: Instruction, count: int) -> Instruction:
    return value if node.lens(value)[1] <= count else node.slice(value, [1], [0], [count])


@onnx_op("MatMulNBits")
def matmul_n_bits(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product with a matrix of weights of few bits, with a scale per block."""
    node.expect(inputs, 3, 6)
    a, packed, scales = inputs[:3]
    rows, inner = node.integer("N"), node.integer("K")
    block, bits = node.integer("block_size"), node.integer("bits", 4)
    if bits not in {2, 4, 8} or block < 16 or block & (block - 1):
        raise node.fail(
            f"bits={bits}, block_size={block}; expected 2, 4 or 8 bits, and a power of 2 from 16"
        )
    if node.optional(inputs, 4) is not None:
        raise node.fail("input g_idx is not supported; expected blocks in order")
    count = -(-inner // block)
    _check_packed(node, inputs, (rows, count, block * bits // 8), bits)
    weights = codes_of(node, node.reshape(packed, rows, -1), bits, inner)
    spread = _blocks(node, node.reshape(scales, rows, -1), block, inner)
    zero = node.optional(inputs, 3)
    if zero is not None and zero.shape.type.is_float:
        points = _blocks(node, node.reshape(zero, rows, -1), block, inner)
        values = node.common("sub", node.convert(weights, points.shape.type), points)
        matrix = node.common("mul", values, spread)
    else:
        if zero is None:
            middle = node.vector(DType.UINT8, [1 << (bits - 1)])
            zeros = node.multibroadcast(middle, node.lens(weights))
        else:
            points = codes_of(node, node.reshape(zero, rows, -1), bits, count)
            zeros = _blocks(node, points, block, inner)
        matrix = node.add("dequantizelinear", weights, spread, zeros)
    result, bias = times_transposed(node, a, matrix), node.optional(inputs, 5)
    return result if bias is None else node.common("add", result, bias)


def _check_packed(
    node: NodeContext, inputs: list[Instruction], lens: tuple[int, int, int], bits: int
) -> None:
    """Refuse weights, scales and zero points that do not fit the attributes."""
    rows, count, _ = lens
    packed, scales, zero = inputs[1], inputs[2], node.optional(inputs, 3)
    if dims_of(packed.shape) != tuple(Dim(n, n) for n in lens):
        raise node.fail(f"weights {packed.shape}; expected {list(lens)} from N, K and block_size")
    if node.count(scales) != rows * count:
        raise node.fail(f"scales {scales.shape}; expected {rows * count}, one for each block")
    if zero is None:
        return
    wanted = rows * (count if zero.shape.type.is_float else -(-count * bits // 8))
    if node.count(zero) != wanted:
        raise node.fail(f"zero points {zero.shape}; expected {wanted} elements")


def codes_of(node: NodeContext, packed: Instruction, bits: int, columns: int) -> Instruction:
    """The codes of few bits in the bytes of a matrix, cut to ``columns`` columns."""
    if bits == 8:
        return _columns(node, packed, columns)
    codes = node.add("unpack_int4", packed)
    if bits == 2:
        rows, count = node.lens(codes)
        four = node.fit(node.scalar(codes.shape.type, 4), node.lens(codes))
        pairs = [node.unsqueeze(node.add(op, codes, four), 2) for op in ("mod", "div")]
        codes = node.reshape(node.add("concat", *pairs, axis=2), rows, 2 * count)
    return _columns(node, codes, columns)


def times_transposed(node: NodeContext, a: Instruction, weights: Instruction) -> Instruction:
    """``a`` times the transpose of a matrix."""
    matrix = node.transpose(weights, 1, 0)
    rank = a.shape.ndim
    if rank == 1:
        result = node.add("dot", node.unsqueeze(a, 0), matrix)
        return node.squeeze(result, result.shape.ndim - 2)
    if rank > 2:
        matrix = node.fit(matrix, (*node.lens(a)[:-2], *node.lens(matrix)))
    return node.add("dot", a, matrix)


NORMAL_FLOAT = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
_TINY_FLOAT = [0.0, 0.0625 / 12, 8 / 12, 12 / 12, 4 / 12, 6 / 12, 2 / 12, 3 / 12]
TINY_FLOAT = [*_TINY_FLOAT, *[-v for v in _TINY_FLOAT]]
"""The values of the codes of the two kinds of 4-bit floats."""


@onnx_op("MatMulBnb4")
def matmul_bnb4(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product with a matrix of 4-bit codes, with the largest absolute value per block."""
    rows, inner, kind = packed_lens(node, inputs)
    total = rows * inner
    pairs = node.reshape(node.add("unpack_int4", inputs[1]), -(-total // 2), 2)
    flat = node.reshape(node.add("reverse", pairs, axes=(1,)), -1)  # high halves come first
    codes = node.reshape(node.slice(flat, [0], [0], [total]), rows, inner)
    scales = block_scales(node, inputs[2], rows, inner)
    table = node.vector(DType.FLOAT, NORMAL_FLOAT if kind else TINY_FLOAT)
    values = node.add("gather", table, node.convert(codes, DType.INT64), axis=0)
    return times_transposed(node, inputs[0], node.add("mul", values, scales))


def packed_lens(node: NodeContext, inputs: list[Instruction]) -> tuple[int, int, int]:
    """The rows, the columns and the kind of a matrix of 4-bit codes; refuses inputs that do not fit."""
    node.expect(inputs, 3)
    rows, inner, block = node.integer("N"), node.integer("K"), node.integer("block_size")
    kind, total = node.integer("quant_type"), rows * inner
    if kind not in {0, 1} or block < 16 or block & (block - 1):
        raise node.fail(
            f"quant_type={kind}, block_size={block}; expected 0 or 1, and a power of 2 from 16"
        )
    a, packed, largest = inputs
    if not a.shape.ndim or dims_of(a.shape)[-1] != Dim(inner, inner):
        raise node.fail(f"input {a.shape}; expected {inner} elements along its last axis, from K")
    for given, count in ((packed, -(-total // 2)), (largest, -(-total // block))):
        if dims_of(given.shape) != (Dim(count, count),):
            raise node.fail(f"{given.shape}; expected a list of {count}, from N and K")
    return rows, inner, kind


def block_scales(node: NodeContext, largest: Instruction, rows: int, columns: int) -> Instruction:
    """A matrix of block scales, each repeated for the elements of its block."""
    count, block = node.lens(largest)[0], node.integer("block_size")
    spread = node.multibroadcast(node.unsqueeze(largest, 1), (count, block))
    flat = node.reshape(spread, count * block)
    if node.lens(flat)[0] > rows * columns:
        flat = node.slice(flat, [0], [0], [rows * columns])
    return node.reshape(flat, rows, columns)
