"""Inlining of calls: their modules' instructions take their place."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.control import Call, GetTupleElem
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.tidy.dead_code_elimination import unreachable
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.clones import clone_into


@register
class InlineCalls(Pass):
    """Replace each call by a copy of the instructions of its module, so that passes see through it."""

    name = "inline_calls"
    rests = True

    def apply(self, program: Program) -> None:
        """Inline calls, those of called modules first, and remove modules that nothing calls any more."""
        if not any(issubclass(op, Call) for op in program.operations):
            return
        for module in open_modules(program):
            for instruction in list(module):
                if isinstance(instruction.op, Call) and _by_element(instruction):
                    inline(instruction)
        for module in unreachable(program):
            program.remove_module(module)


def _by_element(call: Instruction) -> bool:
    """Whether the tuple of results is used by element only."""
    return all(isinstance(u.op, GetTupleElem) for u in call.users) and call.is_used


@change
def inline(call: Instruction) -> None:
    """call(x…), [m] → the body of m on x…"""
    source = call.modules[0]
    known = dict(zip(source.parameters.values(), call.inputs, strict=True))
    copies = clone_into(call.module, source, known, call)
    for user in call.users:
        assert isinstance(user.op, GetTupleElem)
        output = source.outputs[user.op.index]
        user.module.replace(user, copies.get(output, output))
