"""Horizontal fusion: lookups in several tables become one lookup in the concatenated table."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.index import Gather
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import Rewriter, change
from workbench.compiler.run.constants import evaluate_constant

_FEWEST = 4
"""The fewest lookups that are worth concatenating their tables."""

Key = tuple[object, ...]


def _key(gather: Instruction) -> Key | None:
    """The properties that lookups must share to be merged; None for a lookup that cannot be."""
    if not isinstance(gather.op, Gather) or gather.shape.is_dynamic:
        return None
    table, index = (i.shape for i in gather.inputs)
    axis = gather.op.normalized([table, index]).attributes()["axis"]
    fits = axis == 0 and table.ndim == 2 and gather.inputs[0].constant
    if not fits or index.is_dynamic or index.is_scalar or index.ndim < 1:
        return None
    return table.type, table.lens[1], index.type, index.lens[1:]


def groups_of(module: Module) -> list[list[Instruction]]:
    """Groups of lookups of a module that may be merged: alike, and none computed from another."""
    found: dict[Key, list[Instruction]] = defaultdict(list)
    numbers: dict[Key, int] = {}
    behind: dict[Instruction, int] = {}  # a bit for each group that an instruction depends on
    for one in module:
        needed = [*one.inputs, *[c for m in one.modules for c in captured(m)]]
        bits = 0
        for value in needed:
            bits |= behind.get(value, 0)
        if (key := _key(one)) is not None:
            bit = 1 << numbers.setdefault(key, len(numbers))
            if not bits & bit:
                found[key].append(one)
                bits |= bit
        if bits:
            behind[one] = bits
    return [g for g in found.values() if len(g) >= _FEWEST and _fits(g)]


def _fits(group: list[Instruction]) -> bool:
    """Whether the index type can address all rows."""
    rows = sum(g.inputs[0].shape.lens[0] for g in group)
    return rows <= np.iinfo(group[0].inputs[1].shape.type.numpy).max


@change
def fuse_gathers(first: Instruction, group: list[Instruction], negative: bool) -> None:
    """gather(t, i), gather(u, j)… → slices of gather(concat(t, u…), concat(i, j + rows of t…))"""
    module, last = first.module, group[-1]
    late = _users_before(group)
    b = Rewriter(last)
    b.before = last.following
    tables = [g.inputs[0] for g in group]
    table = b("concat", *tables, axis=0)
    starts = [0, *accumulate(t.shape.lens[0] for t in tables)]
    indices = [
        _moved(b, g.inputs[1], start, t.shape.lens[0], negative)
        for g, t, start in zip(group, tables, starts, strict=False)
    ]
    found = b("gather", table, b("concat", *indices, axis=0), axis=0)
    ends = list(accumulate(i.shape.lens[0] for i in indices))
    slices = [
        b("slice", found, axes=(0,), starts=(end - i.shape.lens[0],), ends=(end,))
        for i, end in zip(indices, ends, strict=True)
    ]
    for one in late:
        module.move(one, b.before)
    for gather, part in zip(group, slices, strict=True):
        module.replace(gather, part)


def _users_before(group: list[Instruction]) -> list[Instruction]:
    """The instructions computed from lookups of a group before its last lookup."""
    late: dict[Instruction, None] = dict.fromkeys(group)
    current = group[0].following
    while current is not None and current is not group[-1]:
        needed = [*current.inputs, *[c for m in current.modules for c in captured(m)]]
        if any(i in late for i in needed):
            late[current] = None
        current = current.following
    return [i for i in late if i not in group]


def _moved(b: Rewriter, index: Instruction, start: int, rows: int, negative: bool) -> Instruction:
    """An index into a table as an index into the merged one, where the table's rows begin at ``start``."""
    type, lens = index.shape.type, index.shape.lens
    if negative and _may_be_negative(index):
        zero, low, high = (
            b("multibroadcast", b.scalar(v, type), out_lens=lens) for v in (0, start, start + rows)
        )
        below = b("convert", b("less", index, zero), target_type="bool_type")
        return b("add", index, b("where", below, high, low))
    if start == 0:
        return index
    return b("add", index, b("multibroadcast", b.scalar(start, type), out_lens=lens))


def _may_be_negative(index: Instruction) -> bool:
    if np.dtype(index.shape.type.numpy).kind == "u":
        return False
    if not index.constant:
        return True
    try:
        return bool(np.any(evaluate_constant(index) < 0))
    except EvaluationError:  # it fails or is too large: a run reports it if it gets there
        return True


@register
class FuseHorizontal(Pass):
    """Four or more lookups in constant tables of one width become one lookup.

    Attributes:
        negative_indices: Whether indices that are not constant may be negative, counting from the end of
            their own table. False leaves out that arithmetic, and is right for a model's token ids.
    """

    name = "fuse_horizontal"
    rests = True
    negative_indices: bool = True

    def apply(self, program: Program) -> None:
        """Fuse the lookups of every module."""
        for module in open_modules(program):
            for group in groups_of(module):
                fuse_gathers(group[0], group, self.negative_indices)
