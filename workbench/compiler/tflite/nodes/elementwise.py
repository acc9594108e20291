"""Operators on elements."""

from __future__ import annotations

from collections.abc import Callable

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tflite.context import Context
from workbench.compiler.tflite.importer import dequantized, quantized
from workbench.compiler.tflite.registry import tflite_op

UNARY = {
    "ABS": "abs", "CEIL": "ceil", "COS": "cos", "ELU": "elu", "EXP": "exp", "FLOOR": "floor", "LOG": "log",
    "LOGISTIC": "sigmoid", "NEG": "neg", "RELU": "relu", "ROUND": "nearbyint", "RSQRT": "rsqrt",
    "SIGN": "sign", "SIN": "sin", "SQRT": "sqrt", "TANH": "tanh", "LOGICAL_NOT": "not",
}  # fmt: skip
BINARY = {
    "MAXIMUM": "max", "MINIMUM": "min", "POW": "pow", "SQUARED_DIFFERENCE": "sqdiff", "FLOOR_MOD": "mod",
    "LOGICAL_AND": "logical_and", "LOGICAL_OR": "logical_or", "ATAN2": "atan2", "PRELU": "prelu",
}  # fmt: skip
ACTIVATED = {
    "ADD": ("add", "AddOptions"), "SUB": ("sub", "SubOptions"), "MUL": ("mul", "MulOptions"),
    "DIV": ("div", "DivOptions"),
}  # fmt: skip
COMPARISONS = {
    "EQUAL": ("equal", False), "NOT_EQUAL": ("equal", True), "GREATER": ("greater", False),
    "GREATER_EQUAL": ("less", True), "LESS": ("less", False), "LESS_EQUAL": ("greater", True),
}  # fmt: skip
"""The comparison, and whether its opposite is meant; of NaN, no comparison is true but inequality."""


def _unary(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, x: Instruction) -> Instruction:
        return node.add(op, x)

    return handler


def _binary(op: str) -> Callable[..., Instruction]:
    def handler(node: Context, a: Instruction, b: Instruction) -> Instruction:
        return node.common(op, a, b)

    return handler


def _activated(op: str, options: str) -> Callable[..., Instruction]:
    def handler(node: Context, a: Instruction, b: Instruction) -> Instruction:
        return node.activated(
            node.common(op, a, b), node.options(options).FusedActivationFunction()
        )

    return handler


def _comparison(op: str, is_opposite: bool) -> Callable[..., Instruction]:
    def handler(node: Context, a: Instruction, b: Instruction) -> Instruction:
        found = node.truth(node.common(op, a, b))
        if is_opposite and op != "equal" and a.shape.type.is_float:
            found = node.add("logical_or", found, _unordered(node, a, b))
        return node.add("not", found) if is_opposite else found

    return handler


def _unordered(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """Whether one of two elements is NaN."""
    return node.common("logical_or", *(node.truth(node.add("isnan", v)) for v in (a, b)))


for _name, _op in UNARY.items():
    tflite_op(_name)(_unary(_op))
for _name, _op in BINARY.items():
    tflite_op(_name)(_binary(_op))
for _name, (_op, _options) in ACTIVATED.items():
    tflite_op(_name)(_activated(_op, _options))
for _name, (_op, _opposite) in COMPARISONS.items():
    tflite_op(_name)(_comparison(_op, _opposite))


@tflite_op("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def bounded(node: Context, x: Instruction) -> Instruction:
    """A value within the bounds that the name says."""
    low, high = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}[
        node.operator.name
    ]
    return node.common("clip", x, node.typed(x, low), node.typed(x, high))


@tflite_op("LEAKY_RELU")
def leaky_relu(node: Context, x: Instruction) -> Instruction:
    """x where x > 0, else ``alpha · x``."""
    return node.add("leaky_relu", x, alpha=float(node.options("LeakyReluOptions").Alpha()))


@tflite_op("HARD_SWISH")
def hard_swish(node: Context, x: Instruction) -> Instruction:
    """``x · min(max(x + 3, 0), 6) / 6``."""
    return node.add("mul", x, node.add("hard_sigmoid", x, alpha=1 / 6, beta=0.5))


@tflite_op("GELU")
def gelu(node: Context, x: Instruction) -> Instruction:
    """The Gaussian error linear unit, exact or by a hyperbolic tangent."""
    approximate = "tanh" if node.options("GeluOptions").Approximate() else "none"
    return node.emitted("Gelu", x, approximate=approximate)[0]


@tflite_op("SQUARE")
def square(node: Context, x: Instruction) -> Instruction:
    """``x²``."""
    return node.add("mul", x, x)


@tflite_op("FLOOR_DIV")
def floor_div(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """The quotient, rounded down."""
    if a.shape.type.is_float:
        return node.add("floor", node.common("div", a, b))
    rest = node.common("mod", a, b)
    return node.common("div", node.common("sub", a, rest), b)


@tflite_op("SELECT", "SELECT_V2")
def select(node: Context, condition: Instruction, a: Instruction, b: Instruction) -> Instruction:
    """One value where a condition holds, else the other; all are broadcast."""
    return node.add("where", *(node.fit(v, node.out_lens) for v in (condition, a, b)))


@tflite_op("CAST")
def cast(node: Context, x: Instruction) -> Instruction:
    """The value in another type."""
    return node.convert(x, node.result(0).shape.type)


@tflite_op("ADD_N")
def add_n(node: Context, first: Instruction, *more: Instruction) -> Instruction:
    """The sum of values."""
    for value in more:
        first = node.common("add", first, value)
    return first


@tflite_op("ZEROS_LIKE")
def zeros_like(node: Context, x: Instruction) -> Instruction:
    """Zeros of the same lens."""
    return node.filled(node.result(0).shape.type, x.shape.lens, 0)


@tflite_op("SOFTMAX", "LOG_SOFTMAX")
def softmax(node: Context, x: Instruction) -> Instruction:
    """The softmax along the last axis, of elements times beta; or its logarithm."""
    last = x.shape.ndim - 1
    if node.operator.name == "LOG_SOFTMAX":
        return node.add("logsoftmax", x, axis=last)
    beta = float(node.options("SoftmaxOptions").Beta())
    scaled = x if beta == 1 else node.common("mul", x, node.typed(x, beta))
    return node.add("softmax", scaled, axis=last)


@tflite_op("QUANTIZE")
def quantize(node: Context, x: Instruction) -> Instruction:
    """Integers for floats, or for other integers that are read first.

    Raises:
        ModelError: The output has no scale.
    """
    given, wanted = node.model.tensors[node.operator.inputs[0]], node.result(0)
    if wanted.quantization is None:
        raise node.fail(f"tensor {wanted.name[:80]!r} has no scale")
    plain = dequantized(node, x, given.quantization) if given.quantization is not None else x
    return quantized(node, plain, wanted)


@tflite_op("DEQUANTIZE")
def dequantize(node: Context, x: Instruction) -> Instruction:
    """Floats for integers, or for floats of fewer bits."""
    by = node.model.tensors[node.operator.inputs[0]].quantization
    found = x if by is None else dequantized(node, x, by)
    return node.convert(found, DType.FLOAT)
