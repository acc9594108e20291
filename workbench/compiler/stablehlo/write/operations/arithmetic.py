"""Elementwise arithmetic: one operation where StableHLO has it, else a few, in the type of the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Tensor
from workbench.compiler.stablehlo.write.registry import writes

NATIVE = {
    "abs": "abs", "acos": "chlo.acos", "acosh": "chlo.acosh", "add": "add", "asin": "chlo.asin",
    "asinh": "chlo.asinh", "atan": "chlo.atan", "atan2": "atan2", "atanh": "chlo.atanh", "ceil": "ceil",
    "cos": "cosine", "cosh": "chlo.cosh", "erf": "chlo.erf", "exp": "exponential", "floor": "floor",
    "log": "log", "max": "maximum", "min": "minimum", "mul": "multiply", "nearbyint": "round_nearest_even",
    "neg": "negate", "pow": "power", "rsqrt": "rsqrt", "sigmoid": "logistic", "sign": "sign", "sin": "sine",
    "sinh": "chlo.sinh", "sqrt": "sqrt", "sub": "subtract", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
"""Operations that are one of StableHLO's, or of CHLO's, which JAX takes too."""

_WHOLE = {"ceil", "floor", "nearbyint"}
_UNSIGNED = {"abs"}


@writes(*NATIVE)
def native(call: Call) -> Tensor:
    """One operation, in the type of the arithmetic."""
    name, kind = call.op.name, call.x.type.format.kind
    if (name in _WHOLE and not call.x.type.is_float) or (name in _UNSIGNED and kind == "unsigned"):
        return call.x
    inputs = call.widened()
    if name == "sign" and kind == "unsigned":
        made = call.to.add("minimum", inputs[0], call.to.like(inputs[0], 1))
    else:
        made = call.to.add(NATIVE[name], *inputs)
    return call.narrowed(made)


Formula: TypeAlias = "Callable[[Work, list[Tensor]], Tensor]"


class Work:
    """The lines of a formula, all in one type."""

    def __init__(self, call: Call, like: Tensor) -> None:
        self.call, self.op, self.to = call, call.op, call.to
        self.own = like

    def __call__(self, op: str, *inputs: Tensor | float) -> Tensor:
        """Add an operation on values and numbers."""
        return self.to.add(
            op, *(self.number(v) if isinstance(v, int | float) else v for v in inputs)
        )

    def number(self, value: float) -> Tensor:
        """A constant of the type and lens."""
        return self.to.like(self.own, value)

    def test(self, direction: str, a: Tensor, b: Tensor | float) -> Tensor:
        """A comparison, as bools."""
        return self.to.compare(direction, a, self.number(b) if isinstance(b, int | float) else b)

    def choose(self, condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
        """One value where a condition holds, else the other."""
        first, second = (self.number(v) if isinstance(v, int | float) else v for v in (a, b))
        return self.to.select(condition, first, second)


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula as the writer of operations: operands are converted to the type of arithmetic."""

    def register(function: Formula) -> Formula:
        def write(call: Call) -> Tensor:
            inputs = call.widened()
            return call.narrowed(function(Work(call, inputs[0]), inputs))

        writes(*names)(write)
        return function

    return register


@formula("recip")
def _recip(w: Work, x: list[Tensor]) -> Tensor:
    return w("divide", 1, x[0])


@formula("relu")
def _relu(w: Work, x: list[Tensor]) -> Tensor:
    return w("maximum", x[0], 0)


@formula("log2")
def _log2(w: Work, x: list[Tensor]) -> Tensor:
    """The quotient of logarithms; of a power of 2 that is whole, it is exact, as integers truncate it."""
    found = w("divide", w("log", x[0]), math.log(2))
    if w.call.x.type.is_float:
        return found
    near = w("round_nearest_even", found)
    is_power = w.test("EQ", w("power", w.number(2), near), x[0])
    return w.choose(is_power, near, found)


@formula("sqdiff")
def _sqdiff(w: Work, x: list[Tensor]) -> Tensor:
    difference = w("subtract", *x)
    return w("multiply", difference, difference)


@formula("div")
def _div(w: Work, x: list[Tensor]) -> Tensor:
    """The quotient; that of an integer by 0 is 0."""
    if x[0].type.is_float:
        return w("divide", *x)
    none = w.test("EQ", x[1], 0)
    return w.choose(none, 0, w("divide", x[0], w.choose(none, 1, x[1])))


@formula("fmod", "mod")
def _mod(w: Work, x: list[Tensor]) -> Tensor:
    """The remainder with the sign of x; for ``mod``, with that of y."""
    own, by = x
    if not own.type.is_float:
        none = w.test("EQ", by, 0)
        rest = w.choose(none, 0, w("remainder", own, w.choose(none, 1, by)))
    else:
        rest = w("remainder", *x)
    if w.op.name == "fmod" or own.type.format.kind == "unsigned":
        return rest
    zero = w.test("EQ", rest, 0)
    below = w.test("LT", by, 0)
    differs = w.to.add("xor", w.test("LT", rest, 0), below)
    moved = w.choose(differs, w("add", rest, by), rest)
    none = w.choose(below, -0.0, 0.0) if own.type.is_float else w.number(0)
    return w.choose(zero, none, moved)


