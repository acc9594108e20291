"""The text form of programs, as MIGraphX prints it: names, lines, whole programs; ``parse`` reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.quoting import module_text, quoted, symbol_text, value_text
from workbench.compiler.ir.rows import Row, Rows
from workbench.compiler.text.parsing import parse

__all__ = [
    "Line",
    "RowNames",
    "instruction_text",
    "lines",
    "literals",
    "names",
    "parse",
    "printed_ids",
    "row_names",
    "row_text",
    "to_text",
]

_INLINE_ELEMENTS = 10


class Line(NamedTuple):
    """One line of the text form: the instruction's id (None for a header), its module, the text."""

    id: int | None
    module: str
    text: str


def names(program: Program) -> dict[int, str]:
    """The printed name of every instruction: parameters by name, others ``@`` and their position."""
    return _named(
        (m.name, m is program.main, [(i.id, i.parameter) for i in m])
        for m in program.modules.values()
    )


def row_names(rows: Rows) -> dict[int, str]:
    """The printed names of a program that is given as rows."""
    parts: dict[int, list[Row]] = {key: [] for key in rows.modules}
    for row in rows.instructions.values():
        parts[row.module].append(row)
    return _named(
        (module.name, key == 0, [(r.id, _parameter(r)) for r in sorted(parts[key], key=_order)])
        for key, module in sorted(rows.modules.items())
    )


class RowNames:
    """The printed names of a program that is given as rows, each made when it is asked for."""

    def __init__(self, rows: Rows, order: Mapping[int, Sequence[int]]) -> None:
        """Make no name yet.

        Args:
            rows: The program.
            order: The ids of each module, in order.
        """
        self._rows, self._order = rows, order
        self._places: dict[int, dict[int, int]] = {}
        parameters = [r.op.parameter for r in rows.instructions.values() if type(r.op) is Param]
        # With a colon, parameters of two modules may print the same name, and one is changed.
        self._all = row_names(rows) if any(":" in name for name in parameters) else None

    def __contains__(self, id: int) -> bool:
        """Whether the program has that id."""
        return id in self._rows.instructions

    def __getitem__(self, id: int) -> str:
        """The name of an instruction."""
        if self._all is not None:
            return self._all[id]
        row = self._rows.instructions[id]
        module = row.module
        prefix = f"{self._rows.modules[module].name}:" if module else ""
        if isinstance(row.op, Param):
            return value_text(prefix + row.op.parameter)
        if module not in self._places:
            self._places[module] = {i: k for k, i in enumerate(self._order[module])}
        name = f"{prefix}@{self._places[module][id]}"
        return _placed(name, not prefix or value_text(prefix) == prefix)


def _parameter(row: Row) -> str | None:
    return row.op.parameter if isinstance(row.op, Param) else None


def _order(row: Row) -> int:
    return row.order


def _named(modules: Iterable[tuple[str, bool, list[tuple[int, str | None]]]]) -> dict[int, str]:
    """Names by id, from each module's name, whether it is the main one, and its ids with parameters."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for module, is_main, instructions in modules:
        prefix = "" if is_main else f"{module}:"
        plain = not prefix or value_text(prefix) == prefix
        for position, (id, own) in enumerate(instructions):
            if own is None:
                found[id] = _placed(f"{prefix}@{position}", plain)
                continue
            name = prefix + own
            shown = value_text(name)
            while shown in taken:  # another module's parameter may print the same name
                name += "'"
                shown = quoted(name)
            taken.add(shown)
            found[id] = shown
    return found


def _placed(name: str, plain: bool) -> str:
    """A name made of a module's name and a position; the module's name is quoted where necessary."""
    return name if plain else quoted(name)


def literals(program: Program) -> dict[str, Array]:
    """The elements of every literal, by printed name; with them ``parse`` restores the exact program.

    The text alone contains only the elements of small literals, to six digits.
    """
    named = names(program)
    return {named[i.id]: i.literal.numpy() for i in program.instructions if i.literal is not None}


def printed_modules(program: Program) -> list[Module]:
    """The modules in printing order: those reachable from main, depth first, then the rest."""
    reached = program.reachable_modules()
    return reached + [m for m in program.modules.values() if m not in set(reached)]


def printed_ids(rows: Rows) -> list[int]:
    """The ids of a program that is given as rows, in printing order."""
    parts: dict[int, list[Row]] = {}
    for row in rows.instructions.values():
        parts.setdefault(row.module, []).append(row)
    for found in parts.values():
        found.sort(key=_order)
    reached: dict[int, None] = {}
    stack = [0]
    while stack:
        if (module := stack.pop()) not in reached:
            reached[module] = None
            stack += [m for row in reversed(parts.get(module, ())) for m in reversed(row.modules)]
    return [
        row.id for m in (reached | dict.fromkeys(sorted(rows.modules))) for row in parts.get(m, ())
    ]


def lines(program: Program) -> list[Line]:
    """The text form line by line."""
    named = names(program)
    found: list[Line] = []
    for module in printed_modules(program):
        shown = module_text(module.name)
        header = shown if shown.startswith('"') else f'"{shown}"'
        found.append(Line(None, module.name, f"module: {header}"))
        found += [Line(i.id, module.name, instruction_text(i, named)) for i in module]
        found.append(Line(None, module.name, ""))
    return found


def to_text(program: Program) -> str:
    """The text form of a whole program."""
    return "\n".join(line.text for line in lines(program)) + "\n"


def instruction_text(instruction: Instruction, named: dict[int, str]) -> str:
    """The line of one instruction."""
    i = instruction
    return _line(i, [named[i.id], *[named[x.id] for x in i.inputs]], [m.name for m in i.modules])


def row_text(rows: Rows, id: int, named: Mapping[int, str] | RowNames) -> str:
    """The line of one instruction of a program that is given as rows."""
    row = rows.instructions[id]
    names = [named[i] for i in (id, *row.inputs)]
    return _line(row, names, [rows.modules[m].name for m in row.modules])


def _line(i: Instruction | Row, named: list[str], modules: list[str]) -> str:
    """The line of an instruction, given the names of itself and its inputs, and those of its modules."""
    text = f"{named[0]} = {operator_text(i)}"
    if len(named) > 1:
        text += "(" + ",".join(named[1:]) + ")"
    if modules:
        text += ", [" + ", ".join([module_text(name) for name in modules]) + "]"
    if not isinstance(i.op, Return):
        text += f" -> {i.shape}"
    if i.target_id:
        text += f", target_id={i.target_id}"
    return f"{text} # {', '.join(map(symbol_text, i.symbols))}" if i.symbols else text


def operator_text(instruction: Instruction | Row) -> str:
    """The operator with its attributes; for a literal, its elements if they are few."""
    if isinstance(instruction.op, Literal):
        return "@literal" + literal_text(instruction.literal)
    return str(instruction.op)


def literal_text(literal: Argument | None) -> str:
    """The elements in braces, or ``{ ... }`` if there are more than ten."""
    if literal is None or literal.shape.elements > _INLINE_ELEMENTS:
        return "{ ... }"
    values: Sequence[Any] = literal.numpy().reshape(-1).tolist()
    return "{" + ", ".join([_element(v, literal.shape.type) for v in values]) + "}"


def _element(value: Any, type: DType) -> str:
    return float_text(float(value)) if type.is_float else str(int(value))
