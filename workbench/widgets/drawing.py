"""A program's rows as drawn: which are nodes, and which chips; facts about neighbours decide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import chain
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

    rows: dict[int, Any] = field(default_factory=dict[int, Any])
    modules: dict[int, Any] = field(default_factory=dict[int, Any])
    source_nodes: dict[str, Any] = field(default_factory=dict[str, Any])
    words: Words = field(default_factory=Words)
    table: Table = field(default_factory=Table)
    order: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """The ids of each module, in order."""
    callers: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """Those of them that take modules."""
    reached: dict[int, int] = field(default_factory=dict[int, int])
    """The place of the main module and of those that it reaches, callers first."""
    users: dict[int, Ids] = field(default_factory=dict[int, Ids])
    """The distinct users of each id, in any order."""
    cone: dict[int, int] = field(default_factory=dict[int, int])
    """The number of instructions that each constant was computed by."""
    constants: set[int] = field(default_factory=set[int])
    """Those of them that are drawn as chips."""
    parts: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """The operations of each body."""
    wide: set[int] = field(default_factory=set[int])
    """The values with more users than `FAN_OUT`."""
    _firsts: dict[int, int] = field(default_factory=dict[int, int])
    """The first user of each value that has too many for edges, as far as it was asked for."""

    @classmethod
    def of(
        cls, rows: Any, other: Drawing | None = None, touched: Iterable[int] | None = None
    ) -> Drawing:
        """The drawing of a program's rows; of another state's drawing it redoes what differs.

        Args:
            rows: The program's rows.
            other: The drawing of another state.
            touched: The ids among which all rows are that differ from the other state's.
        """
        from workbench.widgets.redrawing import Redrawing  # noqa: PLC0415

        return Redrawing(other or cls(), rows, touched if other else None).made()

    def ids(self) -> Iterator[int]:
        """The drawn ids in order."""
        return chain.from_iterable(self.order.get(module, ()) for module in self.reached)

    def reach(self) -> dict[int, int]:
        """The place of the main module and of those that it reaches, callers first."""
        reached, found = {0: 0}, [0]
        for module in found:
            for id in self.callers.get(module, ()):
                for body in self.rows[id].modules:
                    if body not in reached:
                        reached[body] = len(found)
                        found.append(body)
        return reached

    def parts_of(self, module: int) -> tuple[str, ...]:
        """The operations of a body that compute something."""
        rows = (self.rows[id] for id in self.order.get(module, ()))
        return tuple(r.op.name for r in rows if r.literal is None and not r.op.name.startswith("@"))

    def place(self, id: int) -> tuple[int, int]:
        """A key that puts drawn ids in order."""
        row = self.rows[id]
        return self.reached[row.module], row.order

    def first_user(self, id: int) -> int:
        """The first of the users of a value that has too many to draw an edge to each; -1 for any other."""
        if id not in self.wide:
            return -1
        if id not in self._firsts:
            self._firsts[id] = min(self.users[id], key=self.place)
        return self._firsts[id]

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

    def node(self, row: Any) -> Node:
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
        constants, wide, module = self.constants, self.wide, row.module
        for id in dict.fromkeys(ids) if len(ids) > 1 else ids:
            source = rows.get(id)
            if source is None:
                continue
            if id in constants:
                chips.append(self._constant(source))
            elif (
                source.module != module
                or (module and source.op.name == "@param")
                or (id in wide and self.first_user(id) != row.id)
            ):  # one edge of many, or from another module
                chips.append(Chip(label.clipped(label.title(source.op), 16), id, True))
            else:
                inputs.append(id)
        edges = ids if len(inputs) == len(ids) else tuple(inputs)
        return edges, tuple(chips) if chips else ()

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
