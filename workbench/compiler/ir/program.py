"""Programs: the modules, their instructions by id, and the listeners that hear every edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
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
    """The scope of one edit: a class instead of a generator, as there are many."""

    __slots__ = ("before", "program", "root", "rule", "sources")

    def __init__(
        self,
        program: Program,
        rule: RuleLike | None,
        root: Instruction | None,
        sources: tuple[str, ...] | None,
    ) -> None:
        """An edit that has not begun."""
        self.program = program
        self.rule = rule
        self.root = root
        self.sources = sources

    def __enter__(self) -> None:
        """Tell the listeners that the edit begins."""
        sources = self.program.current_sources if self.sources is None else self.sources
        self.before = self.program.begin_edit(self.rule, self.root, sources)

    def __exit__(self, *_: object) -> None:
        """Tell the listeners that the edit is complete."""
        self.program.end_edit(self.before)


class Program(ProgramFacts):
    """A whole network: a main module and the modules that it calls."""

    def __init__(self, name: str = "") -> None:
        """A program with an empty main module; views show ``name``, which is often a file name."""
        super().__init__(name)
        self.modules: dict[str, Module] = {}
        self.tally: Tally | None = None
        """Passes debug symbols on when instructions are replaced; None while there are none."""
        self.current_sources: tuple[str, ...] = ()
        """The source nodes of instructions made from now on."""
        self.listeners: list[Listener] = []
        self.open_edits = 0
        """The number of edits that have begun and not ended; all but the first are nested."""
        self._touched: dict[Instruction, None] = {}
        """What the open edit has made or changed, and not removed again."""
        self.edited: Mapping[Instruction, None] = {}
        """The same of the last edit that has ended."""
        self.version = 0
        """Number of changes to instructions; equal versions mean that nothing changed in between."""
        self.operands = 0
        """The number of inputs of all instructions, each counted as often as it is taken."""
        self.numbers: Counter[str] = Counter()
        """The next number of each series of module names; a pass that numbers modules clears it first."""
        self.evaluated: dict[Instruction, Array] = {}
        """Values of constants that the running pass has computed and that have not changed since."""
        self.literal_bytes: tuple[int, int] = (0, 0)
        """Bytes of literals that were not made by folding, and of all after the last folding."""
        self._instructions: dict[int, Instruction] = {}
        self.find: Callable[[int], Instruction | None] = self._instructions.get
        """The instruction with an id, or None."""
        self._next_id = 0
        self._reached: tuple[int, tuple[Module, ...]] | None = None
        """The result of ``reachable_modules``, and the version for which it holds."""
        self._operations: tuple[int, frozenset[type[Operation]]] | None = None
        """The result of ``operations``, and the version for which it holds."""
        self.main = self.create_module("main")

    # Modules and instructions

    def create_module(self, name: str, bypass: bool = False) -> Module:
        """Add an empty module.

        Raises:
            GraphError: The program already has a module of that name.
        """
        if name in self.modules:
            raise GraphError(f"the program already has a module {name!r}")
        module = self.modules[name] = Module(self, name, bypass)
        for listener in self.listeners:
            listener.module_changed(module)
        return module

    def remove_module(self, module: Module) -> None:
        """Remove a module that no instruction calls, with its instructions."""
        for instruction in reversed(module):
            module.drop(instruction)
        del self.modules[module.name]
        for listener in self.listeners:
            listener.module_changed(module)

    def rename_module(self, module: Module, name: str) -> None:
        """Rename a module; the name must be unused."""
        if name in self.modules:
            raise GraphError(f"the program already has a module {name!r}")
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
                if len(found) == len(self.modules):
                    break
                for caller in reversed(module.calling):
                    stack += reversed(caller.modules)
        self._reached = self.version, tuple(found)
        return list(found)

    @property
    def operations(self) -> frozenset[type[Operation]]:
        """The classes of all operations in reachable modules, fused bodies excepted."""
        if self._operations is None or self._operations[0] != self.version:
            found = set[type[Operation]]()
            for module in self.reachable_modules():
                if not module.bypass:
                    found.update(module.kinds)
            self._operations = self.version, frozenset(found)
        return self._operations[1]

    def instruction(self, id: int) -> Instruction:
        """The instruction with this id.

        Raises:
            KeyError: No instruction of this program has it.
        """
        return self._instructions[id]

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
        """Shapes of the main module's parameters by name, in creation order."""
        return {name: p.shape for name, p in self.main.parameters.items()}

    @property
    def outputs(self) -> tuple[Instruction, ...]:
        """The values that the program returns."""
        return self.main.outputs

    def clone(self) -> Program:
        """A copy with the same ids; literals are shared. Listeners are not copied."""
        from workbench.compiler.ir.rows import Snapshot  # noqa: PLC0415

        return Snapshot(self).build()

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        """As ``clone``; field by field, a copy would recurse as deeply as the program is long."""
        return self.clone()

    def clear(self) -> None:
        """Remove all modules and instructions but keep the listeners; ids are not used again."""
        self.modules.clear()
        self._instructions.clear()
        self.operands = 0
        self.main = self.create_module("main")
        self.version += 1

    # Internals, for modules

    def new_id(self) -> int:
        """An id that no instruction of this program has had."""
        self._next_id += 1
        return self._next_id - 1

    def know(self, instructions: Iterable[Instruction]) -> None:
        """List instructions that were rebuilt from rows by their ids."""
        found = {i.id: i for i in instructions}
        self._instructions.update(found)
        self._next_id = max(self._next_id, 1 + max(found, default=-1))

    def forget(self, instruction: Instruction) -> None:
        """Drop an instruction that was removed from its module, and tell the listeners."""
        del self._instructions[instruction.id]
        self._touched.pop(instruction, None)
        self.version += 1
        for listener in self.listeners:
            listener.removed(instruction)

    def tell_touched(self, instruction: Instruction) -> None:
        """Tell listeners that an instruction is new or changed: at once, or at the end of an open edit."""
        self.version += 1
        if self.evaluated and instruction in self.evaluated:
            self._outdate(instruction)
        if self.open_edits:
            self._touched[instruction] = None
            return
        for listener in self.listeners:
            listener.touched(instruction)

    def tell_all_touched(self, instructions: Sequence[Instruction]) -> None:
        """As ``tell_touched`` for one after the other."""
        if self.evaluated or not self.open_edits:
            for one in instructions:
                self.tell_touched(one)
            return
        self.version += 1
        self._touched.update(dict.fromkeys(instructions))

    def _outdate(self, changed: Instruction) -> None:
        """Drop the cached value of a constant that changed, and the values computed from it."""
        stack = [changed]
        while stack:
            current = stack.pop()
            if self.evaluated.pop(current, None) is not None:
                stack += current.users

    def tell_replaced(self, old: Instruction, new: Instruction) -> None:
        """Tell the listeners that one instruction replaces another."""
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
            rule: The rule that makes the edit.
            root: The instruction where it applies.
            sources: The source nodes of new instructions; by default the current ones.
        """
        return Edit(self, rule, root, sources)

    def begin_edit(
        self, rule: RuleLike | None, root: Instruction | None, sources: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Begin what ``edit`` does; rules call this themselves, as a program has thousands of edits.

        Returns:
            The current source nodes, for ``end_edit``, which has to follow.
        """
        for listener in self.listeners:
            listener.edit_began(rule, root)
        self.open_edits += 1
        before, self.current_sources = self.current_sources, sources
        if self.tally is not None:
            self.tally.__enter__()
        return before

    def end_edit(self, before: tuple[str, ...]) -> None:
        """End the edit that began last; ``before`` is what its beginning returned."""
        self.current_sources = before
        if self.tally is not None:
            self.tally.__exit__()
        self.open_edits -= 1
        if self.open_edits:
            for listener in self.listeners:
                listener.edit_ended()
            return
        touched = self.edited = self._touched
        self._touched = {}
        for listener in self.listeners:
            if touched:
                listener.touched_by_edit(touched)
            listener.edit_ended()

    @contextmanager
    def source(self, *names: str) -> Generator[None]:
        """Instructions made inside come from these source nodes."""
        before, self.current_sources = self.current_sources, names
        try:
            yield
        finally:
            self.current_sources = before

    # Display

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
