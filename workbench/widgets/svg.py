"""A scene as SVG, with the same coordinates as on the canvas, for pages without a kernel."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from workbench.widgets import assets, label, palette
from workbench.widgets.blocks import blocks_of, value_of
from workbench.widgets.color_key import color_key
from workbench.widgets.nodes import Node
from workbench.widgets.overlay import share
from workbench.widgets.picture import Box, Edge, Layout, count_text, edges_of
from workbench.widgets.scale_key import scale_key
from workbench.widgets.scene import (
    CHIP_HEIGHT,
    CHIPS_SHOWN,
    FAMILIES,
    NODE_HEIGHT,
    Scene,
    node_width,
)

MARGIN = 14.0
_LIGHT = {
    "page": "#ffffff", "ink": "#1b1f24", "soft": "#5d6672", "line": "#9aa4b0", "frame": "#b9c1ca",
    "panel": "#47586b", "chip": "#f1f3f5", "selected": palette.SELECTED, "added": palette.ADDED,
    "removed": palette.REMOVED, "changed": palette.CHANGED,
}  # fmt: skip
_DARK = {
    "page": "#16181c", "ink": "#e8eaed", "soft": "#a3acb8", "line": "#66707c", "frame": "#4d5661",
    "panel": "#a9c0e0", "chip": "#262a30", "selected": palette.SELECTED_DARK, "added": palette.ADDED_DARK,
    "removed": palette.REMOVED_DARK, "changed": palette.CHANGED_DARK,
}  # fmt: skip


def summary(scene: Scene, step: int = 0) -> str:
    """A one-line description of a picture."""
    nodes = [scene.versions[v] for v in scene.steps[step]]
    main = [n for n in nodes if n.module == 0]
    made = Counter(n.title for n in main if n.family != "parameter")
    common = ", ".join(f"{k} {v}" for k, v in made.most_common(6))
    name = f"Graph of {label.clipped(scene.title)}" if scene.title else "Graph of a program"
    return f"{name}: {count_text(len(main))}" + (f", most of them {common}" if common else "")


def svg(
    scene: Scene,
    opened: set[str],
    *,
    step: int = 0,
    marks: Mapping[int, str] | None = None,
    theme: str = "auto",
    selected: int | None = None,
    overlay: Mapping[str, Any] | None = None,
    limit: int | None = None,
    shown: set[int] | None = None,
) -> str:
    """The picture of one step.

    Args:
        scene: The scene.
        opened: Keys of the open groups.
        step: The step of the scene.
        marks: ``added``, ``removed`` or ``changed`` by instruction id.
        theme: ``auto`` follows the page, or ``light`` or ``dark``.
        selected: Id of an instruction to ring.
        overlay: An overlay, as `overlay_of` returns it.
        limit: Most boxes to draw. If there are more, groups are closed; then the picture is cut, and says so.
        shown: The slots that a filter shows, or None for all. The picture says how many these are.
    """
    layout = Layout(scene, opened, shown)
    if limit is not None and _boxes(layout, step) > limit:
        fewer = scene.default_open(budget=min(limit, 64)) & opened
        layout = layout if fewer == layout.opened else Layout(scene, fewer, shown)
    return _Writer(layout, step, dict(marks or {}), theme, selected, overlay or {}, limit).text()


def _boxes(layout: Layout, step: int) -> int:
    scene = layout.scene
    return len({layout.shown_as(s) for v in scene.steps[step] if layout.has(s := scene.slots[v])})


class _Writer:
    """Collects the elements of one picture."""

    def __init__(
        self, layout: Layout, step: int, marks: dict[int, str], theme: str,
        selected: int | None, overlay: Mapping[str, Any], limit: int | None,
    ) -> None:  # fmt: skip
        self.layout = layout
        self.scene = scene = layout.scene
        self.marks, self.theme, self.selected = marks, theme, selected
        self.step = step
        self.values: Mapping[str, float | None] = overlay.get("values", {})
        self.overlay = overlay
        drawn = {
            scene.slots[v]: scene.versions[v] for v in scene.steps[step] if scene.slots[v] >= 0
        }
        self.nodes = {slot: node for slot, node in drawn.items() if layout.has(slot)}
        self.left_out = len(drawn) - len(self.nodes)
        self.within = Counter(g for slot in self.nodes for g in layout.graph.chain(slot))
        shown = {self.layout.shown_as(slot) for slot in self.nodes}
        boxes = sorted((self.layout.picture.boxes[i] for i in shown), key=lambda b: (b.y, b.x))
        self.cut = 0 if limit is None else max(0, len(boxes) - limit)
        self.boxes = boxes if not self.cut else boxes[: len(boxes) - self.cut]
        self.width = self.layout.picture.width + 2 * MARGIN
        self.height = self.layout.picture.height + 2 * MARGIN
        if self.cut:
            self.height = max(b.y + b.height for b in self.boxes) + 2 * MARGIN + 24.0
        self.parts: list[str] = []

    def text(self) -> str:
        """The SVG."""
        self._panels()
        kept = {b.item for b in self.boxes}
        for edge in edges_of(self.layout, self.scene.steps[self.step]):
            if edge.start in kept and edge.end in kept:
                self._edge(edge)
        for panel in self.layout.picture.panels:
            self._header(panel)
        for box in self.boxes:
            self._box(box)
        if self.cut:
            rest = f"and {self.cut:,} more boxes that this picture leaves out; the view shows all"
            self.parts.append(
                f'<text class="s" x="0" y="{_n(self.height - 2 * MARGIN - 4)}">{rest}</text>'
            )
        self._notes()
        self._key()
        return self._wrap("".join(self.parts))

    def _notes(self) -> None:
        """A line under the picture where there is nothing to see, or less than all."""
        if self.nodes and not self.left_out:
            return
        said = "This program has no instructions"
        if self.left_out:
            total = len(self.nodes) + self.left_out
            said = f"{len(self.nodes):,} of {total:,} nodes shown"
        y = self.height - 2 * MARGIN + 18.0
        self.parts.append(f'<text class="s" x="0" y="{_n(y)}">{said}</text>')
        self.width = max(self.width, label.text_width(said, label.FACT_SIZE) + 2 * MARGIN)
        self.height += 26.0

    def _count(self, group: int) -> int:
        """The number of instructions in a group, without those that the filter hides."""
        count = self.layout.graph.groups[group].count
        return count if self.layout.shown is None else self.within[group]

    def _wrap(self, body: str) -> str:
        words = summary(self.scene, self.step)
        mark = "wb" + hashlib.sha256(body.encode()).hexdigest()[:8]
        title = escape(label.clipped(self.scene.title) or "program")
        width, height = _n(self.width), _n(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{mark}" role="img" width="{width}" '
            f'height="{height}" viewBox="{_n(-MARGIN)} {_n(-MARGIN)} {width} {height}" '
            f'style="max-width:100%;height:auto" aria-labelledby="{mark}t {mark}d">'
            f'<title id="{mark}t">{title}</title><desc id="{mark}d">{escape(words)}</desc>'
            f"<style>{style(mark, self.theme)}</style>"
            f'<defs><pattern id="{mark}h" width="7" height="7" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(-45)"><path class="hatch" d="M0 3H7" stroke-width="1.5"/>'
            f"</pattern>"
            f'<pattern id="{mark}b" width="7" height="7" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(-45)"><path class="none" d="M0 3H7" stroke-width="1.5"/>'
            f"</pattern></defs>"
            f'<rect class="bg" x="{_n(-MARGIN)}" y="{_n(-MARGIN)}" width="{width}" height="{height}"/>'
            f"{body.replace('url(#hatch)', f'url(#{mark}h)').replace('url(#blank)', f'url(#{mark}b)')}</svg>"
        )

    def _panels(self) -> None:
        for panel in self.layout.picture.panels:
            height = panel.height
            if self.cut:
                height = min(height, self.height - 2 * MARGIN - 24.0 - panel.y)
            if height > 0 and self._alive(panel):
                self.parts.append(_rect("p", panel.x, panel.y, panel.width, height, 8))

    def _alive(self, panel: Box) -> bool:
        if panel.item >= self.layout.slots:
            return True
        return panel.item in self.nodes and bool(self.nodes[panel.item].bodies)

    def _header(self, panel: Box) -> None:
        if self._alive(panel) and panel.y < self.height - 2 * MARGIN - 24.0:
            index = self.layout.group_of(panel.item) or 0
            text = f"▾ {escape(self.layout.graph.groups[index].label)} {self._count(index)}"
            self.parts.append(
                f'<text class="h" x="{_n(panel.x + 8)}" y="{_n(panel.y + 17)}">{text}</text>'
            )

    def _edge(self, edge: Edge) -> None:
        points = edge.points
        way = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
        for k in range(1, len(points)):
            (x0, y0), (x1, y1) = points[k - 1], points[k]
            if k % 2 == 0 or abs(x1 - x0) < 0.5:
                way.append(f"L{_n(x1)} {_n(y1)}")
            elif y1 >= y0:
                middle = _n((y0 + y1) / 2)
                way.append(f"C{_n(x0)} {middle} {_n(x1)} {middle} {_n(x1)} {_n(y1)}")
            else:
                way.append(f"C{_n(x0)} {_n(y0 + 40)} {_n(x1)} {_n(y1 - 40)} {_n(x1)} {_n(y1)}")
        x, y = points[-1]
        self.parts.append(f'<path class="e{" d" if edge.dashed else ""}" d="{"".join(way)}"/>')
        self.parts.append(f'<path class="a" d="M{_n(x)} {_n(y)}l-3.2 -5.5h6.4z"/>')

    def _box(self, box: Box) -> None:
        group = self.layout.group_of(box.item)
        if box.item >= self.layout.slots:
            self._closed(box, group or 0)
        elif box.item in self.nodes and not (box.panel and self.nodes[box.item].bodies):
            node = self.nodes[box.item]
            if box.panel:
                half = node_width(node) / 2
                box = Box(box.item, box.centre - half, box.y, 2 * half, NODE_HEIGHT, box.centre)
            self._node(box, node, group is not None and bool(node.bodies))

    def _closed(self, box: Box, group: int) -> None:
        found = self.layout.graph.groups[group]
        self.parts.append(_rect("g", box.x + 3, box.y + 3, box.width, box.height))
        self.parts.append(_rect("g", box.x, box.y, box.width, box.height))
        if found.times and self.values:
            self._strip(box, group)
        self._words(box.x, box, f"▸ {found.label}", count_text(self._count(group)), "")

    def _strip(self, box: Box, fold: int) -> None:
        """The overlay's colour of each block of a fold, side by side at the bottom of its box."""
        blocks = blocks_of(self.scene, self.scene.steps[self.step], fold)
        width = (box.width - 4) / max(1, len(blocks))
        for k, block in enumerate(blocks):
            value = value_of(self.overlay, block.ids)
            if value is not None:
                color, said = self._colored(None if math.isnan(value) else value)
                x, y = box.x + 2 + k * width, box.y + box.height - 6
                title = f"<title>{escape(f'{block.name}: {said}')}</title>"
                self.parts.append(
                    f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="5" '
                    f'style="fill:{color}">{title}</rect>'
                )

    def _node(self, box: Box, node: Node, opens: bool) -> None:
        width = min(node_width(node), box.width)
        x = box.x + (box.width - width) / 2
        family = FAMILIES.index(node.family) if node.family in FAMILIES else 5
        color, said = self._overlaid(node.id)
        blank = self.overlay.get("values") and not color
        style = f' style="fill:{color}"' if color else ""
        self.parts.append(
            f'<g data-id="{node.id}"><title>{escape(node.text)}\n{escape(node.shape)}</title>'
        )
        if blank:
            self.parts.append(_rect("g", x, box.y, width, box.height))
            self.parts.append(
                _rect("blank", x, box.y, width, box.height, extra=' fill="url(#blank)"')
            )
        else:
            self.parts.append(_rect(f"f{family}", x, box.y, width, box.height, extra=style))
            self.parts.append(_rect(f"b{family}", x, box.y, 4, box.height, 2))
        ink = f' style="fill:{palette.ink_on(color)}"' if color else ""
        self._words(x, box, f"▸ {node.title}" if opens else node.title, said or node.fact, ink)
        self._chips(x + width + 4, box, node)
        self._mark(x, width, box, node)
        self.parts.append("</g>")

    def _words(self, x: float, box: Box, title: str, fact: str, ink: str) -> None:
        middle = box.y + box.height / 2
        two = bool(fact) and box.height > 30
        y = _n(middle - 4 if two else middle + 4)
        self.parts.append(f'<text class="t" x="{_n(x + 12)}" y="{y}"{ink}>{escape(title)}</text>')
        if two:
            self.parts.append(
                f'<text class="s" x="{_n(x + 12)}" y="{_n(middle + 12)}"{ink}>{escape(fact)}</text>'
            )

    def _chips(self, x: float, box: Box, node: Node) -> None:
        shown = node.chips[:CHIPS_SHOWN]
        top = box.y + (box.height - len(shown) * (CHIP_HEIGHT + 3) + 3) / 2
        for k, chip in enumerate(shown):
            more = k == CHIPS_SHOWN - 1 and len(node.chips) > CHIPS_SHOWN
            text = f"{len(node.chips) - k} more" if more else chip.label
            y = top + k * (CHIP_HEIGHT + 3)
            width = label.text_width(text, label.CHIP_SIZE) + 20
            self.parts.append(_rect("c", x, y, width, CHIP_HEIGHT, 4))
            self.parts.append(
                f'<rect class="q" x="{_n(x + 5)}" y="{_n(y + 5)}" width="6" height="6"/>'
            )
            self.parts.append(
                f'<text class="k" x="{_n(x + 14)}" y="{_n(y + 12)}">{escape(text)}</text>'
            )

    def _mark(self, x: float, width: float, box: Box, node: Node) -> None:
        mark = self.marks.get(node.id)
        if mark:
            fill = ' fill="url(#hatch)"' if mark == "removed" else ""
            self.parts.append(_rect(mark, x, box.y, width, box.height, extra=fill))
            self.parts.append(f'<circle class="badge-{mark}" cx="{_n(x)}" cy="{_n(box.y)}" r="8"/>')
            glyph = palette.GLYPHS[mark]
            self.parts.append(
                f'<text class="badge" x="{_n(x)}" y="{_n(box.y + 4.5)}">{glyph}</text>'
            )
        if node.id == self.selected:
            self._ring(x - 4.5, box.y - 4.5, width + 9, box.height + 9)

    def _ring(self, x: float, y: float, width: float, height: float) -> None:
        """The mark of the selection: a line at a distance, with squares at its corners."""
        self.parts.append(_rect("sel", x, y, width, height, 2))
        for cx in (x, x + width):
            for cy in (y, y + height):
                self.parts.append(_rect("corner", cx - 3, cy - 3, 6, 6, 0))

    def _overlaid(self, id: int) -> tuple[str, str]:
        """The colour and the text of the overlay for one node."""
        return self._colored(self.values[str(id)]) if str(id) in self.values else ("", "")

    def _colored(self, value: float | None) -> tuple[str, str]:
        """The colour and the text of a number of the overlay; None is not finite."""
        if value is None:
            return palette.SCALES[self.overlay["scale"]][-1], "not finite"
        tolerance = self.overlay["tolerance"]
        over = " ▲" if tolerance is not None and value > tolerance else ""
        words = f"{number_text(value)} {self.overlay['unit']}".strip() + over
        at = share(self.overlay, value)
        return palette.sample(palette.SCALES[self.overlay["scale"]], at), words

    def _key(self) -> None:
        """The key under the picture: the scale of the overlay, or the families; and the marks."""
        top = self.height - 2 * MARGIN + 12
        drawn = [self.nodes[b.item] for b in self.boxes if b.item in self.nodes]
        families = {n.family for n in drawn} if not self.overlay.get("values") else ()
        marks = {self.marks[n.id] for n in drawn if n.id in self.marks}
        key, width, height = color_key(families, marks, top, self.width - 2 * MARGIN)
        self.parts.append(key)
        self.width, self.height = max(self.width, width + 2 * MARGIN), self.height + height
        if self.overlay.get("values"):
            self._scale(top + height)

    def _scale(self, top: float) -> None:
        blank = any(str(n.id) not in self.values for n in self.nodes.values())
        key, width = scale_key(self.overlay, top, number_text, blank=blank)
        self.parts.append(key)
        self.width, self.height = max(self.width, width + 2 * MARGIN), self.height + 34.0


