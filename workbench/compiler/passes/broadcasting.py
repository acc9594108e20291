"""Broadcast operands: what they repeat, and how they are laid out again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir import Instruction
from workbench.compiler.operation import Operation
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.rewrite import Pattern, Rewriter, behind_broadcasts, var
from workbench.compiler.shape import broadcast_lens


def is_broadcast(instruction: Instruction) -> bool:
    """Whether an instruction repeats its one input."""
    return isinstance(instruction.op, Broadcast | Multibroadcast) and len(instruction.inputs) == 1


def is_factor(instruction: Instruction) -> bool:
    """Whether an instruction repeats a value so that ``laid`` can lay it out to other lens."""
    if not is_broadcast(instruction):
        return False
    return isinstance(instruction.op, Multibroadcast) or instruction.inputs[0].shape.ndim == 1


def moving(name: str) -> Pattern:
    """A value that a run has to compute."""
    return var(name).when(lambda i: not i.constant)


def steady(name: str) -> Pattern:
    """A constant, or a vector laid along an axis: a ``broadcast``."""
    return var(name).when(is_steady)


def unsteady(name: str) -> Pattern:
    """A value that is not ``steady``."""
    return var(name).when(lambda i: not is_steady(i))


def is_steady(instruction: Instruction) -> bool:
    """Whether a value is a constant or a ``broadcast``."""
    return instruction.constant or instruction.name == "broadcast"


def uniform(instruction: Instruction, value: float) -> bool:
    """Whether an instruction is a literal, perhaps behind broadcasts, whose elements are all ``value``."""
    literal = behind_broadcasts(instruction).literal
    if literal is None or not literal.shape.elements:
        return False
    array = literal.numpy()
    return bool(array.flat[0] == value) and bool(np.all(array == value))


def varying_axes(instruction: Instruction) -> list[int]:
    """Axes along which a broadcast value varies."""
    shape = instruction.shape
    return [
        i for i, (n, s) in enumerate(zip(shape.lens, shape.strides, strict=True)) if n > 1 and s
    ]


def laid(b: Rewriter, broadcast: Instruction, lens: Sequence[int]) -> Instruction:
    """The input of a broadcast, laid out by an operation of its kind to other lens."""
    op, value = broadcast.op, broadcast.inputs[0]
    if value.shape.elements == 1:
        return spread(b, value if value.shape.ndim == 1 else b("reshape", value, dims=(1,)), lens)
    if isinstance(op, Broadcast):
        return b(
            Broadcast(axis=op.axis - len(op.out_lens) + len(lens), out_lens=tuple(lens)), value
        )
    return spread(b, value, lens)


def spread(b: Rewriter, value: Instruction, lens: Sequence[int]) -> Instruction:
    """A value repeated to these lens, unless it has them."""
    lens = tuple(lens)
    return value if value.shape.lens == lens else b(Multibroadcast(out_lens=lens), value)


def common(b: Rewriter, op: Operation | str, *inputs: Instruction) -> Instruction:
    """An operation on inputs that are first repeated to their common lens."""
    lens = broadcast_lens(*[i.shape.lens for i in inputs])
    return b(op, *[spread(b, i, lens) for i in inputs])
