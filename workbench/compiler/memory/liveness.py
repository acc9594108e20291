"""Liveness: from where to where each value of a module is live, and which lifetimes overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module, captured
from workbench.compiler.ir.operation import Family


@dataclass(frozen=True)
class Lifetime:
    """The lifetime of a value that owns memory, as positions in its module."""

    instruction: Instruction
    first: int
    """Position of the instruction that makes it."""
    last: int
    """Position of its last use, directly or through a view; its own position if it is unused."""
    bytes: int


def aliased(instruction: Instruction) -> Instruction:
    """The input whose memory a result shares, or the instruction itself if it owns its memory."""
    op, inputs = instruction.op, instruction.inputs
    if op.alias is not None and inputs:
        return inputs[op.alias]
    return inputs[0] if op.family is Family.VIEW and inputs else instruction


def owner(instruction: Instruction) -> Instruction:
    """The instruction that owns a value's memory: views are followed to their source."""
    while (one := aliased(instruction)) is not instruction:
        instruction = one
    return instruction


def lifetimes(
    module: Module, wanted: Iterable[Instruction], careful: bool = False
) -> list[Lifetime]:
    """The lifetimes of the wanted instructions, in module order.

    A value is used by each instruction that reads it or a view of it, and by calls of modules that capture
    it. A call may return its operands. A returned value is live until the module's end.

    Args:
        module: The module.
        wanted: The instructions.
        careful: Whether a result that only moves elements, as by ``reshape``, may share its operand's memory.
    """
    places = {instruction: k for k, instruction in enumerate(module)}
    last = {i: places[i] for i in wanted}
    owned: dict[Instruction, tuple[Instruction, ...]] = {}
    for instruction, place in places.items():
        read = reads(instruction)
        kept = dict.fromkeys(o for i in read for o in owned.get(i, ()))
        last |= dict.fromkeys(kept, place)
        if (one := aliased(instruction)) is not instruction:
            owned[instruction] = owned.get(one, ())
        else:
            own = (instruction,) if instruction in last else ()
            called = any(not m.bypass for m in instruction.modules)
            moved = careful and instruction.op.family is Family.MOVEMENT
            shared = called or moved or instruction.op.may_share
            owned[instruction] = (*own, *kept) if shared else own
    end = len(places) - 1
    last |= dict.fromkeys((o for r in module.outputs for o in owned.get(r, ())), end)
    ordered = sorted(last, key=lambda i: places[i])
    return [Lifetime(i, places[i], last[i], i.shape.bytes) for i in ordered]


def reads(instruction: Instruction) -> list[Instruction]:
    """The values that an instruction reads, including captures of the modules that it calls."""
    called = [m for m in instruction.modules if not m.bypass]
    return [*instruction.inputs, *(i for m in called for i in captured(m))]


def conflicts(values: Sequence[Lifetime]) -> list[list[int]]:
    """For each of these values, sorted by ``first``, the indices of those whose lifetimes overlap its own.

    An operand is live until the instruction's result is made, so the two conflict.
    """
    found: list[list[int]] = [[] for _ in values]
    kept: list[int] = []
    for k, value in enumerate(values):
        kept = [i for i in kept if values[i].last >= value.first]
        found[k] += kept
        for i in kept:
            found[i].append(k)
        kept.append(k)
    return found
