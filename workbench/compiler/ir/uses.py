"""Uses: which instructions take which values as inputs, and which modules as arguments."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction, is_known, learn_constant
from workbench.compiler.ir.instruction_list import InstructionList

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module
    from workbench.compiler.ir.program import Program


class Uses(InstructionList):
    """Instructions in order with what they use; changes are neither checked nor told to listeners."""

    def __init__(self, program: Program) -> None:
        """No instructions, and no callers."""
        super().__init__(program)
        self._callers: dict[Instruction, None] = {}

    @property
    def callers(self) -> list[Instruction]:
        """The distinct instructions that take this module as an argument, in the order of their first use."""
        return list(self._callers)

    def connect(self, instruction: Instruction, inputs: Iterable[Instruction]) -> None:
        """Set an instruction's inputs and their users."""
        before, now = instruction.inputs, tuple(inputs)
        for old in before:
            old._users.pop(instruction, None)
        for new in now:
            new._users[instruction] = None
        instruction.inputs = now
        if len(now) != len(before):
            self.program.operands += len(now) - len(before)
        if instruction.constant or not now or now[0].constant:  # otherwise it is none, as before
            learn_constant(instruction)

    def attach(self, made: Instruction, inputs: tuple[Instruction, ...]) -> None:
        """As ``connect``, for an instruction that has no inputs yet and gets some."""
        for given in inputs:
            given._users[made] = None
        made.inputs = inputs
        self.program.operands += len(inputs)
        if inputs[0].constant:  # otherwise it is none, and nothing uses it yet
            made.constant = is_known(made)

    def bind(self, instruction: Instruction, modules: Iterable[Module]) -> None:
        """Set an instruction's module arguments and their callers."""
        for old in instruction.modules:
            old._callers.pop(instruction, None)
        instruction.modules = tuple(modules)
        for new in instruction.modules:
            new._callers[instruction] = None
        if instruction.modules:
            self._calling[instruction] = None
        else:
            self._calling.pop(instruction, None)
