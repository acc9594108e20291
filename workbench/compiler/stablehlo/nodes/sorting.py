"""Sorts by one key or several, and the largest elements."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.regions import sort_keys
from workbench.compiler.stablehlo.registry import stablehlo_op


@stablehlo_op("sort")
def sort(node: Context, *operands: Instruction) -> list[Instruction]:
    """Operands in the order of some of them; equal elements keep theirs.

    The order by several keys is the stable order by the last, then by the one before, up to the first.
    """
    axis = node.axis(node.whole("dimension", -1), operands[0].shape.ndim)
    keys = sort_keys(node, node.op.regions[0].blocks[0])
    places: Instruction | None = None
    for key in reversed(keys):
        given = operands[key.operand]
        if places is not None:
            given = node.add("gather_elements", given, places, axis=axis)
        found = _order(node, given, axis, key.is_descending)
        places = found if places is None else node.add("gather_elements", places, found, axis=axis)
    assert places is not None  # as a sort has at least one key
    return [node.add("gather_elements", x, places, axis=axis) for x in operands]


def _order(node: Context, x: Instruction, axis: int, is_descending: bool) -> Instruction:
    """The places of the elements in their order."""
    given = node.convert(x, DType.UINT8) if x.shape.type is DType.BOOL else x
    made = node.add("topk", given, k=x.shape.lens[axis], axis=axis, largest=is_descending)
    return node.add("get_tuple_elem", made, index=1)


@stablehlo_op("chlo.top_k")
def top_k(node: Context, x: Instruction) -> list[Instruction]:
    """The largest elements along the last axis, and their indices."""
    made = node.add("topk", x, k=node.whole("k"), axis=x.shape.ndim - 1, largest=True)
    values, indices = node.elements(made, 2)
    return [values, node.convert(indices, node.type(1))]
