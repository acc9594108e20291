"""Filling an empty module with parameters, literals and instructions from elsewhere, in one go."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import LITERAL, Instruction, Module, parameter_op
from workbench.compiler.ir.shape import Shape

Entry: TypeAlias = tuple[str, Shape, Argument | None, tuple[str, ...]]
"""A parameter to be, with its name and shape, or a literal; and its source nodes."""


def fill(module: Module, entries: Sequence[Entry]) -> list[Instruction]:
    """Fill an empty module, as ``add_parameter`` and ``add_literal`` would one by one.

    Returns:
        The instruction of each entry.

    Raises:
        GraphError: The module is not empty, or two parameters have one name.
    """
    if len(module):
        raise GraphError(f"module {module.name!r} is not empty")
    parameters, program = module._parameters, module.program
    made: list[Instruction] = []
    above: list[Instruction] = []
    below: list[Instruction] = []
    id, instructions = program._next_id, program._instructions
    for name, shape, literal, sources in entries:
        if literal is None:
            one = Instruction(id, parameter_op(name, len(parameters)), shape, module)
            parameters[name] = one
        else:
            one = Instruction(id, LITERAL, shape, module)
            one.literal, one.constant = literal, True
            (above if parameters else below).append(one)
        one.sources = sources
        made.append(one)
        instructions[id] = one
        id += 1
    program._next_id = id
    if len(parameters) + len(above) + len(below) != len(made):
        raise GraphError(f"module {module.name!r} would have two parameters of one name")
    in_order = [*above[::-1], *parameters.values(), *below[::-1]]
    module._append_all(made[::-1] if program.newest_first else in_order)
    program.tell_all_touched(made)
    return made


def take_all(
    module: Module,
    parts: Sequence[Instruction],
    known: dict[Instruction, Instruction],
    literals: Mapping[Instruction, Mapping[Instruction, Instruction]],
    shape_on: Callable[[Instruction, Sequence[Instruction]], Shape],
) -> None:
    """Move instructions to the end of a body without ``@return``, as ``Module.take`` would one by one.

    Args:
        module: The body.
        parts: The instructions, which are in one module and no literals.
        known: What represents each value that they read; the instructions are added, as they move.
        literals: What represents some values from an instruction on.
        shape_on: The shape of an instruction on inputs from the body.
    """
    tally, find = module.program.tally, known.__getitem__
    outer = parts[0].module
    outer._unlink_all(parts)
    for part in parts:
        if literals and part in literals:
            known.update(literals[part])
        inputs = tuple(map(find, part.inputs))
        part.shape = shape_on(part, inputs)
        if tally is not None:
            tally.taken(part, hidden=module.bypass, was_hidden=outer.bypass)
        if part.modules:
            del outer._calling[part]
            module._calling[part] = None
        part.module = module
        module.connect(part, inputs)
        known[part] = part
    module._append_all(parts)
    module.program.tell_all_touched(parts)
