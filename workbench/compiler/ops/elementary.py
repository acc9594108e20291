"""Elementary functions: exponentials, logarithms, sigmoid, the error function, trigonometry."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi, sqrt
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import operation
from workbench.compiler.ops.elementwise import FLOATS, Binary, Unary
from workbench.compiler.ops.special import erf


class _Transcendental(Unary):
    cost = 8
    types = (*FLOATS, DType.INT32)


# Exponentials and logarithms


@operation
class Exp(_Transcendental):
    """eˣ."""

    name = "exp"
    expression = "exp({0})"
    never_negative = True
    function = np.exp

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·eˣ."""
        return [given * result]


@operation
class Log(_Transcendental):
    """The natural logarithm of x."""

    name = "log"
    expression = "log({0})"
    domains = ((1.0, 9.0),)
    function = np.log

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / x."""
        (x,) = operands
        return [given / x]


@operation
class Log2(_Transcendental):
    """The logarithm of x to base 2."""

    name = "log2"
    expression = "log2({0})"
    domains = ((1.0, 9.0),)
    function = np.log2

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / (x·log 2)."""
        (x,) = operands
        return [given / (x * log(2))]


@operation
class Erf(_Transcendental):
    """The error function, 2/√π ∫₀ˣ e^(-t²) dt."""

    name = "erf"
    expression = "erf({0})"

    def value(self, *inputs: Array) -> Array:
        """A rational approximation, good to the last bits of the type."""
        return erf(inputs[0])

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·2/√π·e^(-x²)."""
        (x,) = operands
        return [given * (x * -x).exp() * (2 / sqrt(pi))]


@operation
class Sigmoid(_Transcendental):
    """1 / (1 + e⁻ˣ)."""

    name = "sigmoid"
    expression = "T(1) / (T(1) + exp(-{0}))"
    never_negative = True

    def value(self, *inputs: Array) -> Array:
        """The definition, in place."""
        result = np.negative(inputs[0])
        np.exp(result, out=result)
        result += 1
        return np.reciprocal(result, out=result)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·y·(1 - y)."""
        return [given * result * (1.0 - result)]


# Trigonometry


@operation
class Sin(_Transcendental):
    """The sine of x."""

    name = "sin"
    expression = "sin({0})"
    function = np.sin

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·cos x."""
        (x,) = operands
        return [given * x.cos()]


@operation
class Cos(_Transcendental):
    """The cosine of x."""

    name = "cos"
    expression = "cos({0})"
    function = np.cos

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """-g·sin x."""
        (x,) = operands
        return [-given * x.sin()]


@operation
class Tan(_Transcendental):
    """The tangent of x."""

    name = "tan"
    expression = "tan({0})"
    domains = ((-1.5, 1.5),)
    function = np.tan

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·(1 + tan² x)."""
        return [given * (result * result + 1.0)]


@operation
class Asin(_Transcendental):
    """The angle whose sine is x."""

    name = "asin"
    expression = "asin({0})"
    domains = ((-1.0, 1.0),)
    function = np.arcsin

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / √(1 - x²)."""
        (x,) = operands
        return [given * (1.0 - x * x).rsqrt()]


@operation
class Acos(_Transcendental):
    """The angle whose cosine is x."""

    name = "acos"
    expression = "acos({0})"
    domains = ((-1.0, 1.0),)
    function = np.arccos

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """-g / √(1 - x²)."""
        (x,) = operands
        return [-given * (1.0 - x * x).rsqrt()]


@operation
class Atan(_Transcendental):
    """The angle whose tangent is x."""

    name = "atan"
    expression = "atan({0})"
    function = np.arctan

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / (1 + x²)."""
        (x,) = operands
        return [given / (x * x + 1.0)]


@operation
class Atan2(Binary):
    """The angle of the point (y, x), from -π to π; the first operand is y."""

    name = "atan2"
    expression = "atan2({0}, {1})"
    cost = 8
    types = FLOATS
    function = np.arctan2

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·x / (x² + y²) and -g·y / (x² + y²), where y is the first operand."""
        y, x = operands
        square = x * x + y * y
        return [given * x / square, -given * y / square]


@operation
class Sinh(_Transcendental):
    """The hyperbolic sine of x."""

    name = "sinh"
    expression = "sinh({0})"
    function = np.sinh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·cosh x."""
        (x,) = operands
        return [given * x.cosh()]


@operation
class Cosh(_Transcendental):
    """The hyperbolic cosine of x."""

    name = "cosh"
    expression = "cosh({0})"
    function = np.cosh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·sinh x."""
        (x,) = operands
        return [given * x.sinh()]


@operation
class Tanh(_Transcendental):
    """The hyperbolic tangent of x."""

    name = "tanh"
    expression = "tanh({0})"
    function = np.tanh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·(1 - tanh² x)."""
        return [given * (1.0 - result * result)]


@operation
class Asinh(_Transcendental):
    """The inverse of the hyperbolic sine."""

    name = "asinh"
    expression = "asinh({0})"
    function = np.arcsinh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / √(x² + 1)."""
        (x,) = operands
        return [given * (x * x + 1.0).rsqrt()]


@operation
class Acosh(_Transcendental):
    """The inverse of the hyperbolic cosine, for x ≥ 1."""

    name = "acosh"
    expression = "acosh({0})"
    domains = ((1.0, 9.0),)
    function = np.arccosh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / √(x² - 1)."""
        (x,) = operands
        return [given * (x * x - 1.0).rsqrt()]


@operation
class Atanh(_Transcendental):
    """The inverse of the hyperbolic tangent."""

    name = "atanh"
    expression = "atanh({0})"
    domains = ((-0.9, 0.9),)
    function = np.arctanh

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / (1 - x²)."""
        (x,) = operands
        return [given / (1.0 - x * x)]
