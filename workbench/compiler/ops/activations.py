"""Activations of recurrent networks that are not MIGraphX operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Operation, operation
from workbench.compiler.ops.elementwise import FLOATS, Unary


@operation
class Affine(Unary):
    """alpha·x + beta."""

    name = "affine"
    expression = "T({alpha}) * {0} + T({beta})"
    types = FLOATS
    cost = 2
    alpha: float = 1.0
    beta: float = 0.0

    def value(self, *inputs: Array) -> Array:
        """The definition."""
        x = inputs[0]
        return x * x.dtype.type(self.alpha) + x.dtype.type(self.beta)

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The identity and another line."""
        return cls(), cls(alpha=0.5, beta=2.0)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """alpha·g."""
        return [given * self.alpha]


@operation
class HardSigmoid(Unary):
    """alpha·x + beta, clamped to [0, 1]."""

    name = "hard_sigmoid"
    expression = "min(max(T({alpha}) * {0} + T({beta}), T(0)), T(1))"
    types = FLOATS
    cost = 4
    alpha: float = 0.2
    beta: float = 0.5

    def value(self, *inputs: Array) -> Array:
        """The definition; NaN stays NaN."""
        x = inputs[0]
        line = x * x.dtype.type(self.alpha) + x.dtype.type(self.beta)
        return np.minimum(np.maximum(line, 0), 1)

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The default line and a steep one."""
        return cls(), cls(alpha=0.5, beta=0.25)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """alpha·g between the bounds."""
        return [(given * self.alpha).where_true((result > 0) & (result < 1))]


@operation
class ScaledTanh(Unary):
    """alpha·tanh(beta·x)."""

    name = "scaled_tanh"
    expression = "T({alpha}) * tanh(T({beta}) * {0})"
    types = FLOATS
    cost = 10
    alpha: float = 1.0
    beta: float = 1.0

    def value(self, *inputs: Array) -> Array:
        """The definition."""
        x = inputs[0]
        return np.tanh(x * x.dtype.type(self.beta)) * x.dtype.type(self.alpha)

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The hyperbolic tangent itself and a scaled one."""
        return cls(), cls(alpha=0.5, beta=2.0)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """alpha·beta·g·(1 - tanh²(beta·x))."""
        tanh = (operands[0] * self.beta).tanh()
        return [given * (1.0 - tanh * tanh) * (self.alpha * self.beta)]


@operation
class ThresholdedRelu(Unary):
    """x where x > alpha, else 0."""

    name = "thresholded_relu"
    expression = "{0} > T({alpha}) ? {0} : T(0)"
    types = FLOATS
    alpha: float = 1.0

    def value(self, *inputs: Array) -> Array:
        """The definition."""
        x = inputs[0]
        return np.where(x > x.dtype.type(self.alpha), x, x.dtype.type(0))

    @classmethod
    def variants(cls) -> Iterable[Operation]:
        """The default threshold and a low one."""
        return cls(), cls(alpha=-0.5)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where x > alpha."""
        return [given.where_true(operands[0] > self.alpha)]


@operation
class Softsign(Unary):
    """x / (1 + |x|)."""

    name = "softsign"
    expression = "{0} / (T(1) + abs({0}))"
    types = FLOATS
    cost = 3

    def value(self, *inputs: Array) -> Array:
        """The definition."""
        x = inputs[0]
        return x / (1 + np.abs(x))

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / (1 + |x|)²."""
        wide = abs(operands[0]) + 1.0
        return [given / (wide * wide)]


@operation
class Softplus(Unary):
    """log(1 + eˣ), finite for large x."""

    name = "softplus"
    expression = "max({0}, T(0)) + log(T(1) + exp(-abs({0})))"
    types = FLOATS
    cost = 18

    def value(self, *inputs: Array) -> Array:
        """The larger of x and 0, plus the remainder of the logarithm."""
        return np.logaddexp(inputs[0], 0)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·sigmoid(x)."""
        return [given * operands[0].sigmoid()]
