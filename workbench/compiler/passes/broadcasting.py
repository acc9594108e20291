"""Broadcast operands: predicates on them, and rebuilding them for other lens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape, broadcast_lens
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Squeeze, Transpose, Unsqueeze
from workbench.compiler.rewrite import Pattern, Rewriter, var

SPREADING = (Broadcast, Multibroadcast)
"""Operations that repeat the elements of a value."""


def is_broadcast(instruction: Instruction) -> bool:
    """Whether an instruction is a broadcast of a single input."""
    return isinstance(instruction.op, SPREADING) and len(instruction.inputs) == 1


def is_factor(instruction: Instruction) -> bool:
    """Whether an instruction is a broadcast that ``laid`` can rebuild for other lens."""
    if not is_broadcast(instruction):
        return False
    return isinstance(instruction.op, Multibroadcast) or instruction.inputs[0].shape.ndim == 1


def moving(name: str) -> Pattern:
    """A pattern variable for a value that is not constant."""
    return replace(var(name).when(_is_moving), constant=False)


def _is_moving(instruction: Instruction) -> bool:
    return not instruction.constant


def steady(name: str) -> Pattern:
    """A pattern variable for a constant, or a vector along an axis: a ``broadcast``."""
    return var(name).when(is_steady)


def unsteady(name: str) -> Pattern:
    """A pattern variable for a value that is not ``steady``."""
    return replace(var(name).when(_is_unsteady), constant=False)


def _is_unsteady(instruction: Instruction) -> bool:
    return not is_steady(instruction)


def is_steady(instruction: Instruction) -> bool:
    """Whether a value is a constant or a ``broadcast``."""
    return instruction.constant or isinstance(instruction.op, Broadcast)


def used_once(instruction: Instruction) -> bool:
    """Whether an instruction has one user, or none and is the result of its module."""
    if instruction.is_used:
        return instruction.only_user is not None
    return instruction is instruction.module.last


_REPEATING = (*SPREADING, Contiguous)
UNIFORM = frozenset({"@literal", "broadcast", "contiguous", "convert", "multibroadcast"})
"""Operations that may satisfy ``uniform``."""


def uniform(instruction: Instruction, value: float) -> bool:
    """Whether an instruction is a literal, perhaps behind broadcasts, whose elements are all ``value``.

    Conversions are looked through if their type represents the value.
    """
    if not instruction.constant and instruction.shape.dims is None:
        return False  # most operands; what has symbolic lengths is not called constant
    found = instruction
    while (literal := found.literal) is None:
        op = found.op
        if isinstance(op, Convert):
            if found.shape.dims is not None or not _has(found.shape.type, value):
                return False
        elif not isinstance(op, _REPEATING):
            return False
        found = found.inputs[0]
    return literal.is_all(value)


def _has(type: DType, value: float) -> bool:
    """Whether a type represents a small integer, so that conversion to it keeps the value."""
    if type is DType.BOOL:
        return value in (0, 1)
    return type.is_float or value >= 0 or np.issubdtype(type.numpy, np.signedinteger)


_VIEWS = (Broadcast, Multibroadcast, Slice, Squeeze, Transpose, Unsqueeze)


def varying_axes(instruction: Instruction) -> list[int]:
    """Axes along which a value may vary, judged by the strides of its broadcasts."""
    base, shape = instruction, instruction.shape
    while isinstance(base.op, _VIEWS):
        base = base.inputs[0]
    sure = base.literal is not None or not repeats(base.shape)
    pairs = zip(shape.lens, shape.strides, strict=True)
    return [i for i, (n, s) in enumerate(pairs) if n > 1 and (s or not sure)]


def repeats(shape: Shape) -> bool:
    """Whether a shape has zero strides. A ``clip`` inherits its first operand's, but may vary there."""
    return any(n > 1 and not s for n, s in zip(shape.lens, shape.strides, strict=True))


def laid(b: Rewriter, broadcast: Instruction, lens: Sequence[int]) -> Instruction:
    """The input of a broadcast, broadcast to other lens by an operation of the same kind."""
    op, value, lens = broadcast.op, broadcast.inputs[0], tuple(lens)
    if isinstance(op, Broadcast):
        axis = op.axis - len(op.out_lens) + len(lens)
        if axis >= 0 and lens[axis : axis + value.shape.ndim] == value.shape.lens:
            return b(Broadcast(axis=axis, out_lens=lens), value)
    if value.shape.elements == 1 and value.shape.ndim > len(lens):
        value = b("squeeze", value)
    return spread(b, value, lens)


def spread(b: Rewriter, value: Instruction, lens: Sequence[int]) -> Instruction:
    """A value broadcast to these lens, unless it has them."""
    lens = tuple(lens)
    return value if value.shape.lens == lens else b(Multibroadcast(out_lens=lens), value)


def common(b: Rewriter, op: Operation | str, *inputs: Instruction) -> Instruction:
    """An operation on inputs that are first broadcast to their common lens."""
    lens = broadcast_lens(*[i.shape.lens for i in inputs])
    return b(op, *[spread(b, i, lens) for i in inputs])
