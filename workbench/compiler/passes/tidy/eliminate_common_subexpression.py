"""Merging of equal computations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Param
from workbench.compiler.ir.instruction import sharing_inputs
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change

_LARGEST_COMPARED = 1 << 20
_SMALL = 1 << 10
"""Bytes that are compared sooner than it is found out where they are."""


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
    for instruction in sharing_inputs(module.listed):  # others have no equal instruction
        if not _is_shareable(instruction):
            continue
        alike = seen.setdefault(_key(instruction), [])
        earlier = _first_equal(alike, instruction) if alike else None
        if earlier is None:
            alike.append(instruction)
            continue
        passed = earlier.only_user  # left out above; from now on, it is not the only user
        if passed is not None and _is_before(passed, instruction) and _is_shareable(passed):
            seen.setdefault(_key(passed), []).append(passed)
        merge(instruction, earlier)


def _is_before(one: Instruction, other: Instruction) -> bool:
    return one.module is other.module and one.order < other.order


_SEPARATE = (Param, Allocate)


def _is_shareable(instruction: Instruction) -> bool:
    """Whether an equal instruction may replace it; buffers are written to, so they stay separate."""
    op = instruction.op
    if not instruction.inputs and isinstance(op, _SEPARATE):
        return False
    return op.context_free and instruction.is_used


@change
def merge(later: Instruction, earlier: Instruction) -> None:
    """y = f(x); z = f(x) → z = y"""
    later.module.replace(later, earlier)


def _key(instruction: Instruction) -> Hashable:
    """A hash key: the same for equal instructions, and for few others."""
    if instruction.literal is not None:
        return instruction.shape.lens, instruction.literal.sample
    op, inputs = instruction.op, instruction.inputs
    if op.commutative:
        inputs = tuple(sorted(inputs, key=_id_of))
    return op, inputs, instruction.modules


def _id_of(instruction: Instruction) -> int:
    return instruction.id


def _first_equal(alike: Sequence[Instruction], instruction: Instruction) -> Instruction | None:
    """The first of some instructions with the same key that is equal."""
    return next((one for one in alike if _are_equal(one, instruction)), None)


def _are_equal(one: Instruction, other: Instruction) -> bool:
    """Whether instructions with the same key are equal."""
    if one.shape != other.shape:
        return False
    return one.literal is None or _same_data(one.literal, other.literal)


def _same_data(one: Argument, other: Argument | None) -> bool:
    if other is None:
        return False
    if one.shape.bytes <= _SMALL:
        return one.same_as(other)
    a, b = one.numpy(), other.numpy()
    if a.ctypes.data == b.ctypes.data and a.strides == b.strides:
        return True
    return one.shape.bytes <= _LARGEST_COMPARED and one.same_as(other)
