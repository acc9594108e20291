"""Operations on elements: a table of those that are one operation, and compositions."""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.registry import stablehlo_op

TABLE = {
    "stablehlo": {
        "abs": "abs", "atan2": "atan2", "ceil": "ceil", "cosine": "cos", "divide": "div",
        "exponential": "exp", "floor": "floor", "log": "log", "logistic": "sigmoid", "negate": "neg",
        "power": "pow", "remainder": "fmod", "round_nearest_even": "nearbyint", "rsqrt": "rsqrt",
        "shift_left": "shift_left", "sine": "sin", "sqrt": "sqrt", "subtract": "sub", "tan": "tan",
        "tanh": "tanh", "maximum": "max", "minimum": "min", "add": "add", "multiply": "mul",
        "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not",
        "shift_right_arithmetic": "shift_right",
    },
    "chlo": {
        "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
        "atanh": "atanh", "cosh": "cosh", "erf": "erf", "sinh": "sinh", "tan": "tan", "square": "",
    },
}  # fmt: skip
"""Operations that are one operation of ours, on operands of equal lens."""

LOGICAL = {
    "add": "logical_or", "mul": "logical_and", "max": "logical_or", "min": "logical_and",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
    "bitwise_not": "not",
}  # fmt: skip
"""The same on bools."""


def _plain(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, *operands: Instruction) -> Instruction:
        is_bool = operands[0].shape.type is DType.BOOL
        return node.add(LOGICAL.get(op, op) if is_bool else op, *operands)

    return handler


for _dialect, _names in TABLE.items():
    for _name, _op in _names.items():
        if _op:
            stablehlo_op(f"{_dialect}.{_name}")(_plain(_op))


@stablehlo_op("sign")
def sign(node: Context, x: Instruction) -> Instruction:
    """The sign; NaN stays NaN."""
    found = node.add("sign", x)
    if not x.shape.type.is_float:
        return found
    return node.choose(node.convert(node.add("isnan", x), DType.BOOL), x, found)


@stablehlo_op("shift_right_logical")
def shift_right_logical(node: Context, x: Instruction, by: Instruction) -> Instruction:
    """The bits shifted right with zeros behind them; 0 for shifts past the width."""
    signed = {
        DType.INT8: DType.UINT8, DType.INT16: DType.UINT16, DType.INT32: DType.UINT32,
        DType.INT64: DType.UINT64,
    }  # fmt: skip
    own = x.shape.type
    if own not in signed:
        return node.add("shift_right", x, by)
    bits = [node.add("bit_cast", v, target_type=signed[own]) for v in (x, by)]
    return node.add("bit_cast", node.add("shift_right", *bits), target_type=own)


