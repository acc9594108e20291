"""Making every value row-major in memory."""

from __future__ import annotations

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.ops.reshape import ReshapeLazy
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change


@register
class AutoContiguous(Pass):
    """Copy every value to row-major order, for kernels that support no other."""

    name = "auto_contiguous"
    rests = True
    apart = (
        "kernels read any layout. In the pipeline `backend`, for kernels that need row-major order."
    )

    def apply(self, program: Program) -> None:
        """First copy inputs that must be row-major, from the end; then every other result, in order."""
        for module in open_modules(program):
            for instruction in list(reversed(module)):
                wanting = [i for i in instruction.inputs if not isinstance(i.op, Contiguous)]
                if wanting and isinstance(instruction.op, ReshapeLazy):
                    make_inputs_contiguous(instruction)
            for instruction in module:
                if _is_scattered(instruction):
                    make_contiguous(instruction)


def _is_scattered(instruction: Instruction) -> bool:
    """Whether a value with users, or a result, is not in row-major order."""
    shape, users = instruction.shape, instruction.users
    if isinstance(instruction.op, Layout | Return) or not shape.is_tensor or shape.is_dynamic:
        return False
    if shape.elements <= 1 or shape.strides == shape.as_standard().strides:
        return False
    if users:
        return any(not isinstance(u.op, Contiguous) for u in users)
    return instruction is instruction.module.last


@change
def make_inputs_contiguous(instruction: Instruction) -> None:
    """reshape_lazy(x) → reshape_lazy(contiguous(x))"""
    module = instruction.module
    module.set_inputs(
        instruction,
        [
            i if isinstance(i.op, Contiguous) else module.insert(instruction, Contiguous(), i)
            for i in instruction.inputs
        ],
    )


@change
def make_contiguous(instruction: Instruction) -> None:
    """x → contiguous(x), where x is not in row-major order"""
    module = instruction.module
    users = instruction.users
    made = module.insert(instruction.following, Contiguous(), instruction)
    module.program.tell_replaced(instruction, made)
    for user in users:
        user.module.set_inputs(user, [made if i is instruction else i for i in user.inputs])
