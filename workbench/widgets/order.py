"""Ranks and order within ranks: the part of a layered layout that does not depend on sizes.

A container is arranged when it is first looked at, since most are never opened. ``static/order.js`` holds
the same algorithm for the browser; a test compares the two, container by container.
Each container (the page, a scope, a fused body) is laid out by itself, so that opening one moves only its
surroundings. The package fast-sugiyama was tried and rejected: it has no containers, aborts the process on
a cycle or a self-loop, and took 3.8 s for one value with 300 users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.widgets.scopes import Graph

SWEEPS = 6
LANE_BUDGET = 4
LONG_LANE = 48


@dataclass
class Lane:
    """A narrow slot in which an edge passes through a rank."""

    container: int
    key: int
    rank: int


@dataclass
class Container:
    """The children of one panel by rank, from left to right, and the ties between them."""

    ranks: list[list[int]] = field(default_factory=list[list[int]])
    ties: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


@dataclass
class _Links:
    """The edges of one container: between its children, out of it, and into it."""

    children: list[int] = field(default_factory=list[int])
    inner: dict[tuple[int, int], None] = field(default_factory=dict[tuple[int, int], None])
    leaving: dict[int, None] = field(default_factory=dict[int, None])
    entering: dict[tuple[int, int], None] = field(default_factory=dict[tuple[int, int], None])
    firm: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Those of them in the first step; an edge out is tied to itself, one in to its source's key."""


class Order:
    """The order of all items: slots, then groups, then lanes. Container 0 is the page, k + 1 is group k.

    A lane's key is the item that the edge starts from, or ``-1 - slot`` for an edge from outside.
    """

    def __init__(self, graph: Graph) -> None:
        """Sort the children of each container; they are arranged on demand."""
        self.graph = graph
        self.first = len(graph.paths) + len(graph.groups)
        """The first item that is a lane."""
        self.lanes: list[Lane] = []
        self.rank: dict[int, int] = {}
        """The rank of each arranged item."""
        self.through: dict[tuple[int, int], list[int]] = {}
        """The lanes of each arranged container (-1: the page) with each key, from top to bottom."""
        self._made: dict[int, Container] = {}
        self._place = _places(graph)
        self._children = _children(graph)
        self._passing = _passing(graph)

    @property
    def containers(self) -> list[Container]:
        """All containers, arranged."""
        return [self.container(index) for index in range(len(self._children))]

    def container(self, index: int) -> Container:
        """The arranged container of the page (0) or of a group (its number and one)."""
        if index not in self._made:
            self._made[index] = self._arrange(index)
        return self._made[index]

    def _arrange(self, index: int) -> Container:
        """Assign each child its rank and its position in the rank."""
        before = len(self.lanes)
        link = self._links(index)
        link.children.sort(key=self._place.__getitem__)
        pinned = {target for _, target in link.entering}
        ranks = _ranks(link, self._place, pinned)
        made = _Builder(index, link, ranks, self.first, self.lanes).build()
        for rank, items in enumerate(made.ranks):
            self.rank.update(dict.fromkeys(items, rank))
        for k in range(before, len(self.lanes)):
            lane = self.lanes[k]
            self.through.setdefault((index - 1, lane.key), []).append(self.first + k)
        return made

    def _links(self, index: int) -> _Links:
        link = _Links(list(self._children[index]))
        edges, firm = self.graph.edges, self.graph.firm
        for edge in self._passing[index]:
            source, user = edges[edge]
            _lift(link, self.graph, index - 1, source, user, firm=edge < firm)
        return link


def arrange(graph: Graph) -> Order:
    """The order of a graph's items, each container arranged when it is first looked at."""
    return Order(graph)


def _children(graph: Graph) -> list[list[int]]:
    """The slots and scopes in each container."""
    children: list[list[int]] = [[] for _ in range(len(graph.groups) + 1)]
    for slot, parent in enumerate(graph.parent):
        children[parent + 1].append(slot)
    for k, group in enumerate(graph.groups):
        if group.kind == "scope":
            children[group.parent + 1].append(len(graph.paths) + k)
    return children


def _passing(graph: Graph) -> list[list[int]]:
    """The edges that each container contains, or that leave, cross or enter it."""
    parent = graph.parent
    passing: list[list[int]] = [[] for _ in range(len(graph.groups) + 1)]
    for edge, (source, user) in enumerate(graph.edges):
        if parent[source] == parent[user]:
            passing[parent[source] + 1].append(edge)
            continue
        above, below, common = graph.chain(source), graph.chain(user), -1
        while above and below and above[-1] == below[-1]:
            common = above.pop()
            below.pop()
        for group in (*above, common, *below):
            passing[group + 1].append(edge)
    return passing


def _lift(
    link: _Links, graph: Graph, container: int, source: int, user: int, *, firm: bool
) -> None:
    """Register an edge in a container that it leaves, crosses or enters."""
    start = _child(graph, container, source)
    end = _child(graph, container, user)
    if (start is None and end is None) or source == user:
        return
    if end is None and start is not None:
        link.leaving[start] = None
        if firm:
            link.firm.add((start, start))
    elif start is None and end is not None:
        link.entering[source, end] = None
        if firm:
            link.firm.add((-1 - source, end))
    elif start is not None and end is not None and start != end:
        link.inner[start, end] = None
        if firm:
            link.firm.add((start, end))


def _child(graph: Graph, container: int, slot: int) -> int | None:
    """The child of a container that a slot is, or is in; None if it is elsewhere."""
    item, group = slot, graph.parent[slot]
    while group != container:
        if group < 0:
            return None
        item, group = len(graph.paths) + group, graph.groups[group].parent
    return item


