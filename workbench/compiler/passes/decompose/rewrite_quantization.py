"""Quantization rewritten as arithmetic."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import common
from workbench.compiler.passes.tidy.eliminate_convert import keeps_values
from workbench.compiler.rewrite import Decline, Rewriter, op, rule


@rule(op("quantizelinear"))
def find_quantizelinear(b: Rewriter) -> Instruction | Decline:
    """quantizelinear(x, s, z) → convert(clip(nearbyint(x / s) + z, least, largest))"""
    x, scale, *zero = b.root.inputs
    type, work = b.root.shape.type, _work_type(b.root.inputs[1].shape.type)
    if type is DType.BOOL:
        return Decline("bool_type has no bounds to clip to")
    if not keeps_values(type, work):
        return Decline(f"{work.type_name} does not hold every {type.type_name}: bounds would move")
    value = b("div", _in(b, x, work), _in(b, scale, work))
    if not type.is_float:
        value = b("nearbyint", value)
    if zero:
        value = b("add", value, _in(b, zero[0], work))
    least, largest = (b.scalar(v, work) for v in type.format.limits)
    return b("convert", common(b, "clip", value, least, largest), target_type=type)


@rule(op("dequantizelinear"), dynamic=True)
def find_dequantizelinear(b: Rewriter) -> Instruction | Decline:
    """dequantizelinear(x, s, z) → (convert(x) - convert(z)) · s"""
    x, scale, *zero = b.root.inputs
    type = scale.shape.type
    if not type.is_float:
        return Decline(
            f"the scale is {type.type_name}, whose products wrap where this one saturates"
        )
    work = type if _is_exact(x.shape.type, type, bool(zero)) else _work_type(type)
    value = b("convert", x, target_type=work)
    if zero:
        value = b("sub", value, b("convert", zero[0], target_type=work))
    value = b("mul", value, _in(b, scale, work))
    return _in(b, value, type)


def _in(b: Rewriter, value: Instruction, type: DType) -> Instruction:
    """A value converted to a type, unless it already has it."""
    return value if value.shape.type is type else b("convert", value, target_type=type)


def _work_type(scale: DType) -> DType:
    """The type that quantization computes in: at least float, as in the operations themselves."""
    return scale if scale is DType.DOUBLE else DType.FLOAT


def _is_exact(type: DType, scale: DType, has_zero: bool) -> bool:
    """Whether elements minus a zero point are exact in the scale's type, or that type is wide."""
    if scale in (DType.FLOAT, DType.DOUBLE):
        return True
    return keeps_values(type, scale) and (not has_zero or type in (DType.INT8, DType.UINT8))


@register
class RewriteQuantization(RewritePass):
    """Rewrite quantization as divisions, roundings, sums and products."""

    name = "rewrite_quantization"
    apart = (
        "kernels and NumPy implement quantization. For devices that do not, by "
        "`compile(passes=...)`."
    )
    rules = (find_quantizelinear, find_dequantizelinear)
