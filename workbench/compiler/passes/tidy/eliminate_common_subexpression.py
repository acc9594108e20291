"""Merging of equal computations."""

from __future__ import annotations

from collections.abc import Hashable

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change

_SAMPLES = 16
_LARGEST_COMPARED = 1 << 20


@register
class EliminateCommonSubexpression(Pass):
    """Merge equal instructions on equal inputs, and literals with equal bytes.

    Literals of more than 1 MiB count as equal only if they share memory: comparing all weights of a model
    would cost more than it saves.
    """

    name = "eliminate_common_subexpression"
    rests = True

    def apply(self, program: Program) -> None:
        """Visit each module once, in order: the inputs of an instruction are already merged."""
        for module in open_modules(program):
            share(module)


def share(module: Module) -> None:
    """Merge equal instructions of a module on equal inputs."""
    seen: dict[Hashable, list[Instruction]] = {}
    for instruction in module:
        if instruction.is_used and _is_shareable(instruction):
            alike = seen.setdefault(_key(instruction), [])
            for earlier in alike:
                if _are_equal(earlier, instruction):
                    merge(instruction, earlier)
                    break
            else:
                alike.append(instruction)


def _is_shareable(instruction: Instruction) -> bool:
    """Whether an equal instruction may replace it; buffers are written to, so they stay separate."""
    if isinstance(instruction.op, Allocate) and not instruction.inputs:
        return False
    return instruction.parameter is None and instruction.op.context_free


@change
def merge(later: Instruction, earlier: Instruction) -> None:
    """y = f(x); z = f(x) → z = y"""
    later.module.replace(later, earlier)


def _key(instruction: Instruction) -> Hashable:
    """A hash key: the same for equal instructions, and for few others."""
    if instruction.literal is not None:
        return instruction.shape, _fingerprint(instruction.literal)
    inputs = instruction.inputs
    if instruction.op.commutative:
        inputs = tuple(sorted(inputs, key=_id_of))
    return instruction.op, inputs, instruction.modules


def _id_of(instruction: Instruction) -> int:
    return instruction.id


def _are_equal(one: Instruction, other: Instruction) -> bool:
    """Whether instructions with the same key are equal."""
    if one.literal is not None:
        return _same_data(one.literal, other.literal)
    return one.shape == other.shape


def _fingerprint(literal: Argument) -> bytes:
    array = literal.numpy()
    if array.size <= _SAMPLES:
        return array.tobytes()
    return array.flat[:: array.size // _SAMPLES].tobytes()


def _same_data(one: Argument, other: Argument | None) -> bool:
    if other is None:
        return False
    a, b = one.numpy(), other.numpy()
    if a.ctypes.data == b.ctypes.data and a.strides == b.strides:
        return True
    return one.shape.bytes <= _LARGEST_COMPARED and one.same_as(other)
