"""Instructions as plain rows, and programs rebuilt from rows; recordings and files store these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.debug_symbols import restore_debug_symbols
from workbench.compiler.ir.facts import ProgramFacts
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

Entry = TypeVar("Entry")


class Row(NamedTuple):
    """The complete state of one instruction. Other instructions and modules are referred to by key."""

    id: int
    module: int
    order: int
    op: Operation
    shape: Shape
    inputs: tuple[int, ...]
    modules: tuple[int, ...]
    sources: tuple[str, ...]
    literal: Argument | None
    target_id: int = 0
    symbols: tuple[str, ...] = ()


class ModuleRow(NamedTuple):
    """A module's name and flags."""

    name: str
    bypass: bool


_new_row = cast("Callable[[type[Row], tuple[Any, ...]], Row]", tuple.__new__)


@dataclass
class Rows(ProgramFacts):
    """A program as tables. Modules are keyed by a number, because their names may change."""

    modules: dict[int, ModuleRow] = field(default_factory=dict[int, ModuleRow])
    instructions: dict[int, Row] = field(default_factory=dict[int, Row])


State: TypeAlias = tuple[
    int,
    Module,
    int,
    Operation,
    Shape,
    tuple[Instruction, ...],
    tuple[Module, ...],
    tuple[str, ...],
    Argument | None,
    int,
    tuple[str, ...],
]
"""The fields of a row, with instructions and modules in place of their keys."""


def states_of(instructions: Iterable[Instruction]) -> list[State]:
    """The states of some instructions, which do not change with them; ``row_of`` makes rows of states.

    A recording keeps the state of every instruction that an edit touches, and makes rows when it is read.
    """
    return [
        (
            i.id,
            i.module,
            i.order,
            i.op,
            i.shape,
            i.inputs,
            i.modules,
            i.sources,
            i.literal,
            i.target_id,
            i.symbols,
        )
        for i in instructions
    ]


def row_of(state: State, keys: Mapping[Module, int]) -> Row:
    """The row of an instruction in some state; ``keys`` numbers the modules."""
    id, module, order, op, shape, inputs, modules, sources, literal, target_id, symbols = state
    given = tuple([x.id for x in inputs])
    called = tuple([keys[m] for m in modules])
    # fmt: off
    return _new_row(Row, (
        id, keys[module], order, op, shape, given, called, sources, literal, target_id, symbols,
    ))
    # fmt: on


def patched(
    table: Mapping[int, Entry], deltas: Iterable[Mapping[int, Entry | None]]
) -> dict[int, Entry]:
    """A copy of a table after some changes of it, in which None stands for what is removed."""
    last: dict[int, Any] = {}
    for delta in deltas:
        last.update(delta)
    made = {**table, **last}
    for key, entry in last.items():
        if entry is None:
            del made[key]
    return made


class Snapshot:
    """The state of a program at one moment; rows are made of it when they are read."""

    def __init__(self, program: Program) -> None:
        """Keep the program's current state."""
        modules = list(program.modules.values())
        self._keys = {module: k for k, module in enumerate(modules)}
        self._facts = Rows(modules={k: _module_row(m) for m, k in self._keys.items()})
        self._facts.take_facts(program)
        self._instructions = [i for module in modules for i in module.listed]
        self._states = states_of(self._instructions)

    @cached_property
    def rows(self) -> Rows:
        """The program as tables."""
        rows, keys = self._facts, self._keys
        rows.instructions = {state[0]: row_of(state, keys) for state in self._states}
        return rows

    def build(self) -> Program:
        """A copy of the program, with the same ids and order; literals are shared."""
        program = Program()
        program.take_facts(self._facts)
        modules = {m: _module(program, self._facts.modules[k]) for m, k in self._keys.items()}
        _restore(self._instructions, self._states, modules)
        return program


def rows_of(program: Program) -> Rows:
    """A program as tables."""
    return Snapshot(program).rows


def build(rows: Rows, program: Program | None = None) -> Program:
    """Build the program that the tables describe, with the same ids and order; into ``program`` if given."""
    program = Program() if program is None else program
    program.take_facts(rows)
    fill(program, rows)
    return program


def fill(program: Program, rows: Rows) -> dict[int, Module]:
    """Fill an empty program from the tables; returns the modules by key."""
    modules = {k: _module(program, m) for k, m in sorted(rows.modules.items())}
    ordered = sorted(rows.instructions.values(), key=_place)
    _restore([row.id for row in ordered], ordered, modules)
    return modules


def _restore(
    keys: Sequence[Any], states: Sequence[Row | State], modules: Mapping[Any, Module]
) -> None:
    """Make instructions from their states, in order; states refer to others by their keys."""
    made: dict[Any, Instruction] = {}
    inside: dict[Module, list[Instruction]] = {module: [] for module in modules.values()}
    for key, state in zip(keys, states, strict=True):
        id, place, order, op, shape, _, _, sources, literal, target_id, symbols = state
        module = modules[place]
        one = made[key] = Instruction(id, op, shape, module)
        one.order, one.sources, one.target_id = order, sources, target_id
        inside[module].append(one)
        if literal is not None:
            one.literal, one.constant = literal, True
        if symbols:
            restore_debug_symbols(one, symbols)
    for module, instructions in inside.items():
        module.restore(instructions)
        module.program.know(instructions)
    for one, state in zip(made.values(), states, strict=True):
        inputs, called = state[5], state[6]
        if called:
            one.module.bind(one, [modules[k] for k in called])
        if inputs:
            one.module.attach(one, tuple([made[k] for k in inputs]))


def _module(program: Program, row: ModuleRow) -> Module:
    module = program.main if row.name == "main" else program.create_module(row.name)
    module.bypass = row.bypass
    return module


def _module_row(module: Module) -> ModuleRow:
    return ModuleRow(module.name, module.bypass)


def _place(row: Row) -> tuple[int, int]:
    return row.module, row.order
