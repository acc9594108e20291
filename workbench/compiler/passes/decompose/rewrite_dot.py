"""Convolutions with a 1 × 1 kernel as matrix products."""

from __future__ import annotations

from math import prod

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import spread
from workbench.compiler.rewrite import Decline, Rewriter, op, rule, var


@rule(op("convolution", var("x"), var("w")).when(lambda i: set(i.inputs[1].shape.lens[2:]) == {1}))
def find_1x1_convolution(b: Rewriter, x: Instruction, w: Instruction) -> Instruction | Decline:
    """convolution(x, w) → dot(w, x), for a kernel of one tap"""
    if reason := _not_product(b.root, w):
        return Decline(reason)
    flat = b("squeeze", w, axes=tuple(range(2, x.shape.ndim)))
    if b.root.shape.transposed:
        return _channels_last(b, x, flat)
    lens = b.root.shape.lens
    batch, outputs, inputs = lens[0], lens[1], x.shape.lens[1]
    weights = spread(b, flat, (batch, outputs, inputs))
    columns = b.reshape(x, (batch, inputs, prod(x.shape.lens[2:])))
    return b.reshape(b("dot", weights, columns), lens)


def _not_product(root: Instruction, w: Instruction) -> str:
    """The reason why a convolution with one tap is not a matrix product."""
    kernel = root.op
    assert isinstance(kernel, Convolution)
    if not w.constant:
        return f"its weights, {w.name} #{w.id}, are not constant"
    if kernel.group != 1:
        return f"it has {kernel.group} groups"
    if set(kernel.stride) != {1} or any(kernel.padding):
        return "it is strided or padded"
    if set(kernel.dilation) != {1}:
        return "it is dilated"
    return "" if root.shape.elements else "it has no elements"


def _channels_last(b: Rewriter, x: Instruction, w: Instruction) -> Instruction:
    """The product with the channels as the last axis, which is their order in memory."""
    rank = x.shape.ndim
    rows = b("transpose", x, permutation=(0, *range(2, rank), 1))
    turned = b("transpose", w, permutation=(1, 0))
    weights = spread(b, turned, (*rows.shape.lens[:-2], *turned.shape.lens))
    return b("transpose", b("dot", rows, weights), permutation=(0, rank - 1, *range(1, rank - 1)))


@register
class RewriteDot(RewritePass):
    """Rewrite convolutions with a 1 × 1 kernel as matrix products."""

    name = "rewrite_dot"
    apart = "it is faster on some devices only. In `gpu` and `optimize_rewrite` with `rewrite_dot=True`."
    rules = (find_1x1_convolution,)
