"""Groups: instructions of one ONNX scope are kept together, in an order in which data flows down."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import chain

from workbench.widgets.repeats import LEAST_SIZE, LEAST_TIMES, Periods, Repeat, Wiring

Path = tuple[str, ...]
LONGEST = 12
"""Letters of the first and the last block's names in the label of repeated blocks."""


@dataclass
class Group:
    """A panel that opens and closes: a scope, equal blocks, or the body of an instruction with a module."""

    key: str
    label: str
    kind: str
    parent: int
    slot: int = -1
    count: int = 0
    times: int = 0
    """The number of equal blocks of which it consists, if it does."""
    within: str = ""
    """The scope of what is in it, with a slash at its end."""


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
        self.wiring = Wiring()
        """The inputs of slots, by which repeated blocks are found; nothing if they are not to be."""
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
        wanted = _within(path)
        for group in self.chain(near):
            found = self.groups[group]
            if found.kind == "scope" and not found.times and wanted.startswith(found.within):
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
    root = _Run(())
    open_runs = [root]
    for slot in order:
        path = graph.paths[slot]
        depth = len(shared(open_runs[-1].path, path))
        if slot not in fed and depth == len(path) < len(open_runs) - 1:
            open_runs[depth].children.insert(-1, slot)
            continue
        del open_runs[depth + 1 :]
        for k in range(depth, len(path)):
            run = _Run(path[: k + 1])
            open_runs[-1].children.append(run)
            open_runs.append(run)
        open_runs[-1].children.append(slot)
    if graph.wiring.kinds:
        _Folder(graph).fold(root)
    taken: dict[str, int] = {}
    for child in root.children:
        _emit(graph, child, -1, "", taken)
    return list(_flat(root))


def _flat(child: _Run | int) -> Iterator[int]:
    waiting = [child]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int):
            yield item
        else:
            waiting += reversed(item.children)


def shared(a: Path, b: Path) -> Path:
    """The common prefix of two paths."""
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] == b[depth]:
        depth += 1
    return a[:depth]


@dataclass(eq=False)
class _Run:
    """Consecutive slots and runs in one scope."""

    path: Path
    children: list[_Run | int] = field(default_factory=list["_Run | int"])
    label: str = ""
    """Its label, if that is not the last name of its path."""
    scope: Path | None = None
    """The scope of what is in it, if that is not its path."""
    times: int = 0
    """The number of equal blocks of which it consists, if it does."""

    @property
    def name(self) -> str:
        """The label."""
        return self.label or self.path[-1]


class _Folder:
    """Puts runs of equal blocks into a run of their own."""

    def __init__(self, graph: Graph) -> None:
        self.wiring, self.kinds = graph.wiring, graph.wiring.kinds
        self.numbers: dict[Hashable, int] = {}
        """A negative number for the kind of each run."""

        self.users: dict[int, list[int]] = {}
        """The users of each source, such as a mask."""
        for user, sources in graph.wiring.inputs.items():
            for source in sources:
                if source not in graph.wiring.inputs:
                    self.users.setdefault(source, []).append(user)

    def fold(self, run: _Run) -> int | None:
        """Fold the blocks of a run, inner ones first; returns its kind, or None if later steps made it."""
        kinds = {child: self._kind(child) for child in run.children}
        firm = [kind for kind in kinds.values() if kind is not None]
        if len(firm) >= LEAST_TIMES:
            self._fold_children(run, kinds)
        return self.numbers.setdefault(tuple(firm), -1 - len(self.numbers)) if firm else None

    def _kind(self, child: _Run | int) -> int | None:
        return self.kinds[child] if isinstance(child, int) else self.fold(child)

    def _fold_children(self, run: _Run, kinds: Mapping[_Run | int, int | None]) -> None:
        """Replace equal neighbours among the children by a run that has a run for each block."""
        children = self._ordered(run.children)
        firm = [k for k, child in enumerate(children) if kinds[child] is not None]
        items, ends = [children[k] for k in firm], [*firm, len(children)]
        periods = Periods([kind for k in firm if (kind := kinds[children[k]]) is not None])
        made, done = list[_Run | int](), 0
        for found in periods.repeats(partial(self._checked, items)):
            parts = [children[ends[a] : ends[b]] for a, b in found.bounds()]
            made += [*children[done : ends[found.first]], _folded(run, parts)]
            done = ends[found.end]
        if made:
            run.children = [*made, *children[done:]]

    def _ordered(self, children: Sequence[_Run | int]) -> list[_Run | int]:
        """The children with each source before its user; one that several use is part of no block."""
        sources = [c for c in children if isinstance(c, int) and c in self.users]
        if not sources:
            return list(children)
        users = {c: self.users[c] for c in sources}
        wanted = {found[0] for found in users.values() if len(found) == 1}
        at = {s: k for k, child in enumerate(children) for s in _flat(child) if s in wanted}
        place = {c: at.get(f[0], -1) - 0.5 if len(f) == 1 else -1 for c, f in users.items()}
        places = {c: place.get(c, k) if isinstance(c, int) else k for k, c in enumerate(children)}
        return sorted(children, key=places.__getitem__)

    def _checked(self, items: Sequence[_Run | int], found: Repeat, end: int) -> Repeat | None:
        """The part of a run that is wired alike, if it is worth folding."""
        first, length, times = found
        slots = [self._slots(item) for item in items[first:end]]
        if sum(map(len, slots[:length])) < LEAST_SIZE:
            return None
        shift = self.wiring.narrowest(length, end - found.end, slots)
        places = range(shift, shift + length * times, length)
        blocks = [list(chain.from_iterable(slots[k : k + length])) for k in places]
        start, count = self.wiring.alike(blocks)
        made = Repeat(first + shift + start * length, length, count)
        return made if count >= LEAST_TIMES else None

    def _slots(self, item: _Run | int) -> list[int]:
        """The slots of the first step in an item."""
        return [slot for slot in _flat(item) if self.kinds[slot] is not None]


