"""Ranks and order within ranks: the part of a layered layout that does not depend on sizes.

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
class Order:
    """The order of all items: slots, then groups, then lanes. Container 0 is the page, k + 1 is group k.

    A lane's key is the item that the edge starts from, or ``-1 - slot`` for an edge from outside.
    """

    containers: list[Container] = field(default_factory=list[Container])
    lanes: list[Lane] = field(default_factory=list[Lane])


@dataclass
class _Links:
    """The edges of one container: between its children, out of it, and into it."""

    children: list[int] = field(default_factory=list[int])
    inner: dict[tuple[int, int], None] = field(default_factory=dict[tuple[int, int], None])
    leaving: dict[int, None] = field(default_factory=dict[int, None])
    entering: dict[tuple[int, int], None] = field(default_factory=dict[tuple[int, int], None])
    firm: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Those of them in the first step; an edge out is tied to itself, one in to its source's key."""


def arrange(graph: Graph) -> Order:
    """Assign each child of each container its rank and its position in the rank."""
    links = _links(graph)
    place = _places(graph)
    order = Order()
    first = len(graph.paths) + len(graph.groups)
    for index, link in enumerate(links):
        link.children.sort(key=lambda item: place[item])
        pinned = {target for _, target in link.entering}
        ranks = _ranks(link, place, pinned)
        builder = _Builder(index, link, ranks, first, order.lanes)
        order.containers.append(builder.build())
    return order


def _links(graph: Graph) -> list[_Links]:
    slots = len(graph.paths)
    links = [_Links() for _ in range(len(graph.groups) + 1)]
    for slot in range(slots):
        links[graph.parent[slot] + 1].children.append(slot)
    for k, group in enumerate(graph.groups):
        if group.kind == "scope":
            links[group.parent + 1].children.append(slots + k)
    chains = [graph.chain(slot) for slot in range(slots)]
    for source, user in dict.fromkeys(graph.edges):
        if source != user:
            firm = (source, user) in graph.firm
            _lift(links, slots, (source, chains[source]), (user, chains[user]), firm)
    return links


def _lift(
    links: list[_Links],
    slots: int,
    source: tuple[int, list[int]],
    user: tuple[int, list[int]],
    firm: bool,
) -> None:
    """Register an edge in each container that it leaves, crosses or enters."""
    around = set(user[1])
    child = source[0]
    for group in source[1]:
        if group in around:
            break
        links[group + 1].leaving[child] = None
        if firm:
            links[group + 1].firm.add((child, child))
        child = slots + group
    shared = set(source[1])
    target = user[0]
    for group in user[1]:
        if group in shared:
            break
        links[group + 1].entering[source[0], target] = None
        if firm:
            links[group + 1].firm.add((-1 - source[0], target))
        target = slots + group
    common = next((g for g in source[1] if g in around), -1)
    if child != target:
        links[common + 1].inner[child, target] = None
        if firm:
            links[common + 1].firm.add((child, target))


def _places(graph: Graph) -> list[int]:
    """The position of each item in the program's order; a group at its first slot."""
    slots = len(graph.paths)
    place = graph.position + [1 << 60] * len(graph.groups)
    for slot in range(slots):
        for group in graph.chain(slot):
            place[slots + group] = min(place[slots + group], place[slot])
    return place


def _ranks(link: _Links, place: list[int], pinned: set[int]) -> dict[int, int]:
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
        held = {i for a, b in firm if self.rank.get(a, b) + 1 == self.rank[b] for i in (a, b)}
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
            spans[key] = (first, max(end, last), targets + ([] if target is None else [target]))

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
