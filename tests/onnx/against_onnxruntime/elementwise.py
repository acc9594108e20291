"""Generators of what is computed element by element."""

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.onnx.against_onnxruntime.pick import (
    FLOATS,
    FP8,
    INTEGERS,
    NIBBLES,
    NUMPY,
    Example,
    Pick,
    covers,
    is_float,
    limits,
)

ALPHA = ("Elu", "LeakyRelu", "ThresholdedRelu", "Celu")


@covers("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Relu", "Reciprocal", "Sqrt", "Exp", "Log",
        "Erf", "Sigmoid", "Tanh", "Softsign", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh",
        "Acosh", "Atanh", "IsNaN", "Identity", "Mish", "HardSwish", "com.microsoft.QuickGelu",
        "com.microsoft.Gelu")  # fmt: skip
def unary(pick: Pick) -> Example:
    constraint = {"Identity": "V", "IsNaN": "T1"}.get(pick.op, "T")
    if pick.op == "Identity" and pick.opset < 14:
        constraint = "T"
    type = pick.type(constraint)
    # A NaN has no sign, as in NumPy; of narrow floats, onnxruntime says 0.
    special = (pick.op, steps(type)) != ("Sign", 8)
    attributes = pick.some(alpha=pick.number(0.5, 2)) if pick.op == "QuickGelu" else {}
    return Example([pick.array(type, pick.lens(), special=special)], attributes, slack=steps(type))


def steps(type: str) -> float:
    """Slack for what is computed in several steps, each rounded to the type; onnxruntime rounds once."""
    return 8.0 if type in {"float16", "bfloat16"} else 1.0


@covers("Sin", "Cos", "Tan")
def trigonometric(pick: Pick) -> Example:
    return Example([pick.array(pick.type(), pick.lens(), -50, 50)], slack=4)


@covers("Elu", "LeakyRelu", "ThresholdedRelu", "Celu", "Selu", "HardSigmoid", "Softplus", "Swish")
def activation(pick: Pick) -> Example:
    attributes: dict[str, Any] = {}
    if pick.op in {*ALPHA, "HardSigmoid", "Selu", "Swish"}:
        attributes = pick.some(alpha=pick.number(0.1, 2))
    if pick.op == "HardSigmoid":
        attributes |= pick.some(beta=pick.number(-1, 1))
    if pick.op == "Selu":
        attributes |= pick.some(gamma=pick.number(0.5, 2))
    type = pick.type()
    # Far from 0, the sigmoid of onnxruntime is right to six places after the point.
    slack = max(steps(type), 4) if pick.op == "Swish" else steps(type)
    return Example([pick.array(type, pick.lens(), -30, 30, special=True)], attributes, slack=slack)


@covers("Shrink")
def shrink(pick: Pick) -> Example:
    attributes = pick.some(bias=pick.number(-1, 1), lambd=pick.number(0, 2))
    type = pick.type()
    if not is_float(type):  # of a fraction, integers keep what each side's conversion leaves
        attributes = {k: float(round(v)) for k, v in attributes.items()}
        attributes |= {"lambd": 0.5} if "lambd" not in attributes else {}
    return Example([pick.array(type, pick.lens())], attributes)


@covers("Gelu")
def gelu(pick: Pick) -> Example:
    attributes = pick.some(approximate=pick.one_of(["none", "tanh"]))
    type = pick.type()
    return Example([pick.array(type, pick.lens(), special=True)], attributes, slack=steps(type))


@covers("com.microsoft.FastGelu", "com.microsoft.BiasGelu")
def gelu_with_bias(pick: Pick) -> Example:
    type, lens = pick.type(), pick.lens(1)
    bias = pick.array(type, lens[-1:])
    if pick.op == "FastGelu" and pick.flag():
        return Example([pick.array(type, lens)], slack=10)
    return Example([pick.array(type, lens), bias], slack=10)


@covers("IsInf")
def isinf(pick: Pick) -> Example:
    attributes = pick.some(detect_negative=pick.integer(0, 1), detect_positive=pick.integer(0, 1))
    return Example([pick.array(pick.type("T1"), pick.lens(), special=True)], attributes)


@covers("Not")
def logical_not(pick: Pick) -> Example:
    return Example([pick.array("bool", pick.lens())])


@covers("BitwiseNot")
def bitwise_not(pick: Pick) -> Example:
    return Example([pick.array(pick.type(), pick.lens(), special=True)])


@covers("Add", "Sub", "Mul", "PRelu", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal",
        "Greater", "Less", "GreaterOrEqual", "LessOrEqual")  # fmt: skip
def binary(pick: Pick) -> Example:
    type = pick.type()
    a, b = pick.together(2)
    if pick.op == "PRelu":  # the slope broadcasts to the input, and not the other way
        a = pick.lens()
        b = pick.broadcastable(a)
    return Example([pick.array(type, lens, special=True) for lens in (a, b)])


