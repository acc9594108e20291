"""Reasons for host steps."""

from __future__ import annotations

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.tensors import has_value, is_declared
from workbench.gpu.kernels.schedules import schedule_of

_NAMED = 3
"""Most instructions of a body that a reason names."""


def why_on_host(instruction: Instruction) -> str:
    """The reason why no kernel computes an instruction: its operation's, or that of one fused into it."""
    if any(s.shape.is_dynamic for s in (instruction, *instruction.inputs)):
        return "lengths are known only at run time"
    if instruction.op.on_host:
        return instruction.op.on_host
    inner = [i for m in instruction.modules if m.bypass for i in m if not has_kernel(i)]
    if inner:
        rest = f", and {len(inner) - _NAMED} more" if len(inner) > _NAMED else ""
        return "; ".join(f"{i.name} in it: {why_on_host(i)}" for i in inner[:_NAMED]) + rest
    op = instruction.op
    if op.expression or is_declared(op) or schedule_of(op) is not None:
        return "its kernels do not support operands of these types and shapes"
    return "no kernel is declared for it"


def has_kernel(instruction: Instruction) -> bool:
    """Whether an instruction of a body has kernels or an element."""
    given = instruction.name.startswith("@")
    return given or has_value(instruction) or schedule_of(instruction.op) is not None
