"""Steps that compute element by element, with broadcasting, and conversions between types."""

import math

import numpy as np
from onnx import helper

from tests.onnx.graphs.growing import (
    BOOL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SMALL,
    Known,
    Model,
    Value,
    like,
    step,
)  # fmt: skip


def is_number(x: Value) -> bool:
    return x.type in NUMBERS


def is_float(x: Value) -> bool:
    return x.type in FLOATS


def is_exact(x: Value) -> bool:
    return x.grid > 0


def pair(model: Model, fits) -> tuple[Value, Value, tuple[int, ...]] | None:
    """Two values of one type that broadcast together, and the lens of the result; the second may be new."""
    a = model.value(fits)
    if a is None:
        return None
    b = (
        None
        if model.integer(0, 2) == 0
        else model.value(lambda v: v.type == a.type and fits(v) and _together(a, v) is not None)
    )
    if b is None:
        lens = tuple(1 if model.integer(0, 3) == 0 else n for n in a.lens)[
            model.integer(0, a.rank) :
        ]
        b = model.given(a.type, lens, False)
    lens = _together(a, b)
    assert lens is not None
    return (a, b, lens) if model.flag() else (b, a, lens)


def _together(a: Value, b: Value) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a.lens, b.lens)
    except ValueError:
        return None


def products(a: Value, b: Value) -> tuple[float, float]:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


@step
def adds(model: Model) -> None:
    if found := pair(model, is_number):
        a, b, lens = found
        grid, error = min(a.grid, b.grid), a.error + b.error
        if model.flag():
            model.add(
                "Add", [a, b], Known(a.type, lens, a.low + b.low, a.high + b.high, grid, error)
            )
        else:
            model.add(
                "Sub", [a, b], Known(a.type, lens, a.low - b.high, a.high - b.low, grid, error)
            )


@step
def multiplies(model: Model) -> None:
    if found := pair(model, is_number):
        a, b, lens = found
        error = a.bound * b.error + b.bound * a.error
        model.add("Mul", [a, b], Known(a.type, lens, *products(a, b), a.grid * b.grid, error))


@step
def takes_the_larger(model: Model) -> None:
    if found := pair(model, is_number):
        a, b, lens = found
        grid, error = min(a.grid, b.grid), max(a.error, b.error)
        if model.flag():
            model.add(
                "Max",
                [a, b],
                Known(a.type, lens, max(a.low, b.low), max(a.high, b.high), grid, error),
            )
        else:
            model.add(
                "Min",
                [a, b],
                Known(a.type, lens, min(a.low, b.low), min(a.high, b.high), grid, error),
            )


@step
def divides(model: Model) -> None:
    """By constants away from 0."""
    if x := model.value(is_number):
        by = model.given(x.type, x.lens[model.integer(0, x.rank) :], False, 1, 4)
        if x.type.kind == "f":
            model.add(
                "Div",
                [x, by],
                like(
                    x,
                    low=min(2 * x.low, x.low),
                    high=max(2 * x.high, x.high),
                    grid=0,
                    error=2 * x.error,
                ),
            )  # the least constant is a half
        elif model.flag():
            model.add("Div", [x, by], like(x, low=min(x.low, 0), high=max(x.high, 0)))
        else:
            model.add("Mod", [x, by], like(x, low=0, high=4))


@step
def keeps_the_grid(model: Model) -> None:
    if x := model.value(is_number):
        op = model.one_of(["Neg", "Abs", "Relu", "Identity"])
        known = {
            "Neg": {"low": -x.high, "high": -x.low},
            "Abs": {
                "low": 0 if x.low < 0 < x.high else min(abs(x.low), abs(x.high)),
                "high": x.bound,
            },
            "Relu": {"low": max(x.low, 0), "high": max(x.high, 0)},
            "Identity": {},
        }
        if op != "Relu" or x.type.kind == "f" or x.type == np.int32:
            model.add(op, [x], like(x, **known[op]))


@step
def clips(model: Model) -> None:
    if x := model.value(is_number):
        low, high = sorted((model.integer(-3, 3), model.integer(-3, 3)))
        ends = [model.constant(v, x.type) if model.flag() else "" for v in (low, high)]
        bottom = low if ends[0] else -math.inf
        top = high if ends[1] else math.inf
        known = [min(max(v, bottom), top) for v in (x.low, x.high)]
        model.add(
            "Clip", [x, *ends], like(x, low=known[0], high=known[1], grid=x.grid and min(x.grid, 1))
        )


@step
def rounds(model: Model) -> None:
    if x := model.value(lambda v: is_float(v) and is_exact(v)):
        op = model.one_of(["Floor", "Ceil", "Round", "Sign"])
        known = like(x, low=math.floor(x.low), high=math.ceil(x.high), grid=max(x.grid, 1))
        model.add(op, [x], like(x, low=-1, high=1, grid=1) if op == "Sign" else known)


SMOOTH = {
    "Atan": (1, math.atan),
    "Elu": (1, lambda v: v if v > 0 else math.expm1(v)),
    "Erf": (1.2, math.erf),
    "Exp": (None, math.exp),
    "HardSigmoid": (0.2, lambda v: min(max(0.2 * v + 0.5, 0), 1)),
    "LeakyRelu": (1, lambda v: v if v > 0 else 0.01 * v),
    "Sigmoid": (0.25, lambda v: 1 / (1 + math.exp(-v))),
    "Softplus": (1, lambda v: math.log1p(math.exp(v))),
    "Softsign": (1, lambda v: v / (1 + abs(v))),
    "Tanh": (1, math.tanh),
}
"""Increasing functions with the steepest slope, and what they are; the slope of exp is its largest value."""


