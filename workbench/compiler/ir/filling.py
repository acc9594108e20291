"""Filling an empty module with parameters and literals, in one go."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
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
    tell = module.program.tell_touched
    for one in made:
        tell(one)
    return made