def _folded(around: _Run, parts: Sequence[list[_Run | int]]) -> _Run:
    """A run of equal blocks. A block with a single run is that run, and takes in what comes with it."""
    scope = around.path if around.scope is None else around.scope
    only = [runs[0] if len(runs := _runs(part)) == 1 else None for part in parts]
    named = [run for run in only if run is not None and not run.times]
    times = len(parts)
    words = first = "block"
    if len(named) == times:
        first = named[0].name
        words = f"{_end(first)} … {_end(named[-1].name)}"
    fold = _Run((*around.path, f"{first}×{times}"), [], f"{words} × {times:,}", scope, times)
    for k, part in enumerate(parts):
        if len(named) == times:
            block, block.children = named[k], _merged(part, named[k])
        else:
            block = _Run((*fold.path, str(k + 1)), part, f"block {k + 1}", scope)
        fold.children.append(block)
    return fold


def _end(name: str) -> str:
    """The end of a long name: names of blocks differ there, and their number must be in sight."""
    return f"…{name[-LONGEST:]}" if len(name) > LONGEST + 1 else name


def _runs(part: Sequence[_Run | int]) -> list[_Run]:
    return [child for child in part if isinstance(child, _Run)]


def _merged(part: Sequence[_Run | int], run: _Run) -> list[_Run | int]:
    """The children of a run, with what stands before and behind it."""
    at = part.index(run)
    return [*part[:at], *run.children, *part[at + 1 :]]


def _within(path: Path) -> str:
    """The names of a scope, each with a slash behind it."""
    return "".join(f"{name}/" for name in path)


def _emit(graph: Graph, child: _Run | int, parent: int, prefix: str, taken: dict[str, int]) -> int:
    """Add a run and its contents as groups; returns the number of its slots."""
    if isinstance(child, int):
        graph.parent[child] = parent
        return 1
    name = child.name if child.times and len(prefix) > LONGEST else prefix + child.name
    if len(child.children) == 1:
        only = child.children[0]
        return _emit(graph, only, parent, f"{name}/" if isinstance(only, _Run) else "", taken)
    key = "/".join(child.path)
    taken[key] = taken.get(key, 0) + 1
    if taken[key] > 1:
        key = f"{key}#{taken[key]}"
    scope = child.path if child.scope is None else child.scope
    group = Group(key, name, "scope", parent, times=child.times, within=_within(scope))
    graph.groups.append(group)
    index = len(graph.groups) - 1
    group.count = sum(_emit(graph, c, index, "", taken) for c in child.children)
    return group.count
