"""The part of a graph that is shown, as ``static/filter.js`` has it: neighbourhoods, paths, dashed edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from workbench.widgets.nodes import Node
from workbench.widgets.scene import Scene

Way = Literal["in", "out", "both"]
Links = Mapping[int, Sequence[int]]

MOST_THROUGH = 12
"""Most dashed edges into one instruction from what is hidden above it."""


def links(scene: Scene, versions: Iterable[int]) -> tuple[Links, Links]:
    """The drawn inputs and users of each drawn instruction."""
    drawn = {scene.versions[v].id: scene.versions[v] for v in versions if scene.slots[v] >= 0}
    inputs: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for node in drawn.values():
        for id in dict.fromkeys(node.arguments):
            if id in drawn:
                inputs.setdefault(node.id, []).append(id)
                users.setdefault(id, []).append(node.id)
    return inputs, users


def reached(ids: Iterable[int], following: Links, n: float) -> set[int]:
    """The ids that are reached in at most ``n`` steps, the start included."""
    found = set(ids)
    edge = found
    while n > 0 and edge:
        edge = {other for id in edge for other in following.get(id, ())} - found
        found |= edge
        n -= 1
    return found


def hops_around(
    scene: Scene, versions: Sequence[int], ids: Iterable[int], n: int, way: Way
) -> list[int]:
    """The instructions at most ``n`` edges away, upwards, downwards or both."""
    inputs, users = links(scene, versions)
    found = set(ids) & {scene.versions[v].id for v in versions}
    up = set[int]() if way == "out" else reached(found, inputs, n)
    down = set[int]() if way == "in" else reached(found, users, n)
    return sorted(found | up | down)


def path_between(scene: Scene, versions: Sequence[int], a: int, b: int) -> list[int]:
    """The instructions on all paths from one to another, in either direction; none if there is no path."""
    inputs, users = links(scene, versions)
    for start, end in ((a, b), (b, a)):
        below = reached([start], users, float("inf"))
        if end in below:
            return sorted(below & reached([end], inputs, float("inf")))
    return []


def slots_shown(scene: Scene, only: Iterable[int] | None, hidden: Iterable[int]) -> set[int] | None:
    """The slots that a filter shows, or None if it shows all.

    A body is shown with its owner, and an owner with its body.

    Args:
        scene: The scene.
        only: Ids to which the graph is limited, or None.
        hidden: Ids to hide.
    """
    wanted, unwanted = None if only is None else set(only), set(hidden)
    if wanted is None and not unwanted:
        return None
    kept: set[int] = set()
    gone: set[int] = set()
    for node, slot in zip(scene.versions, scene.slots, strict=True):
        if slot >= 0 and (wanted is None or node.id in wanted or _holds(node, wanted)):
            kept.add(slot)
        if slot >= 0 and node.id in unwanted:
            gone.add(slot)
    shown: set[int] = set()
    for slot in range(len(scene.sizes)):
        around = {slot, *_owners(scene, slot)}
        if around & kept and not around & gone:
            shown |= around
    return shown


def _holds(node: Node, wanted: set[int]) -> bool:
    """Whether a wanted constant is drawn as a chip of the node."""
    return any(not chip.port and chip.id in wanted for chip in node.chips)


def _owners(scene: Scene, slot: int) -> Iterable[int]:
    """The slots of the instructions in whose bodies a slot is."""
    owners = (scene.graph.groups[g].slot for g in scene.graph.chain(slot))
    return (owner for owner in owners if owner >= 0)


def through_hidden(scene: Scene, versions: Iterable[int], slots: set[int]) -> dict[int, list[int]]:
    """For each hidden instruction, the shown ones that it depends on through hidden ones only."""
    drawn = {scene.versions[v].id: v for v in versions if scene.slots[v] >= 0}
    found: dict[int, list[int]] = {}
    for id, version in drawn.items():
        if scene.slots[version] in slots:
            continue
        node, above = scene.versions[version], dict[int, None]()
        for source in node.inputs:
            at = drawn.get(source)
            if at is None or scene.versions[at].module != node.module:
                continue
            shown = scene.slots[at] in slots
            above |= dict.fromkeys([source] if shown else found.get(source, ()))
        found[id] = list(above)[:MOST_THROUGH]
    return found
