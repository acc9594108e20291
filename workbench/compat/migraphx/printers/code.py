"""The common base of the printers of Python and C++: a module is printed right before its first call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from workbench.compat.migraphx.printers.identifiers import Identifiers
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program


class Printer(ABC):
    """Prints each module once, and numbers the generated literals."""

    main = "m"
    """The variable of the main module."""

    def __init__(self, program: Program) -> None:
        """Start without output."""
        self.program = program
        self.names = Identifiers(program, self.main)
        self.done: set[str] = set()
        self.seed = 0

    def code(self, first: str) -> str:
        """The complete code: a line that makes the program, then every module."""
        lines = [first, *self.block(self.program.main), ""]
        for module in self.program.modules.values():
            if module.name not in self.done:
                lines += [*self.block(module), ""]
        return "\n".join(lines) + "\n"

    @abstractmethod
    def block(self, module: Module) -> Iterator[str]:
        """The lines that make a module and its instructions, with the modules that it calls."""

    def called(self, instruction: Instruction) -> Iterator[str]:
        """The modules of an instruction that are not printed yet, between blank lines."""
        new = [m for m in dict.fromkeys(instruction.modules) if m.name not in self.done]
        for module in new:
            yield from ["", *self.block(module)]
        if new:
            yield ""
