"""Buffers in the layout of the results that are written into them."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.liveness import aliased
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import BACKEND, AllocationModel, repeats
from workbench.compiler.rewrite import change


@register
class AdjustAllocation(Pass):
    """Replace a buffer whose layout differs from the result written into it by one that matches.

    Args:
        model: How the target allocates.
    """

    name = "adjust_allocation"
    rests = True
    apart = BACKEND
    model: AllocationModel = AllocationModel()

    def apply(self, program: Program) -> None:
        """Check each operation that writes into a buffer, in order."""
        for module in open_modules(program):
            for instruction in module:
                op = instruction.op
                if op.context_free or op.alias is None or op.name.startswith("@"):
                    continue
                buffer = _buffer(instruction)
                if buffer.shape == instruction.shape or repeats(instruction.shape):
                    continue
                if self.model.allocates(buffer):
                    adjust_buffer(instruction, self.model)
                elif buffer.parameter is not None:
                    adjust_copy(instruction, buffer, self.model)


def _buffer(instruction: Instruction) -> Instruction:
    """The buffer that an operation writes into, through views with one user that keep the shape."""
    found = aliased(instruction)
    while found.only_user is not None and aliased(found).shape == found.shape != instruction.shape:
        if aliased(found) is found:
            break
        found = aliased(found)
    return found


@change
def adjust_buffer(written: Instruction, model: AllocationModel) -> Instruction:
    """f(x, allocate[shape=A]) → f(x, allocate[shape=B]), where f returns the layout B"""
    module, old = written.module, aliased(written)
    buffer = module.insert(written, model.allocate(written.shape))
    module.set_inputs(written, [buffer if i is old else i for i in written.inputs])
    if not old.users:
        module.prune(old)
    return buffer


@change
def adjust_copy(written: Instruction, parameter: Instruction, model: AllocationModel) -> None:
    """f(x, parameter) → copy(f(x, allocate), parameter), where f returns another layout"""
    module = written.module
    users = written.users
    buffer = module.insert(written, model.allocate(written.shape))
    old = aliased(written)
    module.set_inputs(written, [buffer if i is old else i for i in written.inputs])
    copied = module.insert(written.following, model.copy, written, parameter)
    for user in users:
        user.module.set_inputs(user, [copied if i is written else i for i in user.inputs])
    if not old.users:
        module.prune(old)
