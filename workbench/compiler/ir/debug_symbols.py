"""Debug symbols: names that an instruction carries, that print behind its line and that outlive rewriting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from workbench.compiler.errors import GraphError

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.program import Program


def add_debug_symbols(instruction: Instruction, symbols: Iterable[str]) -> None:
    """Give an instruction further debug symbols; they are a set, kept in order of their names.

    Raises:
        GraphError: A symbol is no text, or is empty.
    """
    wanted = [symbols] if isinstance(symbols, str) else list(symbols)
    for symbol in wanted:
        if not isinstance(symbol, str) or not symbol:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(f"debug symbol {symbol!r}; expected a text that is not empty")
    if wanted:
        _tally(instruction.module.program)
        _merge(instruction, wanted)


def remove_debug_symbols(instruction: Instruction) -> None:
    """Take all debug symbols from an instruction."""
    if instruction.symbols:
        instruction.symbols = ()
        instruction.module.program.tell_touched(instruction)


def inherit_debug_symbols(old: Instruction, new: Instruction) -> None:
    """Let ``new``, which is to stand for ``old``, have the symbols of all that this makes useless.

    For those who leave ``old`` where it is; ``Module.replace`` does the like by itself.
    """
    if old.module.program.tally is None:
        return
    kept = set(_serving(new))
    lost = {s for i in _serving(old) if i is old or i not in kept for s in i.symbols}
    for one in _fresh(new) if lost else ():
        if not (one.name.startswith("@") or one.module.bypass):
            _merge(one, lost)


def has_debug_symbols(program: Program) -> bool:
    """Whether some instruction of a program has debug symbols."""
    return any(i.symbols for i in program.instructions)


def restore_debug_symbols(instruction: Instruction, symbols: tuple[str, ...]) -> None:
    """Set the symbols of an instruction that is rebuilt from a row."""
    instruction.symbols = symbols
    if symbols:
        _tally(instruction.module.program)


class Tally:
    """Hands the symbols of what an edit removes to what it makes; a program has one once it has symbols.

    What a replacement makes dead is removed at once, so what an edit removes is just what its result
    stands for: a value that is still used elsewhere keeps its symbols, and keeps them to itself.
    """

    def __init__(self) -> None:
        """Nothing is lost, and no edit is open."""
        self._depth = 0
        self._made: dict[Instruction, None] = {}
        self._lost: set[str] = set()

    def __enter__(self) -> Tally:
        """An edit, perhaps within another one, begins."""
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        """It is complete; with the outermost one, what was made has the symbols of what was lost."""
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._settle()

    def made(self, instruction: Instruction) -> None:
        """Hear of an instruction that is new, or stands for something else from now on."""
        if self._depth:
            self._made[instruction] = None

    def lost(self, instruction: Instruction) -> None:
        """Hear of an instruction that goes, or that moves into the body of a kernel."""
        if self._depth:
            self._lost.update(instruction.symbols)

    def taken(self, instruction: Instruction, *, hidden: bool, was_hidden: bool) -> None:
        """Hear of an instruction that moved to another module; ``hidden`` ones are a kernel's body."""
        if hidden:
            self.lost(instruction)
            instruction.symbols = ()
        elif was_hidden:
            self.made(instruction)

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Hear of an instruction that takes the place of another one, which may stay."""
        self.lost(old)
        self.made(new)

    def _settle(self) -> None:
        made, lost = list(self._made), self._lost
        self._made, self._lost = {}, set()
        if not lost:
            return
        for instruction in made:
            for one in _fresh(instruction):
                if not (one.name.startswith("@") or one.module.bypass):
                    _merge(one, lost)


def _fresh(instruction: Instruction) -> list[Instruction]:
    """An instruction that is in its program, and what without symbols serves nothing but it."""
    if instruction.module.program.find(instruction.id) is not instruction:
        return []
    return _serving(instruction, lambda i: not i.symbols and not i.name.startswith("@"))


def _serving(
    instruction: Instruction, allowed: Callable[[Instruction], bool] = lambda _: True
) -> list[Instruction]:
    """An instruction, and those before it that nothing else uses."""
    found = {instruction: None}
    stack = [instruction]
    while stack:
        for given in stack.pop().inputs:
            if given not in found and allowed(given) and all(u in found for u in given.users):
                found[given] = None
                stack.append(given)
    return list(found)


def _merge(instruction: Instruction, symbols: Iterable[str]) -> None:
    merged = tuple(sorted({*instruction.symbols, *symbols}))
    if merged != instruction.symbols:
        instruction.symbols = merged
        instruction.module.program.tell_touched(instruction)


def _tally(program: Program) -> Tally:
    if program.tally is None:
        program.tally = Tally()
    return program.tally
