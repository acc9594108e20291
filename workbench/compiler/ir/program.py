"""Programs: the modules, their instructions by id, and the listeners that hear every edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.facts import ProgramFacts
from workbench.compiler.ir.listener import Listener, RuleLike
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.debug_symbols import Tally
    from workbench.compiler.ir.dtypes import Array


class Edit:
    """The time in which one edit is made; a class and not a generator, for there are thousands."""

    __slots__ = ("before", "program", "root", "rule", "sources")

    def __init__(
        self,
        program: Program,
        rule: RuleLike | None,
        root: Instruction | None,
        sources: tuple[str, ...] | None,
    ) -> None:
        """Not begun yet."""
        self.program = program
        self.rule = rule
        self.root = root
        self.before = program.current_sources
        self.sources = self.before if sources is None else sources

    def __enter__(self) -> None:
        """Tell the listeners that the edit begins."""
        for listener in self.program.listeners:
            listener.edit_began(self.rule, self.root)
        self.program.current_sources = self.sources
        if (tally := self.program.tally) is not None:
            tally.__enter__()

    def __exit__(self, *_: object) -> None:
        """Tell them that it is complete."""
        self.program.current_sources = self.before
        if (tally := self.program.tally) is not None:
            tally.__exit__()
        for listener in self.program.listeners:
            listener.edit_ended()


class Program(ProgramFacts):
    """A whole network: a main module and the modules that it calls."""

    def __init__(self, name: str = "") -> None:
        """A program whose main module is empty; ``name`` is what views call it (often a file name)."""
        super().__init__(name)
        self.modules: dict[str, Module] = {}
        self.tally: Tally | None = None
        """Hands debug symbols on when instructions are replaced; None while there are none."""
        self.current_sources: tuple[str, ...] = ()
        """Source nodes that instructions made from now on come from."""
        self.listeners: list[Listener] = []
        self.version = 0
        """Counts changes of instructions: equal numbers mean that nothing has changed in between."""
        self.numbers: Counter[str] = Counter()
        """The next number of each series of module names; a pass that numbers modules clears it first."""
        self.evaluated: dict[Instruction, Array] = {}
        """Values of constants that a pass has computed, until they change; it clears them when it is done."""
        self._instructions: dict[int, Instruction] = {}
        self._next_id = 0
        self._reached: tuple[int, tuple[Module, ...]] | None = None
        """What ``reachable_modules`` found, and the version for which that holds."""
        self._operations: tuple[int, frozenset[type[Operation]]] | None = None
        """What ``operations`` found, and the version for which that holds."""
        self.main = self.create_module("main")

    # Modules and instructions

    def create_module(self, name: str, bypass: bool = False) -> Module:
        """Add an empty module.

        Raises:
            GraphError: There is a module of that name.
        """
        if name in self.modules:
            raise GraphError(f"the program has a module {name!r} already")
        module = self.modules[name] = Module(self, name, bypass)
        for listener in self.listeners:
            listener.module_changed(module)
        return module

    def remove_module(self, module: Module) -> None:
        """Remove a module that no instruction calls, with all that is in it."""
        for instruction in reversed(module):
            module.remove(instruction)
        del self.modules[module.name]
        for listener in self.listeners:
            listener.module_changed(module)

    def rename_module(self, module: Module, name: str) -> None:
        """Give a module another, unused name."""
        if name in self.modules:
            raise GraphError(f"the program has a module {name!r} already")
        del self.modules[module.name]
        self.modules[name] = module
        module.name = name
        for listener in self.listeners:
            listener.module_changed(module)

    def reachable_modules(self) -> list[Module]:
        """The main module, then the modules it calls, depth first in the order of first use."""
        if self._reached is not None and self._reached[0] == self.version:
            return list(self._reached[1])
        found: dict[Module, None] = {}
        stack = [self.main]
        while stack:
            module = stack.pop()
            if module not in found:
                found[module] = None
                called = [m for i in module if i.modules for m in i.modules]
                stack.extend(m for m in reversed(called) if m not in found)
        self._reached = self.version, tuple(found)
        return list(found)

    @property
    def operations(self) -> frozenset[type[Operation]]:
        """The classes of all operations that the reachable modules have, but for fused bodies."""
        if self._operations is None or self._operations[0] != self.version:
            modules = [m for m in self.reachable_modules() if not m.bypass]
            found = frozenset(type(i.op) for m in modules for i in m)
            self._operations = self.version, found
        return self._operations[1]

    def instruction(self, id: int) -> Instruction:
        """The instruction with this id.

        Raises:
            KeyError: No instruction of this program has it.
        """
        return self._instructions[id]

    def find(self, id: int) -> Instruction | None:
        """The instruction with this id, or None."""
        return self._instructions.get(id)

    @property
    def size(self) -> int:
        """The number of instructions in all modules."""
        return len(self._instructions)

    @property
    def instructions(self) -> Iterable[Instruction]:
        """All instructions of all modules, in no particular order."""
        return self._instructions.values()

    @property
    def parameters(self) -> dict[str, Shape]:
        """Shapes of the main module's parameters, by name, in the order in which they were made."""
        return {name: p.shape for name, p in self.main.parameters.items()}

    @property
    def outputs(self) -> tuple[Instruction, ...]:
        """The values that the program returns."""
        return self.main.outputs

    def clone(self) -> Program:
        """A copy with the same ids; literals are shared. Listeners are not copied."""
        from workbench.compiler.ir.rows import build, rows_of  # noqa: PLC0415

        return build(rows_of(self))

    def clear(self) -> None:
        """Remove all modules and instructions, but no listener; ids are not used again."""
        self.modules.clear()
        self._instructions.clear()
        self.main = self.create_module("main")
        self.version += 1

    # Plumbing for modules

    def new_id(self) -> int:
        """An id that no instruction of this program has had."""
        self._next_id += 1
        return self._next_id - 1

    def register(self, instruction: Instruction) -> None:
        """Know an instruction by its id."""
        self._instructions[instruction.id] = instruction
        self._next_id = max(self._next_id, instruction.id + 1)

    def forget(self, instruction: Instruction) -> None:
        """Drop an instruction that was removed from its module, and say so."""
        del self._instructions[instruction.id]
        self.version += 1
        for listener in self.listeners:
            listener.removed(instruction)

    def tell_touched(self, instruction: Instruction) -> None:
        """Say that an instruction is new or changed."""
        self.version += 1
        if self.evaluated:
            self._outdate(instruction)
        for listener in self.listeners:
            listener.touched(instruction)

    def _outdate(self, changed: Instruction) -> None:
        """Forget the value of a constant that changed, and the values that were computed from it."""
        stack = [changed]
        while stack:
            current = stack.pop()
            if self.evaluated.pop(current, None) is not None:
                stack += current.users

    def tell_replaced(self, old: Instruction, new: Instruction) -> None:
        """Say that one instruction now stands for another."""
        for listener in self.listeners:
            listener.replaced(old, new)

    def edit(
        self,
        rule: RuleLike | None = None,
        root: Instruction | None = None,
        sources: tuple[str, ...] | None = None,
    ) -> Edit:
        """Group the changes made inside as one edit, made by ``rule`` at ``root``.

        Args:
            rule: What makes the edit.
            root: Where.
            sources: The source nodes of what is made inside; by default as before.
        """
        return Edit(self, rule, root, sources)

    @contextmanager
    def source(self, *names: str) -> Generator[None]:
        """Instructions made inside come from these source nodes."""
        before, self.current_sources = self.current_sources, names
        try:
            yield
        finally:
            self.current_sources = before

    # How it shows itself

    def __str__(self) -> str:
        """The text form."""
        return showing.view("text")(self)

    def __repr__(self) -> str:
        """Name and size; the text form is ``str``."""
        sizes = ", ".join(f"{m.name}: {len(m)}" for m in self.modules.values() if not m.bypass)
        return f"<Program {self.name or 'without a name'}; {sizes} instructions>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """In a notebook: the graph as a widget, with a static picture and the text beside it."""
        return showing.view("notebook program")(self)
