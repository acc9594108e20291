"""A picture: boxes and edges of a scene with some groups open, for the SVG; the canvas has the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.widgets import label
from workbench.widgets.filter import through_hidden
from workbench.widgets.order import Container
from workbench.widgets.place import HEADER, PADDING, Plan, Size, place
from workbench.widgets.scene import NODE_HEIGHT, Scene

Point = tuple[float, float]


@dataclass
class Box:
    """A rectangle on the page: of a slot, of a closed group, or of an open panel."""

    item: int
    x: float
    y: float
    width: float
    height: float
    centre: float
    panel: bool = False
    depth: int = 0


@dataclass
class Lane:
    """The point where an edge passes a rank."""

    x: float
    top: float
    bottom: float


@dataclass
class Picture:
    """Boxes by item, open panels from the outside in, and the page's size."""

    boxes: dict[int, Box] = field(default_factory=dict[int, Box])
    panels: list[Box] = field(default_factory=list[Box])
    lanes: dict[int, Lane] = field(default_factory=dict[int, Lane])
    width: float = 0.0
    height: float = 0.0


class Layout:
    """Lays out a scene's slots and groups, given the open groups."""

    def __init__(self, scene: Scene, opened: Iterable[str], shown: set[int] | None = None) -> None:
        """Lay out all slots, or only those that are shown."""
        self.scene = scene
        self.shown = shown
        self.used = None if shown is None else self._used(scene, shown)
        self.graph = scene.graph
        self.opened = set(opened)
        self.slots = len(scene.graph.paths)
        self.first_lane = self.slots + len(scene.graph.groups)
        self.plans: dict[int, Plan] = {}
        self.sizes = [*scene.sizes, *(closed_size(g.label, g.count) for g in scene.graph.groups)]
        self.rank = scene.order.rank
        self.picture = self._draw()

    @staticmethod
    def _used(scene: Scene, shown: set[int]) -> set[int]:
        """The shown slots, and the groups around them."""
        groups, slots = scene.graph.groups, len(scene.graph.paths)
        around = {g for slot in shown for g in scene.graph.chain(slot)}
        return shown | {slots + g if groups[g].slot < 0 else groups[g].slot for g in around}

    def _content(self, container: int) -> Container:
        """A container's children that have places: used items, and the lanes of edges from them."""
        whole, used = self.scene.order.container(container + 1), self.used
        if used is None:
            return whole

        def lives(item: int) -> bool:
            key = item
            if item >= self.first_lane:
                key = self.scene.order.lanes[item - self.first_lane].key
            return (-1 - key if key < 0 else key) in used

        ties = [(a, b) for a, b in whole.ties if lives(a) and lives(b)]
        return Container([[i for i in items if lives(i)] for items in whole.ranks], ties)

    def has(self, slot: int) -> bool:
        """Whether a slot is drawn, by itself or in a closed group."""
        return slot >= 0 and (self.shown is None or slot in self.shown)

    def is_open(self, group: int) -> bool:
        """Whether a group is open."""
        return self.graph.groups[group].key in self.opened

    def item_of(self, group: int) -> int:
        """The item that represents a group in its parent: itself, or a body's owner."""
        owner = self.graph.groups[group].slot
        return self.slots + group if owner < 0 else owner

    def parent_of(self, item: int) -> int:
        """The group that an item is in, or -1."""
        if item < self.slots:
            return self.graph.parent[item]
        return self.graph.groups[item - self.slots].parent

    def group_of(self, item: int) -> int | None:
        """The group that an item opens into, if it does."""
        return item - self.slots if item >= self.slots else self.scene.bodies.get(item)

    def shown_as(self, slot: int) -> int:
        """The visible item of a slot: itself, or the outermost closed group around it."""
        seen = slot
        for group in self.graph.chain(slot):
            if not self.is_open(group):
                seen = self.item_of(group)
        return seen

    def _measure(self, container: int) -> Plan:
        """The plan of a container, its open children measured first."""
        content = self._content(container)
        for items in content.ranks:
            for item in items:
                group = self.group_of(item) if item < self.first_lane else None
                if group is not None and self.is_open(group):
                    self.sizes[item] = self._panel_size(group)
        plan = place(content, self.sizes, self.first_lane)
        self.plans[container] = plan
        return plan

    def _panel_size(self, group: int) -> Size:
        plan = self._measure(group)
        spare = max(0.0, header_width(self.graph.groups[group].label) - plan.width) / 2 + PADDING
        left, right = plan.spine + spare, plan.width - plan.spine + spare
        return Size(left, right, plan.height + HEADER + PADDING)

    def _draw(self) -> Picture:
        picture = Picture()
        plan = self._measure(-1)
        picture.width, picture.height = plan.width, plan.height
        self._put(picture, -1, 0.0, 0.0, 0)
        return picture

    def _put(self, picture: Picture, container: int, left: float, top: float, depth: int) -> None:
        plan = self.plans[container]
        for item, centre in plan.x.items():
            x, y = left + centre, top + plan.y[item]
            if item >= self.first_lane:
                band = plan.bands[self.rank[item]]
                picture.lanes[item] = Lane(x, top + band[0], top + band[1])
                continue
            size, group = self.sizes[item], self.group_of(item)
            box = Box(item, x - size.left, y, size.left * 2, size.height, x)
            picture.boxes[item] = box
            if group is not None and self.is_open(group):
                box.width, box.panel, box.depth = size.left + size.right, True, depth
                picture.panels.append(box)
                spine = self.plans[group].spine
                self._put(picture, group, x - spine, y + HEADER, depth + 1)

    def route(self, source: int, start: int, end: int) -> list[Lane]:
        """The lanes of an edge from a slot, between the visible items of its ends."""
        up, down = self._climb(start), self._climb(end)
        inside = {container for container, _ in down}
        found: list[int] = []
        for container, child in up:
            last = dict(down)[container] if container in inside else None
            found += self._along(container, child, None if last is None else self.rank[last])
            if last is not None:
                common = container
                break
        else:
            return []
        for container, child in reversed(down[: [c for c, _ in down].index(common)]):
            found += self._along(container, -1 - source, self.rank[child])
        return [self.picture.lanes[i] for i in found if i in self.picture.lanes]

    def _climb(self, item: int) -> list[tuple[int, int]]:
        """The containers around an item, innermost first, each with its child that holds the item."""
        found: list[tuple[int, int]] = []
        while True:
            container = self.parent_of(item)
            found.append((container, item))
            if container < 0:
                return found
            item = self.item_of(container)

    def _along(self, container: int, key: int, before: int | None) -> list[int]:
        lanes = self.scene.order.through.get((container, key), ())
        return [i for i in lanes if before is None or self.rank[i] < before]