def number_text(value: float) -> str:
    """Three significant digits, without an exponent from 0.01 to 9,999."""
    size = abs(value)
    if value == 0:
        return "0"
    if size >= 1e4 or size < 0.01:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(size))}f}".rstrip("0").rstrip(".")


def style(mark: str, theme: str) -> str:
    """The rules of the elements of a class ``mark``: in the colours of a theme, or of the page's."""
    light, dark = _variables(_LIGHT, dark=False), _variables(_DARK, dark=True)
    rules = " ".join(assets.svg_rules().replace(".W", f".{mark}").split())
    rules += "".join(
        f".{mark} .f{k}{{fill:var(--f{k})}}.{mark} .b{k}{{fill:{palette.FAMILY_COLORS[f]}}}"
        for k, f in enumerate(FAMILIES)
    )
    if theme == "dark":
        return f".{mark}{{{dark}}}{rules}"
    if theme == "light":
        return f".{mark}{{{light}}}{rules}"
    lab = f'[data-jp-theme-light="false"] .{mark}{{{dark}}}'
    bright = f'[data-jp-theme-light="true"] .{mark}{{{light}}}'
    media = f"@media (prefers-color-scheme: dark){{.{mark}{{{dark}}}}}"
    return f".{mark}{{{light}}}{media}{bright}{lab}{rules}"


def _variables(theme: Mapping[str, str], *, dark: bool) -> str:
    fills = {f"f{k}": palette.fill(f, dark) for k, f in enumerate(FAMILIES)}
    return "".join(f"--{k}:{v};" for k, v in {**theme, **fills}.items())


def _rect(
    name: str, x: float, y: float, width: float, height: float, radius: float = 6, extra: str = ""
) -> str:
    return (
        f'<rect class="{name}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
        f'rx="{_n(radius)}"{extra}/>'
    )


def _n(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0").replace("-0", "-0") if value else "0"
