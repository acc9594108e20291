"""Listeners: how a program reports its changes, and the passes and rules that make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.module import Module


class RuleLike(Protocol):
    """A rule as a listener sees it: its name, its law and where it is declared."""

    @property
    def name(self) -> str:
        """The rule's name."""
        ...

    @property
    def law(self) -> str:
        """The equation that it applies."""
        ...

    @property
    def file(self) -> str:
        """The file that declares it."""
        ...

    @property
    def line(self) -> int:
        """The line of that file."""
        ...


class PassLike(Protocol):
    """A pass as a listener sees it; ``str`` includes its options."""

    name: ClassVar[str]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        ...


class Listener:
    """Receives every change of a program; each method does nothing unless a subclass overrides it.

    A listener must not edit the program.
    """

    def touched(self, instruction: Instruction) -> None:
        """The instruction was inserted or moved, or its operation, inputs, modules or shape changed.

        During an edit this is told at its end, once for each instruction that the edit did not remove again.
        """

    def touched_by_edit(self, instructions: Mapping[Instruction, None]) -> None:
        """The edit that is about to end touched these, in this order; by default each is ``touched``."""
        for instruction in instructions:
            self.touched(instruction)

    def removed(self, instruction: Instruction) -> None:
        """The instruction was removed from the program."""

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """``new`` computes what ``old`` computed, and takes over its users."""

    def module_changed(self, module: Module) -> None:
        """The module was added, renamed or removed, or its flags changed."""

    def edit_began(self, rule: RuleLike | None, root: Instruction | None) -> None:
        """An edit begins; it lasts until ``edit_ended``."""

    def edit_ended(self) -> None:
        """The edit is complete."""

    def near_miss(self, rule: RuleLike, instruction: Instruction, reason: str) -> None:
        """A rule matched its pattern at ``instruction`` but declined, for this reason."""

    def pass_began(self, pass_: PassLike) -> None:
        """A pass starts on the program."""

    def pass_ended(self, pass_: PassLike, error: BaseException | None) -> None:
        """The pass is done, or ``error`` ended it."""
