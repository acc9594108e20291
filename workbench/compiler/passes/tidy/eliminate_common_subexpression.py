"""Equal computations made once."""

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
    """Let equal instructions on equal inputs be one, literals of equal bytes too.

    Literals of more than 1 MiB are equal only if they share their memory: comparing all weights of a
    model would cost more than it saves.
    """

    name = "eliminate_common_subexpression"
    rests = True

    def apply(self, program: Program) -> None:
        """One walk a module: when an instruction is met, its inputs are merged already."""
        for module in open_modules(program):
            share(module)


def share(module: Module) -> None:
    """Let equal instructions of a module on equal inputs be one."""
    seen: dict[Hashable, list[Instruction]] = {}
    for instruction in module:
        if instruction.is_used and _is_shareable(instruction):
            same = seen.setdefault(_key(instruction), [])
            for earlier in same:
                if earlier.literal is None or _same_data(earlier.literal, instruction.literal):
                    merge(instruction, earlier)
                    break
            else:
                same.append(instruction)


def _is_shareable(instruction: Instruction) -> bool:
    """Whether an equal instruction gives the same; two buffers that are written to are two."""
    if isinstance(instruction.op, Allocate) and not instruction.inputs:
        return False
    return instruction.parameter is None and instruction.op.context_free


@change
def merge(later: Instruction, earlier: Instruction) -> None:
    """y = f(x); z = f(x) → z = y"""
    later.module.replace(later, earlier)


def _key(instruction: Instruction) -> Hashable:
    """Equal for instructions that may be equal, and for few others."""
    if instruction.literal is not None:
        return instruction.shape, _fingerprint(instruction.literal)
    inputs = [i.id for i in instruction.inputs]
    if instruction.op.commutative:
        inputs.sort()
    return instruction.op, tuple(inputs), instruction.modules, instruction.shape


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
