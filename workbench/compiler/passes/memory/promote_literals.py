"""Literals of called modules, moved to the main module."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import BACKEND
from workbench.compiler.rewrite import change


@register
class PromoteLiterals(Pass):
    """Move the literals of called modules to the main module, where equal ones can be shared."""

    name = "promote_literals"
    rests = True
    apart = BACKEND

    def apply(self, program: Program) -> None:
        """Move every literal of every module but the main one."""
        for module in open_modules(program):
            if module is not program.main:
                for instruction in module:
                    if instruction.literal is not None:
                        promote(instruction)


@change
def promote(literal: Instruction) -> None:
    """a literal of a called module → a literal of main, captured"""
    module = literal.module
    module.replace(literal, module.program.main.add_literal(literal.literal))
