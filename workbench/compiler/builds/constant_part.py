"""Programs in two parts: what depends on some parameters only, and the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program


@dataclass(frozen=True)
class Parts:
    """A program in two parts, which together compute the same."""

    constant: Program | None
    """What depends on the chosen parameters only; None if nothing is computed from them alone."""
    rest: Program
    """The program with the results of the constant part as parameters."""
    folded: tuple[str, ...] = ()
    """Names of these parameters, in the order of the constant part's outputs."""


def split(program: Program, names: Collection[str]) -> Parts:
    """Split a program by what depends on some parameters and on literals only.

    The constant part need not run again until a chosen parameter changes. Parameters that the rest reads
    itself stay parameters of the rest; those that it does not read are left out. Instructions that call
    modules stay in the rest.

    Args:
        program: The program, which stays as it is.
        names: The chosen parameters.
    """
    found = _constants(program.main, names)
    outputs = set(program.main.outputs)
    border = [
        i.id
        for i in program.main
        if i in found
        and i.parameter is None
        and (i in outputs or any(u not in found for u in i.users))
    ]
    if not border:
        return Parts(None, _without_unread(program.clone(), names))
    folded = tuple(f"folded_{k}" for k in range(len(border)))
    return Parts(_constant(program, border), _rest(program, border, folded, names), folded)


def _constants(main: Module, names: Collection[str]) -> set[Instruction]:
    """The values that depend on a chosen parameter, and otherwise on chosen ones and literals only."""
    found: set[Instruction] = set()
    literal: set[Instruction] = set()
    for one in main:
        if one.parameter is not None:
            if one.parameter in names:
                found.add(one)
        elif one.name == "@literal":
            literal.add(one)
        elif one.name.startswith("@") or one.modules or not one.inputs:
            continue
        elif all(i in found or i in literal for i in one.inputs):
            (found if any(i in found for i in one.inputs) else literal).add(one)
    return found


def _constant(program: Program, border: list[int]) -> Program:
    made = program.clone()
    made.updates, made.output_names = {}, ()
    main = made.main
    wanted = [made.instruction(id) for id in border]
    kept = set(wanted)
    for one in reversed(main):
        if one.name == "@return" or not (one in kept or one.users):
            _drop(main, one)
    main.add_return(*wanted)
    for one in reversed(main):
        if one.parameter is not None and not one.users:
            main.remove(one)
    return made


def _rest(
    program: Program, border: list[int], folded: tuple[str, ...], names: Collection[str]
) -> Program:
    made = program.clone()
    for name, id in zip(folded, border, strict=True):
        old = made.instruction(id)
        shape = old.shape if old.shape.is_dynamic else old.shape.as_standard()
        parameter = made.main.add_parameter(name, shape)
        made.main.move(parameter, old)
        made.main.replace(old, parameter)
    for one in reversed(made.main):
        if one.parameter is None and one.name != "@return" and one not in made.main.outputs:
            _drop(made.main, one)
    return _without_unread(made, names)


def _drop(main: Module, one: Instruction) -> None:
    if not one.users:
        main.remove(one)


def _without_unread(program: Program, names: Collection[str]) -> Program:
    """The program without the chosen parameters that nothing reads."""
    outputs = set(program.main.outputs)
    for name, one in program.main.parameters.items():
        if name in names and not one.users and one not in outputs:
            program.main.remove(one)
    return program
