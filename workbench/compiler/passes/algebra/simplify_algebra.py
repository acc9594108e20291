"""Algebraic simplification: arithmetic rules, and the pass that applies them with the linear rules.

Rules for floats hold up to rounding: sums and products are regrouped, as any optimising compiler does.
They never turn a NaN or an infinity into a finite number, with one exception: ``log(exp(x))`` becomes x
even where exp overflows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.ops.elementary import Exp
from workbench.compiler.ops.pointwise import Div, Mul, Sub
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.ops.reduce import ReduceSum
from workbench.compiler.passes.algebra.rules.concat_op import find_concat_op
from workbench.compiler.passes.algebra.rules.convolutions import (
    find_conv_broadcast_input,
    find_mul_conv,
    find_mul_slice_conv,
)
from workbench.compiler.passes.algebra.rules.horizontal import (
    find_add_convs,
    find_concat_conv,
    find_conv_dot_horiz_fusion,
)
from workbench.compiler.passes.algebra.rules.inner_broadcast import (
    find_dot_broadcast,
    find_inner_broadcast,
)
from workbench.compiler.passes.algebra.rules.linear import (
    FEW,
    find_conv_add,
    find_dot_add,
    find_dot_mul,
    find_dot_slice,
    find_mul_dot,
    finite,
)
from workbench.compiler.passes.algebra.rules.splits import SPLIT_RULES
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import (
    UNIFORM,
    is_broadcast,
    moving,
    spread,
    steady,
    uniform,
    unsteady,
)
from workbench.compiler.rewrite import (
    Decline,
    Rewriter,
    behind_broadcasts,
    constant,
    literal,
    op,
    rule,
    var,
)


@rule(
    op(
        "add",
        op("add", unsteady("x"), steady("a")).once,
        op("add", unsteady("y"), steady("c")).once,
    )
)
def find_double_add_lit_broadcast(
    b: Rewriter, x: Instruction, y: Instruction, a: Instruction, c: Instruction
) -> Instruction | Decline:
    """add(add(x, a), add(y, b)) → add(add(x, y), add(a, b)), for constants a and b"""
    if not all(isinstance(i.op, Broadcast) and is_broadcast(i) for i in (a, c)):
        total = b("add", a, c)
    elif a.op != c.op or a.inputs[0].shape.lens != c.inputs[0].shape.lens:
        return Decline(f"#{a.id} and #{c.id} are broadcast differently")
    else:
        total = b(a.op, b("add", a.inputs[0], c.inputs[0]))
    return b("add", b("add", x, y), total)


@rule(op("add", op("add", unsteady("x"), steady("a")), steady("c")))
def find_add_lit_broadcast(
    b: Rewriter, x: Instruction, a: Instruction, c: Instruction
) -> Instruction:
    """add(add(x, a), b) → add(x, add(a, b)), for constants a and b"""
    return b("add", x, b("add", a, c))


@rule(op("mul", op("mul", unsteady("x"), constant("a")), constant("c")))
def find_mul_lit_broadcast(
    b: Rewriter, x: Instruction, a: Instruction, c: Instruction
) -> Instruction | Decline:
    """mul(mul(x, a), b) → mul(x, mul(a, b)), for constants a and b"""
    if not _finite_product(a, c):
        return Decline("the product of the constants overflows or underflows")
    return b("mul", x, b("mul", a, c))


def _finite_product(a: Instruction, c: Instruction) -> bool:
    """Whether no product of elements of two literals leaves the range of its type; true if not literals."""
    x, y = behind_broadcasts(a).literal, behind_broadcasts(c).literal
    if (
        x is None
        or y is None
        or not a.shape.type.is_float
        or max(x.shape.elements, y.shape.elements) > FEW
    ):
        return True
    sizes = [np.abs(v.numpy().astype(np.float64).reshape(-1)) for v in (x, y)]
    one, other = (s[(s > 0) & np.isfinite(s)] for s in sizes)
    if not one.size or not other.size:
        return True
    with np.errstate(all="ignore"):
        ends = np.array([one.min() * other.min(), one.max() * other.max()])
        ends = ends.astype(a.shape.type.numpy).astype(np.float64)
    return bool(ends[0] > 0 and np.isfinite(ends[1]))


def _full(instruction: Instruction) -> bool:
    return not instruction.shape.broadcasted


def _scale(instruction: Instruction) -> bool:
    if not is_broadcast(instruction):
        return False
    return instruction.inputs[0].shape.elements < instruction.shape.elements


@rule(
    op(
        "mul",
        replace(op("mul", constant("w").when(_full), constant("a").when(_scale)), constant=True),
        constant("c").when(_scale),
    )
)
def find_mul_weights(b: Rewriter, w: Instruction, a: Instruction, c: Instruction) -> Instruction:
    """mul(mul(w, a), b) → mul(w, mul(a, b)), for small a and b repeated over weights w"""
    return b("mul", w, b("mul", a, c))


def _added(instruction: Instruction) -> bool:
    """Whether a term can absorb a factor: a constant, or a convolution with constant weights."""
    if instruction.constant:
        return True
    return (
        isinstance(instruction.op, Convolution)
        and instruction.inputs[1].constant
        and instruction.has_one_use
    )


@rule(
    op("mul", constant("a"), op("add", var("x"), var("c").when(_added)).once).when(
        lambda i: not i.constant
    )
)
def find_mul_add(
    b: Rewriter, a: Instruction, x: Instruction, c: Instruction
) -> Instruction | Decline:
    """mul(a, add(x, b)) → add(mul(a, x), mul(a, b)), for a finite constant a, and b"""
    if not finite(a):
        return Decline(f"{a.name} #{a.id} has infinite elements, or NaN: a · x + a · b may be NaN")
    return b("add", b("mul", a, x), b("mul", a, c))


def _operand(instruction: Instruction, unit: float) -> int | None:
    """The index of the unit operand: the second, or either where the operation is commutative."""
    first, second = instruction.inputs
    if second.constant and uniform(second, unit):
        return 1
    if first.constant and instruction.op.commutative and uniform(first, unit):
        return 0
    return None


_SCALES = (Mul, Div)


def _unit_operand(instruction: Instruction) -> int | None:
    return _operand(instruction, 1 if isinstance(instruction.op, _SCALES) else 0)


def _has_operand(instruction: Instruction, unit: float) -> bool:
    """Whether there is a unit operand."""
    return _operand(instruction, unit) is not None


def _has_unit(instruction: Instruction) -> bool:
    return _unit_operand(instruction) is not None


@rule(op("mul|div|add|sub").reading(UNIFORM, constant=True).when(_has_unit))
def find_unit_ops(b: Rewriter) -> Instruction:
    """x · 1 → x; x / 1 → x; x + 0 → x; x - 0 → x"""
    return b.root.inputs[1 - (_unit_operand(b.root) or 0)]


def _has_negatives(instruction: Instruction) -> bool:
    """Whether values can be negated; for bools, ``a - b`` is not ``a + neg(b)``."""
    return instruction.shape.type is not DType.BOOL


def _is_float(instruction: Instruction) -> bool:
    return instruction.shape.type.is_float


def _negates(instruction: Instruction) -> bool:
    if isinstance(instruction.op, Sub):
        return _has_negatives(instruction) and uniform(instruction.inputs[0], 0)
    return _has_operand(instruction, -1)


def _negative_operand(instruction: Instruction) -> int | None:
    return 0 if isinstance(instruction.op, Sub) else _operand(instruction, -1)


@rule(op("mul|div|sub").reading(UNIFORM, constant=True).when(_negates))
def find_neg_unit_ops(b: Rewriter) -> Instruction:
    """x · -1 → neg(x); x / -1 → neg(x); 0 - x → neg(x)"""
    value = b("neg", b.root.inputs[1 - (_negative_operand(b.root) or 0)])
    return b("identity", value) if b.root is b.module.last else value


_ZERO = literal("zero", lambda i: uniform(i, 0))


@rule(op("quantizelinear|dequantizelinear", var("x"), var("scale"), _ZERO))
def eliminate_zero_point(b: Rewriter, x: Instruction, scale: Instruction) -> Instruction | Decline:
    """quantizelinear(x, scale, 0) → quantizelinear(x, scale)"""
    if b.root.shape.type is DType.BOOL:
        return Decline("out_type cannot be bool_type: its code, 0, means none")
    if isinstance(b.root.op, Dequantizelinear):
        return b(b.root.op, x, scale)
    return b("quantizelinear", x, scale, out_type=b.root.shape.type)


def _is_zero(instruction: Instruction) -> bool:
    if isinstance(instruction.op, Div):
        return uniform(instruction.inputs[0], 0)
    return _has_operand(instruction, 0)


def _zero_operand(instruction: Instruction) -> int | None:
    return 0 if isinstance(instruction.op, Div) else _operand(instruction, 0)


@rule(op("mul|div").reading(UNIFORM, constant=True).when(_is_zero))
def find_zero_ops(b: Rewriter) -> Instruction | Decline:
    """0 · x → 0; 0 / x → 0, for integers: a float x may be NaN or infinite"""
    if b.root.shape.type.is_float:
        return Decline(
            "the result is NaN where the other operand is NaN, infinite or a zero divisor"
        )
    zero = b.root.inputs[_zero_operand(b.root) or 0]
    return b.reshape(zero, b.root.shape.lens) if zero.shape.is_scalar else zero


@rule(op("div", moving("x"), constant("c")).when(_is_float))
def find_div_const(b: Rewriter, x: Instruction, c: Instruction) -> Instruction | Decline:
    """div(x, c) → mul(x, recip(c)), for a constant c"""
    if reason := _recip_fails(c):
        return Decline(reason)
    return b("mul", x, _right_after(b, c)("recip", c))


def _right_after(b: Rewriter, c: Instruction) -> Rewriter:
    """A rewriter that inserts right after a constant, or before the root if that is in another module."""
    near = Rewriter(b.root)
    near.before = c.following if c.module is b.module else b.root
    return near


def _recip_fails(c: Instruction) -> str:
    """The reason why a division stays one; empty for a constant of a wide type that is not known yet."""
    type, found = c.shape.type, behind_broadcasts(c).literal
    narrow = type in (DType.HALF, DType.BF16)
    if found is None:
        return (
            f"c is not known yet, and 1 / c might be rounded to {type.type_name}" if narrow else ""
        )
    with np.errstate(all="ignore"):
        exact = 1.0 / found.numpy().astype(np.float64)
        stored = exact.astype(type.numpy).astype(np.float64)
    if not np.isfinite(stored).all():
        return "1 / c is not finite in this type for some element of c"
    if narrow and (stored != exact).any():
        return f"1 / c would be rounded to {type.type_name}, which c is not"
    return ""


@rule(op("sub", moving("x"), constant("c")).when(_has_negatives))
def find_sub_const(b: Rewriter, x: Instruction, c: Instruction) -> Instruction:
    """sub(x, c) → add(x, neg(c)), for a constant c"""
    return b("add", x, _right_after(b, c)("neg", c))


@rule(op("recip", op("sqrt", var("x")).once).when(_is_float))
def find_rsqrt(b: Rewriter, x: Instruction) -> Instruction:
    """recip(sqrt(x)) → rsqrt(x), for floats"""
    return b("rsqrt", x)


@rule(
    op("log", op("exp", var("x"))).when(_is_float),
    except_at={Edge.LARGE},  # whose exp is infinite, so that the rule is nearer to what is meant
)
def find_log_exp(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """log(exp(x)) → x, for floats"""
    return x


def _exponential(instruction: Instruction) -> bool:
    """Whether a value is positive by construction: an exp, or a sum of exps, perhaps broadcast."""
    if isinstance(instruction.op, Multibroadcast) and isinstance(
        instruction.inputs[0].op, ReduceSum
    ):
        instruction = instruction.inputs[0]
    if isinstance(instruction.op, ReduceSum):
        instruction = instruction.inputs[0]
    return isinstance(instruction.op, Exp)


@rule(
    op("log", op("div", var("x").when(_exponential), var("y").when(_exponential)).once).when(
        _is_float
    )
)
def find_log_div(b: Rewriter, x: Instruction, y: Instruction) -> Instruction:
    """log(div(x, y)) → sub(log(x), log(y)), for exponentials and sums of exponentials"""
    return b("sub", b("log", x), b("log", y))


@rule(op("concat").when(lambda i: len(i.inputs) > 1 and len(set(i.inputs)) == 1))
def find_concat_same_input(b: Rewriter) -> Instruction | Decline:
    """concat(x, x) → multibroadcast(x), along an axis of length 1"""
    x, axis = b.root.inputs[0], int(b.root.op.attributes()["axis"])
    if x.shape.lens[axis] != 1:
        return Decline(f"axis {axis} of the input has length {x.shape.lens[axis]}; expected 1")
    return spread(b, x, b.root.shape.lens)


@rule(op("pow", var("x"), literal("n", lambda i: uniform(i, 2))).when(_is_float))
def find_pow2(b: Rewriter, x: Instruction) -> Instruction:
    """pow(x, 2) → mul(x, x), for floats: a power of integers ends at the largest, a product wraps"""
    return b("mul", x, x)


@register
class SimplifyAlgebra(RewritePass):
    """Regroup arithmetic so that constants meet, and move factors and terms into dots and convolutions."""

    name = "simplify_algebra"
    rules = (
        find_conv_broadcast_input,
        find_inner_broadcast,
        find_dot_broadcast,
        find_double_add_lit_broadcast,
        find_add_lit_broadcast,
        find_mul_lit_broadcast,
        find_mul_weights,
        find_add_convs,
        find_conv_dot_horiz_fusion,
        find_mul_conv,
        find_mul_slice_conv,
        find_mul_dot,
        find_dot_slice,
        find_dot_mul,
        find_mul_add,
        find_unit_ops,
        find_neg_unit_ops,
        eliminate_zero_point,
        find_zero_ops,
        find_dot_add,
        find_conv_add,
        find_div_const,
        find_sub_const,
        find_rsqrt,
        find_log_exp,
        find_log_div,
        find_concat_conv,
        find_concat_same_input,
        find_concat_op,
        *SPLIT_RULES,
        find_pow2,
    )
