"""Instructions followed through edits: what the chosen ones of a program become."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.listener import Listener, RuleLike
from workbench.compiler.ir.program import Program


class Followed(Listener):
    """Follows some instructions.

    What replaces a followed one is followed too, and all that an edit makes which removes or replaces one.
    """

    def __init__(self, program: Program, ids: Iterable[int]) -> None:
        """Follow the instructions with these ids; ``following`` attaches it to the program."""
        self.program = program
        self._ids = set(ids)
        self._known = {i.id for i in program.instructions}
        self._made: list[int] = []
        self._is_lost = False
        self._depth = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """The followed instructions that the program computes now, outside of fused bodies."""
        modules = [m for m in self.program.reachable_modules() if not m.bypass]
        computed = {i.id for m in modules for i in m if not i.name.startswith("@")}
        return tuple(sorted(self._ids & computed))

    def touched(self, instruction: Instruction) -> None:
        """Take note of a new instruction."""
        if instruction.id not in self._known:
            self._known.add(instruction.id)
            self._made.append(instruction.id)

    def removed(self, instruction: Instruction) -> None:
        """Note that a followed instruction was removed."""
        self._is_lost |= instruction.id in self._ids

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Follow the replacement."""
        if old.id in self._ids:
            self._ids.add(new.id)
            self._is_lost = True

    def edit_began(self, rule: RuleLike | None, root: Instruction | None) -> None:
        """Start an edit; instructions made or lost before it no longer count."""
        if not self._depth:
            self._made, self._is_lost = [], False
        self._depth += 1

    def edit_ended(self) -> None:
        """Follow all that the edit made, if it removed or replaced a followed instruction."""
        self._depth -= 1
        if not self._depth and self._is_lost:
            self._ids.update(self._made)


@contextmanager
def following(program: Program, ids: Iterable[int]) -> Generator[Followed]:
    """Follow instructions through the edits made inside."""
    followed = Followed(program, ids)
    program.listeners.append(followed)
    try:
        yield followed
    finally:
        program.listeners.remove(followed)
