"""Attention as one kernel: the softmax is computed online over the keys, so scores never reach memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.kernels import attention_bulk, attention_cpu, attention_matrix
from workbench.gpu.kernels.attention_pattern import Attention, lies_along, recognised
from workbench.gpu.kernels.attention_rows import MOST_ROWS, by_rows
from workbench.gpu.kernels.attention_scores import causal
from workbench.gpu.kernels.attention_tiles import tiled, tiles_for
from workbench.gpu.kernels.kernel import Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_DEEPEST = 256
"""The greatest length of queries, keys and values that the kernels support."""
_FEW_SCORES = 1 << 15
"""With more, a CPU that cannot keep keys and values is faster with separate kernels (measured)."""
_FEW_KEYS = 128
"""With no more, warps of their own are faster than groups of warps (measured on an H200)."""


@dataclass(frozen=True)
class _Variant:
    """One of several kernels for the same attention."""

    text: str
    make: Callable[[], Launch] = field(compare=False)

    def __str__(self) -> str:
        return self.text


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
    variants, problem = _variants(lowering, found), _problem(found)
    if len(variants) == 1:
        return [variants[0].make()]
    return [replace(lowering.choices.pick(problem, variants).make(), problem=problem)]


def _variants(lowering: Lowering, a: Attention) -> list[_Variant]:
    """The kernels to choose from, the one that is likely to be the fastest first."""
    if not (lowering.machine.matrix and attention_matrix.suits(a)):
        return [
            _Variant(str(tile), lambda tile=tile: tiled(lowering, a, tile))
            for tile in tiles_for(lowering.dialect, a)
        ]
    alone = [
        _Variant(
            f"{n} warps of 16 queries",
            lambda n=n: attention_matrix.on_matrix_units(lowering, a, n),
        )
        for n in attention_matrix.warps_for(a)
    ]
    if not attention_bulk.suits(lowering, a):
        return alone
    groups = [
        _Variant(
            f"{n} groups of 64 queries, bulk copies",
            lambda n=n: attention_bulk.bulk(lowering, a, n),
        )
        for n in attention_bulk.groups_for(a)
    ]
    return [*groups, *alone] if a.keys > _FEW_KEYS else [*alone, *groups]


def _problem(a: Attention) -> str:
    """All that the choice of a kernel depends on, but for what is computed from products and weights."""
    type = a.first.inputs[0].shape.type.name.lower()
    keys = a.first.inputs[1]
    turned = a.depth > 1 and not lies_along(a.body, keys, keys.shape.ndim - 2)
    notes = ", keys turned" * turned + ", causal" * bool(causal(a))
    return f"attention {type} {a.count} of {a.rows}x{a.keys}, {a.depth} and {a.width} deep{notes}"
