"""A program's rows as drawn: which are nodes, and which chips; facts about neighbours decide it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from workbench.widgets import label
from workbench.widgets.nodes import Chip, Look, Node, Table, is_weight

FAN_OUT = 8
"""A value with more users than this is drawn as chips on all users but the first."""
LARGEST_CONSTANT = 24
"""A constant computed by more instructions than this is drawn as nodes."""

Ids = list[int]


@cache
def _is_exact(kind: type) -> bool:
    """Whether equal operations of a class print alike: floats do not, since 0.0 equals -0.0."""
    return not any("float" in str(f.type) or "Any" in str(f.type) for f in fields(kind))


class Words:
    """The words on nodes and chips, each made once: equal layers have equal ones."""

    def __init__(self) -> None:
        self._looks: dict[tuple[Any, ...], Look] = {}
        self._chips: dict[int, tuple[Any, Chip]] = {}

    def look(self, row: Any, weights: Any, parts: tuple[str, ...]) -> Look:
        """The words of a row, given the shape of its second input and the operations of its bodies."""
        op, shape = row.op, row.shape
        windowed = weights if "convolution" in op.name else None
        key = (op if _is_exact(type(op)) else str(op), shape, windowed, parts)
        found = self._looks.get(key)
        if found is None:
            returns = op.name == "@return"
            inputs = [] if windowed is None else [shape, windowed]
            said = label.fact(op, shape, inputs, label.parts_text(list(parts)))
            found = self._looks[key] = Look(
                label.title(op),
                "" if returns else said,
                getattr(op.family, "value", op.family),
                "" if returns else str(shape),
                label.clipped(str(op), 400),
            )
        return found

    def chip(self, row: Any, root: Any, source_nodes: Any) -> Chip:
        """The chip of a constant, labelled as the literal at its root."""
        known = self._chips.get(row.id)
        if known is None or known[0] is not root:
            named = tuple(s for s in root.sources if is_weight(source_nodes.get(s)))
            chip = Chip(label.chip_text(root.literal, named, root.shape), row.id, False)
            known = self._chips[row.id] = root, chip
        return known[1]


@dataclass
class Drawing:
    """One state of a program as drawn. The next state shares all that its edits left alone."""

    rows: dict[int, Any]
    modules: dict[int, Any]
    source_nodes: dict[str, Any]
    words: Words
    table: Table
    order: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """The ids of each module, in order."""
    callers: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """Those of them that take modules."""
    reached: list[int] = field(default_factory=list[int])
    """The main module and those that it reaches, callers first."""
    users: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """The distinct users of each id, in order."""
    cone: dict[int, int] = field(default_factory=dict[int, int])
    """The number of instructions that each constant was computed by."""
    constants: set[int] = field(default_factory=set[int])
    """Those of them that are drawn as chips."""
    parts: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """The operations of each body."""

    @classmethod
    def of(cls, rows: Any, other: Drawing | None = None) -> Drawing:
        """The drawing of a program's rows; what another state's drawing has alike is taken from there."""
        words = Words() if other is None else other.words
        table = Table(rows.name, source_nodes=rows.source_nodes)
        drawing = cls(rows.instructions, rows.modules, rows.source_nodes, words, table)
        drawing._collect()
        drawing._count()
        drawing._write(other)
        return drawing

    def ids(self) -> Iterator[int]:
        """The drawn ids in order."""
        for module in self.reached:
            yield from self.order.get(module, ())

    def _collect(self) -> None:
        """Order the rows of each module, and find the modules that are reached."""
        found: dict[int, list[Any]] = {}
        for row in self.rows.values():
            found.setdefault(row.module, []).append(row)
        for module, rows in found.items():
            rows.sort(key=_order)
            self.order[module] = [row.id for row in rows]
            self.callers[module] = [row.id for row in rows if row.modules]
        self.reached = self.reach()
        for module in self.reached[1:]:
            self.parts[module] = self.parts_of(module)

    def reach(self) -> list[int]:
        """The main module and those that it reaches, callers first."""
        reached, done = [0], {0}
        for module in reached:
            for id in self.callers.get(module, ()):
                for body in self.rows[id].modules:
                    if body not in done:
                        done.add(body)
                        reached.append(body)
        return reached

    def parts_of(self, module: int) -> tuple[str, ...]:
        """The operations of a body that compute something."""
        rows = (self.rows[id] for id in self.order.get(module, ()))
        return tuple(r.op.name for r in rows if r.literal is None and not r.op.name.startswith("@"))

    def _count(self) -> None:
        """Find the users of each id, and the constants."""
        rows, users, cone = self.rows, self.users, self.cone
        for id in self.ids():
            row = rows[id]
            for source in row.inputs:
                known = users.get(source)
                if known is None:
                    users[source] = [id]
                elif known[-1] != id:
                    known.append(id)
            size = self.cone_of(row)
            if size:
                cone[id] = size
        self.constants = {id for id in cone if self.is_constant(id)}

    def cone_of(self, row: Any) -> int:
        """The number of instructions that compute a constant; 0 for what is none, or too large."""
        name = row.op.name
        if row.literal is not None or name in ("@literal", "undefined"):
            return 1
        if not row.inputs or row.modules or name == "@return":
            return 0
        size = 1
        for source in dict.fromkeys(row.inputs):
            size += self.cone.get(source, LARGEST_CONSTANT)
            if size > LARGEST_CONSTANT:
                return 0
        return size if getattr(row.op, "context_free", True) else 0

    def is_constant(self, id: int) -> bool:
        """Whether an id is a chip: a literal, or a value computed from few literals only.

        A constant without users is not drawn, unless its module would otherwise have no result.
        """
        if id not in self.cone:
            return False
        return id in self.users or self.order[self.rows[id].module][-1] != id

    def is_hidden(self, row: Any) -> bool:
        """Whether a row is no node: a constant, or a body's parameter or return, shown at its border."""
        if row.id in self.constants:
            return True
        if not row.module:
            return False
        if row.op.name == "@param":
            return row.id in self.users
        return row.op.name == "@return" and self.modules[row.module].bypass

    def _write(self, other: Drawing | None) -> None:
        """Write all nodes into the table, and its order; equal nodes of two states are one object."""
        table, rows = self.table, self.rows
        stale = set(rows) if other is None else self._stale(other)
        for id in self.ids():
            row = rows[id]
            node = None if other is None else other.table.node(id)
            if node is None or id in stale:
                made = self._node(row)
                node = made if node is None or made != node else node
            (table.hoisted if self.is_hidden(row) else table.nodes)[id] = node
        table.order = list(self.ids())
        table.callers = [id for module in self.reached for id in self.callers.get(module, ())]
        table.modules = {key: module.name for key, module in self.modules.items()}

    def _stale(self, other: Drawing) -> set[int]:
        """The ids whose nodes may differ from another state's, since a row or a fact of an input does."""
        rows, before = self.rows, other.rows
        changed = {id for id, row in rows.items() if before.get(id) is not row}
        touched = changed | (before.keys() - rows.keys()) | (self.constants ^ other.constants)
        for id in list(touched):  # the users of their inputs differ
            touched.update(
                source for row in (before.get(id), rows.get(id)) if row for source in row.inputs
            )
        for id in self.cone:
            if id not in touched and not touched.isdisjoint(rows[id].inputs):
                touched.add(id)
        stale = changed.union(*(self.users.get(id, ()) for id in touched))
        bodies = {m for m, module in self.modules.items() if other.modules.get(m) is not module}
        bodies |= {m for m, parts in self.parts.items() if other.parts.get(m) != parts}
        return stale | {
            id
            for found in self.callers.values()
            for id in found
            if not bodies.isdisjoint(rows[id].modules)
        }

    def _node(self, row: Any) -> Node:
        """The node of one row."""
        ids = row.inputs
        inputs, chips = self._inputs(row) if ids else ((), ())
        parts: tuple[str, ...] = ()
        if row.modules:
            bodies = [m for m in row.modules if self.modules[m].bypass]
            parts = tuple(name for m in bodies for name in self.parts.get(m, ()))
        weights = self.rows[ids[1]].shape if len(ids) > 1 and ids[1] in self.rows else None
        look = self.words.look(row, weights, parts)
        return Node(row.id, row.module, look, inputs, chips, ids, row.sources, row.modules)

    def _inputs(self, row: Any) -> tuple[tuple[int, ...], tuple[Chip, ...]]:
        """The inputs drawn as edges, and the chips of the others."""
        ids, rows = row.inputs, self.rows
        inputs: list[int] = []
        chips: list[Chip] = []
        for id in dict.fromkeys(ids) if len(ids) > 1 else ids:
            source = rows.get(id)
            if source is None:
                continue
            if id in self.constants:
                chips.append(self._constant(source))
            elif self._is_port(source, row):
                chips.append(Chip(label.clipped(label.title(source.op), 16), id, True))
            else:
                inputs.append(id)
        edges = ids if len(inputs) == len(ids) else tuple(inputs)
        return edges, tuple(chips) if chips else ()

    def _is_port(self, source: Any, row: Any) -> bool:
        """Whether the edge is one of many of its source, or comes from another module."""
        if source.module != row.module or (row.module and source.op.name == "@param"):
            return True
        users = self.users[source.id]
        return len(users) > FAN_OUT and users[0] != row.id

    def _constant(self, row: Any) -> Chip:
        """The chip of a constant."""
        if row.op.name == "undefined":
            return Chip("none", row.id, False)
        root = row
        while root.literal is None and root.inputs:
            root = self.rows[root.inputs[0]]
        if root.literal is None:
            return Chip(label.clipped(label.lens_text(row.shape), 16), row.id, False)
        return self.words.chip(row, root, self.source_nodes)


def _order(row: Any) -> int:
    return row.order
