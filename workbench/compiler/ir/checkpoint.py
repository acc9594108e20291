"""Checkpoints: a program restored to an earlier state, at a cost proportional to what changed since."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from workbench.compiler.ir.debug_symbols import restore_debug_symbols
from workbench.compiler.ir.instruction import Instruction, learn_constant
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import Row, rows_of


class Checkpoint(Listener):
    """A saved state of a program; inside the ``with`` block, ``restore`` returns to it any number of times.

    For example::

        with Checkpoint(program) as checkpoint:
            program.main.replace(old, new)
            checkpoint.restore()
    """

    def __init__(self, program: Program) -> None:
        """Save the program's current state."""
        self.program = program
        rows = rows_of(program)
        self._rows = rows.instructions
        self._modules = list(program.modules.values())
        self._module_rows = list(rows.modules.values())
        self._parameters = [dict(m._parameters) for m in self._modules]
        self._numbers = program.numbers.copy()
        self._objects = {i.id: i for i in program.instructions}
        self._before = {i.id: i._previous for i in program.instructions}
        self._changed: dict[int, Instruction] = {}
        self._renamed = False

    def __enter__(self) -> Checkpoint:
        """Start listening for changes."""
        self.program.listeners.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self.program.listeners.remove(self)

    def touched(self, instruction: Instruction) -> None:
        """Record that an instruction was added or changed."""
        self._changed[instruction.id] = instruction

    def removed(self, instruction: Instruction) -> None:
        """Record that an instruction was removed."""
        self._changed[instruction.id] = instruction

    def module_changed(self, module: Module) -> None:
        """Record that modules were added, removed or renamed."""
        self._renamed = True

    def restore(self) -> None:
        """Restore the saved state; instructions and modules are the same objects as before."""
        changed, self._changed = self._changed, {}
        for instruction in changed.values():
            self._detach(instruction)
        if self._renamed:
            self._restore_modules()
        rows = sorted((self._rows[id] for id in changed if id in self._rows), key=_place)
        for row in rows:
            self._attach(row)
        for row in rows:
            self._fill(row)
        for row in rows:
            learn_constant(self._objects[row.id])
        self.program.numbers = self._numbers.copy()
        self.program.evaluated.clear()
        self.program.version += 1

    def _detach(self, instruction: Instruction) -> None:
        """Unlink an instruction from its module, its inputs and the modules that it calls."""
        for given in instruction.inputs:
            given._users.pop(instruction, None)
        instruction.inputs = ()
        instruction.module.bind(instruction, ())
        if self.program._instructions.pop(instruction.id, None) is not None:
            instruction.module._unlink(instruction)
            if instruction.parameter is not None:
                instruction.module._parameters.pop(instruction.parameter, None)

    def _restore_modules(self) -> None:
        self._renamed = False
        self.program.modules.clear()
        for module, row in zip(self._modules, self._module_rows, strict=True):
            module.name, module.bypass = row
            self.program.modules[row.name] = module

    def _attach(self, row: Row) -> None:
        """Put an instruction back after its predecessor; earlier ones are in place already."""
        instruction, module = self._objects[row.id], self._modules[row.module]
        previous = self._before[row.id]
        instruction.module, instruction.op, instruction.shape = module, row.op, row.shape
        module._link(instruction, module._first if previous is None else previous._next)
        instruction.order = row.order
        self.program._instructions[row.id] = instruction
        if instruction.parameter is not None:
            module._parameters = dict(self._parameters[row.module])

    def _fill(self, row: Row) -> None:
        """Restore an instruction's inputs, literal, sources and modules."""
        instruction = self._objects[row.id]
        instruction.literal, instruction.sources = row.literal, row.sources
        instruction.target_id = row.target_id
        if row.symbols or instruction.symbols:
            restore_debug_symbols(instruction, row.symbols)
        instruction.module.bind(instruction, [self._modules[k] for k in row.modules])
        instruction.inputs = tuple([self._objects[id] for id in row.inputs])
        for given in instruction.inputs:
            given._users[instruction] = None


def _place(row: Row) -> tuple[int, int]:
    return row.module, row.order
