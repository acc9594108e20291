"""Explicit buffers: each result is written into an allocation of its own."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.buffers import Preallocate, Write, Written
from workbench.compiler.ops.movement import Allocate, Fill
from workbench.compiler.ops.recurrent import LastState, Recurrent
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import buffer_shape
from workbench.compiler.rewrite import change


@register
class Lowering(Pass):
    """Make each operation write its result into a buffer; passes on allocations then share the buffers.

    Views, tuples, values of dynamic lengths, branches and loops get no buffer and stay unchanged.

    Args:
        results: Give buffers only to the results of the main module.
    """

    name = "lowering"
    rests = True
    apart = (
        "a target places results as it lowers. In `gpu` where the caller provides the "
        "buffers (`offload_copy=False`), and in the pipeline `backend`."
    )
    results: bool = False

    def apply(self, program: Program) -> None:
        """Give a buffer to each operation of each module, or to the results."""
        if self.results:
            for instruction in dict.fromkeys(program.main.outputs):
                if writes(instruction):
                    lower(instruction)
            return
        for module in open_modules(program):
            for instruction in module:
                if writes(instruction):
                    lower(instruction)


def writes(instruction: Instruction) -> bool:
    """Whether the result of an instruction can be written into a buffer."""
    op, shape = instruction.op, instruction.shape
    if op.alias is not None or isinstance(op, Allocate | Preallocate | Fill):
        return False
    if isinstance(op, Written | Recurrent | LastState):  # recurrent values hold last states, too
        return False
    if op.family in {Family.PARAMETER, Family.VIEW, Family.CONTROL} or instruction.is_constant:
        return False
    shapes = [shape, *(i.shape for i in instruction.inputs)]
    known = all(s.is_tensor and s.dims is None for s in shapes) and bool(shape.lens)
    return known and bool(instruction.inputs) and all(m.bypass for m in instruction.modules)


@change
def lower(instruction: Instruction) -> None:
    """f(x) → write[op=f](x, allocate)"""
    module, modules = instruction.module, instruction.modules
    buffer = module.insert(instruction, "allocate", shape=buffer_shape(instruction.shape))
    inputs = (*instruction.inputs, buffer)
    made = module.insert(instruction, Write(instruction.op), *inputs, modules=modules)
    module.replace(instruction, made)
