"""Instructions as plain rows, and programs rebuilt from rows; recordings and files store these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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


def rows_of(program: Program) -> Rows:
    """A program as tables."""
    keys = {module: k for k, module in enumerate(program.modules.values())}
    rows = Rows()
    rows.take_facts(program)
    rows.modules = {k: ModuleRow(m.name, m.bypass) for m, k in keys.items()}
    for module in keys:
        for state in states_of(module):
            rows.instructions[state[0]] = row_of(state, keys)
    return rows


def build(rows: Rows, program: Program | None = None) -> Program:
    """Build the program that the tables describe, with the same ids and order; into ``program`` if given."""
    program = Program() if program is None else program
    program.take_facts(rows)
    fill(program, rows)
    return program


def fill(program: Program, rows: Rows) -> dict[int, Module]:
    """Fill an empty program from the tables; returns the modules by key."""
    modules = {k: _module(program, m) for k, m in sorted(rows.modules.items())}
    made: dict[int, Instruction] = {}
    ordered = sorted(rows.instructions.values(), key=_place)
    for row in ordered:
        made[row.id] = modules[row.module].restore(row.id, row.op, row.shape, row.order)
    for row in ordered:
        _fill(made[row.id], row, made, modules)
    return modules


def _module(program: Program, row: ModuleRow) -> Module:
    module = program.main if row.name == "main" else program.create_module(row.name)
    module.bypass = row.bypass
    return module


def _place(row: Row) -> tuple[int, int]:
    return row.module, row.order


def _fill(
    made: Instruction, row: Row, instructions: dict[int, Instruction], modules: dict[int, Module]
) -> None:
    made.literal = row.literal
    made.sources = row.sources
    made.target_id = row.target_id
    if row.symbols or made.symbols:
        restore_debug_symbols(made, row.symbols)
    if row.modules:
        made.module.bind(made, [modules[k] for k in row.modules])
    made.module.connect(made, [instructions[k] for k in row.inputs])
