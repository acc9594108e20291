"""The union of the states of a program: a slot for each instruction, which all its versions share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from workbench.widgets.nodes import Node, Table, is_weight
from workbench.widgets.scopes import Path, shared

Origins = Mapping[int, Iterable[int]]
"""For the id of a new node, those of nodes whose slot it may take, the best first."""
PAGE = -1
MOST_SEEN = 64
"""The most ids that are asked for a slot, when one replaced very many."""


class Union:
    """Collects slots, versions and edges, looking only at what differs from one state to the next."""

    def __init__(self) -> None:
        self.page: dict[int, int] = {}
        """The slot of an id on the page."""
        self.inside: dict[tuple[int, int], int] = {}
        """The slot of an id in the body of the instruction in another slot."""
        self.paths: list[Path] = []
        self.home: list[int] = []
        """The slot of the owner of each slot's body, or -1."""
        self.behind: list[int] = []
        """The slot before each slot in the program that added it, or -1."""
        self.versions: list[Node] = []
        self.slots: list[int] = []
        """The slot of each version; -1 for a constant that is always a chip."""
        self.steps: list[list[int]] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.owners: dict[int, Node] = {}
        """The last version with a body in each slot that had one."""
        self.first = self.firm = 0
        """The numbers of slots and of edges of the first state."""
        self.last: Table | None = None
        self._owners: dict[int, int] = {}
        """The id of the owner of each module, in the last state."""
        self.here: dict[int, int] = {}
        """The slot of each id in the last state that had it."""
        self._version: dict[int, int] = {}
        """The version of each id in the last state that had it."""
        self.known: dict[int, list[int]] = {}
        """All versions of each id."""
        self._scopes: dict[tuple[str, ...], Path] = {}

    def add(self, table: Table, origins: Origins) -> int:
        """Add one state; returns its number."""
        changed = self._changed(table)
        if self.last is not None:
            self._inherit(table, changed, origins)
        self._settle(table, changed)
        self._connect(table, changed)
        if self.last is None:
            self.first, self.firm = len(self.paths), len(self.edges)
        version = self._version
        self.steps.append([version[id] for id in table.order])
        self.last = table
        return len(self.steps) - 1

    def renumber(self, new: list[int]) -> None:
        """Give each slot another number."""
        old = sorted(range(len(new)), key=new.__getitem__)
        self.page = {i: new[s] for i, s in self.page.items()}
        self.inside = {(i, new[at]): new[s] for (i, at), s in self.inside.items()}
        self.paths = [self.paths[s] for s in old]
        self.home = [_at(new, self.home[s]) for s in old]
        self.behind = [_at(new, self.behind[s]) for s in old]
        self.slots = [_at(new, s) for s in self.slots]
        self.edges = {(new[a], new[b]): None for a, b in self.edges}
        self.owners = {new[s]: node for s, node in self.owners.items()}
        self.here = {i: _at(new, s) for i, s in self.here.items()}

    def _changed(self, table: Table) -> dict[int, Node]:
        """The nodes that are not those of the last state, or whose module has another owner, in order."""
        last, nodes, hoisted = self.last or Table(), table.nodes, table.hoisted
        owners = _owners(table)
        moved: set[int] = set()
        for module, owner in owners.items():
            if self._owners.get(module) != owner or nodes[owner].module in moved:
                moved.add(module)
        known_modules = moved & self._owners.keys()  # the nodes of the others are fresh
        self._owners = owners
        known, known_hoisted = last.nodes, last.hoisted
        found: dict[int, Node] = {}
        ids: Iterable[int] = table.order
        if table.since is last.mark:
            also = (
                {i for i, n in nodes.items() if n.module in known_modules} if known_modules else ()
            )
            ids = [id for id in ids if id in table.fresh or id in also]
        for id in ids:
            node = nodes.get(id)
            if node is None:
                node = hoisted[id]
                if known_hoisted.get(id) is not node:
                    found[id] = node
            elif known.get(id) is not node or node.module in moved:
                found[id] = node
        return found

    def _inherit(self, table: Table, changed: dict[int, Node], origins: Origins) -> None:
        """Give new nodes the slots of those that they replace, or free slots that used the same input."""
        slot, last = self.page, self.last or Table()
        drawn = [n for n in changed.values() if n.module == 0 and n.id in table.nodes]
        back = [n.id for n in drawn if n.id not in last.nodes and n.id in slot]
        if not back and all(n.id in slot for n in drawn):
            return
        stayed = (i for i, n in table.nodes.items() if n.module == 0 and i in last.nodes)
        taken = {s for i in stayed if (s := slot.get(i)) is not None}
        for id in back:
            if slot[id] in taken:
                del slot[id]
            else:
                taken.add(slot[id])
        fresh = [n for n in drawn if n.id not in slot]
        for node in fresh:
            self._take_over(node.id, origins, taken)
        moved = {id for id, node in changed.items() if node.module and id in last.nodes}
        free = self._free((last.nodes.keys() - table.nodes.keys()) | moved, taken)
        for node in fresh:
            if node.id not in slot:
                self._join(node, free, taken)

    def _take_over(self, id: int, origins: Origins, taken: set[int]) -> None:
        """Give a node the slot of one that it stands for, if it is free."""
        seen, waiting = {id}, list(origins.get(id, ()))
        while waiting and len(seen) < MOST_SEEN:
            old = waiting.pop(0)
            if old in seen:
                continue
            seen.add(old)
            slot = self.page.get(old)
            if slot is not None and slot not in taken:
                self.page[id] = slot
                taken.add(slot)
                return
            waiting = [*origins.get(old, ()), *waiting]

    def _free(self, gone: set[int], taken: set[int]) -> dict[int, list[tuple[str, int]]]:
        """Slots that became free in this state, with their last operation, by the slot of an input."""
        free: dict[int, list[tuple[str, int]]] = {}
        last = self.last or Table()
        for node in (last.nodes[id] for id in last.order if id in gone):
            slot = self.page.get(node.id, -1) if node.module == 0 else -1
            if slot >= 0 and slot not in taken:
                for source in node.inputs:
                    above = self.page.get(source, -1)
                    free.setdefault(above, []).append((node.title, slot))
        return free

    def _join(self, node: Node, free: dict[int, list[tuple[str, int]]], taken: set[int]) -> None:
        """Put a new node in a free slot with the same input, preferably one of the same operation."""
        above = self.page.get(node.inputs[0], -1) if node.inputs else -1
        found = [(title, slot) for title, slot in free.get(above, ()) if slot not in taken]
        if above >= 0 and found:
            same = [slot for title, slot in found if title == node.title]
            self.page[node.id] = slot = same[0] if same else found[0][1]
            taken.add(slot)

    def _settle(self, table: Table, changed: dict[int, Node]) -> None:
        """Give each changed node a slot and a version."""
        here, version, previous = self.here, self._version, -1
        known = (not n.module and (id not in table.nodes or id in self.page)
                 for id, n in changed.items())  # fmt: skip
        if all(known):  # nothing needs the slot before it
            for id, node in changed.items():
                here[id] = self.page[id] if id in table.nodes else -1
                version[id] = self._add_version(node, here[id])
            return
        for id in table.order:
            node = changed.get(id)
            if node is not None:
                here[id] = self._place(node, table, previous) if id in table.nodes else -1
                version[id] = self._add_version(node, here[id])
            if here[id] >= 0:
                previous = here[id]

    def _at(self, node: Node) -> int:
        """The slot whose body a node is in, or -1."""
        return self.here[self._owners[node.module]] if node.module in self._owners else PAGE

    def _slot(self, id: int, at: int) -> int | None:
        return self.page.get(id) if at == PAGE else self.inside.get((id, at))

    def _place(self, node: Node, table: Table, previous: int) -> int:
        """The slot of a node, a new one if it has none."""
        at = self._at(node)
        slot = self._slot(node.id, at)
        if slot is None:
            slot = len(self.paths)
            if at == PAGE:
                self.page[node.id] = slot
            else:
                self.inside[node.id, at] = slot
            self.paths.append(self._path(node, table, at))
            self.home.append(at)
            self.behind.append(previous)
        return slot

    def _path(self, node: Node, table: Table, at: int) -> Path:
        """The scope of a node; one that a pass made of several scopes gets its first input's."""
        own = self._scopes.get(node.sources)
        if own is None:
            own = self._scopes[node.sources] = scope_path(node.sources, table.source_nodes)
        if self.last is None:
            return own
        for source in node.inputs:
            slot = self._slot(source, at)
            if slot is not None and self.paths[slot][: len(own)] == own:
                return self.paths[slot]
        return own

    def _add_version(self, node: Node, slot: int) -> int:
        """The version of a node in a slot: the same as before if an equal one was there."""
        known = self.known.get(node.id)
        for version in known or ():
            if self.slots[version] == slot and self.versions[version] == node:
                return version
        self.versions.append(node)
        self.slots.append(slot)
        if node.bodies and slot >= 0:
            self.owners[slot] = node
        version = len(self.versions) - 1
        if known is None:
            self.known[node.id] = [version]
        else:
            known.append(version)
        return version

    def _connect(self, table: Table, changed: dict[int, Node]) -> None:
        """Add the edges of changed nodes."""
        here, edges = self.here, self.edges
        for id, node in changed.items():
            if node.inputs and id in table.nodes:
                user = here[id]
                for source in node.inputs:
                    slot = here.get(source, -1)
                    if slot >= 0 and slot != user:
                        edges[slot, user] = None


def _at(new: list[int], slot: int) -> int:
    return new[slot] if slot >= 0 else slot


def _owners(table: Table) -> dict[int, int]:
    """The id of the owner of each module, outer ones first."""
    owners: dict[int, int] = {}
    for id in table.callers:
        node = table.nodes.get(id)
        for body in node.bodies if node else ():
            owners.setdefault(body, id)
    return owners


def scope_path(sources: Iterable[str], source_nodes: Mapping[str, Any]) -> Path:
    """The scope that all of a node's source nodes share; weights are ignored."""
    named = [s for name in sources if (s := source_nodes.get(name)) is not None]
    made = [s for s in named if not is_weight(s)] or named
    return reduce(shared, (tuple(s.scope) for s in made)) if made else ()
