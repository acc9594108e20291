"""Debug symbols: names attached to an instruction, printed after its line and kept through rewriting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from workbench.compiler.errors import GraphError

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.program import Program


def add_debug_symbols(instruction: Instruction, symbols: Iterable[str]) -> None:
    """Add debug symbols to an instruction; they form a set, sorted by name.

    Raises:
        GraphError: A symbol is not a string, or is empty.
    """
    wanted = [symbols] if isinstance(symbols, str) else list(symbols)
    for symbol in wanted:
        if not isinstance(symbol, str) or not symbol:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(f"debug symbol {symbol!r}; expected a string that is not empty")
    if wanted:
        _tally(instruction.module.program)
        _merge(instruction, wanted)


def remove_debug_symbols(instruction: Instruction) -> None:
    """Remove all debug symbols of an instruction."""
    if instruction.symbols:
        instruction.symbols = ()
        instruction.module.program.tell_touched(instruction)


def inherit_debug_symbols(old: Instruction, new: Instruction) -> None:
    """Give ``new``, which is to replace ``old``, the symbols of everything that becomes dead with ``old``.

    For passes that leave ``old`` in place; ``Module.replace`` does this by itself.
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
    """Moves debug symbols from the instructions that an edit removes to those that it makes.

    Instructions that a replacement makes dead are removed at once, so an edit removes exactly what its result
    replaces. A value that is still used elsewhere keeps its symbols. Only programs with symbols have a tally.
    """

    def __init__(self) -> None:
        """Start with nothing lost and no open edit."""
        self._depth = 0
        self._made: dict[Instruction, None] = {}
        self._lost: set[str] = set()

    def __enter__(self) -> Tally:
        """Begin an edit, which may be nested in another one."""
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        """End an edit; when the outermost one ends, the new instructions get the symbols of the lost ones."""
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._settle()

    def made(self, instruction: Instruction) -> None:
        """Record an instruction that is new, or that now stands for another value."""
        if self._depth:
            self._made[instruction] = None

    def lost(self, instruction: Instruction) -> None:
        """Record an instruction that is removed, or moved into the body of a kernel."""
        if self._depth:
            self._lost.update(instruction.symbols)

    def taken(self, instruction: Instruction, *, hidden: bool, was_hidden: bool) -> None:
        """Record an instruction that moved to another module; ``hidden`` means into a kernel's body."""
        if hidden:
            self.lost(instruction)
            instruction.symbols = ()
        elif was_hidden:
            self.made(instruction)

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Record an instruction that replaces another one, which may stay in the program."""
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
    """An instruction that is still in its program, and those without symbols that only it needs."""
    if instruction.module.program.find(instruction.id) is not instruction:
        return []
    return _serving(instruction, lambda i: not i.symbols and not i.name.startswith("@"))


def _serving(
    instruction: Instruction, allowed: Callable[[Instruction], bool] = lambda _: True
) -> list[Instruction]:
    """An instruction, and the earlier instructions that only it uses."""
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
