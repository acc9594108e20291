"""Attention as one kernel: scores never reach memory, for their softmax is kept up as keys come by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.kernels.attention_pattern import recognised
from workbench.gpu.kernels.attention_rows import MOST_ROWS, by_rows
from workbench.gpu.kernels.attention_tiles import tiled
from workbench.gpu.kernels.kernel import Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_DEEPEST = 256
"""The longest queries, keys and values that kernels are made for."""
_FEW_SCORES = 1 << 15
"""With more, a CPU is faster with kernels for the products and one for the softmax (measured)."""


def attention(lowering: Lowering, group: Instruction) -> list[Launch] | None:
    """The kernels of a group of attention; None if it is of another kind than those described here.

    Its second product multiplies values by a softmax, along the last axis, of what elementwise work
    makes of its first product. Between softmax and second product, only conversions, multiplications
    and guards against NaN are allowed. Element types are floats of 32 or 16 bits.
    """
    found = recognised(group)
    if found is None or max(found.depth, found.width) > _DEEPEST:
        return None
    if found.rows <= MOST_ROWS:
        return by_rows(lowering, found)
    if lowering.machine.is_cpu and found.scores.shape.elements > _FEW_SCORES:
        return None
    return [tiled(lowering, found)]
