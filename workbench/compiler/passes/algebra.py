"""Algebraic simplification: rules of arithmetic, and the pass that applies them with the linear ones.

Rules for floats hold up to rounding: sums and products are regrouped, as any optimising compiler does.
They never turn a NaN or an infinity into an ordinary number, but for ``log(exp(x))``: it is x even
where exp overflows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.ops.broadcast import Broadcast
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import (
    common,
    is_broadcast,
    moving,
    spread,
    steady,
    uniform,
    unsteady,
)
from workbench.compiler.passes.linear import LINEAR_RULES
from workbench.compiler.rewrite import (
    Decline,
    Rewriter,
    Rule,
    behind_broadcasts,
    constant,
    literal,
    op,
    pointwise,
    rule,
    var,
)
from workbench.compiler.shape import broadcast_lens


def _repeats(instruction: Instruction) -> bool:
    """Whether every input of an operation is a value repeated by a broadcast."""
    size = instruction.shape.elements
    return bool(instruction.inputs) and all(
        is_broadcast(i) and i.inputs[0].shape.elements < size for i in instruction.inputs
    )


@rule(pointwise().when(lambda i: i.op.name != "layout" and _repeats(i)))
def find_inner_broadcast(b: Rewriter) -> Instruction | Decline:
    """f(broadcast(x), broadcast(y)) → broadcast(f(x, y))"""
    inner = [i.inputs[0] for i in b.root.inputs]
    many = [i for i in b.root.inputs if not _single(i)]
    alike = len({(i.op, i.inputs[0].shape.ndim) for i in many}) == 1
    same = alike and isinstance(many[0].op, Broadcast)
    if not same:
        inner = [_right_aligned(b, i) for i in b.root.inputs] if _gains(b.root) else []
    if not inner:
        return Decline("together, its inputs vary along every axis")
    value = common(b, b.root.op, *inner)
    return b(many[0].op, value) if same else spread(b, value, b.root.shape.lens)


def _single(broadcast: Instruction) -> bool:
    return broadcast.inputs[0].shape.elements == 1 and broadcast.inputs[0].shape.ndim == 1


def _gains(root: Instruction) -> bool:
    lens = broadcast_lens(*[_aligned_lens(i) for i in root.inputs])
    return int(np.prod(lens)) < root.shape.elements


def _aligned_lens(broadcast: Instruction) -> tuple[int, ...]:
    """Lens of what is broadcast, with ones behind them where it is not laid along the last axes."""
    lens = broadcast.inputs[0].shape.lens
    op = broadcast.op
    return (
        (*lens, *[1] * (len(op.out_lens) - op.axis - len(lens)))
        if isinstance(op, Broadcast)
        else lens
    )


def _right_aligned(b: Rewriter, broadcast: Instruction) -> Instruction:
    value, lens = broadcast.inputs[0], _aligned_lens(broadcast)
    added = tuple(range(value.shape.ndim, len(lens)))
    return b("unsqueeze", value, axes=added) if added else value


@rule(
    op(
        "add",
        op("add", unsteady("x"), steady("a")).once,
        op("add", unsteady("y"), steady("c")).once,
    )
)
def find_double_add_lit_broadcast(
    b: Rewriter, x: Instruction, y: Instruction, a: Instruction, c: Instruction
) -> Instruction:
    """add(add(x, a), add(y, b)) → add(add(x, y), add(a, b)), for constants a and b"""
    return b("add", b("add", x, y), b("add", a, c))


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
        return Decline("the product of the constants overflows or vanishes")
    return b("mul", x, b("mul", a, c))


_FEW = 1024


def _finite_product(a: Instruction, c: Instruction) -> bool:
    """Whether no product of two literals leaves the range of its type; others are not looked at."""
    x, y = behind_broadcasts(a).literal, behind_broadcasts(c).literal
    if (
        x is None
        or y is None
        or not a.shape.type.is_float
        or max(x.shape.elements, y.shape.elements) > _FEW
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
    return instruction.constant and not instruction.shape.broadcasted


def _scale(instruction: Instruction) -> bool:
    return instruction.constant and is_broadcast(instruction)


@rule(op("mul", op("mul", var("w").when(_full), var("a").when(_scale)), var("c").when(_scale)))
def find_mul_weights(b: Rewriter, w: Instruction, a: Instruction, c: Instruction) -> Instruction:
    """mul(mul(w, a), b) → mul(w, mul(a, b)), for small a and b repeated over weights w"""
    return b("mul", w, b("mul", a, c))


def _added(instruction: Instruction) -> bool:
    """Whether a term can take a factor: a constant, or a convolution whose weights take it."""
    if instruction.constant:
        return True
    return (
        instruction.name == "convolution" and instruction.inputs[1].constant and _once(instruction)
    )


def _once(instruction: Instruction) -> bool:
    return instruction.only_user is not None


@rule(op("mul", constant("a"), op("add", moving("x"), var("c").when(_added)).once))
def find_mul_add(b: Rewriter, a: Instruction, x: Instruction, c: Instruction) -> Instruction:
    """mul(a, add(x, b)) → add(mul(a, x), mul(a, b)), for a constant a and b"""
    return b("add", b("mul", a, x), b("mul", a, c))


def _operand(instruction: Instruction, unit: float) -> int | None:
    """Which operand is the unit: the second one, or either where the operation is commutative."""
    for i in (1, 0) if instruction.op.commutative else (1,):
        if uniform(instruction.inputs[i], unit):
            return i
    return None


def _unit_operand(instruction: Instruction) -> int | None:
    return _operand(instruction, 1 if instruction.name in ("mul", "div") else 0)


@rule(op("mul|div|add|sub").when(lambda i: _unit_operand(i) is not None))
def find_unit_ops(b: Rewriter) -> Instruction:
    """x · 1 → x; x / 1 → x; x + 0 → x; x - 0 → x"""
    return b.root.inputs[1 - (_unit_operand(b.root) or 0)]


def _has_negatives(instruction: Instruction) -> bool:
    """Whether values can be negated; for bools, ``a - b`` is no sum with a negation."""
    return instruction.shape.type is not DType.BOOL


def _is_float(instruction: Instruction) -> bool:
    return instruction.shape.type.is_float


def _negates(instruction: Instruction) -> int | None:
    if instruction.name == "sub":
        return 0 if _has_negatives(instruction) and uniform(instruction.inputs[0], 0) else None
    return _operand(instruction, -1)


@rule(op("mul|div|sub").when(lambda i: _negates(i) is not None))
def find_neg_unit_ops(b: Rewriter) -> Instruction:
    """x · -1 → neg(x); x / -1 → neg(x); 0 - x → neg(x)"""
    return b("neg", b.root.inputs[1 - (_negates(b.root) or 0)])


_ZERO = literal("zero", lambda i: uniform(i, 0))


@rule(op("quantizelinear|dequantizelinear", var("x"), var("scale"), _ZERO))
def eliminate_zero_point(b: Rewriter, x: Instruction, scale: Instruction) -> Instruction:
    """quantizelinear(x, scale, 0) → quantizelinear(x, scale)"""
    if b.root.name == "dequantizelinear":
        return b(b.root.op, x, scale)
    return b("quantizelinear", x, scale, out_type=b.root.shape.type)


def _zero_operand(instruction: Instruction) -> int | None:
    if instruction.name == "div":
        return 0 if uniform(instruction.inputs[0], 0) else None
    return _operand(instruction, 0)


@rule(op("mul|div").when(lambda i: _zero_operand(i) is not None))
def find_zero_ops(b: Rewriter) -> Instruction | Decline:
    """0 · x → 0; 0 / x → 0, for integers: a float x may be NaN or infinite"""
    if b.root.shape.type.is_float:
        return Decline(
            "the result is NaN where the other operand is NaN, infinite or a zero divisor"
        )
    return b.root.inputs[_zero_operand(b.root) or 0]


@rule(op("div", moving("x"), constant("c")).when(_is_float))
def find_div_const(b: Rewriter, x: Instruction, c: Instruction) -> Instruction | Decline:
    """div(x, c) → mul(x, recip(c)), for a constant c"""
    if not _has_recip(c):
        return Decline("1 / c is not finite in this type for some element of c")
    return b("mul", x, b("recip", c))


def _has_recip(c: Instruction) -> bool:
    """Whether the reciprocal of a literal overflows nowhere; other constants are not looked at."""
    found = behind_broadcasts(c).literal
    if found is None:
        return True
    with np.errstate(all="ignore"):
        values = found.numpy().astype(np.float64)
        return bool(np.isfinite((1.0 / values).astype(c.shape.type.numpy).astype(np.float64)).all())


@rule(op("sub", moving("x"), constant("c")).when(_has_negatives))
def find_sub_const(b: Rewriter, x: Instruction, c: Instruction) -> Instruction:
    """sub(x, c) → add(x, neg(c)), for a constant c"""
    return b("add", x, b("neg", c))


@rule(op("recip", op("sqrt", var("x")).once).when(_is_float))
def find_rsqrt(b: Rewriter, x: Instruction) -> Instruction:
    """recip(sqrt(x)) → rsqrt(x), for floats"""
    return b("rsqrt", x)


@rule(op("log", op("exp", var("x"))).when(_is_float))
def find_log_exp(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """log(exp(x)) → x, for floats"""
    return x


def _exponential(instruction: Instruction) -> bool:
    """Whether a value is positive by its making: an exp, or a sum of such."""
    if is_broadcast(instruction):
        instruction = instruction.inputs[0]
    if instruction.name == "reduce_sum":
        instruction = instruction.inputs[0]
    return instruction.name == "exp"


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


@rule(op("pow", var("x"), literal("n", lambda i: uniform(i, 3))).when(_is_float))
def find_pow3(b: Rewriter, x: Instruction) -> Instruction:
    """pow(x, 3) → mul(x, mul(x, x)), for floats: a power of integers ends at the largest"""
    return b("mul", x, b("mul", x, x))


@register
class SimplifyAlgebra(RewritePass):
    """Regroup arithmetic so that constants meet, and move factors and terms into dots and convolutions."""

    name: ClassVar[str] = "simplify_algebra"
    rules: ClassVar[tuple[Rule, ...]] = (
        find_inner_broadcast,
        find_double_add_lit_broadcast,
        find_add_lit_broadcast,
        find_mul_lit_broadcast,
        find_mul_weights,
        *LINEAR_RULES,
        find_mul_add,
        find_unit_ops,
        find_neg_unit_ops,
        eliminate_zero_point,
        find_zero_ops,
        find_div_const,
        find_sub_const,
        find_rsqrt,
        find_log_exp,
        find_log_div,
        find_concat_same_input,
        find_pow2,
        find_pow3,
    )
