"""Arithmetic, rounding and simple activations on the elements of tensors of one type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The gradient with the sign of x; 0 at 0."""
        (x,) = operands
        return [given * x.sign()]


@operation
class Neg(Unary):
    """-x."""

    name = "neg"
    expression = "-{0}"
    exact = True
    function = np.negative

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """-g."""
        return [-given]


@operation
class Recip(Unary):
    """1 / x; integers truncate towards zero."""

    name = "recip"
    expression = "T(1) / {0}"
    types = _NOT_BOOL
    domains = ((1.0, 4.0),)
    function = np.reciprocal

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """-g / x²."""
        return [-given * result * result]


@operation
class Sign(Unary):
    """1, -1 or 0 by the sign of x; NaN stays NaN."""

    name = "sign"
    flat = True
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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / (2·√x)."""
        return [given * 0.5 / result]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """-g / (2·√x³)."""
        return [given * -0.5 * result * result * result]


# Rounding


@operation
class Ceil(Unary):
    """The smallest integer ≥ x."""

    name = "ceil"
    flat = True
    expression = "ceil({0})"
    exact = True
    function = np.ceil


@operation
class Floor(Unary):
    """The largest integer ≤ x."""

    name = "floor"
    flat = True
    expression = "floor({0})"
    exact = True
    function = np.floor


@operation
class Nearbyint(Unary):
    """The integer nearest to x; ties go to the even one."""

    name = "nearbyint"
    flat = True
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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where x > 0."""
        (x,) = operands
        return [given.where_true(x > 0)]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where x > 0, else alpha·g."""
        (x,) = operands
        return [given.builder.apply("where", x > 0, given, given * self.alpha)]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where x > 0, else alpha·eˣ·g."""
        (x,) = operands
        return [given.builder.apply("where", x > 0, given, given * (x.exp() * self.alpha))]


# Binary arithmetic


@operation
class Add(Binary):
    """x + y."""

    name = "add"
    expression = "{0} + {1}"
    exact = True
    commutative = True
    function = np.add

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g and g."""
        return [given, given]


@operation
class Sub(Binary):
    """x - y."""

    name = "sub"
    expression = "{0} - {1}"
    exact = True
    function = np.subtract

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g and -g."""
        return [given, -given]


@operation
class Mul(Binary):
    """x · y."""

    name = "mul"
    expression = "{0} * {1}"
    exact = True
    commutative = True
    function = np.multiply

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·y and g·x."""
        x, y = operands
        return [given * y, given * x]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / y and -g·x / y²."""
        _, y = operands
        return [given / y, -given * result / y]


@operation
class Mod(Binary):
    """The remainder of x / y with the sign of y."""

    name = "mod"
    expression = "mod({0}, {1})"
    exact = True
    domains = ((-9.0, 9.0), (1.0, 4.0))
    function = np.mod

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g, and -g times the quotient rounded down."""
        x, y = operands
        return [given, -given * ((x - result) / y)]


@operation
class Fmod(Binary):
    """The remainder of x / y with the sign of x."""

    name = "fmod"
    expression = "fmod({0}, {1})"
    exact = True
    domains = ((-9.0, 9.0), (1.0, 4.0))
    function = np.fmod

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g, and -g times the quotient rounded towards 0."""
        x, y = operands
        return [given, -given * ((x - result) / y)]


@operation
class Max(Binary):
    """The larger of x and y; NaN if either is."""

    name = "max"
    expression = "max({0}, {1})"
    exact = True
    commutative = True
    function = np.maximum

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g to the larger operand; half to each where they are equal."""
        x, y = operands
        tie = x.apply("equal", y) * 0.5
        return [given * (x.greater(y) + tie), given * (x.less(y) + tie)]


@operation
class Min(Binary):
    """The smaller of x and y; NaN if either is."""

    name = "min"
    expression = "min({0}, {1})"
    exact = True
    commutative = True
    function = np.minimum

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g to the smaller operand; half to each where they are equal."""
        x, y = operands
        tie = x.apply("equal", y) * 0.5
        return [given * (x.less(y) + tie), given * (x.greater(y) + tie)]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·y·xʸ⁻¹, which is 0 for y = 0, and g·xʸ·log(x), which is 0 for x = 0."""
        x, y = operands
        return [
            (given * y * x.pow(y - 1.0)).where_true(y != 0),
            (given * result * x.log()).where_true(x != 0),
        ]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """2·g·(x - y) and its negative."""
        x, y = operands
        slope = given * ((x - y) * 2.0)
        return [slope, -slope]


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

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where x ≥ 0, else g·y; and g·x where x < 0."""
        x, y = operands
        negative = x < 0
        return [
            given.builder.apply("where", negative, given * y, given),
            (given * x).where_true(negative),
        ]
