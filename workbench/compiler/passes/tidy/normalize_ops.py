"""Normalisation of attributes: no negative axes, open slices or short paddings."""

from __future__ import annotations

from functools import cache

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change


@register
class NormalizeOps(Pass):
    """Resolve negative axes, open slices and short paddings in attributes."""

    name = "normalize_ops"
    rests = True

    def apply(self, program: Program) -> None:
        """Replace every operation whose attributes are not yet normal."""
        for module in open_modules(program):
            for instruction in module.listed:
                op = instruction.op
                if _may_change(type(op)) and instruction.inputs and not instruction.modules:
                    normal = op.normalized([i.shape for i in instruction.inputs])
                    if normal is not op and normal != op:
                        normalize(instruction, normal)


@cache
def _may_change(op: type[Operation]) -> bool:
    """Whether operations of a class may have attributes that are not normal."""
    return bool(op.axes_of_input) or op.normalized is not Operation.normalized


@change
def normalize(instruction: Instruction, normal: Operation) -> None:
    """op[axis=-1](x) → op[axis=rank-1](x)"""
    module = instruction.module
    module.replace(instruction, module.insert(instruction, normal, *instruction.inputs))
