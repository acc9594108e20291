"""Pooling and local response normalisation, rewritten to operations that backends have kernels for."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.movement import Pad
from workbench.compiler.ops.pool import Lrn, Pooling, PoolingMode
from workbench.compiler.ops.windows import PaddingMode, doubled
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.broadcasting import spread
from workbench.compiler.rewrite import Decline, Rewriter, Rule, op, rule, var

Ints: TypeAlias = tuple[int, ...]

_REDUCE = {PoolingMode.AVERAGE: "reduce_mean", PoolingMode.MAX: "reduce_max"}
_MOST_GATHERED = 100_000
"""The largest input, in elements, for which index literals and gathered windows are worth their memory."""


def _is_dilated(instruction: Instruction) -> bool:
    op = instruction.op
    return isinstance(op, Pooling) and not op.dyn_global and set(op.dilations) != {1}


@rule(op("pooling", var("x")).when(lambda i: not _is_dilated(i)))
def find_global_pooling(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """pooling(x) → reduce_mean(x) or reduce_max(x), for a window as large as the input"""
    pool = b.root.op
    assert isinstance(pool, Pooling)
    if pool.mode not in _REDUCE:
        return Decline(f"mode {pool.mode.value} is neither average nor max")
    if pool.dyn_global or pool.lengths != x.shape.lens[2:]:
        return Decline(f"the window {pool.lengths} is not the whole input {x.shape.lens[2:]}")
    if any(pool.padding) or pool.padding_mode is not PaddingMode.DEFAULT:
        return Decline("the window is padded")
    if set(pool.stride) != {1}:
        return Decline(f"the stride {pool.stride} is not 1")
    return b(_REDUCE[pool.mode], x, axes=tuple(range(2, x.shape.ndim)))


@rule(op("pooling", var("x")).when(_is_dilated))
def find_dilated_pooling(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """pooling[dilations](x) → pooling(gather(x)), the elements of each window side by side"""
    pool, rank = b.root.op, x.shape.ndim - 2
    assert isinstance(pool, Pooling)
    if pool.padding_mode is not PaddingMode.DEFAULT:
        return Decline("it computes its own padding (padding_mode)")
    padding = doubled(pool.padding, rank)
    if any(padding) and pool.mode is PoolingMode.AVERAGE:
        return Decline("a mean would count the elements of the pad")
    if x.shape.elements > _MOST_GATHERED:
        return Decline(f"{x.shape.elements} elements; at most {_MOST_GATHERED} are gathered")
    lens = [n + p + q for n, p, q in zip(x.shape.lens[2:], padding, padding[rank:], strict=False)]
    taps = [_taps(pool, i, n) for i, n in enumerate(lens)]
    if [len(t) for t in taps] != list(b.root.shape.lens[2:]):
        return Decline("ceil_mode makes windows that reach beyond the input")
    value = _padded(b, x, padding, pool.mode)
    for i, tap in enumerate(taps):
        value = b("gather", value, b.literal(tap.reshape(-1)), axis=i + 2)
    ones, none = (1,) * rank, (0,) * rank
    gathered = replace(pool, padding=none, stride=pool.lengths, dilations=ones, ceil_mode=False)
    return b(gathered, value)


def _taps(pool: Pooling, axis: int, length: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """The positions of each window's taps along an axis of the padded input."""
    step, size = pool.dilations[axis], pool.lengths[axis]
    starts = np.arange(0, length - step * (size - 1), pool.stride[axis], dtype=np.int32)
    return starts[:, None] + np.arange(0, step * size, step, dtype=np.int32)


def _padded(b: Rewriter, x: Instruction, padding: Ints, mode: PoolingMode) -> Instruction:
    if not any(padding):
        return x
    rank = len(padding) // 2
    pads = (0, 0, *padding[:rank], 0, 0, *padding[rank:])
    return b(Pad(pads=pads, value=-np.inf if mode is PoolingMode.MAX else 0.0), x)


_CHANNELS_LAST, _CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@rule(op("lrn", var("x")))
def find_lrn(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """lrn(x) → div(x, pow(bias + alpha · pooling(x · x), beta)), the mean along the channels"""
    lrn, shape = b.root.op, x.shape
    assert isinstance(lrn, Lrn)
    if shape.ndim != 4:
        return Decline(f"its input has {shape.ndim} axes, not 4")
    if not 0 < lrn.size <= shape.lens[1]:
        return Decline(f"size {lrn.size} is not within the {shape.lens[1]} channels")
    squares = b("transpose", b("mul", x, x), permutation=_CHANNELS_LAST)
    before, after = (lrn.size - 1) // 2, lrn.size // 2
    window = Pooling(padding=(0, before, 0, after), lengths=(1, lrn.size), count_include_pad=True)
    mean = b("transpose", b(window, squares), permutation=_CHANNELS_FIRST)
    bias, alpha, beta = (_number(b, n, shape.type) for n in (lrn.bias, lrn.alpha, lrn.beta))
    bias, alpha, beta = (spread(b, i, shape.lens) for i in (bias, alpha, beta))
    return b("div", x, b("pow", b("add", bias, b("mul", alpha, mean)), beta))


def _number(b: Rewriter, value: float, type: DType) -> Instruction:
    return b.scalar(value, type)


@register
class RewritePooling(RewritePass):
    """Rewrite pooling over the whole input as a reduction, and over dilated windows as gather and pooling.

    Attributes:
        rewrite_lrn: Also rewrite lrn, normalisation over neighbouring channels, as pooling along them.
    """

    name = "rewrite_pooling"
    rules = (find_global_pooling, find_dilated_pooling, find_lrn)
    rewrite_lrn: bool = False

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """All rules, or all but that of lrn."""
        return tuple(one for one in self.rules if self.rewrite_lrn or one is not find_lrn)
