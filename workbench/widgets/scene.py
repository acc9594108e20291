"""A scene: the union of one or more programs, with a slot for each instruction, ready for layout.

Steps of a recording share one scene, so an unchanged instruction keeps its slot, and so its position.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

from workbench.widgets import label
from workbench.widgets.nodes import Chip, Look, Node, Table
from workbench.widgets.order import Order, arrange
from workbench.widgets.place import Size
from workbench.widgets.repeats import Wiring
from workbench.widgets.scopes import Graph, Group
from workbench.widgets.union import Origins, Union

NODE_HEIGHT, ONE_LINE, CHIP_HEIGHT, CHIPS_SHOWN = 40.0, 28.0, 16.0, 2
FAMILIES = (
    "contraction", "pointwise", "reduce", "view", "movement", "control", "parameter", "kernel",
)  # fmt: skip
OPEN_BUDGET = 150
CLOSED_BUDGET = 64
FEWEST = 10
NOTHING = Size(0.0, 0.0, 0.0)


def node_width(node: Node) -> float:
    """The width of a node's box: that of its longer line, rounded up to 4 pixels."""
    return look_width(node.look)


@lru_cache(maxsize=8192)
def look_width(look: Look) -> float:
    """The width of the boxes of all nodes with these words."""
    text = max(
        label.text_width(look.title, label.TITLE_SIZE) * label.BOLD,
        label.text_width(look.fact, label.FACT_SIZE),
    )
    return min(260.0, max(64.0, 4.0 * round((text + 30.0) / 4.0)))


def chips_width(chips: Sequence[Chip]) -> float:
    """The width of the column of chips beside a node."""
    if not chips:
        return 0.0
    widest = max(label.text_width(c.label, label.CHIP_SIZE) for c in chips[:CHIPS_SHOWN])
    return 4.0 * round((widest + 22.0) / 4.0)


def node_size(node: Node) -> Size:
    """The size of a node and its chips around its centre line."""
    tall = bool(node.look.fact) or len(node.chips) > 1
    return _size(look_width(node.look), chips_width(node.chips), tall)


@lru_cache(maxsize=8192)
def _size(width: float, chips: float, tall: bool) -> Size:
    half = width / 2
    return Size(half, half + (chips + 4.0 if chips else 0.0), NODE_HEIGHT if tall else ONE_LINE)


class Scene:
    """Slots, versions of instructions, the versions that each state shows, and the layout's order.

    A scene grows when a state is added: what is new gets slots beside its neighbours, and the order is made
    anew.
    """

    def __init__(self, union: Union, tables: Sequence[Table]) -> None:
        """Lay out the states that a union has collected."""
        self.union = union
        self.title = next((t.name for t in tables if t.name), "")
        self.source_nodes: dict[str, Any] = {}
        self.gradients: dict[int, int] = {}
        """The gradients of values, as ids of both."""
        self.modules: dict[int, str] = {}
        self._named: Any = None
        """The source nodes that were added last."""
        for table in tables:
            self._name(table)
        self.graph = _graph(union)
        self.bodies = {g.slot: k for k, g in enumerate(self.graph.groups) if g.kind == "module"}
        """The group of each body, by its owner's slot."""
        self.sizes: list[Size] = []
        self.needs: list[Size] = []
        """The size of each version; nothing for a constant that is always a chip."""
        self._size(0)

    def _name(self, table: Table) -> None:
        if table.source_nodes is not self._named:
            self.source_nodes |= table.source_nodes
            self._named = table.source_nodes
        self.gradients |= table.gradients
        self.modules |= table.modules

    @cached_property
    def order(self) -> Order:
        """The order of all items, as far as it has been looked at."""
        return arrange(self.graph)

    @property
    def versions(self) -> list[Node]:
        """The versions of all instructions."""
        return self.union.versions

    @property
    def slots(self) -> list[int]:
        """The slot of each version; -1 for a constant that is always a chip."""
        return self.union.slots

    @property
    def steps(self) -> list[list[int]]:
        """The versions of each state, in the program's order."""
        return self.union.steps

    def add(self, table: Table, origins: Origins) -> int:
        """Add a state to the scene; returns its number."""
        union = self.union
        slots, versions, edges = len(union.paths), len(union.versions), len(union.edges)
        state = union.add(table, origins)
        self._name(table)
        graph = self.graph
        for slot in range(slots, len(union.paths)):
            graph.add_slot(union.paths[slot], union.behind[slot], self._body(union.home[slot]))
        for edge in islice(union.edges, edges, None):
            graph.add_edge(edge, slots)
        self._size(versions)
        self.__dict__.pop("order", None)
        return state

    def pass_by(self, table: Table, origins: Origins) -> list[int]:
        """Add a state that is shown until a better one is there; returns its versions, and keeps none."""
        state = self.add(table, origins)
        versions, self.steps[state] = self.steps[state], []
        return versions

    def by_version(self, order: Iterable[int], marks: Mapping[int, int]) -> list[list[int]]:
        """The marks of a state's instructions, by version in place of id."""
        there, known = set(order) if marks else (), self.union.known
        return [[v, m] for id, m in marks.items() for v in known.get(id, ()) if v in there]

    def _body(self, owner: int) -> int:
        """The group of the body of the instruction in a slot, or -1; a new one if it has none."""
        if owner < 0:
            return -1
        if owner not in self.bodies:
            node = self.union.owners[owner]
            group = Group(
                f"@{node.id}", label.clipped(node.title), "module", self.graph.parent[owner], owner
            )
            self.bodies[owner] = len(self.graph.groups)
            self.graph.groups.append(group)
        return self.bodies[owner]

    def _size(self, first: int) -> None:
        """Make each slot as large as the largest of its versions, from version ``first`` on."""
        union, sizes = self.union, self.sizes
        sizes += [NOTHING] * (len(union.paths) - len(sizes))
        for version in range(first, len(union.versions)):
            slot = union.slots[version]
            need = node_size(union.versions[version]) if slot >= 0 else NOTHING
            self.needs.append(need)
            if slot >= 0:
                have = sizes[slot]
                if have is NOTHING:
                    sizes[slot] = need
                elif have is not need:
                    sizes[slot] = Size(
                        max(have.left, need.left),
                        max(have.right, need.right),
                        max(have.height, need.height),
                    )

    def openable(self) -> set[str]:
        """The keys of all groups."""
        return {g.key for g in self.graph.groups}

    def around(self, slots: Iterable[int]) -> set[str]:
        """The keys of the scopes around some slots."""
        groups = {k for slot in slots for k in self.graph.chain(slot)}
        return {g.key for k in groups if (g := self.graph.groups[k]).kind == "scope"}

    def default_open(self, budget: int = OPEN_BUDGET) -> set[str]:
        """The initially open scopes: all if that shows few slots, otherwise outer ones within the budget.

        Repeated blocks are closed.
        """
        opened = {-1}
        for k, group in enumerate(self.graph.groups):
            if group.kind == "scope" and not group.times and group.parent in opened:
                opened.add(k)
        if sum(k in opened for k in self.graph.parent) <= budget:
            return {self.graph.groups[k].key for k in opened if k >= 0}
        return self._open_outer(min(budget, CLOSED_BUDGET))

    def _open_outer(self, budget: int) -> set[str]:
        """Open scopes level by level from the outside, within the budget or while little shows."""
        groups = self.graph.groups
        children: dict[int, int] = {}
        for parent in [*self.graph.parent, *(g.parent for g in groups if g.kind == "scope")]:
            children[parent] = children.get(parent, 0) + 1
        shown, opened = children.get(-1, 0), set[str]()
        may = [k for k, g in enumerate(groups) if g.kind == "scope" and not g.times]
        level = [k for k in may if groups[k].parent == -1]
        while level:
            more = sum(children.get(k, 0) - 1 for k in level)
            if shown + more > (budget if shown >= FEWEST else 4 * budget):
                break
            shown += more
            opened.update(groups[k].key for k in level)
            inside = set(level)
            level = [k for k in may if groups[k].parent in inside]
        return opened


