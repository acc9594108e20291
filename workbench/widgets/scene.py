"""A scene: the union of one or more programs, with a slot for each instruction, ready for layout.

Steps of a recording share one scene, so an unchanged instruction keeps its slot, and so its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from workbench.widgets import label
from workbench.widgets.order import Order, arrange
from workbench.widgets.place import Size
from workbench.widgets.rows import Chip, Node, Table, is_weight
from workbench.widgets.scopes import Graph, Path, shared

NODE_HEIGHT, ONE_LINE, CHIP_HEIGHT, CHIPS_SHOWN = 40.0, 28.0, 16.0, 2
FAMILIES = (
    "contraction", "pointwise", "reduce", "view", "movement", "control", "parameter", "kernel",
)  # fmt: skip
OPEN_BUDGET = 150
CLOSED_BUDGET = 64
FEWEST = 10

SlotKey = tuple[int, int]


def node_width(node: Node) -> float:
    """The width of a node's box: that of its longer line, rounded up to 4 pixels."""
    text = max(
        label.text_width(node.title, label.TITLE_SIZE) * label.BOLD,
        label.text_width(node.fact, label.FACT_SIZE),
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
    half = node_width(node) / 2
    chips = chips_width(node.chips)
    height = NODE_HEIGHT if node.fact or len(node.chips) > 1 else ONE_LINE
    return Size(half, half + (chips + 4.0 if chips else 0.0), height)


@dataclass
class Scene:
    """Slots, versions of instructions, the versions that each step shows, and the layout's order."""

    title: str
    graph: Graph
    order: Order
    versions: list[Node]
    slots: list[int]
    """The slot of each version; -1 for a constant that is always a chip."""
    steps: list[list[int]]
    """The versions of each step, in the program's order."""
    sizes: list[Size]
    bodies: dict[int, int]
    """The group of each body, by its owner's slot."""
    source_nodes: Mapping[str, Any]
    modules: dict[int, str] = field(default_factory=dict[int, str])

    def openable(self) -> set[str]:
        """The keys of all groups."""
        return {g.key for g in self.graph.groups}

    def default_open(self, budget: int = OPEN_BUDGET) -> set[str]:
        """The initially open scopes: all if that shows few slots, otherwise outer ones within the budget."""
        groups = self.graph.groups
        drawn = sum(k < 0 or groups[k].kind == "scope" for k in self.graph.parent)
        if drawn <= budget:
            return {g.key for g in groups if g.kind == "scope"}
        return self._open_outer(min(budget, CLOSED_BUDGET))

    def _open_outer(self, budget: int) -> set[str]:
        """Open scopes level by level from the outside, within the budget or while little shows."""
        groups = self.graph.groups
        children: dict[int, int] = {}
        for parent in [*self.graph.parent, *(g.parent for g in groups if g.kind == "scope")]:
            children[parent] = children.get(parent, 0) + 1
        shown, opened = children.get(-1, 0), set[str]()
        level = [k for k, g in enumerate(groups) if g.parent == -1 and g.kind == "scope"]
        while level:
            more = sum(children.get(k, 0) - 1 for k in level)
            if shown + more > (budget if shown >= FEWEST else 4 * budget):
                break
            shown += more
            opened.update(groups[k].key for k in level)
            inside = set(level)
            level = [k for k, g in enumerate(groups) if g.parent in inside and g.kind == "scope"]
        return opened


def scene_of(tables: Sequence[Table], replaced: Sequence[Iterable[tuple[int, int]]] = ()) -> Scene:
    """One scene for a program, or for the steps of a recording.

    Args:
        tables: The program at each step.
        replaced: For tables k and k + 1, pairs of a removed id and the id that replaced it.
    """
    union = _Union()
    for k, table in enumerate(tables):
        union.add(table, replaced[k - 1] if k and len(replaced) >= k else ())
    return union.scene(tables)


class _Union:
    """Collects slots, versions and edges over the steps."""

    def __init__(self) -> None:
        self.slot: dict[SlotKey, int] = {}
        self.paths: list[Path] = []
        self.home: list[int] = []
        self.rank: list[int] = []
        self.index: dict[tuple[Node, int], int] = {}
        self.versions: list[Node] = []
        self.slots: list[int] = []
        self.steps: list[list[int]] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.owner: dict[int, int] = {0: -1}
        """The slot of the owner of each module, in the current step."""
        self.last: Table | None = None
        self.firm: set[tuple[int, int]] = set()

    def add(self, table: Table, replaced: Iterable[tuple[int, int]]) -> None:
        """Add one step."""
        self.owner = {0: -1}
        self._inherit(table, {new: old for old, new in replaced})
        step: list[int] = []
        previous = -1
        for id in table.order:
            node = table.nodes.get(id)
            if node is None:
                step.append(self._version(table.hoisted[id], -1))
                continue
            previous = self._slot_of(node, table, previous)
            step.append(self._version(node, previous))
            for body in node.bodies:
                self.owner.setdefault(body, previous)
        self._connect(table)
        if self.last is None:
            self.firm = set(self.edges)
        self.steps.append(step)
        self.last = table

    def _at(self, node: Node) -> int:
        """The slot whose body a node is in, or -1."""
        return self.owner.get(node.module, -1)

    def _connect(self, table: Table) -> None:
        for node in table.nodes.values():
            user = self.slot[node.id, self._at(node)]
            for source in node.inputs:
                slot = self.slot.get((source, self._at(node)))
                if slot is not None and slot != user:
                    self.edges[slot, user] = None

    def _inherit(self, table: Table, old_of: dict[int, int]) -> None:
        """Give new nodes the slots of those that they replace, or free slots that used the same input."""
        main = [n for n in table.nodes.values() if n.module == 0]
        taken = {self.slot[n.id, -1] for n in main if (n.id, -1) in self.slot}
        fresh = [n for n in main if (n.id, -1) not in self.slot]
        for node in fresh:
            old, seen = old_of.get(node.id), {node.id}
            while old is not None and old not in seen:
                seen.add(old)
                slot = self.slot.get((old, -1))
                if slot is not None and slot not in taken:
                    self.slot[node.id, -1] = slot
                    taken.add(slot)
                    break
                old = old_of.get(old)
        free = self._free(taken)
        for node in fresh:
            if (node.id, -1) not in self.slot:
                self._settle(node, free, taken)

    def _free(self, taken: set[int]) -> dict[int, list[tuple[str, int]]]:
        """Slots that became free in this step, with their last operation, by the slot of an input."""
        free: dict[int, list[tuple[str, int]]] = {}
        for node in self.last.nodes.values() if self.last else ():
            slot = self.slot[node.id, -1] if node.module == 0 else -1
            if slot >= 0 and slot not in taken:
                for source in node.inputs:
                    behind = self.slot.get((source, -1), -1)
                    free.setdefault(behind, []).append((node.title, slot))
        return free

    def _settle(self, node: Node, free: dict[int, list[tuple[str, int]]], taken: set[int]) -> None:
        """Put a new node in a free slot with the same input, preferably one of the same operation."""
        behind = self.slot.get((node.inputs[0], self._at(node)), -1) if node.inputs else -1
        found = [(title, slot) for title, slot in free.get(behind, ()) if slot not in taken]
        if behind >= 0 and found:
            same = [slot for title, slot in found if title == node.title]
            self.slot[node.id, self._at(node)] = slot = same[0] if same else found[0][1]
            taken.add(slot)

    def _slot_of(self, node: Node, table: Table, previous: int) -> int:
        key = (node.id, self._at(node))
        if key not in self.slot:
            self.slot[key] = len(self.paths)
            self.paths.append(self._path(node, table))
            self.home.append(self._at(node))
            self.rank.append(self.rank[previous] if previous >= 0 and self.last else len(self.rank))
        return self.slot[key]

    def _path(self, node: Node, table: Table) -> Path:
        """The scope of a node; one that a pass made of several scopes gets its first input's."""
        own = scope_path(node, table.source_nodes)
        if self.last is None:
            return own
        near = [
            self.slot[i, self._at(node)] for i in node.inputs if (i, self._at(node)) in self.slot
        ]
        around = [self.paths[slot] for slot in near if self.paths[slot][: len(own)] == own]
        return around[0] if around else own

    def _version(self, node: Node, slot: int) -> int:
        key = (node, slot)
        if key not in self.index:
            self.index[key] = len(self.versions)
            self.versions.append(node)
            self.slots.append(slot)
        return self.index[key]

    def scene(self, tables: Sequence[Table]) -> Scene:
        """The finished scene."""
        renumber = sorted(range(len(self.paths)), key=lambda s: (self.rank[s], s))
        new = {old: k for k, old in enumerate(renumber)} | {-1: -1}
        graph = Graph([self.paths[s] for s in renumber], [(new[a], new[b]) for a, b in self.edges])
        graph.firm = {(new[a], new[b]) for a, b in self.firm}
        slots = [new[s] for s in self.slots]
        graph.add_bodies(self._bodies(new))
        for group in graph.groups:
            group.label = label.clipped(group.label)
        owners = {g.slot: k for k, g in enumerate(graph.groups) if g.kind == "module"}
        modules = {k: v for table in tables for k, v in table.modules.items()}
        sources = {k: v for table in tables for k, v in table.source_nodes.items()}
        title = next((t.name for t in tables if t.name), "")
        return Scene(title, graph, arrange(graph), self.versions, slots, self.steps,
                     self._sizes(slots, len(self.paths)), owners, sources, modules)  # fmt: skip

    def _bodies(self, new: dict[int, int]) -> list[tuple[str, str, int, list[int]]]:
        """Key, label, owner's slot and slots of each body; the bodies of an owner share a panel."""
        found: dict[int, list[int]] = {}
        for slot, owner in enumerate(self.home):
            if owner >= 0:
                found.setdefault(owner, []).append(new[slot])
        owners = {s: v for v, s in zip(self.versions, self.slots, strict=True) if v.bodies}
        return [
            (f"@{owners[owner].id}", owners[owner].title, new[owner], sorted(slots))
            for owner, slots in found.items()
        ]

    def _sizes(self, slots: list[int], count: int) -> list[Size]:
        """The size of each slot: the largest of its versions."""
        sizes = [Size(0.0, 0.0, 0.0) for _ in range(count)]
        for node, slot in zip(self.versions, slots, strict=True):
            if slot >= 0:
                need, have = node_size(node), sizes[slot]
                have.left = max(have.left, need.left)
                have.right = max(have.right, need.right)
                have.height = max(have.height, need.height)
        return sizes


def scope_path(node: Node, source_nodes: Mapping[str, Any]) -> Path:
    """The scope that all of a node's source nodes share; weights are ignored."""
    named = [s for name in node.sources if (s := source_nodes.get(name)) is not None]
    made = [s for s in named if not is_weight(s)] or named
    return reduce(shared, (tuple(s.scope) for s in made)) if made else ()
