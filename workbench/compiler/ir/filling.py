"""Filling an empty module with parameters and literals, in one go."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import LITERAL, Instruction, Module, parameter_op
from workbench.compiler.ir.shape import Shape


class Entry(NamedTuple):
    """A parameter or a literal to be."""

    name: str
    """The parameter's name; empty for a literal."""
    shape: Shape
    literal: Argument | None
    sources: tuple[str, ...]


def fill(module: Module, entries: Iterable[Entry]) -> list[Instruction]:
    """Fill an empty module, as ``add_parameter`` and ``add_literal`` would one by one.

    Returns:
        The instruction of each entry.

    Raises:
        GraphError: The module is not empty, or two parameters have one name.
    """
    if len(module):
        raise GraphError(f"module {module.name!r} is not empty")
    made = [_made(module, entry) for entry in entries]
    for one in _ordered(module, made):
        module._link(one, None)
    for one in made:
        module.program.tell_touched(one)
    return made


def _made(module: Module, entry: Entry) -> Instruction:
    """The instruction of an entry, which has no place yet."""
    name, shape, literal, sources = entry
    if literal is not None:
        made = module._new(LITERAL, shape)
        made.literal, made.constant = literal, True
    else:
        parameters = module._parameters
        if name in parameters:
            raise GraphError(f"module {module.name!r} already has a parameter {name!r}")
        made = parameters[name] = module._new(parameter_op(name, len(parameters)), shape)
    made.sources = sources
    return made


def _ordered(module: Module, made: list[Instruction]) -> list[Instruction]:
    """Literals go to the front, and parameters behind older ones, unless the newest one is the first."""
    if module.program.newest_first:
        return made[::-1]
    above: list[Instruction] = []
    below: list[Instruction] = []
    parameters: list[Instruction] = []
    for one in made:
        if one.literal is None:
            parameters.append(one)
        else:
            (above if parameters else below).append(one)
    return [*above[::-1], *parameters, *below[::-1]]
