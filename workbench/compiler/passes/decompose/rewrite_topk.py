"""Top-k along long axes, computed in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.select import TopK
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Rewriter, Rule, drive, op, rule, var

Ints: TypeAlias = tuple[int, ...]

_FACTORS = (2, 3, 5, 7, 11)


def large_topk(threshold: int) -> Rule:
    """The rule for axes of at least ``threshold`` elements."""

    @rule(op("topk", var("x")).when(lambda i: _length(i) >= threshold))
    def find_large_topk(b: Rewriter, x: Instruction) -> Instruction | Decline:
        """topk(x) → topk(topk(parts of x)), the places of the parts' elements given to both"""
        topk = b.root.op
        assert isinstance(topk, TopK)
        length, most = _length(b.root), max(threshold // 2, 4 * topk.k)
        groups = split_factor(length, most)
        if groups < 2:
            return Decline(f"{length} elements do not split into parts of at most {most}")
        if length // groups < topk.k:
            return Decline(f"parts of {length // groups} elements are too short for k={topk.k}")
        return _in_parts(b, x, topk, groups)

    return find_large_topk


def _length(root: Instruction) -> int:
    """The length of the axis, or 0 if the input is not static."""
    x, topk = root.inputs[0].shape, root.op
    return x.lens[topk.axis] if isinstance(topk, TopK) and x.dims is None else 0


def split_factor(length: int, most: int) -> int:
    """The number of equal parts with at most ``most`` elements each, or the nearest that divides."""
    parts = 1
    while length // parts > most:
        factor = next((f for f in _FACTORS if length // parts % f == 0), None)
        if factor is None:
            break
        parts *= factor
    return parts


def _in_parts(b: Rewriter, x: Instruction, topk: TopK, groups: int) -> Instruction:
    lens, axis = x.shape.lens, topk.axis % x.shape.ndim
    n = lens[axis]
    grouped = (*lens[:axis], groups, n // groups, *lens[axis + 1 :])
    joined = (*lens[:axis], topk.k * groups, *lens[axis + 1 :])
    places = b.literal(np.arange(n, dtype=np.uint16 if n < 65536 else np.uint32))
    places = b.reshape(b("broadcast", places, axis=axis, out_lens=lens), grouped)
    parts = b(replace(topk, axis=axis + 1), b.reshape(x, grouped), places)
    found = [b.reshape(b("get_tuple_elem", parts, index=i), joined) for i in (0, 1)]
    return b(topk, *found)


@register
class RewriteTopk(RewritePass):
    """Compute top-k along long axes from the top-k of their parts.

    Attributes:
        split_threshold: The smallest length of an axis that is split.
    """

    name = "rewrite_topk"
    rules = (large_topk(8192),)
    split_threshold: int = 8192

    def apply(self, program: Program) -> None:
        """Apply the rule for axes of that length."""
        if self.active:
            drive(program, (large_topk(self.split_threshold),))
