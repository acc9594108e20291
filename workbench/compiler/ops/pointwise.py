"""Arithmetic, rounding and simple activations on the elements of tensors of one type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Operation, operation
from workbench.compiler.ops.elementwise import NUMBERS, Binary, Unary

_NOT_BOOL = tuple(t for t in NUMBERS if t is not DType.BOOL)


# Unary arithmetic


@operation
class Abs(Unary):
    """|x|."""

    name = "abs"
    expression = "abs({0})"
    never_negative = True
    exact = True
    function = np.abs


@operation
class Neg(Unary):
    """-x."""

    name = "neg"
    expression = "-{0}"
    exact = True
    function = np.negative


@operation
class Recip(Unary):
    """1 / x; integers truncate towards zero."""

    name = "recip"
    expression = "T(1) / {0}"
    types = _NOT_BOOL
    domains = ((1.0, 4.0),)
    function = np.reciprocal


@operation
class Sign(Unary):
    """1, -1 or 0 by the sign of x; NaN stays NaN."""

    name = "sign"
    expression = "sign({0})"
    exact = True
    function = np.sign


@operation
class Sqrt(Unary):
    """The square root of x."""

    name = "sqrt"
    expression = "sqrt({0})"
    never_negative = True
    domains = ((0.0, 9.0),)
    function = np.sqrt


@operation
class Rsqrt(Unary):
    """1 / √x."""

    name = "rsqrt"
    expression = "rsqrt({0})"
    cost = 2
    domains = ((1.0, 9.0),)

    def value(self, *inputs: Array) -> Array:
        """1 / √x."""
        root = np.sqrt(inputs[0])
        return np.reciprocal(root, out=root)


# Rounding


@operation
class Ceil(Unary):
    """The smallest integer ≥ x."""

    name = "ceil"
    expression = "ceil({0})"
    exact = True
    function = np.ceil


@operation
class Floor(Unary):
    """The largest integer ≤ x."""

    name = "floor"
    expression = "floor({0})"
    exact = True
    function = np.floor


@operation
class Nearbyint(Unary):
    """The integer nearest to x; ties go to the even one."""

    name = "nearbyint"
    expression = "nearbyint({0})"
    exact = True

    def value(self, *inputs: Array) -> Array:
        """The nearest integer; integers are unchanged."""
        return np.rint(inputs[0]) if inputs[0].dtype.kind == "f" else inputs[0]


# Activations


def _relu(x: Array, out: Array | None = None) -> Array:
    """max(x, 0); NaN stays NaN."""
    return np.maximum(x, 0, out=out)


@operation
class Relu(Unary):
    """max(x, 0)."""

    name = "relu"
    expression = "max({0}, T(0))"
    never_negative = True
    exact = True
    function = _relu


@operation
class LeakyRelu(Unary):
    """x where x > 0, else alpha·x."""

    name = "leaky_relu"
    expression = "{0} > T(0) ? {0} : T({alpha}) * {0}"
    alpha: float = 0.01

    def value(self, *inputs: Array) -> Array:
        """The larger of x and alpha·x where that is equivalent, else the definition."""
        x = inputs[0]
        scaled = x * x.dtype.type(self.alpha)
        if 0 < self.alpha <= 1:
            return np.maximum(x, scaled, out=scaled)
        return np.where(x > 0, x, scaled)

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The default slope, a steep one and a falling one."""
        return cls(), cls(alpha=1.5), cls(alpha=-0.5)


