"""GELU with a single exponential."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import common
from workbench.compiler.rewrite import (
    Pattern,
    Rewriter,
    Rule,
    behind_broadcasts,
    either,
    literal,
    op,
    rule,
    var,
)


def about(value: float) -> Pattern:
    """A pattern for a literal whose elements are ``value`` up to rounding."""

    def near(instruction: Instruction) -> bool:
        found = behind_broadcasts(instruction).literal
        if found is None or not found.shape.elements or not found.shape.type.is_float:
            return False
        array, tolerance = found.numpy(), _tolerance(found.shape.type, value)
        if not abs(float(array.item(0)) - value) <= tolerance:
            return False  # most literals
        return bool(np.all(np.abs(array.astype(np.float64) - value) <= tolerance))

    return literal(f"about_{value:g}", near)


def _tolerance(type: DType, value: float) -> float:
    """The tolerance for a literal that stands for ``value``: a few roundings, in float for wider types."""
    eps = (type if type.size < 4 else DType.FLOAT).format.epsilon
    if type.size < 4:
        return eps * abs(value) / 2
    return 10 * eps * (1 + abs(value))


def _product(*leaves: Pattern) -> Pattern:
    """The product of three values, in any order and grouping; the last one is not used elsewhere."""
    a, c, d = leaves
    return either(
        op("mul", op("mul", a, c), d),
        op("mul", op("mul", a, d).once, c),
        op("mul", op("mul", c, d).once, a),
    )


_CUBE = op("pow", var("x"), about(3)).once
_INNER = either(
    op("mul", op("add", var("x"), op("mul", _CUBE, about(0.044715))), about(sqrt(2 / pi))),
    op(
        "add",
        op("mul", var("x"), about(sqrt(2 / pi))),
        op("mul", _CUBE, about(0.044715 * sqrt(2 / pi))),
    ),
)
_TANH = op("tanh", _INNER).once
_TANH_PRODUCT = _product(var("x"), about(0.5), op("add", _TANH, about(1)))
_TANH_HALVED = op("mul", var("x"), op("add", op("mul", _TANH, about(0.5)), about(0.5)))
_TANH_GELU = either(*_TANH_PRODUCT.choices, _TANH_HALVED)
_SCALED = either(
    op("mul", var("x"), about(sqrt(0.5))).once, op("div", var("x"), about(sqrt(2))).once
)
_ERF_POWER = (-1.595703125, -0.07330322265625, 0.0005927085876464844)
"""Coefficients, all of them half numbers, with which GELU's erf form is within 6.5e-5."""
_MOST_SQUARE = 16
"""The square from which on the exponent grows linearly; beyond 4 GELU is x or 0 in half."""
_ERF_PART = op("add", op("erf", _SCALED).once, about(1)).once


@rule(_TANH_GELU)
def find_tanh_gelu(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + tanh(√(2/π)(x + 0.044715 x³))) → x / (1 + exp(x (c₁ x² + c₀)))"""
    return _sigmoid_form(b, x)


@rule(_TANH_GELU.when(lambda i: i.shape.type is DType.HALF))
def find_tanh_gelu_half(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + tanh(√(2/π)(x + 0.044715 x³))) → x / (1 + exp(x (c₁ x² + c₀))), for half"""
    return _sigmoid_form(b, x)


@rule(_product(var("x"), about(0.5), _ERF_PART).when(lambda i: i.shape.type is DType.HALF))
def find_erf_gelu(b: Rewriter, x: Instruction) -> Instruction:
    """x · 0.5 · (1 + erf(x / √2)) → x / (1 + exp(x ((c₂ s + c₁) s + c₀))), s = min(x², 16), for half"""
    kind = x.shape.type
    c0, c1, c2, most, one = (b.scalar(value, kind) for value in (*_ERF_POWER, _MOST_SQUARE, 1.0))
    square = common(b, "min", b("mul", x, x), most)
    inner = common(
        b, "add", b("mul", square, common(b, "add", common(b, "mul", square, c2), c1)), c0
    )
    return _divided(b, x, inner, one)


def _sigmoid_form(b: Rewriter, x: Instruction) -> Instruction:
    kind, linear = x.shape.type, -2 * sqrt(2 / pi)
    c0, c1, one = (b.scalar(value, kind) for value in (linear, 0.044715 * linear, 1.0))
    square = b("mul", x, common(b, "mul", x, c1))
    return _divided(b, x, common(b, "add", square, c0), one)


def _divided(b: Rewriter, x: Instruction, inner: Instruction, one: Instruction) -> Instruction:
    """x / (1 + exp(x · inner))"""
    return b("div", x, common(b, "add", one, b("exp", b("mul", x, inner))))


@register
class RewriteGelu(RewritePass):
    """Compute GELU with one exponential instead of an error function or a hyperbolic tangent.

    The tanh form is rewritten exactly; the erf form only for half, within 7e-5, which its rounding hides.

    Attributes:
        fast_math: Rewrite both forms, for half only. Without it, rewrite the tanh form in any type.
    """

    name = "rewrite_gelu"
    rules = (find_tanh_gelu, find_tanh_gelu_half, find_erf_gelu)
    fast_math: bool = True

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules for half, or the exact rule."""
        return (find_tanh_gelu_half, find_erf_gelu) if self.fast_math else (find_tanh_gelu,)
