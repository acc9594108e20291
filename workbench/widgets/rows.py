"""A program as plain rows for views: nodes, and chips in place of long edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.widgets import label

FAN_OUT = 8
"""A value with more users than this is drawn as chips on all users but the first."""
LARGEST_CONSTANT = 24
"""A constant computed by more instructions than this is drawn as nodes."""

WEIGHTS = frozenset({"", "Initializer", "Constant"})


Looks = dict[tuple[Any, ...], tuple[str, str, str, str, str]]
"""Title, fact, family, shape and text by operation, shapes and parts."""


class Chip(NamedTuple):
    """A small label on a node, in place of an edge from a constant or from a value with many users."""

    label: str
    id: int
    port: bool


class Node(NamedTuple):
    """One drawn instruction. Equal nodes look equal; a changed one is a new version of the same id."""

    id: int
    module: int
    title: str
    fact: str
    family: str
    inputs: tuple[int, ...]
    chips: tuple[Chip, ...]
    shape: str
    text: str
    arguments: tuple[int, ...]
    sources: tuple[str, ...]
    bodies: tuple[int, ...]


@dataclass
class Table:
    """The rows of one program: its nodes in order, and its hoisted constants."""

    name: str = ""
    order: list[int] = field(default_factory=list[int])
    nodes: dict[int, Node] = field(default_factory=dict[int, Node])
    hoisted: dict[int, Node] = field(default_factory=dict[int, Node])
    modules: dict[int, str] = field(default_factory=dict[int, str])
    source_nodes: dict[str, Any] = field(default_factory=dict[str, Any])

    def node(self, id: int) -> Node | None:
        """The node or hoisted constant of that id."""
        return self.nodes.get(id) or self.hoisted.get(id)

    def count(self) -> int:
        """The number of instructions in the main module."""
        both = (*self.nodes.values(), *self.hoisted.values())
        return sum(n.module == 0 for n in both)


def table_of(program_or_module: Any) -> Table:
    """The drawn rows of a program, or of one of its modules and the modules that it calls."""
    from workbench.compiler.ir.rows import rows_of  # noqa: PLC0415

    program = getattr(program_or_module, "program", program_or_module)
    rows = rows_of(program)
    if program is not program_or_module:
        rows = _only(rows, program_or_module.name)
    return table_of_rows(rows)


def _only(rows: Any, name: str) -> Any:
    """The rows of one module as if it were the main one."""
    root = next(key for key, module in rows.modules.items() if module.name == name)
    if root == 0:
        return rows
    other = {root: 0, 0: root}
    rows.modules = {k: rows.modules[other.get(k, k)] for k in rows.modules}
    rows.instructions = {
        i: r._replace(
            module=other.get(r.module, r.module), modules=tuple(other.get(m, m) for m in r.modules)
        )
        for i, r in rows.instructions.items()
    }
    return rows


def table_of_rows(rows: Any, looks: Looks | None = None) -> Table:
    """The drawn rows of a program, from the compiler's rows.

    Args:
        rows: The compiler's rows.
        looks: What was drawn before; states of one program share it, since most instructions stay.
    """
    ordered = list(_reachable(rows))
    writer = _Writer(rows, ordered, {} if looks is None else looks)
    table = Table(rows.name, source_nodes=rows.source_nodes)
    table.order = [row.id for row in ordered]
    table.modules = {key: module.name for key, module in rows.modules.items()}
    for row in ordered:
        into = table.hoisted if writer.is_hidden(row) else table.nodes
        into[row.id] = writer.node(row)
    return table


def _reachable(rows: Any) -> Iterable[Any]:
    """The rows of the main module, then those of the modules that it reaches, callers first."""
    by_module: dict[int, list[Any]] = {}
    for row in rows.instructions.values():
        by_module.setdefault(row.module, []).append(row)
    reached, done = [0], {0}
    for module in reached:
        for row in sorted(by_module.get(module, ()), key=lambda r: r.order):
            yield row
            reached += [m for m in row.modules if m not in done]
            done.update(row.modules)


def users_of(ordered: Iterable[Any]) -> dict[int, list[int]]:
    """The distinct users of each id, in order."""
    users: dict[int, dict[int, None]] = {}
    for row in ordered:
        for source in row.inputs:
            users.setdefault(source, {})[row.id] = None
    return {id: list(found) for id, found in users.items()}


def constants_of(ordered: list[Any], users: dict[int, list[int]]) -> set[int]:
    """Ids to hoist: literals, and values computed only from literals.

    A constant without users is not drawn, unless its module would otherwise have no result.
    """
    cone: dict[int, int] = {}
    last: dict[int, int] = {}
    for row in ordered:
        last[row.module] = row.id
        if row.literal is not None or row.op.name in ("@literal", "undefined"):
            cone[row.id] = 1
        elif row.inputs and not row.modules and row.op.name != "@return":
            sizes = [cone.get(i, LARGEST_CONSTANT) for i in dict.fromkeys(row.inputs)]
            if 1 + sum(sizes) <= LARGEST_CONSTANT and getattr(row.op, "context_free", True):
                cone[row.id] = 1 + sum(sizes)
    results = set(last.values())
    return {id for id in cone if id in users or id not in results}


class _Writer:
    """Makes nodes from the rows of one program."""

    def __init__(self, rows: Any, ordered: list[Any], looks: Looks) -> None:
        self.looks = looks
        self.rows = rows.instructions
        self.sources = rows.source_nodes
        self.users = users_of(ordered)
        self.constants = constants_of(ordered, self.users)
        self.parts: dict[int, list[str]] = {}
        for row in ordered:
            if row.module and row.literal is None and not row.op.name.startswith("@"):
                self.parts.setdefault(row.module, []).append(row.op.name)
        self.bypass = {key for key, module in rows.modules.items() if module.bypass}

    def is_hidden(self, row: Any) -> bool:
        """Whether a row is no node: a constant, or a body's parameter or return, shown at its border."""
        if row.id in self.constants:
            return True
        if row.module and row.op.name == "@param":
            return row.id in self.users
        return row.module in self.bypass and row.op.name == "@return"

    def node(self, row: Any) -> Node:
        """The node of one row."""
        inputs, chips = self._inputs(row)
        title, said, family, shape, text = self._look(row)
        return Node(row.id, row.module, title, said, family, inputs, chips, shape, text,
                    row.inputs, row.sources, row.modules)  # fmt: skip

    def _look(self, row: Any) -> tuple[str, str, str, str, str]:
        """Title, fact, family, shape and text: equal layers have equal ones, which are made once."""
        parts: tuple[str, ...] = ()
        if row.modules:
            inner = (self.parts.get(m, ()) for m in row.modules if m in self.bypass)
            parts = tuple(p for names in inner for p in names)
        inputs = tuple([self.rows[i].shape for i in row.inputs[:2] if i in self.rows])
        key = (row.op, row.shape, inputs, parts)
        if (known := self.looks.get(key)) is None:
            returns = row.op.name == "@return"
            said = label.fact(row.op, row.shape, list(inputs), label.parts_text(list(parts)))
            known = self.looks[key] = (
                label.title(row.op),
                "" if returns else said,
                getattr(row.op.family, "value", row.op.family),
                "" if returns else str(row.shape),
                label.clipped(str(row.op), 400),
            )
        return known

    def _inputs(self, row: Any) -> tuple[tuple[int, ...], tuple[Chip, ...]]:
        inputs: list[int] = []
        chips: list[Chip] = []
        for id in dict.fromkeys(row.inputs):
            source = self.rows.get(id)
            if source is None:
                continue
            if id in self.constants:
                chips.append(Chip(self._constant(source), id, False))
            elif self._is_port(source, row):
                chips.append(Chip(label.clipped(label.title(source.op), 16), id, True))
            else:
                inputs.append(id)
        return tuple(inputs), tuple(chips)

    def _is_port(self, source: Any, row: Any) -> bool:
        """Whether the edge is one of many of its source, or comes from another module."""
        if source.module != row.module or (row.module and source.op.name == "@param"):
            return True
        users = self.users[source.id]
        return len(users) > FAN_OUT and users[0] != row.id

    def _constant(self, row: Any) -> str:
        """The label of a constant: that of the literal at its root."""
        if row.op.name == "undefined":
            return "none"
        root = row
        while root.literal is None and root.inputs:
            root = self.rows[root.inputs[0]]
        if root.literal is None:
            return label.clipped(label.lens_text(row.shape), 16)
        named = [s for s in root.sources if is_weight(self.sources.get(s))]
        return label.chip_text(root.literal, tuple(named), root.shape)


def is_weight(source: Any) -> bool:
    """Whether a source node is a constant of the model, whose name labels the literal."""
    return getattr(source, "op_type", "") in WEIGHTS
