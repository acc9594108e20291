"""Groups: instructions of one ONNX scope are kept together, in an order in which data flows down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

Path = tuple[str, ...]


@dataclass
class Group:
    """A panel that opens and closes: a scope, or the body of an instruction that takes a module."""

    key: str
    label: str
    kind: str
    parent: int
    slot: int = -1
    count: int = 0


class Graph:
    """The graph to lay out: slots (places for instructions), edges between them, and panels around them.

    Slots are in program order. An edge that would make a cycle (two steps of a recording may order two
    slots differently) is drawn, but ignored by the order.
    """

    def __init__(self, paths: Sequence[Path], edges: Sequence[tuple[int, int]]) -> None:
        """Create a graph of ``len(paths)`` slots; a slot's path names the scopes around it."""
        self.paths = list(paths)
        self.edges = list(edges)
        self.firm = len(self.edges)
        """The number of edges of the first step, which come first: they align their ends; others do only if
        there are none."""
        self.groups: list[Group] = []
        self.parent = [-1] * len(self.paths)
        self.position = [0] * len(self.paths)

    def add_bodies(self, bodies: Sequence[tuple[str, str, int, Sequence[int]]]) -> None:
        """Put slots into bodies (key, label, owner's slot, slots), then the rest into their scopes."""
        inside = {slot: k for k, (_, _, _, slots) in enumerate(bodies) for slot in slots}
        top = [s for s in range(len(self.paths)) if s not in inside]
        within: dict[int, list[tuple[int, int]]] = {}
        for edge in self.edges:
            if (body := inside.get(edge[0], -1)) == inside.get(edge[1], -1):
                within.setdefault(body, []).append(edge)
        order = _scope_groups(self, schedule(top, within.get(-1, ()), self.paths))
        for body, (key, name, owner, slots) in enumerate(bodies):
            self.groups.append(Group(key, name, "module", -1, owner, len(slots)))
            for slot in slots:
                self.parent[slot] = len(self.groups) - 1
            order += schedule(slots, within.get(body, ()), {})
        for place, slot in enumerate(order):
            self.position[slot] = place
        self._nest_bodies()

    def add_slot(self, path: Path, near: int, body: int) -> None:
        """Add a slot of a later step beside another one: in a body, or in the scope that its path names."""
        self.paths.append(path)
        self.position.append(self.position[near] if near >= 0 else 0)
        scope = -1 if near < 0 or body >= 0 else self._scope(path, near)
        self.parent.append(body if body >= 0 else scope)

    def add_edge(self, edge: tuple[int, int], fresh: int) -> None:
        """Add an edge of a later step; slots from ``fresh`` on are placed after their inputs."""
        source, user = edge
        self.edges.append(edge)
        if source < user >= fresh:
            self.position[user] = max(self.position[user], self.position[source])

    def _scope(self, path: Path, near: int) -> int:
        """The innermost group around a slot that contains a path, or -1."""
        wanted = "/".join((*path, ""))
        for group in self.chain(near):
            found = self.groups[group]
            if found.kind == "scope" and wanted.startswith(found.key.partition("#")[0] + "/"):
                return group
        return -1

    def _nest_bodies(self) -> None:
        """Make a body inside another body its child, whatever their order."""
        for group in self.groups:
            if group.kind == "module":
                group.parent = self.parent[group.slot]

    def chain(self, slot: int) -> list[int]:
        """The groups around a slot, innermost first; those around a body are those around its owner."""
        found: list[int] = []
        group = self.parent[slot]
        while group >= 0:
            found.append(group)
            group = self.groups[group].parent
        return found


def schedule(
    slots: Sequence[int],
    edges: Sequence[tuple[int, int]],
    paths: Sequence[Path] | Mapping[int, Path],
) -> list[int]:
    """A topological order that stays in one scope as long as possible; ties are broken by program order.

    A slot that depends on no input of the program (a chain of constants) comes right before its first user.
    """
    return _Scheduler(slots, edges, paths).run()


