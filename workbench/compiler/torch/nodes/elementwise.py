"""Operators on elements: a table of those that are one operation, and compositions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op

UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atanh": "atanh", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp", "log": "log",
    "log2": "log2", "neg": "neg", "reciprocal": "recip", "relu": "relu", "rsqrt": "rsqrt",
    "sigmoid": "sigmoid", "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh", "bitwise_not": "bitwise_not",
}  # fmt: skip
"""Operators of one tensor that are one operation, in the type of the result."""

ROUNDING = {"ceil": "ceil", "floor": "floor", "round": "nearbyint"}
"""Operators that leave integers as they are."""

BINARY = {
    "mul.Scalar": "mul", "div.Tensor": "div", "div.Scalar": "div",
    "maximum": "max", "minimum": "min", "atan2": "atan2", "bitwise_and.Tensor": "bitwise_and",
    "bitwise_and.Scalar": "bitwise_and", "bitwise_or.Tensor": "bitwise_or",
    "bitwise_or.Scalar": "bitwise_or", "bitwise_xor.Tensor": "bitwise_xor",
    "bitwise_xor.Scalar": "bitwise_xor", "fmod.Tensor": "fmod", "fmod.Scalar": "fmod",
    "remainder.Tensor": "mod", "remainder.Scalar": "mod",
}  # fmt: skip
"""Operators of two operands that are one operation, in the type of the result."""

LOGICAL = {
    "mul": "logical_and", "max": "logical_or", "min": "logical_and", "add": "logical_or",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
    "bitwise_not": "not", "relu": "identity", "abs": "identity", "sign": "identity",
}  # fmt: skip
"""The same on bools."""

COMPARISONS: dict[str, Callable[[Context, Operand, Operand, DType], Instruction]] = {
    "eq": lambda n, a, b, t: n.test("equal", a, b, type=t),
    "gt": lambda n, a, b, t: n.test("greater", a, b, type=t),
    "lt": lambda n, a, b, t: n.test("less", a, b, type=t),
    "ne": lambda n, a, b, t: n.add("not", n.test("equal", a, b, type=t)),
    "ge": lambda n, a, b, t: n.add(
        "logical_or", n.test("greater", a, b, type=t), n.test("equal", a, b, type=t)
    ),
    "le": lambda n, a, b, t: n.add(
        "logical_or", n.test("less", a, b, type=t), n.test("equal", a, b, type=t)
    ),
}


def _named(op: str, type: DType) -> str:
    return LOGICAL.get(op, op) if type is DType.BOOL else op


def _unary(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, x: Instruction, *_: Any) -> Instruction:
        type = node.dtype()
        return node.add(_named(op, type), node.convert(x, type))

    return handler


def _rounding(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, x: Instruction, *_: Any) -> Instruction:
        return node.add(op if x.shape.type.is_float else "identity", x)

    return handler


def _binary(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, a: Operand, b: Operand, *_: Any) -> Instruction:
        type = node.dtype()
        return node.apply(_named(op, type), a, b, type=type)

    return handler


def _comparison(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, a: Operand, b: Operand, *_: Any) -> Instruction:
        return COMPARISONS[op](node, a, b, node.promoted(0, 1))

    return handler


def _logical(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, *operands: Instruction) -> Instruction:
        bools = [truth(node, o) for o in operands]
        return node.add("not", bools[0]) if op == "not" else node.apply(op, *bools, type=DType.BOOL)

    return handler


def truth(node: Context, value: Instruction) -> Instruction:
    """Whether each element differs from 0."""
    return node.convert(value, DType.BOOL)


for _name, _op in UNARY.items():
    torch_op(f"aten.{_name}")(_unary(_op))
for _name, _op in ROUNDING.items():
    torch_op(f"aten.{_name}")(_rounding(_op))
for _name, _op in BINARY.items():
    torch_op(f"aten.{_name}")(_binary(_op))
for _name in COMPARISONS:
    torch_op(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison(_name))
for _name in ("logical_and", "logical_or", "logical_xor"):
    torch_op(f"aten.{_name}")(_logical(_name))
torch_op("aten.logical_not")(_logical("not"))


@torch_op("aten.mul.Tensor")
def product(node: Context, a: Operand, b: Operand) -> Instruction:
    """``a · b``."""
    type = node.dtype()
    return node.apply(_named("mul", type), a, b, type=type)


@torch_op("aten.add.Tensor", "aten.add.Scalar")
def add(node: Context, a: Operand, b: Operand, alpha: float = 1) -> Instruction:
    """``a + alpha · b``."""
    type = node.dtype()
    return node.apply(_named("add", type), a, _scaled(node, b, alpha, type), type=type)


@torch_op("aten.sub.Tensor", "aten.sub.Scalar")
def sub(node: Context, a: Operand, b: Operand, alpha: float = 1) -> Instruction:
    """``a - alpha · b``."""
    type = node.dtype()
    return node.apply("sub", a, _scaled(node, b, alpha, type), type=type)


@torch_op("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(node: Context, a: Operand, b: Operand, alpha: float = 1) -> Instruction:
    """``b - alpha · a``."""
    return sub(node, b, a, alpha)


def _scaled(node: Context, value: Operand, alpha: float, type: DType) -> Operand:
    return value if alpha == 1 else node.apply("mul", value, alpha, type=type)


@torch_op("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(node: Context, a: Operand, b: Operand, rounding_mode: str | None) -> Instruction:
    """A quotient, rounded towards zero or down."""
    type = node.dtype()
    if rounding_mode is None or (rounding_mode == "trunc" and not type.is_float):
        return node.apply("div", a, b, type=type)
    if type.is_float and rounding_mode == "trunc":
        return _truncated(node, node.apply("div", a, b, type=type))
    if type.is_float:
        return _floored(node, node.operand(a, type), node.operand(b, type), type)
    rest = node.apply("mod", a, b, type=type)
    return node.apply("div", node.apply("sub", a, rest, type=type), b, type=type)


def _floored(node: Context, a: Instruction, b: Instruction, type: DType) -> Instruction:
    """The quotient less its remainder, and rounded: exact where the plain quotient would round up."""
    rest = node.apply("mod", a, b, type=type)
    whole = node.apply("div", node.apply("sub", a, rest, type=type), b, type=type)
    near = node.add("floor", node.apply("add", whole, 0.5, type=type))
    quotient = node.apply("div", a, b, type=type)
    is_zero = node.test("equal", b, 0, type=type)
    return node.choose(is_zero, quotient, near, type)


def _truncated(node: Context, x: Instruction) -> Instruction:
    negative = node.test("less", x, 0, type=x.shape.type)
    return node.choose(negative, node.add("ceil", x), node.add("floor", x), x.shape.type)


@torch_op("aten.trunc")
def trunc(node: Context, x: Instruction) -> Instruction:
    """Rounded towards zero."""
    return _truncated(node, x) if x.shape.type.is_float else node.add("identity", x)


@torch_op("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(node: Context, a: Operand, b: Operand) -> Instruction:
    """``a`` to the power of ``b``; of integers to a negative power, only 1 and -1 leave something."""
    type = node.dtype()
    if type.is_float or isinstance(b, int | float):
        return node.apply(_named("pow", type), a, b, type=type)
    below = node.test("less", b, 0, type=type)
    plain = node.apply("pow", a, node.apply("max", b, 0, type=type), type=type)
    odd = node.apply("mod", b, 2, type=type)
    turned = node.apply("sub", 1, node.apply("mul", odd, 2, type=type), type=type)
    unit = node.choose(node.test("equal", a, -1, type=type), turned, 0, type)
    unit = node.choose(node.test("equal", a, 1, type=type), 1, unit, type)
    return node.choose(below, unit, plain, type)


@torch_op("aten.log10")
def log10(node: Context, x: Instruction) -> Instruction:
    """The logarithm to base 10."""
    type = node.dtype()
    return node.apply("mul", node.add("log", node.convert(x, type)), 1 / math.log(10), type=type)


@torch_op("aten.log1p")
def log1p(node: Context, x: Instruction) -> Instruction:
    """``log(1 + x)``, exact near 0: ``x · log(u) / (u - 1)`` with the rounded ``u = 1 + x`` (W. Kahan)."""
    type = node.dtype()
    x = node.convert(x, type)
    u = node.apply("add", x, 1, type=type)
    rest = node.apply("sub", u, 1, type=type)
    log = node.add("log", u)
    exact = node.apply("mul", log, node.apply("div", x, rest, type=type), type=type)
    tiny = node.test("equal", rest, 0, type=type)
    large = node.test("greater", node.add("abs", x), 0.5, type=type)
    return node.choose(tiny, x, node.choose(large, log, exact, type), type)


@torch_op("aten.expm1")
def expm1(node: Context, x: Instruction) -> Instruction:
    """``eˣ - 1``, exact near 0: ``(u - 1) · x / log(u)`` with the rounded ``u = eˣ`` (W. Kahan)."""
    type = node.dtype()
    x = node.convert(x, type)
    u = node.add("exp", x)
    rest = node.apply("sub", u, 1, type=type)
    exact = node.apply("mul", rest, node.apply("div", x, node.add("log", u), type=type), type=type)
    tiny = node.test("equal", rest, 0, type=type)
    large = node.test("greater", node.add("abs", x), 0.5, type=type)
    return node.choose(tiny, x, node.choose(large, rest, exact, type), type)


@torch_op("aten.isinf")
def isinf(node: Context, x: Instruction) -> Instruction:
    """Whether each element is infinite."""
    return _special(node, "isinf", x)


@torch_op("aten.isnan")
def isnan(node: Context, x: Instruction) -> Instruction:
    """Whether each element is NaN."""
    return _special(node, "isnan", x)


def _special(node: Context, op: str, x: Instruction) -> Instruction:
    if not x.shape.type.is_float:
        return node.filled(DType.BOOL, node.lens(x), value=False)
    return node.convert(node.add(op, x), DType.BOOL)


@torch_op("aten.where.self")
def where(node: Context, condition: Instruction, a: Operand, b: Operand) -> Instruction:
    """One value where a condition holds, else the other."""
    return node.choose(condition, a, b, node.dtype())


@torch_op("aten.clamp", "aten.clamp.Tensor", "aten.hardtanh")
def clamp(
    node: Context, x: Instruction, low: Operand | None, high: Operand | None = None
) -> Instruction:
    """A value within bounds, either of which may be missing."""
    type = node.dtype()
    found = node.convert(x, type)
    for op, bound in (("max", low), ("min", high)):
        if bound is not None:
            found = node.apply(op, found, bound, type=type)
    return found if found is not x else node.add("identity", x)


@torch_op("aten.gelu")
def gelu(node: Context, x: Instruction, approximate: str = "none") -> Instruction:
    """The Gaussian error linear unit, by the error function or by a hyperbolic tangent."""
    wide = node.convert(x, DType.FLOAT) if x.shape.type.is_narrow_float else x
    type = wide.shape.type
    half = node.apply("mul", wide, 0.5, type=type)
    if approximate == "tanh":
        cube = node.apply("mul", node.apply("mul", wide, wide, type=type), wide, type=type)
        inner = node.apply("add", wide, node.apply("mul", cube, 0.044715, type=type), type=type)
        bent = node.add("tanh", node.apply("mul", inner, math.sqrt(2 / math.pi), type=type))
    else:
        bent = node.add("erf", node.apply("mul", wide, math.sqrt(0.5), type=type))
    return node.convert(
        node.apply("mul", half, node.apply("add", bent, 1, type=type), type=type), x.shape.type
    )


@torch_op("aten.elu")
def elu(
    node: Context, x: Instruction, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Instruction:
    """``scale · x`` where x > 0, else ``scale · alpha · (exp(input_scale · x) - 1)``."""
    type = x.shape.type
    if input_scale == 1 and scale == 1:
        return node.add("elu", x, alpha=float(alpha))
    raised = node.add("exp", node.apply("mul", x, input_scale, type=type))
    below = node.apply("mul", node.apply("sub", raised, 1, type=type), alpha * scale, type=type)
    above = node.apply("mul", x, scale, type=type)
    return node.choose(node.test("greater", x, 0, type=type), above, below, type)


@torch_op("aten.leaky_relu")
def leaky_relu(node: Context, x: Instruction, negative_slope: float = 0.01) -> Instruction:
    """x where x > 0, else ``negative_slope · x``."""
    return node.add("leaky_relu", x, alpha=float(negative_slope))


@torch_op(
    "aten.alias", "aten.clone", "aten.detach", "aten.detach_copy", "aten.lift_fresh_copy", "aten.lift",
    "aten.contiguous",
)  # fmt: skip
def same(node: Context, x: Instruction, *_: Any) -> Instruction:
    """The value itself."""
    return node.add("identity", x)


@torch_op("aten.copy")
def copied(node: Context, x: Instruction, source: Instruction, *_: Any) -> Instruction:
    """A value with the type and the lens of another."""
    return node.fit(node.convert(source, x.shape.type), node.lens(x))


@torch_op("aten.fill.Scalar", "aten.fill.Tensor", "aten.full_like")
def filled(node: Context, x: Instruction, value: Operand, *_: Any) -> Instruction:
    """One number in the lens of a value."""
    return node.fit(node.operand(value, node.dtype()), node.out_lens())


@torch_op("aten.erfc")
def erfc(node: Context, x: Instruction) -> Instruction:
    """``1 - erf(x)``."""
    type = node.dtype()
    return node.apply("sub", 1, node.add("erf", node.convert(x, type)), type=type)


@torch_op("aten.exp2")
def exp2(node: Context, x: Instruction) -> Instruction:
    """2 to the power of x."""
    return node.apply("pow", 2, x, type=node.dtype())


@torch_op("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(node: Context, x: Operand, sign: Operand) -> Instruction:
    """The size of one value with the sign of another, whose zeros have signs, too."""
    type = node.dtype()
    size, given = node.add("abs", node.operand(x, type)), node.operand(sign, type)
    below = node.test("less", node.apply("div", 1, given, type=type), 0, type=type)
    below = node.apply("logical_or", below, node.test("less", given, 0, type=type), type=DType.BOOL)
    return node.choose(below, node.add("neg", size), size, type)


@torch_op("aten.hypot")
def hypot(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """``√(a² + b²)``."""
    type = node.dtype()
    squares = [node.apply("mul", v, v, type=type) for v in (a, b)]
    return node.add("sqrt", node.apply("add", *squares, type=type))


@torch_op("aten.fmax", "aten.fmin")
def number(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The larger or smaller element of two; a number is preferred to NaN."""
    type, op = node.dtype(), "max" if "fmax" in str(node.fx.target) else "min"
    found = node.apply(_named(op, type), a, b, type=type)
    if not type.is_float:
        return found
    missing = [node.convert(node.add("isnan", node.convert(v, type)), DType.BOOL) for v in (a, b)]
    return node.choose(missing[0], b, node.choose(missing[1], a, found, type), type)


@torch_op("aten.bitwise_left_shift.Tensor", "aten.bitwise_right_shift.Tensor")
def shifted(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The bits of integers shifted."""
    side = "left" if "left" in str(node.fx.target) else "right"
    return node.apply(f"shift_{side}", a, b, type=node.dtype())