@covers("Div")
def div(pick: Pick) -> Example:
    type = pick.type()
    a, b = (pick.array(type, lens, special=is_float(type)) for lens in pick.together(2))
    if not is_float(type):
        b = np.where(b == 0, NUMPY[type].type(3), b)
    return Example([a, b])


@covers("And", "Or", "Xor")
def logical(pick: Pick) -> Example:
    return Example([pick.array("bool", lens) for lens in pick.together(2)])


@covers("BitShift")
def shift(pick: Pick) -> Example:
    type = pick.type()
    a, b = pick.together(2)
    bits = NUMPY[type].itemsize * 8
    amounts = pick.array(type, b, 0, bits - 1)  # C leaves larger ones open
    direction = pick.one_of(["LEFT", "RIGHT"])
    return Example([pick.array(type, a, special=True), amounts], {"direction": direction})


@covers("Mod")
def mod(pick: Pick) -> Example:
    type = pick.type()
    a, b = (pick.array(type, lens, -9, 9) for lens in pick.together(2))
    b = np.where(b == 0, NUMPY[type].type(3), b)
    fmod = is_float(type) or pick.flag()
    return Example([a, b], {"fmod": 1} if fmod else pick.some(fmod=0), slack=10)


@covers("Pow")
def power(pick: Pick) -> Example:
    base = pick.type("T")
    exponent = pick.type("T1") if pick.opset >= 12 else base
    a, b = pick.together(2)
    if is_float(base):
        return Example([pick.array(base, a, 0.1, 3), pick.array(exponent, b, -2, 3)], slack=10)
    # A negative or fractional power of an integer has no exact value.
    powers = pick.array(exponent, b, 0, 4)
    return Example([pick.array(base, a, 1, 5), np.floor(powers).astype(powers.dtype)])


@covers("Where")
def where(pick: Pick) -> Example:
    type = pick.type("T")
    a, b, c = pick.together(3)
    return Example([pick.array("bool", a), pick.array(type, b), pick.array(type, c, special=True)])


@covers("Sum", "Mean", "Max", "Min")
def variadic(pick: Pick) -> Example:
    type = pick.type()
    lens = pick.together(pick.integer(1, 4))
    if pick.opset < 8:  # nothing is broadcast
        lens = [lens[0]] * len(lens)
    arrays = [pick.array(type, n, special=pick.op != "Mean") for n in lens]
    return Example(arrays, summed=True)


@covers("Clip")
def clip(pick: Pick) -> Example:
    type = pick.type()
    low, high = sorted([pick.integer(-3, 3), pick.integer(-3, 3)])
    if type.startswith("u"):
        low, high = low + 3, high + 3
    x = pick.array(type, pick.lens(), special=pick.flag())
    if type == "float16" and pick.opset < 12:  # which onnxruntime clips as float32
        x = np.clip(x, -4, 4)
    if pick.opset < 11:
        return Example([x], pick.some(min=float(low), max=float(high)))
    ends = [NUMPY[type].type(v) if pick.flag() else None for v in (low, high)]
    return Example([x, *ends])


@covers("Cast")
def cast(pick: Pick) -> Example:
    source, target = pick.type("T1"), pick.type("T2")
    attributes = {"to": code(target)}
    if target in FP8 and pick.opset >= 19:
        attributes |= pick.some(saturate=pick.integer(0, 1))
    return Example([castable(pick, source, target)], attributes)


@covers("CastLike")
def cast_like(pick: Pick) -> Example:
    numbers = (*FLOATS, *INTEGERS, "bool")
    source, target = pick.type("T1", numbers), pick.type("T2", numbers)
    return Example([castable(pick, source, target), pick.array(target, pick.lens())])


def castable(pick: Pick, source: str, target: str) -> Any:
    """An array whose elements the target type can hold: C leaves the others open."""
    low, high = -9.0, 9.0
    if is_float(source) and not is_float(target) and target != "bool":
        first, last = limits(NUMPY[target])
        low, high = max(low, float(first)), min(high, float(last))
    special = not is_float(source) or (is_float(target) and target not in FP8)
    found = pick.array(source, pick.lens(), low, high, special=special)
    if target in NIBBLES and is_float(source):  # onnxruntime rounds, to 4 bits; ONNX truncates
        found = np.trunc(found.astype(np.float32)).astype(found.dtype)
    return found


def code(type: str) -> int:
    """ONNX's number of an element type."""
    return int(TensorProto.DataType.Value(type.upper()))


@covers("Dropout")
def dropout(pick: Pick) -> Example:
    type = pick.type()
    x = pick.array(type, pick.lens())
    # Before operator set 12 nothing says what the mask is where nothing is dropped.
    asked = [0, 1] if pick.flag() and pick.opset >= 12 else [0]
    if pick.opset < 12:
        return Example([x], pick.some(ratio=pick.number(0, 0.9)), outputs=2, used=asked)
    ratio = pick.scalar("float", 0, 0.9) if pick.flag() else None
    training = np.array(False) if pick.flag() else None
    return Example([x, ratio, training], outputs=2, used=asked)
