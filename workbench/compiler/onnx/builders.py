"""Compositions that several ONNX operators share: dot with ranges, standardisation, split GELU."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of, same_length
from workbench.compiler.ir.shape import broadcast_lens
from workbench.compiler.macros.compositions import gelu_erf
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import common_dims

FLOATS = {DType.FLOAT, DType.HALF, DType.BF16, DType.DOUBLE}


def dot(node: NodeContext, a: Instruction, b: Instruction, op: str = "dot") -> Instruction:
    """A matrix product whose leading dimensions broadcast."""
    a, b = batch_aligned(node, a, b)
    return node.add(op, a, b)


def batch_aligned(
    node: NodeContext, a: Instruction, b: Instruction
) -> tuple[Instruction, Instruction]:
    """Two batches of matrices with equal leading dimensions."""
    if a.shape.is_dynamic or b.shape.is_dynamic:
        left, right = dims_of(a.shape)[:-2], dims_of(b.shape)[:-2]
        if node.strict and left != right:
            return node.add("broadcast_for_dot", a, b), node.add("broadcast_for_dot", b, a)
        outer = common_dims([left, right])
        full = [len(d) == len(outer) and all(map(same_length, d, outer)) for d in (left, right)]
        first = a if full[0] else node.add("broadcast_for_dot", a, b)
        return first, b if full[1] else node.add("broadcast_for_dot", b, a)
    left, right = a.shape.lens[:-2], b.shape.lens[:-2]
    if left == right:
        return a, b
    lens = broadcast_lens(left, right)
    return node.fit(a, (*lens, *a.shape.lens[-2:])), node.fit(b, (*lens, *b.shape.lens[-2:]))


def epsilon_of(type: DType, epsilon: float) -> float:
    """``epsilon``, raised to a value that half precision can represent."""
    return 1e-7 if type is DType.HALF and abs(epsilon) < 1e-7 else epsilon


def standardized(
    node: NodeContext,
    x: Instruction,
    axes: Sequence[int],
    epsilon: float,
    epsilon_type: DType | None = None,
) -> tuple[Instruction, Instruction, Instruction]:
    """``x`` minus its mean, over its deviation, along ``axes``; with the mean and 1 / deviation.

    The literal of ``epsilon`` has the type of ``x`` unless another one is given.
    """
    mean = node.add("reduce_mean", x, axes=tuple(axes))
    centred = node.common("sub", x, mean)
    squares = node.common("sqdiff", x, mean)
    variance = node.add("reduce_mean", squares, axes=tuple(axes))
    small = node.scalar(epsilon_type or x.shape.type, epsilon)
    inverse = node.add("rsqrt", node.common("add", variance, small))
    return node.common("mul", centred, inverse), mean, inverse


def gelu_split(node: NodeContext, x: Instruction) -> Instruction:
    """The left half of the last dimension times GELU of the right half."""
    n = node.lens(x)[-1]
    if n < 2 or n % 2:
        raise node.fail(f"a last dimension of {n}; expected an even one")
    left = node.slice(x, [-1], [0], [n // 2])
    right = node.slice(x, [-1], [n // 2], [n])
    return node.common("mul", left, gelu_erf(node, right))
