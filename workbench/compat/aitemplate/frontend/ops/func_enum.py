"""Elementwise functions and their meanings."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Any

from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType


class FuncEnum(Enum):
    """Elementwise functions, by AITemplate's names and numbers."""

    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    TANH = 5
    COS = 6
    SIN = 7
    SIGN = 8
    ABS = 9
    LOGE = 10
    EXP = 11
    SQRT = 12
    MAX = 13
    MIN = 14
    SIGMOID = 15
    LRELU = 16
    HARDTANH = 17
    RELU = 18
    NAN_TO_NUM = 19
    CLAMP_NAN_TO_NUM = 20
    SILU = 21
    POW = 22
    GELU = 23
    FASTGELU = 24
    SOFTPLUS = 25
    ELU = 26
    SOFTSIGN = 27
    FLOOR_DIV = 28
    CELU = 29
    FLOOR = 30
    HARDSWISH = 31


def applied(name: str) -> Callable[..., Value]:
    """A meaning that is one operation of the workbench."""

    def meaning(x: Value, *others: Any) -> Value:
        return x.apply(name, *others)

    return meaning


def swish(x: Value) -> Value:
    """``x * sigmoid(x)``."""
    return x * x.apply("sigmoid")


def hardswish(x: Value) -> Value:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    return x * (x + 3.0).maximum(0.0).minimum(6.0) / 6.0


def _wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function computed in float32 at least."""

    def widened(x: Value, *others: Any) -> Value:
        if x.dtype not in (DType.HALF, DType.BF16):
            return function(x, *others)
        return function(x.astype(DType.FLOAT), *others).astype(x.dtype)

    return widened


def _softplus(x: Value, beta: Any = 1.0, threshold: Any = 20.0) -> Value:
    scaled = x * beta
    soft = (scaled.minimum(threshold).apply("exp") + 1.0).apply("log") / beta
    return (scaled > threshold).apply("where", x, soft)


def _celu(x: Value, alpha: Any = 1.0) -> Value:
    return x.maximum(0.0) + ((x.minimum(0.0) / alpha).apply("exp") - 1.0) * alpha


def _elu(x: Value, alpha: Any = 1.0) -> Value:
    return x.maximum(0.0) + (x.minimum(0.0).apply("exp") - 1.0) * alpha


def _leaky(x: Value, slope: Any = 0.01) -> Value:
    return (x > 0.0).apply("where", x, x * slope)


def _nan_to_num(x: Value, nan: Any = 0.0, above: Any = None, below: Any = None) -> Value:
    top = x.dtype.format.largest
    found = x.apply("isnan").astype(DType.BOOL).apply("where", nan, x)
    found = (found == inf).apply("where", top if above is None else above, found)
    return (found == -inf).apply("where", -top if below is None else below, found)


def _clamp_nan_to_num(x: Value, low: Any, high: Any, nan: Any = 0.0) -> Value:
    clamped = x.apply("isnan").astype(DType.BOOL).apply("where", nan, x)
    return clamped.maximum(low).minimum(high)


def _hardtanh(x: Value, low: Any, high: Any) -> Value:
    return x.maximum(low).minimum(high)


def _softsign(x: Value) -> Value:
    return x / (abs(x) + 1.0)


def _floor_divided(a: Value, b: Any) -> Value:
    return a // b


def _divided(a: Value, b: Any) -> Value:
    return a / b


MEANINGS: dict[FuncEnum, tuple[int, int, Callable[..., Value]]] = {
    FuncEnum.ADD: (2, 2, applied("add")),
    FuncEnum.SUB: (2, 2, applied("sub")),
    FuncEnum.MUL: (2, 2, applied("mul")),
    FuncEnum.DIV: (2, 2, _divided),
    FuncEnum.TANH: (1, 1, applied("tanh")),
    FuncEnum.COS: (1, 1, applied("cos")),
    FuncEnum.SIN: (1, 1, applied("sin")),
    FuncEnum.SIGN: (1, 1, applied("sign")),
    FuncEnum.ABS: (1, 1, applied("abs")),
    FuncEnum.LOGE: (1, 1, applied("log")),
    FuncEnum.EXP: (1, 1, applied("exp")),
    FuncEnum.SQRT: (1, 1, applied("sqrt")),
    FuncEnum.MAX: (2, 2, applied("max")),
    FuncEnum.MIN: (2, 2, applied("min")),
    FuncEnum.SIGMOID: (1, 1, applied("sigmoid")),
    FuncEnum.LRELU: (1, 2, _leaky),
    FuncEnum.HARDTANH: (3, 3, _hardtanh),
    FuncEnum.RELU: (1, 1, applied("relu")),
    FuncEnum.NAN_TO_NUM: (1, 4, _nan_to_num),
    FuncEnum.CLAMP_NAN_TO_NUM: (3, 4, _clamp_nan_to_num),
    FuncEnum.SILU: (1, 1, swish),
    FuncEnum.POW: (2, 2, applied("pow")),
    FuncEnum.GELU: (1, 1, _wide(applied("gelu_erf"))),
    FuncEnum.FASTGELU: (1, 1, _wide(applied("gelu_tanh"))),
    FuncEnum.SOFTPLUS: (1, 3, _wide(_softplus)),
    FuncEnum.ELU: (1, 2, _wide(_elu)),
    FuncEnum.SOFTSIGN: (1, 1, _softsign),
    FuncEnum.FLOOR_DIV: (2, 2, _floor_divided),
    FuncEnum.CELU: (1, 2, _wide(_celu)),
    FuncEnum.FLOOR: (1, 1, applied("floor")),
    FuncEnum.HARDSWISH: (1, 1, hardswish),
}
"""The least and the greatest number of operands, and the function."""