class _Scheduler:
    """Takes ready slots from the innermost scope of the last one taken."""

    def __init__(
        self,
        slots: Sequence[int],
        edges: Sequence[tuple[int, int]],
        paths: Sequence[Path] | Mapping[int, Path],
    ) -> None:
        self.slots = slots
        self.inputs: dict[int, list[int]] = {}
        self.users: dict[int, list[int]] = {}
        self.place = {s: k for k, s in enumerate(slots)}
        for source, user in edges:
            if source in self.place and user in self.place and source != user:
                self.inputs.setdefault(user, []).append(source)
                self.users.setdefault(source, []).append(user)
        self.outer: list[int] = [-1]
        """The scope around each scope; 0 is the outermost."""
        self.ready: list[list[int]] = [[]]
        """Ready places in and below each scope."""
        known: dict[Path, int] = {(): 0}
        self.scope = (
            {s: self._number(paths[s], known) for s in slots} if paths else dict.fromkeys(slots, 0)
        )
        self.waiting = {s: len(found) for s, found in self.inputs.items()}
        self.done: set[int] = set()
        self.order: list[int] = []
        self.floating = {s for s in self.users if s not in self.inputs}
        """Used slots without inputs: they are placed right before their first user."""

    def _number(self, path: Path, known: dict[Path, int]) -> int:
        """The number of a scope; those around it have lower ones."""
        found = known.get(path)
        if found is None:
            around = self._number(path[:-1], known)
            found = known[path] = len(self.outer)
            self.outer.append(around)
            self.ready.append([])
        return found

    def run(self) -> list[int]:
        """The order."""
        for slot, sources in self.inputs.items():
            self.waiting[slot] -= sum(i in self.floating for i in sources)
        for slot in self.slots:
            if not self.waiting.get(slot) and slot not in self.floating:
                self._offer(slot)
        left = iter(self.slots)
        scope = 0
        while len(self.order) < len(self.slots):
            slot = self._next(scope)
            if slot is None:
                slot = next((s for s in left if s not in self.done), None)
                if slot is None:
                    break
            self._take(slot)
            scope = self.scope[slot]
        return self.order

    def _offer(self, slot: int) -> None:
        scope, place = self.scope[slot], self.place[slot]
        while scope >= 0:
            heappush(self.ready[scope], place)
            scope = self.outer[scope]

    def _next(self, scope: int) -> int | None:
        while scope >= 0:
            heap = self.ready[scope]
            while heap:
                slot = self.slots[heappop(heap)]
                if slot not in self.done:
                    return slot
            scope = self.outer[scope]
        return None

    def _take(self, slot: int) -> None:
        for source in self.inputs.get(slot, ()):
            if source in self.floating and source not in self.done:
                self._append(source)
        self._append(slot)
        for user in self.users.get(slot, ()):
            self.waiting[user] -= 1
            if not self.waiting[user] and user not in self.done:
                self._offer(user)

    def _append(self, slot: int) -> None:
        self.done.add(slot)
        self.order.append(slot)


def _scope_groups(graph: Graph, order: list[int]) -> list[int]:
    """Make a panel of each run of slots that share a scope, unless it has a single child.

    A source of an outer scope (a mask that an attention block takes) would cut the run of its first user in
    two. Since nothing precedes a source, it moves up in front of the run. Returns the changed order.
    """
    fed = {user for _, user in graph.edges}
    root = _Run((), None)
    open_runs = [root]
    for slot in order:
        path = graph.paths[slot]
        depth = len(shared(open_runs[-1].path, path))
        if slot not in fed and depth == len(path) < len(open_runs) - 1:
            open_runs[depth].children.insert(-1, slot)
            continue
        del open_runs[depth + 1 :]
        for k in range(depth, len(path)):
            run = _Run(path[: k + 1], open_runs[-1])
            open_runs[-1].children.append(run)
            open_runs.append(run)
        open_runs[-1].children.append(slot)
    taken: dict[str, int] = {}
    for child in root.children:
        _emit(graph, child, -1, "", taken)
    return list(_flat(root))


def _flat(run: _Run) -> Iterator[int]:
    for child in run.children:
        if isinstance(child, int):
            yield child
        else:
            yield from _flat(child)


def shared(a: Path, b: Path) -> Path:
    """The common prefix of two paths."""
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] == b[depth]:
        depth += 1
    return a[:depth]


@dataclass
class _Run:
    """Consecutive slots and runs in one scope."""

    path: Path
    outer: _Run | None
    children: list[_Run | int] = field(default_factory=list)


def _emit(graph: Graph, child: _Run | int, parent: int, prefix: str, taken: dict[str, int]) -> int:
    """Add a run and its contents as groups; returns the number of its slots."""
    if isinstance(child, int):
        graph.parent[child] = parent
        return 1
    name = prefix + child.path[-1]
    if len(child.children) == 1:
        only = child.children[0]
        return _emit(graph, only, parent, f"{name}/" if isinstance(only, _Run) else "", taken)
    key = "/".join(child.path)
    taken[key] = taken.get(key, 0) + 1
    if taken[key] > 1:
        key = f"{key}#{taken[key]}"
    group = Group(key, name, "scope", parent)
    graph.groups.append(group)
    index = len(graph.groups) - 1
    group.count = sum(_emit(graph, c, index, "", taken) for c in child.children)
    return group.count
