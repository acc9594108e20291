"""Compositions shared by macros and importers, emitted in a fixed order: gemm, normalisation, GELU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros.emit import Emitter


def gemm(
    emit: Emitter,
    a: Instruction,
    b: Instruction,
    c: Instruction | None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transposed: tuple[bool, bool] = (False, False),
) -> Instruction:
    """``alpha * a @ b + beta * c`` with either matrix transposed."""
    type = a.shape.type
    if a.shape.ndim != 2 or b.shape.ndim != 2:
        raise emit.fail(f"matrices of rank {a.shape.ndim} and {b.shape.ndim}; expected rank 2")
    if alpha != 1.0:
        scaled = emit.common("mul", emit.scalar(DType.FLOAT, alpha), a)
        a = emit.convert(scaled, type)
    if transposed[0]:
        a = emit.transpose(a, 1, 0)
    if transposed[1]:
        b = emit.transpose(b, 1, 0)
    product = emit.add("dot", a, b)
    if c is None or beta == 0.0:
        return product
    fits = not product.shape.is_dynamic
    c = emit.fit_like(c, product) if fits else emit.add("multibroadcast", c, product)
    if beta != 1.0:
        scaled = emit.common("mul", c, emit.scalar(DType.FLOAT, beta))
        c = emit.convert(scaled, type)
    return emit.add("add", product, c)


def batchnorm(
    emit: Emitter, x: Instruction, weights: Sequence[Instruction], epsilon: float
) -> Instruction:
    """Batch normalisation with a scale, a bias, a known mean and a known variance."""
    scale, bias, mean, variance = weights
    for given, what in ((scale, "scale"), (bias, "bias"), (mean, "mean"), (variance, "var")):
        if given.shape.ndim != 1:
            raise emit.fail(f"{what} is {given.shape}; expected one dimension")
    small = emit.scalar(x.shape.type, epsilon)
    if x.shape.ndim > 2:
        axes = range(1, x.shape.ndim - 1)
        scale, bias, mean, variance = (
            emit.unsqueeze(v, *axes) for v in (scale, bias, mean, variance)
        )
    centred = emit.common("sub", x, mean)
    inverse = emit.add("rsqrt", emit.common("add", variance, small))
    weight = emit.common("mul", scale, inverse)
    return emit.common("add", emit.common("mul", centred, weight), bias)


def mean_variance_normalization(emit: Emitter, x: Instruction, axes: Sequence[int]) -> Instruction:
    """The value minus its mean, divided by its deviation: √(mean of squares − square of the mean)."""
    mean = emit.add("reduce_mean", x, axes=tuple(axes))
    squared_mean = emit.common("mul", mean, mean)
    mean_square = emit.add("reduce_mean", emit.common("mul", x, x), axes=tuple(axes))
    deviation = emit.add("sqrt", emit.common("sub", mean_square, squared_mean))
    centred = emit.common("sub", x, mean)
    epsilon = emit.scalar(x.shape.type, 1e-7 if x.shape.type is DType.HALF else 1e-9)
    return emit.common("div", centred, emit.common("add", deviation, epsilon))


def celu(emit: Emitter, x: Instruction, alpha: float) -> Instruction:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    if alpha == 0:
        raise emit.fail("alpha=0; expected a non-zero number")
    zero, one, slope = (
        emit.spread_like(emit.scalar(x.shape.type, v), x) for v in (0.0, 1.0, alpha)
    )
    above = emit.common("max", zero, x)
    raised = emit.add("exp", emit.common("div", x, slope))
    below = emit.common("mul", slope, emit.common("sub", raised, one))
    return emit.common("add", above, emit.common("min", zero, below))


def gelu_erf(emit: Emitter, x: Instruction) -> Instruction:
    """GELU by the error function."""
    half, one, root = (emit.scalar(x.shape.type, v) for v in (0.5, 1.0, math.sqrt(2)))
    halved = emit.common("mul", x, half)
    erf = emit.add("erf", emit.common("div", x, root))
    return emit.common("mul", halved, emit.common("add", erf, one))


def gelu_tanh(emit: Emitter, x: Instruction, fast: bool = False) -> Instruction:
    """GELU by the hyperbolic tangent."""
    values = (0.035677, 0.797885) if fast else (0.044715, math.sqrt(2 / math.pi))
    fit, factor, one, half, three = (emit.scalar(x.shape.type, v) for v in (*values, 1.0, 0.5, 3.0))
    cubed = emit.common("mul", emit.common("pow", x, three), fit)
    if fast:
        inner = emit.common("add", cubed, emit.common("mul", factor, x))
    else:
        inner = emit.common("mul", emit.common("add", cubed, x), factor)
    tanh = emit.common("tanh", inner)
    raised = emit.common("add", tanh, one)
    return emit.common("mul", raised, emit.common("mul", x, half))


def gelu_quick(emit: Emitter, x: Instruction, alpha: float) -> Instruction:
    """GELU approximated by the logistic function."""
    scaled = emit.common("mul", emit.scalar(x.shape.type, alpha), x)
    return emit.common("mul", x, emit.add("sigmoid", scaled))
