"""Fourier transforms of values whose last axis holds the real and the imaginary part."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.nodes.complex import conjugate
from workbench.compiler.torch.registry import complex_op

NORMALIZATIONS = (0.0, 0.5, 1.0)
"""The power of the number of elements that results are divided by."""


@complex_op("aten._fft_r2c")
def from_real(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, onesided: bool
) -> Instruction:
    """The transform of real numbers along axes; of the last one, half if it is one-sided."""
    rank, axes = x.shape.ndim, [d % x.shape.ndim for d in dim]
    lens = node.fixed([node.lens(x)[a] for a in axes], "transformed axes")
    found = node.add("dft", node.unsqueeze(x, rank), axis=axes[-1], onesided=onesided)
    for axis in axes[:-1]:
        found = node.add("dft", found, axis=axis)
    return _scaled(node, found, lens, normalization)


@complex_op("aten._fft_c2c")
def between(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, forward: bool
) -> Instruction:
    """The transform of complex numbers along axes, or its inverse."""
    rank = x.shape.ndim - 1
    lens = node.fixed([node.lens(x)[d % rank] for d in dim], "transformed axes")
    found = x
    for axis in dim:
        found = _transformed(node, found, axis % rank, forward)
    return _scaled(node, found, lens, normalization)


@complex_op("aten._fft_c2r")
def to_real(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, size: Any
) -> Instruction:
    """The inverse transform to real numbers: the other half of the last axis is the mirrored conjugate."""
    rank, length = x.shape.ndim - 1, node.whole(size, "the length")
    axes = [d % rank for d in dim]
    found = x
    for axis in axes[:-1]:
        found = _transformed(node, found, axis, forward=False)
    last = axes[-1]
    lens = node.fixed(node.lens(x), "the input")
    kept = node.slice(found, [last], [0], [length // 2 + 1])
    mirrored = node.slice(found, [last], [1], [(length + 1) // 2])
    mirrored = conjugate(node, node.add("reverse", mirrored, axes=(last,)))
    whole = node.add("concat", kept, mirrored, axis=last) if length > 2 else kept
    whole = _transformed(node, whole, last, forward=False)
    real = node.squeeze(node.slice(whole, [rank], [0], [1]), rank)
    return _scaled(node, real, [*[lens[a] for a in axes[:-1]], length], normalization)


def _transformed(node: Context, x: Instruction, axis: int, forward: bool) -> Instruction:
    """The transform along an axis without a scale, which the operation's inverse has."""
    found = node.add("dft", x, axis=axis, inverse=not forward)
    if forward:
        return found
    length = node.whole(node.lens(x)[axis], "the length")
    return node.apply("mul", found, float(length), type=x.shape.type)


def _scaled(node: Context, x: Instruction, lens: Sequence[int], normalization: int) -> Instruction:
    if not normalization:
        return x
    return node.apply("mul", x, prod(lens) ** -NORMALIZATIONS[normalization], type=x.shape.type)
