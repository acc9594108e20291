"""Removal of conversions that do not change values."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Rewriter, op, rule, var


@rule(op("convert", op("convert", var("x"), name="inner")), dynamic=True)
def find_nested_convert(b: Rewriter, x: Instruction, inner: Instruction) -> Instruction | Decline:
    """convert(convert(x)) → convert(x), where the inner one is exact"""
    if not keeps_values(x.shape.type, inner.shape.type):
        lost, kept = x.shape.type.type_name, inner.shape.type.type_name
        return Decline(f"the inner conversion from {lost} to {kept} can change values")
    return x if x.shape == b.root.shape else b(b.root.op, x)


@rule(op("convert", var("x")).when(lambda i: i.shape == i.inputs[0].shape), dynamic=True)
def find_nop_convert(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """convert[target_type=T](x) → x, for x of type T"""
    return x


def keeps_values(source: DType, target: DType) -> bool:
    """Whether a type represents every value of another type exactly."""
    if source is target or source is DType.BOOL:
        return True
    if source.is_float:
        return target.is_float and _float_fits(source, target)
    if target is DType.BOOL:
        return False
    low, high = source.format.limits
    if target.is_float:
        digits, largest, _ = _limits(target)
        return max(-low, high) <= 2 ** (digits + 1) and high <= largest
    return target.format.limits[0] <= low and high <= target.format.limits[1]


def _limits(type: DType) -> tuple[int, float, float]:
    """The fraction bits, the largest and the least positive number of a float type."""
    format = type.format
    return format.mantissa, format.largest, format.value(1)


def _float_fits(source: DType, target: DType) -> bool:
    a, b = _limits(source), _limits(target)
    return a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2]


@register
class EliminateConvert(RewritePass):
    """Remove conversions to the type that a value already has, and merge nested exact ones."""

    name = "eliminate_convert"
    rules = (find_nop_convert, find_nested_convert)
