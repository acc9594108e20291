"""A scene in DOT, Graphviz's language: open groups as clusters, names escaped."""

from __future__ import annotations

from typing import Any

from workbench.widgets import palette
from workbench.widgets.nodes import Node
from workbench.widgets.picture import Layout, count_text, edges_of
from workbench.widgets.scene import Scene


def quoted(text: str) -> str:
    r"""A DOT string, with quotes and backslashes escaped: a name is never an escape sequence (``\N``)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    return '"' + " ".join(escaped.split("\n")) + '"'


def dot(scene: Scene, opened: set[str], step: int = 0, slots: set[int] | None = None) -> str:
    """The graph of one step as DOT; ``slots`` are those that a filter shows, None for all."""
    layout = Layout(scene, opened, slots)
    shown = {
        scene.slots[v]: scene.versions[v] for v in scene.steps[step] if layout.has(scene.slots[v])
    }
    lines = [
        "digraph program {",
        f"  label={quoted(scene.title)}; rankdir=TB; nslimit=1; bgcolor=transparent;",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11, height=0.3];',
        '  edge [color="#7a8591", arrowsize=0.6];',
    ]
    lines += _cluster(layout, shown, -1, "  ")
    for edge in edges_of(layout, scene.steps[step]):
        style = " [style=dashed]" if edge.dashed else ""
        lines.append(f"  i{edge.start} -> i{edge.end}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(layout: Layout, shown: dict[int, Node], container: int, indent: str) -> list[str]:
    """The children of a container: nodes and closed groups as nodes, open groups as clusters."""
    lines: list[str] = []
    for items in layout.scene.order.container(container + 1).ranks:
        for item in items:
            if item >= layout.first_lane or (item < layout.slots and item not in shown):
                continue
            group = layout.group_of(item)
            if group is None or not layout.is_open(group):
                lines.append(indent + _node(layout, shown, item))
                continue
            name = layout.graph.groups[group].label
            lines.append(
                f"{indent}subgraph cluster_{group} {{ label={quoted(name)}; style=rounded;"
            )
            lines.append(f'{indent}  color="#9aa4b0"; fontname="Helvetica"; fontsize=10;')
            if item < layout.slots:
                lines.append(f"{indent}  {_node(layout, shown, item)}")
            lines += _cluster(layout, shown, group, indent + "  ")
            lines.append(indent + "}")
    return lines


def _node(layout: Layout, shown: dict[int, Node], item: int) -> str:
    if item >= layout.slots:
        group = layout.graph.groups[item - layout.slots]
        text = f'{quoted(group.label)[:-1]}\\n{count_text(group.count)}"'
        return f'i{item} [label={text}, fillcolor="#f1f3f5", color="#5d6672", peripheries=2];'
    node = shown[item]
    chips = [f"[{c.label}]" for c in node.chips[:3]]
    lines = [quoted(t)[1:-1] for t in (node.title, node.fact, " ".join(chips)) if t]
    label = '"' + "\\n".join(lines) + '"'
    fill, line = palette.fill(node.family), palette.FAMILY_COLORS.get(node.family, "#5d6672")
    return (
        f'i{item} [label={label}, tooltip={quoted(node.text)}, fillcolor="{fill}", color="{line}"];'
    )


def graphviz_of(source: str) -> Any:
    """DOT as an object of the ``graphviz`` package.

    Raises:
        ImportError: The package is not installed; the message says what to do.
    """
    try:
        import graphviz  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "to_graphviz() needs the graphviz package (pip install graphviz); to_dot() gives the text"
        ) from error
    return graphviz.Source(source)
