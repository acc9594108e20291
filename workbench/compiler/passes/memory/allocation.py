"""Allocations: the operations that make them, and placing them in one arena."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.rewrite import Decline, change

BACKEND = (
    "instructions for buffers, arenas and streams are MIGraphX's; targets plan memory as they lower. "
    "In the pipeline `backend`."
)
"""Why passes on buffers are in no target's pipeline."""


@dataclass(frozen=True)
class AllocationModel:
    """A target's way to allocate.

    Args:
        name: The operation that makes a buffer of its ``shape``.
        copy: The operation that copies its first input into its second.
        preallocate: The operation that makes a buffer before a run, of ``shape`` and with an ``id``.
        needs_out_params: Whether results are written into buffers that the caller provides.
    """

    name: str = "allocate"
    copy: str = "copy"
    preallocate: str = "preallocate"
    needs_out_params: bool = True

    def allocate(self, shape: Shape) -> Operation:
        """The operation that makes a buffer of this shape."""
        return make(self.name, shape=shape)

    def allocates(self, instruction: Instruction) -> bool:
        """Whether an instruction makes a buffer, for this target or for any."""
        return instruction.name == self.name or isinstance(instruction.op, Allocate)


def buffer_shape(shape: Shape) -> Shape:
    """The shape of a buffer for a result: row-major if the result's strides repeat elements.

    Some operations keep the strides of a broadcast operand although their elements differ.
    """
    return shape.as_standard() if repeats(shape) else shape


def repeats(shape: Shape) -> bool:
    """Whether strides place several elements at one address."""
    return shape.element_space < shape.elements


def static_allocations(module: Module, name: str) -> list[Instruction]:
    """The allocations of a module whose size is known; the others are reported as near misses."""
    found: list[Instruction] = []
    for instruction in module:
        if instruction.name == name:
            if instruction.shape.dims is None:
                found.append(instruction)
            else:
                _leave(instruction)
    return found


@change
def _leave(instruction: Instruction) -> Decline:
    """allocate → load(memory)"""
    return Decline(f"the size of {instruction.shape} is known only at run time")


def gather_allocations(
    allocations: list[Instruction], offsets: list[int], size: int, name: str
) -> None:
    """Place the allocations of one module in one arena.

    The arena of the main module is a parameter ``name``. That of another module is one allocation, because
    its callers bind its parameters.
    """
    module = allocations[0].module
    is_main = module is module.program.main
    if is_main and name in module.parameters:
        _decline_name(allocations[0], name)
    elif is_main or len(allocations) > 1:
        memory = _memory(allocations[0], name, Shape("int8", (size,)))
        for allocation, offset in zip(allocations, offsets, strict=True):
            load_from(allocation, memory, offset)


@change
def _decline_name(instruction: Instruction, name: str) -> Decline:
    """allocate → load(memory)"""
    return Decline(f"module {instruction.module.name!r} already has a parameter {name!r}")


@change
def _memory(first: Instruction, name: str, shape: Shape) -> Instruction:
    """a module with allocations → the same with one memory"""
    module = first.module
    if module is module.program.main:
        return module.add_parameter(name, shape)
    return module.insert(next(iter(module)), first.name, shape=shape)


@change
def load_from(allocation: Instruction, memory: Instruction, offset: int) -> None:
    """allocate → load[offset](memory)"""
    module = allocation.module
    made = module.insert(allocation, "load", memory, shape=allocation.shape, offset=offset)
    module.replace(allocation, made)