def scene_of(tables: Sequence[Table], replaced: Sequence[Iterable[tuple[int, int]]] = ()) -> Scene:
    """One scene for a program, or for the steps of a recording.

    Args:
        tables: The program at each step.
        replaced: For tables k and k + 1, pairs of a removed id and the id that replaced it.
    """
    union = Union()
    for k, table in enumerate(tables):
        pairs = replaced[k - 1] if k and len(replaced) >= k else ()
        union.add(table, {new: (old,) for old, new in pairs})
    return Scene(union, tables)


def _graph(union: Union) -> Graph:
    """The graph of a union's slots, which are numbered anew in the order of the program."""
    rank: list[int] = []
    for slot, behind in enumerate(union.behind):
        later = behind >= 0 and slot >= union.first
        rank.append(rank[behind] if later else slot)
    new = [0] * len(rank)
    for k, slot in enumerate(sorted(range(len(rank)), key=lambda s: (rank[s], s))):
        new[slot] = k
    union.renumber(new)
    graph = Graph(union.paths, list(union.edges))
    graph.firm = union.firm
    graph.wiring = _wiring(union)
    graph.add_bodies(_bodies(union))
    for group in graph.groups:
        group.label = label.clipped(group.label)
    return graph


def _wiring(union: Union) -> Wiring:
    """The kind and the inputs of each slot in the first state; equal kinds are drawn alike."""
    found = Wiring([None] * len(union.paths))
    if not union.steps:
        return found
    versions, slots, numbers = union.versions, union.slots, dict[Hashable, int]()
    at = {versions[v].id: v for v in union.steps[0]}
    inside: dict[int, list[Look]] = {}
    for version in reversed(union.steps[0]):  # bodies come behind the main module
        node, slot = versions[version], slots[version]
        if slot < 0:
            continue
        if union.home[slot] >= 0:
            inside.setdefault(union.home[slot], []).append(node.look)
        kind: Hashable = node.look
        if node.family == "parameter":
            kind = node.shape
        elif node.arguments:
            inputs = [at[i] for i in node.arguments]
            found.inputs[slot] = drawn = [s for v in inputs if (s := slots[v]) >= 0]
            if node.bodies or len(drawn) < len(inputs):
                shapes = (versions[v].shape if slots[v] < 0 else "" for v in inputs)
                kind = (kind, *shapes, *inside.get(slot, ()))
        found.kinds[slot] = numbers.setdefault(kind, len(numbers))
    return found


def _bodies(union: Union) -> list[tuple[str, str, int, list[int]]]:
    """Key, label, owner's slot and slots of each body; the bodies of an owner share a panel."""
    found: dict[int, list[int]] = {}
    for slot, owner in enumerate(union.home):
        if owner >= 0:
            found.setdefault(owner, []).append(slot)
    return [
        (f"@{union.owners[owner].id}", union.owners[owner].title, owner, sorted(slots))
        for owner, slots in found.items()
    ]
