"""Removal of instructions that nobody uses, and of modules that nobody calls."""

from __future__ import annotations

from workbench.compiler.ir.builtin import Comment, Identity, Param, Undefined
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.movement import Allocate
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change, law


@register
class DeadCodeElimination(Pass):
    """Remove instructions that nobody uses, and modules that nobody calls."""

    name = "dead_code_elimination"
    rests = True

    def apply(self, program: Program) -> None:
        """Remove unused instructions, then modules without callers and instructions that only they used."""
        _sweep(program)
        while lost := unreachable(program):
            for module in lost:
                with program.edit(remove_module, None):
                    program.remove_module(module)
            _sweep(program)


def _sweep(program: Program) -> None:
    for module in open_modules(program):
        for instruction in module.unused:
            alive = instruction is not module.last and program.find(instruction.id)
            if alive and not _stays(instruction):
                remove_unused(instruction)


def _stays(instruction: Instruction) -> bool:
    """Whether an instruction is kept although its value is unused.

    Parameters and comments are, and operations without dimensions, which run for their effect.
    """
    shape, op = instruction.shape, instruction.op
    if isinstance(op, Param | Comment):
        return True
    if not shape.is_tensor or shape.is_dynamic or shape.ndim:
        return False
    if op.name.startswith("@") or isinstance(op, Undefined | Identity | Allocate):
        return False
    return not _is_undefined(instruction)


def _is_undefined(instruction: Instruction) -> bool:
    """Whether a value is made of nothing but what is undefined or has no elements."""
    seen, stack = {instruction}, [instruction]
    while stack:
        one = stack.pop()
        empty = one.literal is not None and not one.shape.elements
        if not one.inputs and not isinstance(one.op, Undefined) and not empty:
            return False
        stack += [i for i in one.inputs if i not in seen]
        seen.update(one.inputs)
    return True


@change
def remove_unused(instruction: Instruction) -> None:
    """a value that nobody uses → nothing"""
    instruction.module.prune(instruction)


@law
def remove_module() -> None:
    """a module that nobody calls → nothing"""


def unreachable(program: Program) -> list[Module]:
    """Modules that main does not reach, called modules before their callers."""
    reached = set(program.reachable_modules())
    found: dict[Module, None] = {}

    def visit(module: Module) -> None:
        reached.add(module)
        for called in [m for i in module.calling for m in i.modules]:
            if called not in reached:
                visit(called)
        found[module] = None

    for module in program.modules.values():
        if module not in reached:
            visit(module)
    return list(found)
