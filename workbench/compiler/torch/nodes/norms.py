"""Norms of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.linalg_vector_norm")
def vector_norm(
    node: Context, x: Instruction, order: float = 2, dim: Sequence[int] | int | None = None,
    keepdim: bool = False, *_: Any,
) -> Instruction:  # fmt: skip
    """The norm of an order along axes: the root of the sum of powers, a maximum, a minimum or a count."""
    wide = node.convert(x, node.dtype())
    wide = node.convert(wide, DType.FLOAT) if wide.shape.type.is_narrow_float else wide
    axes = node.axes(dim, x.shape.ndim)
    return node.convert(_norm(node, node.add("abs", wide), order, axes, keepdim), node.dtype())


def _norm(
    node: Context, sizes: Instruction, order: float, axes: Sequence[int], keepdim: bool
) -> Instruction:
    type = sizes.shape.type
    if abs(order) == float("inf"):
        return node.reduce("reduce_max" if order > 0 else "reduce_min", sizes, axes, keepdim)
    if order == 0:
        counted = node.add("not", node.test("equal", sizes, 0, type=type))
        return node.reduce("reduce_sum", node.convert(counted, type), axes, keepdim)
    if order == 1:
        return node.reduce("reduce_sum", sizes, axes, keepdim)
    raised = (
        node.add("mul", sizes, sizes) if order == 2 else node.apply("pow", sizes, order, type=type)
    )
    total = node.reduce("reduce_sum", raised, axes, keepdim)
    return node.add("sqrt", total) if order == 2 else node.apply("pow", total, 1 / order, type=type)
