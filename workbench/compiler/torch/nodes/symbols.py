"""Operators whose results are integers: lengths, strides, and elements that are read."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.sym_size.int", "aten.sym_stride.int", "aten.sym_numel", "aten.sym_storage_offset")
def integer(node: Context, *_: Any) -> Length:
    """A length, a stride or an offset, as PyTorch knows it."""
    return node.graph_importer.symbols.length(node.result())


@torch_op("aten.sym_is_contiguous")
def is_contiguous(node: Context, *_: Any) -> bool:
    """Whether a value is contiguous, as PyTorch knows it.

    Raises:
        ModelError: That depends on a length.
    """
    value = node.result()
    if hasattr(value, "node") and not value.node.expr.is_Boolean:
        raise node.fail("whether the value is contiguous depends on a length")
    return bool(value)


@torch_op("aten._local_scalar_dense", "aten.item")
def item(node: Context, x: Instruction) -> Length | Instruction:
    """The one element of a value: an integer, on which lengths may depend, or a value of rank 0."""
    value = node.result()
    if isinstance(value, int):
        return value
    if type(value).__name__ != "SymInt":
        return node.reshape(x) if x.shape.ndim else node.add("identity", x)
    node.graph_importer.symbols.hold(value, x)
    return node.graph_importer.symbols.length(value)


COMPARISONS: dict[Callable[..., Any], tuple[str, bool]] = {
    operator.lt: ("less", True),
    operator.ge: ("less", False),
    operator.gt: ("greater", True),
    operator.le: ("greater", False),
    operator.eq: ("equal", True),
    operator.ne: ("equal", False),
}
"""The operation of each of Python's comparisons, and what it gives where the comparison holds."""


@torch_op(*map(str, COMPARISONS))
def compared(node: Context, a: Any, b: Any) -> Instruction:
    """A comparison of numbers, such as lengths: a bool of rank 0."""
    op, holds = COMPARISONS[node.fx.target]
    found = node.test(op, a, b, type=DType.DOUBLE if _has_fraction(a, b) else DType.INT64)
    return found if holds else node.add("not", found)


def _has_fraction(*values: Any) -> bool:
    instructions = [v for v in values if isinstance(v, Instruction)]
    return any(isinstance(v, float) for v in values) or any(
        i.shape.type.is_float for i in instructions
    )
