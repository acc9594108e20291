"""Products of quantised matrices as MIGraphX composes them, in int8 or with its values of 4-bit codes."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.matmul import (
    NORMAL_FLOAT,
    block_scales,
    float_product,
    is_middle,
    packed_lens,
    product,
    times_transposed,
    zero_point,
)
from workbench.compiler.onnx.nodes.quantize import qlinear_operands, requantized
from workbench.compiler.onnx.registry import strict_op


@strict_op("MatMulInteger")
def matmul_integer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of int8; zero points are subtracted in int8, and an omitted one is the middle."""
    node.expect(inputs, 2, 4)
    if any(i.shape.is_dynamic for i in inputs[:2]):
        shapes = " and ".join(str(i.shape) for i in inputs[:2])
        raise node.fail(f"inputs {shapes}; expected fixed dimensions")
    a, b = (
        _as_int8(node, inputs[i], zero_point(node, inputs[i], node.optional(inputs, i + 2)))
        for i in (0, 1)
    )
    return product(node, a, b, "quant_dot")


def _as_int8(node: NodeContext, value: Instruction, zero: Instruction | None) -> Instruction:
    """A value minus its zero point; uint8 minus 128 first, in half, which is exact."""
    if value.shape.type is DType.UINT8:
        shift = node.scalar(DType.HALF, -128)

        def shifted(given: Instruction) -> Instruction:
            moved = node.common("add", node.convert(given, DType.HALF), shift)
            return node.convert(moved, DType.INT8)

        value, zero = shifted(value), None if zero is None else shifted(zero)
    return value if zero is None else node.common("sub", value, zero)


@strict_op("MatMulIntegerToFloat")
def matmul_integer_to_float(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product minus a bias; zero points in the middle of their type are ignored."""
    node.expect(inputs, 4, 7)
    given = [node.optional(inputs, i) for i in (4, 5)]
    zeros = [None if z is not None and is_middle(node, z) else z for z in given]
    result, bias = float_product(node, inputs, zeros), node.optional(inputs, 6)
    return result if bias is None else node.common("sub", result, bias)


@strict_op("MatMulBnb4")
def matmul_bnb4(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product with 4-bit codes, low halves of bytes first; codes of FP4 count eighths."""
    rows, inner, kind = packed_lens(node, inputs)
    codes = node.add("unpack_int4", inputs[1])
    if node.lens(codes)[0] > rows * inner:
        codes = node.slice(codes, [0], [0], [rows * inner])
    codes = node.reshape(codes, rows, inner)
    scales = block_scales(node, inputs[2], rows, inner)
    if kind:
        table = node.vector(DType.FLOAT, NORMAL_FLOAT)
        values = node.add("gather", table, node.convert(codes, DType.INT64), axis=0)
    else:
        eight = node.scalar(DType.FLOAT, 8)
        values = node.common("div", node.convert(codes, DType.FLOAT), eight)
    return times_transposed(node, inputs[0], node.add("mul", values, scales))


@strict_op("QLinearMatMul")
def qlinear_matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A product of quantised matrices; for two vectors, a vector of one element."""
    a, b = qlinear_operands(node, inputs)
    left, right = a.shape.ndim == 1, b.shape.ndim == 1
    a = node.unsqueeze(a, 0) if left else a
    result = product(node, a, node.unsqueeze(b, 1) if right else b)
    if left or right:
        result = node.squeeze(result, 0 if left else 1)
    return requantized(node, result, inputs, 6, inputs[0].shape.type)
