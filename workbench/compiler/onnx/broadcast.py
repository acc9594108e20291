"""Explicit broadcasting and type promotion: ONNX's implicit steps as instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import broadcast_lens
from workbench.compiler.macros.emit import common_type
from workbench.compiler.onnx import dynamic

__all__ = ["aligned", "broadcasted", "broadcasted_alike", "common", "common_type", "converted"]


def common(module: Module, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
    """An operation on inputs that are first brought to common lens and a common type."""
    return module.add(op, *aligned(module, inputs), **attributes)


def aligned(module: Module, inputs: Sequence[Instruction]) -> list[Instruction]:
    """The inputs broadcast to common lens and converted to a common type, if they differ."""
    type = common_type([i.shape.type for i in inputs])
    if any(i.shape.is_dynamic for i in inputs):
        return [converted(module, i, type) for i in dynamic.aligned(module, inputs)]
    lens = broadcast_lens(*[i.shape.lens for i in inputs])
    return [converted(module, broadcasted(module, i, lens), type) for i in inputs]


def broadcasted_alike(module: Module, inputs: Sequence[Instruction]) -> list[Instruction]:
    """The inputs broadcast to common lens, if they differ."""
    if any(i.shape.is_dynamic for i in inputs):
        return dynamic.aligned(module, inputs)
    lens = broadcast_lens(*[i.shape.lens for i in inputs])
    return [broadcasted(module, i, lens) for i in inputs]


def broadcasted(module: Module, value: Instruction, lens: Sequence[int]) -> Instruction:
    """``value`` with the given lens: itself, or a multibroadcast of it."""
    if value.shape.is_dynamic:
        return dynamic.spread(module, value, lens)
    if value.shape.lens == tuple(lens):
        return value
    return module.add("multibroadcast", value, out_lens=tuple(lens))


def converted(module: Module, value: Instruction, type: DType) -> Instruction:
    """``value`` with the given element type: itself, or a convert of it."""
    if value.shape.type is type:
        return value
    return module.add("convert", value, target_type=type)
