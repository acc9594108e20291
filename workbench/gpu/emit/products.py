"""Values of matrix products, one element at a time: for fused bodies and for small products."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.contract import Dot, QuantDot
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number
from workbench.gpu.emit.sums import finished, over, product, product_sum_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of


@value_of(Dot, QuantDot)
def dotted(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The sum of products along a row and a column; quant_dot's operands are scaled first."""
    a = i.inputs[0].shape
    work = product_type(i)
    total = t.w.variable(c_type(work), number(0, work).text)
    *batch, row, column = index
    with over(t.w, a.lens[-1:]) as (k,):
        term = operand_product(t, i, (*batch, row, k), (*batch, k, column))
        t.w.line(f"{total} += {term};")
    return finished(t.w, Scalar(total, work), i.shape.type)


def product_type(i: Instruction) -> DType:
    """The type of a product's or convolution's sum; with scaled operands it is a float."""
    scaled = len(i.inputs) == 4
    return product_sum_type(DType.FLOAT if scaled else i.inputs[0].shape.type)


def operand_product(
    t: Tensors, i: Instruction, left: tuple[Index, ...], right: tuple[Index, ...]
) -> str:
    """The product of an element of each operand, each times its scale if it has one."""
    work = product_type(i)
    a, b = t.at(i.inputs[0], left), t.at(i.inputs[1], right)
    if len(i.inputs) == 4:
        a = _scaled(t, a, t.at(i.inputs[2], left))
        b = _scaled(t, b, t.at(i.inputs[3], right))
    return product(t.w, a, b, work)


def _scaled(t: Tensors, value: Scalar, scale: Scalar) -> Scalar:
    kind = c_type(DType.FLOAT)
    texts = (cast(t.w, x, DType.FLOAT).text for x in (value, scale))
    return Scalar(t.w.let(kind, " * ".join(texts)), DType.FLOAT)