@stablehlo_op("compare")
def compare(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """A comparison as a bool; zeros of both signs are equal, even in a total order."""
    plain = {"EQ": "equal", "GT": "greater", "LT": "less"}
    direction = node.word("comparison_direction")
    if direction in plain:
        return node.test(plain[direction], a, b)
    if direction == "NE":
        return node.add("not", node.test("equal", a, b))
    strict = node.test("greater" if direction == "GE" else "less", a, b)
    return node.add("logical_or", strict, node.test("equal", a, b))


@stablehlo_op("select")
def select(node: Context, condition: Instruction, a: Instruction, b: Instruction) -> Instruction:
    """One value where a condition holds, else the other; one condition may choose whole values."""
    return node.add("where", node.fit(condition, a.shape.lens), a, b)


@stablehlo_op("clamp")
def clamp(node: Context, low: Instruction, x: Instruction, high: Instruction) -> Instruction:
    """A value within bounds, which may be one number each."""
    low, high = (node.fit(v, x.shape.lens) for v in (low, high))
    return node.add("clip", x, low, high)


@stablehlo_op("convert", "reduce_precision")
def convert(node: Context, x: Instruction) -> Instruction:
    """The value in another type.

    Raises:
        ModelError: A precision that is not the type's own.
    """
    if node.op.name.endswith("reduce_precision"):
        return _rounded(node, x)
    return node.convert(x, node.type())


def _rounded(node: Context, x: Instruction) -> Instruction:
    formats = {
        (5, 10): DType.HALF,
        (8, 7): DType.BF16,
        (8, 23): DType.FLOAT,
        (11, 52): DType.DOUBLE,
    }
    bits = node.whole("exponent_bits"), node.whole("mantissa_bits")
    if bits not in formats:
        raise node.fail(
            f"exponents of {bits[0]} and mantissas of {bits[1]} bits; expected a type's own"
        )
    return node.convert(node.convert(x, formats[bits]), x.shape.type)


@stablehlo_op("bitcast_convert")
def bitcast_convert(node: Context, x: Instruction) -> Instruction:
    """The bits of elements as another type of as many bits.

    Raises:
        ModelError: The types have other sizes.
    """
    if x.shape.type.size != node.type().size:
        raise node.fail(f"{x.shape} as {node.type().type_name}; expected types of equal size")
    return node.add("bit_cast", x, target_type=node.type())


@stablehlo_op("is_finite")
def is_finite(node: Context, x: Instruction) -> Instruction:
    """Whether elements are neither infinite nor NaN."""
    odd = [node.convert(node.add(op, x), DType.BOOL) for op in ("isinf", "isnan")]
    return node.add("not", node.add("logical_or", *odd))


@stablehlo_op("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_inf(node: Context, x: Instruction) -> Instruction:
    """Whether elements are infinite, of either or of one sign."""
    if node.op.name == "chlo.is_inf":
        return node.convert(node.add("isinf", x), DType.BOOL)
    return node.test("equal", x, math.inf if "pos" in node.op.name else -math.inf)


@stablehlo_op("round_nearest_afz")
def round_nearest_afz(node: Context, x: Instruction) -> Instruction:
    """Rounded to whole numbers, halves away from zero."""
    size = node.add("abs", x)
    low = node.add("floor", size)
    half = node.test("less", node.apply("sub", size, low), 0.5)
    near = node.choose(half, low, node.apply("add", low, 1.0))
    return node.choose(node.test("less", x, 0.0), node.add("neg", near), near)


@stablehlo_op("cbrt")
def cbrt(node: Context, x: Instruction) -> Instruction:
    """The cube root, with the sign of x."""
    root = node.apply("pow", node.add("abs", x), 1 / 3)
    return node.choose(node.test("less", x, 0.0), node.add("neg", root), root)


@stablehlo_op("log_plus_one")
def log_plus_one(node: Context, x: Instruction) -> Instruction:
    """``log(1 + x)``, exact near 0: ``x · log(u) / (u - 1)`` with the rounded ``u = 1 + x`` (W. Kahan)."""
    u = node.apply("add", x, 1.0)
    rest = node.apply("sub", u, 1.0)
    log = node.add("log", u)
    exact = node.add("mul", log, node.add("div", x, rest))
    large = node.test("greater", node.add("abs", x), 0.5)
    chosen = node.choose(large, log, exact)
    return node.choose(node.test("equal", rest, 0.0), x, chosen)


@stablehlo_op("exponential_minus_one")
def exponential_minus_one(node: Context, x: Instruction) -> Instruction:
    """``eˣ - 1``, exact near 0: ``(u - 1) · x / log(u)`` with the rounded ``u = eˣ`` (W. Kahan)."""
    u = node.add("exp", x)
    rest = node.apply("sub", u, 1.0)
    exact = node.add("mul", rest, node.add("div", x, node.add("log", u)))
    large = node.test("greater", node.add("abs", x), 0.5)
    chosen = node.choose(large, rest, exact)
    return node.choose(node.test("equal", rest, 0.0), x, chosen)


@stablehlo_op("chlo.square")
def square(node: Context, x: Instruction) -> Instruction:
    """``x²``."""
    return node.add("mul", x, x)


@stablehlo_op("chlo.erfc")
def erfc(node: Context, x: Instruction) -> Instruction:
    """``1 - erf(x)``, which loses its digits where x is large, as float32 does beyond 4."""
    return node.apply("sub", 1.0, node.add("erf", x))


@stablehlo_op("popcnt")
def popcnt(node: Context, x: Instruction) -> Instruction:
    """The number of bits that are set, in pairs, nibbles and bytes at a time."""
    own, bits = x.shape.type, x.shape.type.size * 8
    unsigned = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}[bits]
    found = x if own is unsigned else node.add("bit_cast", x, target_type=unsigned)
    for width in (1, 2, 4, 8, 16, 32):
        if width < bits:
            mask = sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width))
            low = node.apply("bitwise_and", found, mask)
            shifted = node.apply("shift_right", found, width)
            found = node.add("add", low, node.apply("bitwise_and", shifted, mask))
    return node.convert(found, own)


@stablehlo_op("count_leading_zeros")
def count_leading_zeros(node: Context, x: Instruction) -> Instruction:
    """The number of zeros before the first bit that is set."""
    own, bits = x.shape.type, x.shape.type.size * 8
    unsigned = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}[bits]
    found = x if own is unsigned else node.add("bit_cast", x, target_type=unsigned)
    width = 1
    while width < bits:
        found = node.add("bitwise_or", found, node.apply("shift_right", found, width))
        width *= 2
    return node.convert(popcnt(node, node.add("bitwise_not", found)), own)


@stablehlo_op("constant")
def constant(node: Context) -> Instruction:
    """A literal."""
    return node.literal(node.owner.constant(node.op))


@stablehlo_op("iota")
def iota(node: Context) -> Instruction:
    """Whole numbers counted along one axis."""
    lens, axis = node.out_lens(), node.whole("iota_dimension")
    numbers = node.counting(range(lens[axis])).astype(node.type().numpy)
    shape = [lens[axis] if a == axis else 1 for a in range(len(lens))]
    return node.fit(node.module.add_literal(numbers.reshape(shape)), lens)


@stablehlo_op("optimization_barrier")
def same(node: Context, *values: Instruction) -> list[Instruction]:
    """The values themselves."""
    return list(values)
