"""Filling an empty module with parameters, literals and instructions from elsewhere, in one go."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.instruction_list import GAP
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
    parameters = module._parameters
    made: list[Instruction] = []
    above: list[Instruction] = []
    below: list[Instruction] = []
    for name, shape, literal, sources in entries:
        if literal is None:
            one = module._new(parameter_op(name, len(parameters)), shape)
            parameters[name] = one
        else:
            one = module._new(LITERAL, shape)
            one.literal, one.constant = literal, True
            (above if parameters else below).append(one)
        one.sources = sources
        made.append(one)
    if len(parameters) + len(above) + len(below) != len(made):
        raise GraphError(f"module {module.name!r} would have two parameters of one name")
    in_order = [*above[::-1], *parameters.values(), *below[::-1]]
    module._link_all(made[::-1] if module.program.newest_first else in_order)
    module.program.tell_all_touched(made)
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
        parts: The instructions, which are no literals.
        known: What represents each value that they read; the instructions are added, as they move.
        literals: What represents some values from an instruction on.
        shape_on: The shape of an instruction on inputs from the body.
    """
    program, last = module.program, module._last
    order = 0 if last is None else last.order + GAP
    find = known.__getitem__
    for part in parts:
        if part in literals:
            known.update(literals[part])
        inputs = tuple(map(find, part.inputs))
        part.shape = shape_on(part, inputs)
        outer = part.module
        if (tally := program.tally) is not None:
            tally.taken(part, hidden=module.bypass, was_hidden=outer.bypass)
        if part.modules:
            del outer._calling[part]
            module._calling[part] = None
        outer._unlink(part)
        part.module = module
        module._append(part, order)
        order += GAP
        module.connect(part, inputs)
        known[part] = part
    program.tell_all_touched(parts)
