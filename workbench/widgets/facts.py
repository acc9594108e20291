"""The facts of the instructions of a scene that a query can ask for, as the browser's views have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.compiler.record.lowered import PART
from workbench.widgets import label
from workbench.widgets.nodes import Node
from workbench.widgets.query import Facts, Source
from workbench.widgets.scene import Scene

_LONGEST, _END = 30, 24
"""A module's name that is longer is shown by its end."""


def facts_of(scene: Scene, versions: Iterable[int]) -> list[Facts]:
    """The facts of some versions, which are in the program's order."""
    counts: dict[int, int] = {}
    found: list[Facts] = []
    for node in (scene.versions[v] for v in versions):
        position = counts.get(node.module, 0)
        counts[node.module] = position + 1
        found.append(
            Facts(node.id, _name(scene, node, position), node.title, node.fact, node.text,
                  node.shape, node.family, tuple(_source(scene, s) for s in node.sources))
        )  # fmt: skip
    return found


def _name(scene: Scene, node: Node, position: int) -> str:
    module = scene.modules.get(node.module, "") if node.module else ""
    prefix = f"{_short(module)}:" if node.module else ""
    is_named = node.text.startswith("@param:")
    return prefix + (node.text.removeprefix("@param:") if is_named else f"@{position}")


def _short(module: str) -> str:
    return f"…{module[-_END:]}" if len(module) > _LONGEST else module


def _source(scene: Scene, name: str) -> Source:
    node = scene.source_nodes.get(name)
    return Source(name, "/".join(node.scope) if node is not None else "")


def told(steps: Sequence[Any], k: int) -> dict[str, Any]:
    """The facts that step ``k`` of a recording adds, by id: rules, passes, and kernels if it lowers."""
    if not steps:
        return {}
    rules: dict[int, str] = {}
    for edit in steps[k].edits:
        for id in {*edit.added, *edit.removed, *edit.changed}:
            rules[id] = f"{rules[id]}\n{edit.rule}" if id in rules else edit.rule
    passes = {
        id: label.clipped(step.name, 80)
        for step in steps
        for edit in step.edits
        for id in edit.added
    }
    rows = [r for r in getattr(steps[k], "lowered", None) or () if r.kind != PART]
    kernels = {r.id: label.clipped(r.became, 300) for r in rows}
    return {"rules": rules, "passes": passes} | ({"kernels": kernels} if rows else {})