@step
def bends(model: Model) -> None:
    op = model.one_of(sorted(SMOOTH))
    if x := model.value(lambda v: is_float(v) and v.bound <= 8):
        slope, function = SMOOTH[op]
        low, high = function(x.low), function(x.high)
        error = x.error * (high if slope is None else slope)
        model.add(op, [x], like(x, low=low, high=high, grid=0, error=error), times=8)


@step
def bends_down_or_both_ways(model: Model) -> None:
    if x := model.value(lambda v: is_float(v) and v.bound <= 8):
        op = model.one_of(["Sin", "Cos", "Gelu", "HardSwish", "Mish"])
        ends = (-1, 1) if op in ("Sin", "Cos") else (-0.5, max(x.high, 0))
        model.add(
            op, [x], like(x, low=ends[0], high=ends[1], grid=0, error=1.5 * x.error), times=16
        )


@step
def takes_a_root(model: Model) -> None:
    """Of what is at least 1, where the root is not steep."""
    if x := model.value(lambda v: is_float(v) and v.low >= 1):
        op = model.one_of(["Sqrt", "Log", "Reciprocal"])
        function = {"Sqrt": math.sqrt, "Log": math.log, "Reciprocal": lambda v: 1 / v}[op]
        low, high = sorted(map(function, (x.low, x.high)))
        model.add(op, [x], like(x, low=low, high=high, grid=0, error=x.error), times=4)


@step
def adds_to_a_square(model: Model) -> None:
    """One more than the square, of which a root can be taken."""
    if x := model.value(is_float):
        two, one = model.constant(2, x.type), model.constant(1, x.type)
        before = len(model.values)
        known = like(x, low=0, high=x.bound**2, grid=x.grid**2, error=2 * x.bound * x.error)
        model.add("Pow", [x, two], known, times=4)
        if len(model.values) > before:
            y = model.values[-1]
            low = max(y.low, 0)
            model.add(
                "Add",
                [y, one],
                like(y, low=1 + low - y.error, high=1 + y.high, grid=min(y.grid, 1)),
            )


@step
def compares(model: Model) -> None:
    if found := pair(model, lambda v: is_number(v) and is_exact(v)):
        a, b, lens = found
        op = model.one_of(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
        model.add(op, [a, b], Known(BOOL, lens, 0, 1, 1))


@step
def joins_conditions(model: Model) -> None:
    if found := pair(model, lambda v: v.type == BOOL):
        a, b, lens = found
        op = model.one_of(["And", "Or", "Xor", "Not"])
        if op == "Not":
            model.add(op, [a], like(a))
        else:
            model.add(op, [a, b], Known(BOOL, lens, 0, 1, 1))


@step
def chooses(model: Model) -> None:
    condition = model.value(lambda v: v.type == BOOL)
    found = pair(model, is_number)
    if condition and found:
        a, b, lens = found
        try:
            lens = np.broadcast_shapes(lens, condition.lens)
        except ValueError:
            return
        known = Known(
            a.type,
            lens,
            min(a.low, b.low),
            max(a.high, b.high),
            min(a.grid, b.grid),
            max(a.error, b.error),
        )
        model.add("Where", [condition, a, b], known)


@step
def converts(model: Model) -> None:
    if x := model.value():
        type = model.one_of((*NUMBERS, *SMALL, BOOL))
        to = {"to": _code(type)}
        if type == BOOL:
            if is_exact(x):
                model.add("Cast", [x], Known(BOOL, x.lens, 0, 1, 1), **to)
        elif type.kind == "f":
            model.add("Cast", [x], like(x, type=type), **to)
        elif is_exact(x) and np.iinfo(type).min <= x.low and x.high <= np.iinfo(type).max:
            model.add(
                "Cast", [x], Known(type, x.lens, math.floor(x.low), math.ceil(x.high), 1), **to
            )


def _code(type: np.dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(type)


@step
def quantizes(model: Model) -> None:
    """By powers of two, so that halves are rounded alike; saturates where the bounds leave the type."""
    if x := model.value(lambda v: v.type == np.float32 and is_exact(v)):
        type = model.one_of(SMALL)
        scale = 2.0 ** model.integer(-3, 2)
        zero = model.integer(int(np.iinfo(type).min), int(np.iinfo(type).max))
        parts = [model.constant(scale, np.float32), model.constant(zero, type)]
        info = np.iinfo(type)
        low, high = (
            float(np.clip(np.rint(v / scale) + zero, info.min, info.max)) for v in (x.low, x.high)
        )
        before = len(model.values)
        model.add("QuantizeLinear", [x, *parts], Known(type, x.lens, low, high, 1))
        if model.integer(0, 3) and len(model.values) > before:
            q = model.values[-1]
            ends = [(v - zero) * scale for v in (low, high)]
            model.add("DequantizeLinear", [q, *parts], Known(x.type, x.lens, *ends, scale))


@step
def shifts_bits(model: Model) -> None:
    if found := pair(model, lambda v: v.type in INTEGERS and v.low >= 0):
        a, b, lens = found
        top = 2.0 ** math.ceil(math.log2(max(a.high, b.high) + 1)) - 1
        model.add(
            model.one_of(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]),
            [a, b],
            Known(a.type, lens, 0, top, 1),
        )
