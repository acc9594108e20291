"""Inlining of branches whose condition is constant."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.tidy.dead_code_elimination import unreachable
from workbench.compiler.rewrite import Decline, Rewriter, op, rule
from workbench.compiler.rewrite.bodies import prune_all
from workbench.compiler.run.constants import evaluate_constant


@rule(op("if"), dynamic=True)
def find_known_branch(b: Rewriter) -> Instruction | Decline:
    """if(c, …) → the body of the branch that c chooses"""
    condition, *values = b.root.inputs
    if not condition.constant:
        return Decline(f"the condition, {condition.name} #{condition.id}, is not constant")
    if not b.root.users:
        return Decline("none of its values is used")
    if not all(isinstance(u.op, GetTupleElem) for u in b.root.users):
        return Decline("its tuple is used as a whole, not only by element")
    chosen = b.root.modules[0 if evaluate_constant(condition).any() else 1]
    if calls := _calls(chosen) - 1:
        return Decline(f"module {chosen.name} has other calls: {calls}")
    names = sorted({name for m in b.root.modules for name in m.parameters})
    results = _inline(b.root, chosen, dict(zip(names, values, strict=True)))
    users = [(u, u.op.index) for u in b.root.users if isinstance(u.op, GetTupleElem)]
    for user, index in users:
        user.module.replace(user, results[index])
    _remove_uncalled(b.program)
    prune_all(results)
    return results[users[0][1]]


def _calls(module: Module) -> int:
    """The number of calls of a module."""
    return sum(i.modules.count(module) for i in module.callers)


def _inline(call: Instruction, branch: Module, values: dict[str, Instruction]) -> list[Instruction]:
    """Move the instructions of a branch before its call; the branch's results."""
    known = {p: values[name] for name, p in branch.parameters.items()}
    results = [known.get(o, o) for o in branch.outputs]
    if branch.has_return and (end := branch.last) is not None:
        branch.remove(end)
    for instruction in branch:
        if instruction.parameter is None:
            call.module.take(instruction, [known.get(i, i) for i in instruction.inputs])
            if instruction.literal is None:
                call.module.move(instruction, call)
    for parameter, value in known.items():
        for user in parameter.users:  # in modules that the branch calls
            inputs = [value if i is parameter else i for i in user.inputs]
            user.module.set_inputs(user, inputs)
    return results


def _remove_uncalled(program: Program) -> None:
    """Remove modules without callers, and the values that only they used."""
    lost = unreachable(program)
    outer = [value for module in lost for value in captured(module)]
    for module in lost:
        program.remove_module(module)
    prune_all([value for value in outer if value.module not in lost])


@register
class InlineModule(RewritePass):
    """Replace an ``if`` with a constant condition by the branch that it takes."""

    name = "inline_module"
    rules = (find_known_branch,)