def closed_size(name: str, count: int) -> Size:
    """The size of a closed group: room for its name and its count."""
    text = max(
        label.text_width(name, label.TITLE_SIZE) * label.BOLD + 18.0,
        label.text_width(count_text(count), label.FACT_SIZE),
    )
    half = min(320.0, max(80.0, 4.0 * round((text + 34.0) / 4.0))) / 2
    return Size(half, half, NODE_HEIGHT)


def header_width(name: str) -> float:
    """Room that the header of an open panel needs."""
    return label.text_width(name, label.FACT_SIZE) + 60.0


def count_text(count: int) -> str:
    """``12 instructions``."""
    return f"{count:,} instruction" + ("" if count == 1 else "s")


@dataclass
class Edge:
    """The path from the item that makes a value to an item that uses it."""

    source: int
    user: int
    start: int
    end: int
    points: list[Point]
    """The start, two points per lane, and the end; lanes are straight, curves join them."""
    dashed: bool = False
    """Whether it passes through hidden instructions."""


def edges_of(layout: Layout, step: list[int]) -> list[Edge]:
    """The distinct edges of one step between visible items; their ends are spread over the user's top."""
    scene = layout.scene
    slot_of = {scene.versions[v].id: scene.slots[v] for v in step if scene.slots[v] >= 0}
    home = {scene.versions[v].id: scene.versions[v].module for v in step}
    hidden = {} if layout.shown is None else through_hidden(scene, step, layout.shown)
    found: dict[tuple[int, int, int], Edge] = {}
    for version in step:
        node = scene.versions[version]
        if not layout.has(scene.slots[version]):
            continue
        end = layout.shown_as(scene.slots[version])
        direct = [(source, False) for source in node.inputs if source not in hidden]
        distant = [(above, True) for source in node.inputs for above in hidden.get(source, ())]
        for source, dashed in (*direct, *distant):
            slot = slot_of.get(source, -1)
            if slot < 0 or home[source] != node.module:
                continue
            start = layout.shown_as(slot)
            if start != end and (slot, start, end) not in found:
                found[slot, start, end] = Edge(source, node.id, start, end, [], dashed)
    opens = {scene.slots[v]: bool(scene.versions[v].bodies) for v in step}
    _trace(layout, found, opens)
    return list(found.values())


def _trace(layout: Layout, found: dict[tuple[int, int, int], Edge], opens: dict[int, bool]) -> None:
    boxes = layout.picture.boxes
    arriving: dict[int, list[Edge]] = {}
    for (slot, start, end), edge in found.items():
        box = boxes[start]
        small = box.panel and start == slot and not opens[slot]
        edge.points = [(box.centre, box.y + (NODE_HEIGHT if small else box.height))]
        for lane in layout.route(slot, start, end):
            edge.points += [(lane.x, lane.top), (lane.x, lane.bottom)]
        arriving.setdefault(end, []).append(edge)
    for end, edges in arriving.items():
        box = boxes[end]
        edges.sort(key=lambda e: e.points[-1][0])
        gap = min(16.0, box.width * 0.6 / len(edges))
        for k, edge in enumerate(edges):
            shift = (k - (len(edges) - 1) / 2) * gap
            edge.points.append((box.centre + shift, box.y))
