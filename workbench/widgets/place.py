"""Coordinates of ranked items of given sizes, with containers placed from the inside out.

``static/place.js`` holds the same arithmetic, so that a page can open a group without a kernel; a test
compares the two, number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.widgets.order import Container

RANK_GAP, ITEM_GAP, PADDING, HEADER, LANE = 26.0, 18.0, 12.0, 24.0, 5.0
SWEEPS = 8


@dataclass(frozen=True)
class Size:
    """The room of an item: left and right of its centre line, and its height."""

    left: float
    right: float
    height: float


@dataclass
class Plan:
    """The layout of one container: centre of each child, top and bottom of each rank, and its size."""

    x: dict[int, float] = field(default_factory=dict[int, float])
    y: dict[int, float] = field(default_factory=dict[int, float])
    bands: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    width: float = 0.0
    height: float = 0.0
    spine: float = 0.0
    """The vertical line on which data enters and leaves, by which the surroundings are aligned."""


def place(container: Container, sizes: Sequence[Size], lane: int) -> Plan:
    """Positions of a container's children relative to its own top left corner.

    Args:
        container: Its children by rank.
        sizes: The room that each slot and group takes, by item.
        lane: The first item that is a lane.
    """
    narrow = Size(LANE, LANE, 0.0)
    size = {i: narrow if i >= lane else sizes[i] for items in container.ranks for i in items}
    plan = Plan()
    _rows(container, size, plan)
    above, below = _ties(container, lane)
    for items in container.ranks:
        _pack(items, size, plan.x)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for items in container.ranks if down else reversed(container.ranks):
            _relax(items, (above,) if down else (below,), size, plan.x)
    for items in container.ranks:
        _relax(items, (above, below), size, plan.x)
    _crop(container, size, plan, lane)
    return plan


def _rows(container: Container, size: dict[int, Size], plan: Plan) -> None:
    top = 0.0
    for items in container.ranks:
        height = max((size[i].height for i in items), default=0.0)
        plan.bands.append((top, top + height))
        for item in items:
            plan.y[item] = top + (height - size[item].height) / 2
        top += height + (RANK_GAP if height > 0 else 0.0)
    plan.height = max(0.0, top - RANK_GAP)


Ties = dict[int, list[tuple[int, float]]]


def _ties(container: Container, lane: int) -> tuple[Ties, Ties]:
    """Neighbours above and below, with their weights: lanes bend around nodes, not nodes around lanes."""
    above: Ties = {}
    below: Ties = {}
    for a, b in container.ties:
        ends = (a >= lane) + (b >= lane)
        pull = 1.0 if ends == 0 else 0.02 if ends == 1 else 0.1
        above.setdefault(b, []).append((a, pull))
        below.setdefault(a, []).append((b, pull))
    return above, below


def _pack(items: list[int], size: dict[int, Size], x: dict[int, float]) -> None:
    cursor = 0.0
    for item in items:
        x[item] = cursor + size[item].left
        cursor = x[item] + size[item].right + ITEM_GAP
    middle = (cursor - ITEM_GAP) / 2
    for item in items:
        x[item] -= middle


def _relax(
    items: list[int], ties: tuple[Ties, ...], size: dict[int, Size], x: dict[int, float]
) -> None:
    """Move a rank's items towards their neighbours: least squares that keeps the order and the gaps."""
    if len(items) == 1:
        total, weight = _pull(items[0], ties, x)
        x[items[0]] = total / weight
        return
    blocks: list[list[float]] = []
    offsets: list[float] = []
    offset = 0.0
    for k, item in enumerate(items):
        if k:
            offset += size[items[k - 1]].right + ITEM_GAP + size[item].left
        offsets.append(offset)
        total, weight = _pull(item, ties, x)
        blocks.append([total - offset * weight, weight, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            for field_ in range(3):
                blocks[-1][field_] += last[field_]
    k = 0
    for total, weight, count in blocks:
        for _ in range(int(count)):
            x[items[k]] = total / weight + offsets[k]
            k += 1


def _pull(item: int, ties: tuple[Ties, ...], x: dict[int, float]) -> tuple[float, float]:
    """The weighted mean position of an item's neighbours; its own position if it has none."""
    total, weight = 0.0, 0.0
    for side in ties:
        for other, pull in side.get(item, ()):
            total += x[other] * pull
            weight += pull
    return (total, weight) if weight else (x[item] * 0.1, 0.1)


def _crop(container: Container, size: dict[int, Size], plan: Plan, lane: int) -> None:
    """Shift everything so that the leftmost edge is at 0."""
    left = right = None
    for items in container.ranks:
        for item in items:
            low, high = plan.x[item] - size[item].left, plan.x[item] + size[item].right
            left = low if left is None else min(left, low)
            right = high if right is None else max(right, high)
    left, right = left or 0.0, right or 0.0
    for item in plan.x:
        plan.x[item] -= left
    plan.width = right - left
    plan.spine = _spine(container, plan, lane)


def _spine(container: Container, plan: Plan, lane: int) -> float:
    """The mean of the midpoints of the first rank and of the last."""
    if not container.ranks:
        return 0.0
    outer = (container.ranks[0], container.ranks[-1])
    ends = [xs for xs in ([plan.x[i] for i in r if i < lane] for r in outer) if xs]
    return sum((min(xs) + max(xs)) / 2 for xs in ends) / len(ends) if ends else 0.0
