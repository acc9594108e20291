"""Elementary functions: exponentials, logarithms, sigmoid, the error function, trigonometry."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import operation
from workbench.compiler.ops.elementwise import FLOATS, Function, Unary
from workbench.compiler.ops.special import erf


class _Transcendental(Unary):
    cost: ClassVar[int] = 8
    types: ClassVar[tuple[DType, ...]] = (*FLOATS, DType.INT32)


# Exponentials and logarithms


@operation
class Exp(_Transcendental):
    """eˣ."""

    name: ClassVar[str] = "exp"
    expression: ClassVar[str | None] = "exp({0})"
    function: ClassVar[Function] = np.exp


@operation
class Log(_Transcendental):
    """The natural logarithm of x."""

    name: ClassVar[str] = "log"
    expression: ClassVar[str | None] = "log({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 9.0),)
    function: ClassVar[Function] = np.log


@operation
class Log2(_Transcendental):
    """The logarithm of x to base 2."""

    name: ClassVar[str] = "log2"
    expression: ClassVar[str | None] = "log2({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 9.0),)
    function: ClassVar[Function] = np.log2


@operation
class Erf(_Transcendental):
    """The error function, 2/√π ∫₀ˣ e^(-t²) dt."""

    name: ClassVar[str] = "erf"
    expression: ClassVar[str | None] = "erf({0})"

    def value(self, *inputs: Array) -> Array:
        """A rational approximation, good to the last bits of the type."""
        return erf(inputs[0])


@operation
class Sigmoid(_Transcendental):
    """1 / (1 + e⁻ˣ)."""

    name: ClassVar[str] = "sigmoid"
    expression: ClassVar[str | None] = "T(1) / (T(1) + exp(-{0}))"

    def value(self, *inputs: Array) -> Array:
        """The definition, in place."""
        result = np.negative(inputs[0])
        np.exp(result, out=result)
        result += 1
        return np.reciprocal(result, out=result)


# Trigonometry


@operation
class Sin(_Transcendental):
    """The sine of x."""

    name: ClassVar[str] = "sin"
    expression: ClassVar[str | None] = "sin({0})"
    function: ClassVar[Function] = np.sin


@operation
class Cos(_Transcendental):
    """The cosine of x."""

    name: ClassVar[str] = "cos"
    expression: ClassVar[str | None] = "cos({0})"
    function: ClassVar[Function] = np.cos


@operation
class Tan(_Transcendental):
    """The tangent of x."""

    name: ClassVar[str] = "tan"
    expression: ClassVar[str | None] = "tan({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-1.5, 1.5),)
    function: ClassVar[Function] = np.tan


@operation
class Asin(_Transcendental):
    """The angle whose sine is x."""

    name: ClassVar[str] = "asin"
    expression: ClassVar[str | None] = "asin({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 1.0),)
    function: ClassVar[Function] = np.arcsin


@operation
class Acos(_Transcendental):
    """The angle whose cosine is x."""

    name: ClassVar[str] = "acos"
    expression: ClassVar[str | None] = "acos({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 1.0),)
    function: ClassVar[Function] = np.arccos


@operation
class Atan(_Transcendental):
    """The angle whose tangent is x."""

    name: ClassVar[str] = "atan"
    expression: ClassVar[str | None] = "atan({0})"
    function: ClassVar[Function] = np.arctan


@operation
class Sinh(_Transcendental):
    """The hyperbolic sine of x."""

    name: ClassVar[str] = "sinh"
    expression: ClassVar[str | None] = "sinh({0})"
    function: ClassVar[Function] = np.sinh


@operation
class Cosh(_Transcendental):
    """The hyperbolic cosine of x."""

    name: ClassVar[str] = "cosh"
    expression: ClassVar[str | None] = "cosh({0})"
    function: ClassVar[Function] = np.cosh


@operation
class Tanh(_Transcendental):
    """The hyperbolic tangent of x."""

    name: ClassVar[str] = "tanh"
    expression: ClassVar[str | None] = "tanh({0})"
    function: ClassVar[Function] = np.tanh


@operation
class Asinh(_Transcendental):
    """The inverse of the hyperbolic sine."""

    name: ClassVar[str] = "asinh"
    expression: ClassVar[str | None] = "asinh({0})"
    function: ClassVar[Function] = np.arcsinh


@operation
class Acosh(_Transcendental):
    """The inverse of the hyperbolic cosine, for x ≥ 1."""

    name: ClassVar[str] = "acosh"
    expression: ClassVar[str | None] = "acosh({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 9.0),)
    function: ClassVar[Function] = np.arccosh


@operation
class Atanh(_Transcendental):
    """The inverse of the hyperbolic tangent."""

    name: ClassVar[str] = "atanh"
    expression: ClassVar[str | None] = "atanh({0})"
    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-0.9, 0.9),)
    function: ClassVar[Function] = np.arctanh
