"""Attention as one kernel: the softmax is computed online over the keys, so scores never reach memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.kernels import attention_bulk, attention_cpu, attention_matrix
from workbench.gpu.kernels.attention_pattern import recognised
from workbench.gpu.kernels.attention_rows import MOST_ROWS, by_rows
from workbench.gpu.kernels.attention_tiles import tiled
from workbench.gpu.kernels.kernel import Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_DEEPEST = 256
"""The greatest length of queries, keys and values that the kernels support."""
_FEW_SCORES = 1 << 15
"""With more, a CPU that cannot keep keys and values is faster with separate kernels (measured)."""
_FEW_KEYS = 128
"""With no more, warps of their own are faster than groups of warps (measured on an H200)."""


def attention(lowering: Lowering, group: Instruction) -> list[Launch] | None:
    """The kernels of an attention group; None if its form is not the one described here.

    The group computes scores, elementwise, from its first product; their softmax along the last axis;
    and the softmax times the values, its second product. Between the softmax and the second product
    only conversions, multiplications and guards against NaN are allowed. Types are f32, f16 and bf16.
    """
    found = recognised(group)
    if found is None or max(found.depth, found.width) > _DEEPEST:
        return None
    if found.rows <= MOST_ROWS:
        return by_rows(lowering, found)
    if lowering.machine.is_cpu and attention_cpu.suits(found):
        return [attention_cpu.on_cpu(lowering, found)]
    if lowering.machine.is_cpu and found.scores.shape.elements > _FEW_SCORES:
        return None
    if lowering.machine.matrix and attention_matrix.suits(found):
        bulk = attention_bulk.attention(lowering, found) if found.keys > _FEW_KEYS else None
        return [bulk or attention_matrix.on_matrix_units(lowering, found)]
    return [tiled(lowering, found)]
