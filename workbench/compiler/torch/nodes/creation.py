"""Values from lengths and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length, Size, known
from workbench.compiler.torch.context import Context, Operand
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.full")
def full(node: Context, size: Sequence[Length], value: Operand, *_: Any) -> Instruction:
    """One number in these lens."""
    if isinstance(value, Instruction | Size):
        return node.fit(node.operand(value, node.dtype()), size)
    return node.filled(node.dtype(), size, value)


@torch_op(
    "aten.empty.memory_format",
    "aten.empty_strided",
    "aten.empty_permuted",
    "aten.new_empty",
    "aten.zeros",
    "aten.empty_like",
)
def zeros(node: Context, *_: Any) -> Instruction:
    """Zeros; PyTorch leaves memory as it is where a value is empty."""
    return node.filled(node.dtype(), node.out_lens(), 0)


@torch_op("aten.scalar_tensor")
def scalar_tensor(node: Context, value: Operand, *_: Any) -> Instruction:
    """A number as a value of rank 0."""
    return node.operand(value, node.dtype())


@torch_op("aten.arange.start_step")
def arange(node: Context, start: Any, end: Any, step: Any = 1, *_: Any) -> Instruction:
    """Numbers from a start up to an end, which is excluded."""
    type, (count,) = node.dtype(), node.out_lens()
    if not any(isinstance(v, Size) for v in (start, end, step)) and isinstance(count, int):
        values = start + np.arange(count) * step
        return node.vector(type, values)
    kind = type if type.is_float else DType.INT64
    places = node.convert(node.counted(DType.INT64, count), kind)
    scaled = places if step == 1 else node.apply("mul", places, step, type=kind)
    found = scaled if start == 0 else node.apply("add", scaled, start, type=kind)
    return node.convert(found, type)


def is_known(values: Sequence[Any]) -> bool:
    """Whether all lengths are known at import."""
    return known(values) is not None
