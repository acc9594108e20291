"""Epilogues: what an operation's name says is done after its product or convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workbench.compat.aitemplate.frontend.ops.func_enum import (
    MEANINGS,
    FuncEnum,
    applied,
    hardswish,
    swish,
)
from workbench.compiler.expressions.value import Value


def _softmax(x: Value) -> Value:
    return x.apply("softmax", axis=-1)


ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "relu": applied("relu"),
    "gelu": MEANINGS[FuncEnum.GELU][2],
    "fast_gelu": MEANINGS[FuncEnum.FASTGELU][2],
    "sigmoid": applied("sigmoid"),
    "tanh": applied("tanh"),
    "swish": swish,
    "hardswish": hardswish,
    "softmax": _softmax,
}
OPERANDS: dict[str, Callable[[Value, Value], Value]] = {
    "bias": lambda x, y: x + y,
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
}


def steps(name: str) -> list[str]:
    """The steps of an epilogue's name, in order: ``_bias_fast_gelu`` is a bias and an activation."""
    words = name.replace("fast_gelu", "fast-gelu").split("_")
    return [w.replace("-", "_") for w in words if w]


def operands(name: str) -> int:
    """The number of further operands that an epilogue takes."""
    return sum(s in OPERANDS for s in steps(name))


def applied_to(value: Value, name: str, rest: Iterator[Value]) -> Value:
    """A value after the steps of an epilogue, which take their operands in order."""
    for step in steps(name):
        value = (
            ACTIVATIONS[step](value) if step in ACTIVATIONS else OPERANDS[step](value, next(rest))
        )
    return value
