"""Variable names for the printers of Python and C++: MIGraphX's, made unique."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program


class Identifiers:
    """A variable for each instruction and module: ``x_3``, ``p_input``, ``m``; no two are the same."""

    def __init__(self, program: Program, main: str) -> None:
        """Names for a program whose main module is called ``main`` in the printed code."""
        self._taken: set[str] = {"p"}
        self._modules = {m.name: self._unused(_module(m, program, main)) for m in _all(program)}
        self._values = {
            id: self._unused(_variable(name))
            for m in _all(program)
            for id, name in _names(m, program)
        }

    def module(self, module: Module) -> str:
        """The variable of a module."""
        return self._modules[module.name]

    def value(self, id: int) -> str:
        """The variable of an instruction's value."""
        return self._values[id]

    def _unused(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


def _all(program: Program) -> list[Module]:
    return list(program.modules.values())


def in_order(module: Module) -> list[Instruction]:
    """The instructions in the order in which code makes them.

    Parameters of a called module are passed by position, so they come first, in the order in which they were
    made. Those of the main module are passed by name, and come where they print, as in MIGraphX.
    """
    if module is module.program.main:
        return list(module)
    given = list(module.parameters.values())
    return given + [i for i in module if i.parameter is None]


def _names(module: Module, program: Program) -> Iterator[tuple[int, str]]:
    """MIGraphX's names of instructions: parameters by name, others by position."""
    prefix = "" if module is program.main else f"{module.name}:"
    for position, instruction in enumerate(module):
        own = instruction.parameter
        yield instruction.id, prefix + (f"@{position}" if own is None else own)


def _module(module: Module, program: Program, main: str) -> str:
    return main if module is program.main else identifier(f"m{module.name}")


def _variable(name: str) -> str:
    prefix = "x_" if "@" in name else "p_"
    return identifier(prefix + name.replace(":", "_module_"))


def identifier(name: str) -> str:
    """A name with only letters, digits and single underscores, valid in C and Python."""
    return re.sub("_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))


def quoted(name: str) -> str:
    """A string in double quotes, valid in Python and C++; escaped, so that a name is never code."""
    return '"' + "".join(map(_escaped, name)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    return f"\\{ord(char):03o}" if ord(char) < 32 or ord(char) == 127 else char