@formula("prelu")
def _prelu(w: Work, x: list[Tensor]) -> Tensor:
    return w.choose(w.test("LT", x[0], 0), w("multiply", *x), x[0])


@formula("leaky_relu")
def _leaky_relu(w: Work, x: list[Tensor]) -> Tensor:
    return w.choose(w.test("GT", x[0], 0), x[0], w("multiply", x[0], w.op.alpha))


@formula("elu")
def _elu(w: Work, x: list[Tensor]) -> Tensor:
    low = w("multiply", w("exponential_minus_one", w("minimum", x[0], 0)), w.op.alpha)
    return w.choose(w.test("GT", x[0], 0), x[0], low)


@formula("softplus")
def _softplus(w: Work, x: list[Tensor]) -> Tensor:
    tail = w("log_plus_one", w("exponential", w("negate", w("abs", x[0]))))
    return w("add", w("maximum", x[0], 0), tail)


@formula("softsign")
def _softsign(w: Work, x: list[Tensor]) -> Tensor:
    return w("divide", x[0], w("add", w("abs", x[0]), 1))


@formula("affine")
def _affine(w: Work, x: list[Tensor]) -> Tensor:
    return w("add", w("multiply", x[0], w.op.alpha), w.op.beta)


@formula("hard_sigmoid")
def _hard_sigmoid(w: Work, x: list[Tensor]) -> Tensor:
    return w("minimum", w("maximum", _affine(w, x), 0), 1)


@formula("scaled_tanh")
def _scaled_tanh(w: Work, x: list[Tensor]) -> Tensor:
    return w("multiply", w("tanh", w("multiply", x[0], w.op.beta)), w.op.alpha)


@formula("thresholded_relu")
def _thresholded_relu(w: Work, x: list[Tensor]) -> Tensor:
    return w.choose(w.test("GT", x[0], w.op.alpha), x[0], 0)


@formula("clip")
def _clip(w: Work, x: list[Tensor]) -> Tensor:
    return w("minimum", w("maximum", x[0], x[1]), x[2])


# Comparisons and logic, whose results are 1 or 0 in the type of the operands


@writes("equal", "greater", "less")
def compared(call: Call) -> Tensor:
    """A comparison, converted to the operands' type."""
    direction = {"equal": "EQ", "greater": "GT", "less": "LT"}[call.op.name]
    return call.narrowed(call.to.compare(direction, *call.inputs))


@writes("logical_and", "logical_or", "logical_xor")
def logical(call: Call) -> Tensor:
    """A function of what differs from 0."""
    bools = [call.to.convert(v, DType.BOOL) for v in call.inputs]
    return call.narrowed(call.to.add(call.op.name.removeprefix("logical_"), *bools))


@writes("not")
def negation(call: Call) -> Tensor:
    """Whether an element is 0."""
    return call.narrowed(call.to.compare("EQ", call.x, call.to.like(call.x, 0)))


@writes("isnan", "isinf")
def special(call: Call) -> Tensor:
    """A comparison with itself, or with infinity."""
    if not call.x.type.is_float:
        return call.to.full(DType.BOOL, call.x.lens, value=False)
    x = call.to.convert(call.x, call.work)
    if call.op.name == "isnan":
        return call.to.compare("NE", x, x)
    return call.to.compare("EQ", call.to.add("abs", x), call.to.like(x, math.inf))


@writes("where")
def where(call: Call) -> Tensor:
    """A selection by what differs from 0; one condition chooses everywhere."""
    condition, a, b = call.inputs
    condition = call.to.convert(condition, DType.BOOL)
    if condition.lens != a.lens:
        condition = call.to.broadcast(call.to.reshape(condition, ()), a.lens)
    return call.to.select(condition, a, b)


@writes("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def bits(call: Call) -> Tensor:
    """The operation on bits, which is one on bools too."""
    return call.to.add(call.op.name.removeprefix("bitwise_"), *call.inputs)


@writes("shift_left", "shift_right")
def shifted(call: Call) -> Tensor:
    """A shift; one by a negative number or past the width leaves no bits, or sign bits."""
    x, by = call.inputs
    signed = x.type.format.kind != "unsigned"
    if call.op.name == "shift_left":
        op = "shift_left"
    else:
        op = "shift_right_arithmetic" if signed else "shift_right_logical"
    last = call.to.like(by, x.type.size * 8 - 1)
    past = call.to.compare("GT", by, last)
    if signed:
        past = call.to.add("or", past, call.to.compare("LT", by, call.to.like(by, 0)))
    inside = call.to.add(op, x, call.to.select(past, last, by))
    beyond = inside if op == "shift_right_arithmetic" else call.to.like(x, 0)
    return call.to.select(past, beyond, inside)