def _places(graph: Graph) -> list[tuple[int, int]]:
    """The position of each item in the program's order; a group at its first slot.

    Slots that later steps add share the position of a neighbour, and follow it in the order of their numbers.
    """
    slots = len(graph.paths)
    place = [(position, slot) for slot, position in enumerate(graph.position)]
    place += [(1 << 60, 0)] * len(graph.groups)
    for slot in range(slots):
        group = graph.parent[slot]
        while group >= 0 and place[slot] < place[slots + group]:
            place[slots + group] = place[slot]
            group = graph.groups[group].parent
    return place


def _ranks(link: _Links, place: list[tuple[int, int]], pinned: set[int]) -> dict[int, int]:
    """Ranks by longest path from the top; items without inputs then move down to their first user."""
    rank = dict.fromkeys(link.children, 0)
    preds: dict[int, list[int]] = {c: [] for c in link.children}
    succs: dict[int, list[int]] = {c: [] for c in link.children}
    for a, b in link.inner:
        if place[a] < place[b]:
            preds[b].append(a)
            succs[a].append(b)
    for child in link.children:
        rank[child] = max((rank[p] + 1 for p in preds[child]), default=0)
    loose: set[int] = set()
    for child in link.children:
        if child not in pinned and all(p in loose for p in preds[child]):
            loose.add(child)
    for child in reversed(link.children):
        if child in loose and succs[child]:
            rank[child] = min(rank[s] for s in succs[child]) - 1
    return rank


class _Builder:
    """Adds lanes to the ranks of one container, and orders each rank."""

    def __init__(
        self, index: int, link: _Links, rank: dict[int, int], first: int, lanes: list[Lane]
    ) -> None:
        self.index = index
        self.link = link
        self.rank = rank
        self.first = first
        self.lanes = lanes
        self.depth = max(rank.values(), default=-1) + 1
        self.container = Container([[] for _ in range(self.depth)])
        for child in link.children:
            self.container.ranks[rank[child]].append(child)

    def build(self) -> Container:
        """The container with its ranks ordered."""
        spans = self._spans()
        budget = LANE_BUDGET * len(self.link.children) + 200
        total = sum(max(0, last - first) for first, last, _ in spans.values())
        for key, (first, last, targets) in spans.items():
            if total > budget and last - first > LONG_LANE:
                self._tie_ends(key, targets)
            else:
                self._lane(key, first, last, targets)
        _sort_ranks(self.container)
        self._keep_firm()
        return self.container

    def _keep_firm(self) -> None:
        """Drop ties of later steps between children that the first step already ties."""
        firm = self.link.firm
        rank = self.rank
        held = {i for a, b in firm if a in rank and rank[a] + 1 == rank[b] for i in (a, b)}
        self.container.ties = [
            (a, b)
            for a, b in self.container.ties
            if (a, b) in firm or not (a in held and b in held)
        ]

    def _spans(self) -> dict[int, tuple[int, int, list[int]]]:
        """For each start of edges, the first and last rank that its lane crosses, and its ends.

        An edge of a later step gets no lane: the items that it passes have made room by then.
        """
        spans: dict[int, tuple[int, int, list[int]]] = {}

        def extend(key: int, first: int, last: int, target: int | None) -> None:
            _, end, targets = spans.get(key, (first, first, []))
            if target is not None:
                targets.append(target)
            spans[key] = (first, max(end, last), targets)

        firm = self.link.firm
        for a, b in self.link.inner:
            if (a, b) in firm or self.rank[b] == self.rank[a] + 1:
                extend(a, self.rank[a] + 1, self.rank[b], b)
        for child in self.link.leaving:
            if (child, child) in firm:
                extend(child, self.rank[child] + 1, self.depth, None)
        for slot, child in self.link.entering:
            if (-1 - slot, child) in firm:
                extend(-1 - slot, 0, self.rank[child], child)
        return spans

    def _tie_ends(self, key: int, targets: list[int]) -> None:
        self.container.ties += [(key, t) for t in targets if key >= 0]

    def _lane(self, key: int, first: int, last: int, targets: list[int]) -> None:
        """Add the lanes of one start, tied from rank to rank and to their ends."""
        at: dict[int, int] = {}
        if key >= 0:
            at[first - 1] = key
        for rank in range(first, last):
            item = self.first + len(self.lanes)
            self.lanes.append(Lane(self.index, key, rank))
            self.container.ranks[rank].append(item)
            at[rank] = item
            if rank - 1 in at:
                self.container.ties.append((at[rank - 1], item))
        for target in targets:
            above = at.get(self.rank[target] - 1)
            if above is not None and above != target:
                self.container.ties.append((above, target))


def _sort_ranks(container: Container) -> None:
    """Order each rank by the mean position of its neighbours, sweeping down and up (barycentres)."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for a, b in container.ties:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    place: dict[int, float] = {}
    for items in container.ranks:
        _settle(items, place)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for items in container.ranks if down else reversed(container.ranks):
            if len(items) > 1:
                _sort_rank(items, above if down else below, place)


def _sort_rank(items: list[int], ties: dict[int, list[int]], place: dict[int, float]) -> None:
    want = {i: _mean([place[n] for n in ties.get(i, ())], place[i]) for i in items}
    items.sort(key=lambda i: want[i])
    _settle(items, place)


def _settle(items: Iterable[int], place: dict[int, float]) -> None:
    """Set positions from -1 to 1 whatever the rank's size, so that wide and narrow ranks are comparable."""
    listed = list(items)
    for k, item in enumerate(listed):
        place[item] = k - (len(listed) - 1) / 2


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
