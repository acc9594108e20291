"""Compositions that several operators share, emitted in a fixed order: gemm, dot, normalisation, GELU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import common_dims
from workbench.compiler.ops.ranges import dims_of, same_length
from workbench.compiler.shape import broadcast_lens

FLOATS = {DType.FLOAT, DType.HALF, DType.BF16, DType.DOUBLE}


def dot(node: NodeContext, a: Instruction, b: Instruction, op: str = "dot") -> Instruction:
    """A matrix product whose leading dimensions broadcast."""
    a, b = batch_aligned(node, a, b)
    return node.add(op, a, b)


def batch_aligned(
    node: NodeContext, a: Instruction, b: Instruction
) -> tuple[Instruction, Instruction]:
    """Two stacks of matrices with equal leading dimensions."""
    if a.shape.is_dynamic or b.shape.is_dynamic:
        left, right = dims_of(a.shape)[:-2], dims_of(b.shape)[:-2]
        outer = common_dims([left, right])
        full = [len(d) == len(outer) and all(map(same_length, d, outer)) for d in (left, right)]
        first = a if full[0] else node.add("broadcast_for_dot", a, b)
        return first, b if full[1] else node.add("broadcast_for_dot", b, a)
    left, right = a.shape.lens[:-2], b.shape.lens[:-2]
    if left == right:
        return a, b
    lens = broadcast_lens(left, right)
    return node.fit(a, (*lens, *a.shape.lens[-2:])), node.fit(b, (*lens, *b.shape.lens[-2:]))


def gemm(
    node: NodeContext,
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
        raise node.fail(f"matrices of rank {a.shape.ndim} and {b.shape.ndim}; expected rank 2")
    if alpha != 1.0:
        scaled = node.common("mul", node.scalar(DType.FLOAT, alpha), a)
        a = node.convert(scaled, type)
    if transposed[0]:
        a = node.transpose(a, 1, 0)
    if transposed[1]:
        b = node.transpose(b, 1, 0)
    product = node.add("dot", a, b)
    if c is None or beta == 0.0:
        return product
    c = node.fit(c, node.lens(product))
    if beta != 1.0:
        scaled = node.common("mul", c, node.scalar(DType.FLOAT, beta))
        c = node.convert(scaled, type)
    return node.add("add", product, c)


def clip(node: NodeContext, x: Instruction, low: Instruction, high: Instruction) -> Instruction:
    """``x`` kept between two bounds."""
    return node.common("clip", x, low, high)


def epsilon_of(type: DType, epsilon: float) -> float:
    """``epsilon``, raised to what half precision can hold."""
    return 1e-7 if type is DType.HALF and abs(epsilon) < 1e-7 else epsilon


def batchnorm(
    node: NodeContext,
    x: Instruction,
    weights: Sequence[Instruction],
    epsilon: float,
) -> Instruction:
    """Batch normalisation with a scale, a bias, a known mean and a known variance."""
    scale, bias, mean, variance = weights
    for given, what in ((scale, "scale"), (bias, "bias"), (mean, "mean"), (variance, "var")):
        if given.shape.ndim != 1:
            raise node.fail(f"{what} is {given.shape}; expected one dimension")
    small = node.scalar(x.shape.type, epsilon)
    if x.shape.ndim > 2:
        axes = range(1, x.shape.ndim - 1)
        scale, bias, mean, variance = (
            node.unsqueeze(v, *axes) for v in (scale, bias, mean, variance)
        )
    centred = node.common("sub", x, mean)
    inverse = node.add("rsqrt", node.common("add", variance, small))
    weight = node.common("mul", scale, inverse)
    return node.common("add", node.common("mul", centred, weight), bias)


def standardized(
    node: NodeContext, x: Instruction, axes: Sequence[int], epsilon: float
) -> tuple[Instruction, Instruction, Instruction]:
    """``x`` less its mean, over its deviation, along ``axes``; with the mean and 1 / deviation."""
    mean = node.add("reduce_mean", x, axes=tuple(axes))
    centred = node.common("sub", x, mean)
    squares = node.common("sqdiff", x, mean)
    variance = node.add("reduce_mean", squares, axes=tuple(axes))
    small = node.scalar(x.shape.type, epsilon)
    inverse = node.add("rsqrt", node.common("add", variance, small))
    return node.common("mul", centred, inverse), mean, inverse


def gelu_erf(node: NodeContext, x: Instruction) -> Instruction:
    """GELU by the error function."""
    half, one, root = (node.scalar(x.shape.type, v) for v in (0.5, 1.0, math.sqrt(2)))
    halved = node.common("mul", x, half)
    erf = node.add("erf", node.common("div", x, root))
    return node.common("mul", halved, node.common("add", erf, one))


def gelu_tanh(node: NodeContext, x: Instruction, fast: bool = False) -> Instruction:
    """GELU by the hyperbolic tangent."""
    values = (0.035677, 0.797885) if fast else (0.044715, math.sqrt(2 / math.pi))
    fit, factor, one, half, three = (node.scalar(x.shape.type, v) for v in (*values, 1.0, 0.5, 3.0))
    cubed = node.common("mul", node.common("pow", x, three), fit)
    if fast:
        inner = node.common("add", cubed, node.common("mul", factor, x))
    else:
        inner = node.common("mul", node.common("add", cubed, x), factor)
    tanh = node.common("tanh", inner)
    raised = node.common("add", tanh, one)
    return node.common("mul", raised, node.common("mul", x, half))


def gelu_quick(node: NodeContext, x: Instruction, alpha: float) -> Instruction:
    """GELU by the logistic function."""
    scaled = node.common("mul", node.scalar(x.shape.type, alpha), x)
    return node.common("mul", x, node.add("sigmoid", scaled))


def gelu_split(node: NodeContext, x: Instruction) -> Instruction:
    """The left half of the last dimension times GELU of the right half."""
    n = node.lens(x)[-1]
    if n < 2 or n % 2:
        raise node.fail(f"a last dimension of {n}; expected an even one")
    left = node.slice(x, [-1], [0], [n // 2])
    right = node.slice(x, [-1], [n // 2], [n])
    return node.common("mul", left, gelu_erf(node, right))