@operation
class Elu(Unary):
    """x where x > 0, else alpha·(eˣ - 1)."""

    name = "elu"
    expression = "{0} > T(0) ? {0} : T({alpha}) * expm1({0})"
    cost = 8
    alpha: float = 1.0

    def value(self, *inputs: Array) -> Array:
        """The definition, with the exponential of the negative part only."""
        x = inputs[0]
        low = np.expm1(np.minimum(x, 0))
        return np.where(x > 0, x, np.multiply(low, x.dtype.type(self.alpha), out=low))

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The default scale and another."""
        return cls(), cls(alpha=0.5)


# Binary arithmetic


@operation
class Add(Binary):
    """x + y."""

    name = "add"
    expression = "{0} + {1}"
    exact = True
    commutative = True
    function = np.add


@operation
class Sub(Binary):
    """x - y."""

    name = "sub"
    expression = "{0} - {1}"
    exact = True
    function = np.subtract


@operation
class Mul(Binary):
    """x · y."""

    name = "mul"
    expression = "{0} * {1}"
    exact = True
    commutative = True
    function = np.multiply


def _quotient(x: Array, y: Array, out: Array | None = None) -> Array:
    """The quotient; exact for integers."""
    if x.dtype.kind == "f":
        return np.divide(x, y, out=out)
    quotient = np.floor_divide(x, y)
    inexact = quotient * y != x
    inexact &= ((x < 0) != (y < 0)) & (y != 0)
    return np.add(quotient, inexact, out=out, dtype=x.dtype)


@operation
class Div(Binary):
    """x / y; integers truncate towards zero, and division of an integer by 0 gives 0."""

    name = "div"
    expression = "{0} / {1}"
    exact = True
    domains = ((-9.0, 9.0), (1.0, 4.0))
    function = _quotient


@operation
class Mod(Binary):
    """The remainder of x / y with the sign of y."""

    name = "mod"
    expression = "mod({0}, {1})"
    exact = True
    domains = ((-9.0, 9.0), (1.0, 4.0))
    function = np.mod


@operation
class Fmod(Binary):
    """The remainder of x / y with the sign of x."""

    name = "fmod"
    expression = "fmod({0}, {1})"
    exact = True
    domains = ((-9.0, 9.0), (1.0, 4.0))
    function = np.fmod


@operation
class Max(Binary):
    """The larger of x and y; NaN if either is."""

    name = "max"
    expression = "max({0}, {1})"
    exact = True
    commutative = True
    function = np.maximum


@operation
class Min(Binary):
    """The smaller of x and y; NaN if either is."""

    name = "min"
    expression = "min({0}, {1})"
    exact = True
    commutative = True
    function = np.minimum


@operation
class Pow(Binary):
    """x to the power of y."""

    name = "pow"
    expression = "pow({0}, {1})"
    cost = 8
    types = _NOT_BOOL
    domains = ((0.5, 3.0), (-2.0, 3.0))

    def value(self, *inputs: Array) -> Array:
        """The power; squares and cubes by multiplication."""
        x, y = inputs
        uniform = y.size == 1 or (y.size > 1 and not any(y.strides))
        exponent = float(y.flat[0]) if uniform else 0.0
        if exponent not in (2.0, 3.0):
            return np.power(x, y)
        base = x if x.size >= y.size else np.broadcast_to(x, y.shape)
        square = base * base
        return square if exponent == 2.0 else np.multiply(square, base, out=square)


@operation
class Sqdiff(Binary):
    """(x - y)²."""

    name = "sqdiff"
    expression = "({0} - {1}) * ({0} - {1})"
    never_negative = True
    exact = True
    cost = 2

    def value(self, *inputs: Array) -> Array:
        """The square of the difference."""
        difference = np.subtract(*inputs)
        return np.multiply(difference, difference, out=difference)


@operation
class Prelu(Binary):
    """x where x ≥ 0, else x·y."""

    name = "prelu"
    expression = "{0} < T(0) ? {0} * {1} : {0}"
    exact = True

    def value(self, *inputs: Array) -> Array:
        """The definition; a product without ``where``, which is slow, if all slopes are finite."""
        x, slope = inputs
        if not np.isfinite(slope).all():
            return np.where(x < 0, x * slope, x)
        negative = np.minimum(x, 0)
        negative *= slope
        return np.add(negative, np.maximum(x, 0), out=negative)
