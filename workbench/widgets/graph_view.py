"""GraphView: a program as a graph in a notebook, and its static forms."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import traitlets

from workbench.compiler.builds.garbage import rarely_collected
from workbench.widgets import assets
from workbench.widgets.base_view import BaseView
from workbench.widgets.overlay import overlay_of
from workbench.widgets.packing import Ints, inlined, packed
from workbench.widgets.payload import payload
from workbench.widgets.rows import table_of
from workbench.widgets.scene import OPEN_BUDGET, Scene, scene_of


def ids_of(items: Any) -> list[int]:
    """Ids of an id, an instruction, or an iterable of these."""
    if items is None:
        return []
    listed = [items] if isinstance(items, int) or hasattr(items, "id") else list(items)
    return [int(getattr(item, "id", item)) for item in listed]


class View(BaseView):
    """The base of graph views: marks, open groups, overlay and camera."""

    highlight = traitlets.List(traitlets.Int()).tag(sync=True)
    """Marked ids."""
    expanded = traitlets.List(traitlets.Unicode(), allow_none=True, default_value=None).tag(
        sync=True
    )
    """Keys of the open groups: scope paths, and ``@id`` for the body of an instruction."""
    overlay = traitlets.Any({}).tag(sync=True)
    """A number per instruction, shown as colour; see `workbench.widgets.overlay.overlay_of`."""
    camera = traitlets.Unicode("").tag(sync=True)
    """Left, top and zoom in the browser."""

    scene: Scene
    _budget = OPEN_BUDGET
    _remembered: tuple[str, ...] = ("selected", "expanded", "camera", "theme")

    @traitlets.validate("overlay")
    def _check_overlay(self, proposal: Any) -> dict[str, Any]:
        return overlay_of(proposal["value"])

    def open_groups(self) -> set[str]:
        """The keys of the open groups."""
        opened: Any = self.expanded
        return self.scene.default_open(self._budget) if opened is None else set(opened)

    def select(self, ids: Any = None) -> None:
        """Select an instruction and mark others.

        Args:
            ids: Ids or instructions, one or many; the first is selected, all are marked. None clears both.
        """
        found = ids_of(ids)
        self.highlight = found if len(found) > 1 else []
        self.selected = found[0] if found else None


class GraphView(View):
    """A program or module as a graph: open groups and select instructions, in Python or in the browser.

    Args:
        program_or_module: The program or module.
        highlight: Ids or instructions to mark.
        overlay: Numbers by instruction id, shown as colours.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
    """

    _esm = assets.module("graph_view.js")
    _css = assets.style()

    def __init__(
        self,
        program_or_module: Any,
        *,
        highlight: Iterable[Any] | None = None,
        overlay: Any = None,
        height: int = 480,
        theme: str = "auto",
        state: str = "",
    ) -> None:
        """Lay out the program; drawing waits until the view is shown."""
        self.program = program_or_module
        with rarely_collected():
            self.table = table_of(program_or_module)
            self.scene = scene_of([self.table])
            data = packed(self.columns())
        super().__init__(
            data=data,
            highlight=ids_of(highlight),
            overlay=overlay_of(overlay),
            height=height,
            theme=theme,
            state=state,
        )

    def columns(self) -> dict[str, Any]:
        """The columns for the browser: the scene, its only step, and the initially open groups."""
        data = payload(self.scene)
        steps = [Ints(step) for step in self.scene.steps]
        return data | {"steps": steps, "open": sorted(self.scene.default_open())}

    def to_svg(self, *, all_nodes: bool = True) -> str:
        """The picture as SVG, with this view's groups open.

        Args:
            all_nodes: Whether to draw all nodes of a large graph; otherwise the picture is cut, and says so.
        """
        from workbench.widgets.svg import svg  # noqa: PLC0415

        return svg(self.scene, self.open_groups(), theme=self.theme, selected=self.selected,
                   overlay=self.overlay, limit=None if all_nodes else 400)  # fmt: skip

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with this view in its current state; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        names = ("selected", "highlight", "expanded", "overlay", "theme", "height", "camera")
        values = {name: getattr(self, name) for name in names} | {"data": inlined(self.columns())}
        title = self.table.name or "program"
        text = page("graph_view.js", values, title, self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_dot(self) -> str:
        """The graph in Graphviz's language, with this view's groups open."""
        from workbench.widgets.dot import dot  # noqa: PLC0415

        return dot(self.scene, self.open_groups())

    def to_graphviz(self) -> Any:
        """The graph as a `graphviz.Source`, which renders itself if Graphviz is installed."""
        from workbench.widgets.dot import graphviz_of  # noqa: PLC0415

        return graphviz_of(self.to_dot())

    def summary(self) -> str:
        """The view in one line of words."""
        from workbench.widgets.svg import summary  # noqa: PLC0415

        return summary(self.scene)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with a static picture and text beside it."""
        return self.bundle(**kwargs)

    def bundle(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The notebook output of this view: the widget, a picture of bounded size, and text."""
        from workbench.widgets.display import LIMIT, bundle  # noqa: PLC0415
        from workbench.widgets.svg import svg  # noqa: PLC0415

        picture = svg(self.scene, self.open_groups(), selected=self.selected, overlay=self.overlay,
                      theme=self.theme, limit=LIMIT)  # fmt: skip
        return bundle(super()._repr_mimebundle_(**kwargs), picture, self.summary())
