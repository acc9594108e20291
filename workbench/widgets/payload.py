"""A scene as compact columns for the browser: tables of distinct strings and words, and lists of integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple

from workbench.widgets.nodes import Look
from workbench.widgets.packing import Ints
from workbench.widgets.picture import closed_size, header_width
from workbench.widgets.scene import FAMILIES, Scene, look_width
from workbench.widgets.scopes import Group

UNKNOWN = -1
SIDES = ("left", "right", "height")
COLUMNS = (
    "id", "module", "look", "size", "opens", "arguments", "argumentEnds", "chips", "chipEnds",
    "sources", "sourceEnds",
)  # fmt: skip


class Distinct(dict[Any, int]):
    """Distinct values, numbered as they come."""

    def __missing__(self, value: Any) -> int:
        """Give a new value the next number."""
        number = self[value] = len(self)
        return number


class Extent(NamedTuple):
    """The lengths of the columns of a scene that have been sent."""

    slots: int = 0
    groups: int = 0
    edges: int = 0
    versions: int = 0
    looks: int = 0
    sizes: int = 0
    sources: int = 0
    strings: int = 0
    arguments: int = 0
    chips: int = 0
    named: int = 0
    """Names of source nodes, of all versions together."""


class Payload:
    """The columns of a scene. A scene that has grown costs what it has grown by."""

    def __init__(self, scene: Scene) -> None:
        """Start without any version."""
        self.scene = scene
        self.strings, self.looks, self.sizes, self.sources = (Distinct() for _ in range(4))
        self.columns: dict[str, list[int]] = {name: [] for name in COLUMNS}

    @property
    def extent(self) -> Extent:
        """The lengths of the columns, as of the last call of `data`."""
        to, graph = self.columns, self.scene.graph
        return Extent(
            len(graph.parent), len(graph.groups), len(graph.edges), len(to["id"]), len(self.looks),
            len(self.sizes), len(self.sources), len(self.strings), len(to["arguments"]),
            len(to["chips"]), len(to["sources"]),
        )  # fmt: skip

    def data(self, since: Extent = Extent()) -> dict[str, Any]:  # noqa: B008
        """Everything that the browser needs to lay out and draw the scene as it is now.

        Args:
            since: How far the browser has the columns: it gets their rest.
        """
        scene, graph = self.scene, self.scene.graph
        self._extend()
        starts = {"arguments": since.arguments, "chips": since.chips, "sources": since.named}
        nodes = {k: Ints(v[starts.get(k, since.versions) :]) for k, v in self.columns.items()}
        sizes = [*self.sizes][since.sizes :]
        sources = _sources(scene, [*self.sources][since.sources :], self.strings)
        return {
            "title": scene.title,
            "slots": {
                "parent": Ints(graph.parent[since.slots :]),
                "position": Ints(graph.position[since.slots :]),
            },
            "groups": _groups(graph.groups[since.groups :]),
            "edges": Ints(chain.from_iterable(graph.edges[since.edges :])),
            "firm": graph.firm,
            "nodes": {"slot": Ints(scene.slots[since.versions :])} | nodes,
            "looks": _looks([*self.looks][since.looks :]),
            "sizes": {side: [getattr(s, side) for s in sizes] for side in SIDES},
            "sources": sources,
            "modules": {str(k): v for k, v in scene.modules.items()},
            "gradient": {str(k): v for k, v in scene.gradients.items()},
            "gradient of": {str(v): k for k, v in scene.gradients.items()},
            "strings": [*self.strings][since.strings :],
        }

    def _extend(self) -> None:
        """Add a row for each version that is new."""
        to, nodes = self.columns, self.scene.versions[len(self.columns["id"]) :]
        to["id"] += [n.id for n in nodes]
        to["module"] += [n.module for n in nodes]
        to["look"] += [self.looks[n.look] for n in nodes]
        to["size"] += [self.sizes[need] for need in self.scene.needs[len(to["size"]) :]]
        to["opens"] += [int(bool(n.bodies)) for n in nodes]
        self._extend_lists("argument", [n.arguments for n in nodes])
        self._extend_lists("chip", [self._chips(n.chips) if n.chips else () for n in nodes])
        self._extend_lists("source", [[self.sources[s] for s in n.sources] for n in nodes])

    def _extend_lists(self, name: str, rows: Sequence[Sequence[int]]) -> None:
        """Add to a column of lists: all entries, and where those of each row end."""
        entries, ends = self.columns[f"{name}s"], self.columns[f"{name}Ends"]
        first = len(entries)
        entries += chain.from_iterable(rows)
        ends += islice(accumulate(map(len, rows), initial=first), 1, None)

    def _chips(self, chips: Iterable[Any]) -> list[int]:
        return [number for c in chips for number in (self.strings[c.label], c.id, int(c.port))]


def payload(scene: Scene) -> dict[str, Any]:
    """Everything that the browser needs to lay out and draw a scene."""
    return Payload(scene).data()


def _groups(groups: Sequence[Group]) -> dict[str, Any]:
    return {
        "key": [g.key for g in groups],
        "label": [g.label for g in groups],
        "half": Ints(int(closed_size(g.label, g.count).left) for g in groups),
        "header": [header_width(g.label) for g in groups],
        "body": Ints(int(g.kind == "module") for g in groups),
        "parent": Ints(g.parent for g in groups),
        "slot": Ints(g.slot for g in groups),
        "count": Ints(g.count for g in groups),
    }


def _looks(listed: Sequence[Look]) -> dict[str, list[Any]]:
    return {
        "title": [k.title for k in listed],
        "fact": [k.fact for k in listed],
        "family": [FAMILIES.index(k.family) if k.family in FAMILIES else 5 for k in listed],
        "width": [look_width(k) for k in listed],
        "shape": [k.shape for k in listed],
        "text": [k.text for k in listed],
    }


def _sources(scene: Scene, listed: Sequence[str], strings: Distinct) -> dict[str, Ints]:
    """The source nodes of instructions: name, operator and scope."""
    found = [scene.source_nodes.get(name) for name in listed]
    return {
        "name": Ints(strings[name] for name in listed),
        "op": Ints(UNKNOWN if s is None else strings[str(s.op_type)] for s in found),
        "scope": Ints(UNKNOWN if s is None else strings["/".join(s.scope)] for s in found),
    }
