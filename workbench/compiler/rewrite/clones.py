"""Copies of a module's instructions in another module, with other values for some of them."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.rewrite.bodies import unused_name


def clone_into(
    module: Module,
    source: Module,
    known: Mapping[Instruction, Instruction],
    before: Instruction | None = None,
) -> dict[Instruction, Instruction]:
    """Copy the instructions of a module into another.

    Modules that they call are shared, unless they read a value of ``source``: those are copied too.

    Args:
        module: The module that gets the copies.
        source: The module that is copied.
        known: The values that stand for the parameters of ``source``, and for other values of it.
        before: The instruction of ``module`` before which they go; by default ``@return``, or the end.

    Returns:
        The copy of each instruction, with those of ``known``.
    """
    made = dict(known)
    if before is None and module.has_return:
        before = module.last
    for instruction in source:
        if instruction in made or isinstance(instruction.op, Return):
            continue
        if instruction.literal is not None:
            made[instruction] = module.add_literal(instruction.literal)
            continue
        inputs = [made.get(i, i) for i in instruction.inputs]
        called = [_module(m, made) for m in instruction.modules]
        with module.program.source(*instruction.sources):
            made[instruction] = module.insert_as(
                instruction.shape, before, instruction.op, inputs, called
            )
    return made


def clone_module(source: Module, known: Mapping[Instruction, Instruction]) -> Module:
    """A copy of a module, with the same parameters and results.

    Args:
        source: The module.
        known: Values of outer modules that it reads, and what the copy reads in their place.
    """
    program = source.program
    made = program.create_module(unused_name(program, source.name), source.bypass)
    inside = {p: made.add_parameter(n, p.shape) for n, p in source.parameters.items()}
    copies = clone_into(made, source, {**known, **inside})
    if source.has_return:
        made.add_return(*[copies.get(o, o) for o in source.outputs])
    return made


def _module(source: Module, known: Mapping[Instruction, Instruction]) -> Module:
    reads = [i for i in captured(source) if i in known]
    return clone_module(source, known) if reads else source
