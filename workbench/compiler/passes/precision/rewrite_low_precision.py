"""Squares in narrow floats, divided before they overflow."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import (
    Decline,
    Rewriter,
    behind_broadcasts,
    constant,
    either,
    literal,
    op,
    rule,
    var,
)
from workbench.compiler.run.constants import evaluate_constant, is_large


def _is_two(instruction: Instruction) -> bool:
    found = behind_broadcasts(instruction).literal
    return found is not None and bool(found.shape.elements and np.all(found.numpy() == 2))


_SQUARE = either(op("mul", var("x"), var("x")), op("pow", var("x"), literal("two", _is_two)))


@rule(op("div", _SQUARE, constant("n")).when(lambda i: i.shape.type is DType.HALF))
def find_pow2_div(b: Rewriter, x: Instruction, n: Instruction) -> Instruction | Decline:
    """div(x², n) → mul(div(x, n), x), for half, in which x² may be infinite"""
    if is_large(value := behind_broadcasts(n)):
        return Decline(f"the divisor #{n.id} is too large to be evaluated")
    if not np.all(np.abs(evaluate_constant(value)) >= 1):
        return Decline("a divisor is less than 1, so x / n may overflow where x² / n does not")
    return b("mul", b("div", x, n), x)


@register
class RewriteLowPrecision(RewritePass):
    """Divide squares by a constant before they overflow, not after."""

    name = "rewrite_low_precision"
    rules = (find_pow2_div,)
