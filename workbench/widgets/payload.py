"""A scene as compact columns for the browser: tables of distinct strings and words, and lists of integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

from workbench.widgets.packing import Ints
from workbench.widgets.picture import closed_size, header_width
from workbench.widgets.scene import FAMILIES, Scene, look_width, node_size

UNKNOWN = -1


class Distinct(dict[Any, int]):
    """Distinct values, numbered as they come."""

    def __missing__(self, value: Any) -> int:
        """Give a new value the next number."""
        number = self[value] = len(self)
        return number


def payload(scene: Scene) -> dict[str, Any]:
    """Everything that the browser needs to lay out and draw a scene."""
    strings = Distinct()
    graph = scene.graph
    data: dict[str, Any] = {
        "title": scene.title,
        "slots": {"parent": Ints(graph.parent), "position": Ints(graph.position)},
        "groups": _groups(scene),
        "edges": Ints(chain.from_iterable(graph.edges)),
        "firm": graph.firm,
        **_nodes(scene, strings),
        "modules": {str(k): v for k, v in scene.modules.items()},
    }
    data["strings"] = list(strings)
    return data


def _groups(scene: Scene) -> dict[str, Any]:
    groups = scene.graph.groups
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


def _nodes(scene: Scene, strings: Distinct) -> dict[str, Any]:
    """A row per version, and the tables of what versions share."""
    nodes = scene.versions
    looks, sizes, sources = Distinct(), Distinct(), Distinct()
    columns: dict[str, Any] = {
        "id": Ints(n.id for n in nodes),
        "slot": Ints(scene.slots),
        "module": Ints(n.module for n in nodes),
        "look": Ints(looks[n.look] for n in nodes),
        "size": Ints(sizes[node_size(n)] for n in nodes),
        "opens": Ints(int(bool(n.bodies)) for n in nodes),
        **_lists("argument", [n.arguments for n in nodes]),
        **_lists("chip", [_chips(n.chips, strings) if n.chips else () for n in nodes]),
        **_lists("source", [[sources[s] for s in n.sources] for n in nodes]),
    }
    return {
        "nodes": columns,
        "looks": _looks(looks),
        "sizes": {side: [getattr(s, side) for s in sizes] for side in ("left", "right", "height")},
        "sources": _sources(scene, sources, strings),
    }


def _lists(name: str, rows: Sequence[Sequence[int]]) -> dict[str, Ints]:
    """A column of lists: all entries, and where those of each row end."""
    return {
        f"{name}s": Ints(chain.from_iterable(rows)),
        f"{name}Ends": Ints(accumulate(map(len, rows))),
    }


def _chips(chips: Iterable[Any], strings: Distinct) -> list[int]:
    return [number for c in chips for number in (strings[c.label], c.id, int(c.port))]


def _looks(looks: Iterable[Any]) -> dict[str, list[Any]]:
    listed = list(looks)
    return {
        "title": [k.title for k in listed],
        "fact": [k.fact for k in listed],
        "family": [FAMILIES.index(k.family) if k.family in FAMILIES else 5 for k in listed],
        "width": [look_width(k) for k in listed],
        "shape": [k.shape for k in listed],
        "text": [k.text for k in listed],
    }


def _sources(scene: Scene, names: Iterable[str], strings: Distinct) -> dict[str, Ints]:
    """The source nodes of instructions: name, operator and scope."""
    listed = list(names)
    found = [scene.source_nodes.get(name) for name in listed]
    return {
        "name": Ints(strings[name] for name in listed),
        "op": Ints(UNKNOWN if s is None else strings[str(s.op_type)] for s in found),
        "scope": Ints(UNKNOWN if s is None else strings["/".join(s.scope)] for s in found),
    }
