"""A scene as compact columns for the browser: a table of distinct strings, and flat lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.widgets.picture import closed_size, header_width
from workbench.widgets.scene import FAMILIES, Scene, node_width


class Strings:
    """A table of distinct strings."""

    def __init__(self) -> None:
        self.table: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The index of a string."""
        return self.table.setdefault(text, len(self.table))


def payload(scene: Scene) -> dict[str, Any]:
    """Everything that the browser needs to lay out and draw a scene."""
    strings = Strings()
    data: dict[str, Any] = {
        "title": scene.title,
        "slots": {
            "parent": scene.graph.parent,
            "left": [s.left for s in scene.sizes],
            "right": [s.right for s in scene.sizes],
            "height": [s.height for s in scene.sizes],
        },
        "groups": _groups(scene),
        "containers": [
            {"ranks": c.ranks, "ties": [i for tie in c.ties for i in tie]}
            for c in scene.order.containers
        ],
        "lanes": {
            "container": [lane.container - 1 for lane in scene.order.lanes],
            "key": [lane.key for lane in scene.order.lanes],
        },
        "nodes": _nodes(scene, strings),
        "sources": _sources(scene, strings),
        "modules": {str(k): v for k, v in scene.modules.items()},
    }
    data["strings"] = list(strings.table)
    return data


def _groups(scene: Scene) -> dict[str, list[Any]]:
    groups = scene.graph.groups
    return {
        "key": [g.key for g in groups],
        "label": [g.label for g in groups],
        "half": [closed_size(g.label, g.count).left for g in groups],
        "header": [header_width(g.label) for g in groups],
        "body": [int(g.kind == "module") for g in groups],
        "parent": [g.parent for g in groups],
        "slot": [g.slot for g in groups],
        "count": [g.count for g in groups],
    }


def _nodes(scene: Scene, strings: Strings) -> dict[str, list[Any]]:
    nodes = scene.versions
    return {
        "id": [n.id for n in nodes],
        "slot": scene.slots,
        "module": [n.module for n in nodes],
        "title": [strings(n.title) for n in nodes],
        "fact": [strings(n.fact) for n in nodes],
        "family": [FAMILIES.index(n.family) if n.family in FAMILIES else 5 for n in nodes],
        "width": [node_width(n) for n in nodes],
        "opens": [int(bool(n.bodies)) for n in nodes],
        "inputs": [list(n.inputs) for n in nodes],
        "arguments": [list(n.arguments) for n in nodes],
        "chips": [[[strings(c.label), c.id, int(c.port)] for c in n.chips] for n in nodes],
        "shape": [strings(n.shape) for n in nodes],
        "text": [strings(n.text) for n in nodes],
        "sources": [[strings(s) for s in n.sources] for n in nodes],
    }


def _sources(scene: Scene, strings: Strings) -> dict[int, list[str]]:
    """The source nodes of instructions: operator and scope."""
    named: Iterable[str] = dict.fromkeys(s for n in scene.versions for s in n.sources)
    found: dict[int, list[str]] = {}
    for name in named:
        if (node := scene.source_nodes.get(name)) is not None:
            found[strings(name)] = [str(node.op_type), "/".join(node.scope)]
    return found
