"""GraphView: a program as a graph in a notebook, and its static forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from workbench.compiler.builds.garbage import lasting
from workbench.widgets import assets, blocks
from workbench.widgets.base_view import BaseView
from workbench.widgets.bookmarks import Bookmark, checked, frame
from workbench.widgets.facts import facts_of
from workbench.widgets.filter import Way, hops_around, path_between, slots_shown
from workbench.widgets.overlay import overlay_of
from workbench.widgets.packing import Ints, inlined, packed
from workbench.widgets.payload import payload
from workbench.widgets.query import Known, find_ids
from workbench.widgets.rows import rows_shown, table_of
from workbench.widgets.scene import OPEN_BUDGET, Scene, scene_of

if TYPE_CHECKING:
    from pandas import DataFrame


def ids_of(items: Any) -> list[int]:
    """Ids of an id, an instruction, or an iterable of these."""
    if items is None:
        return []
    listed = [items] if isinstance(items, int) or hasattr(items, "id") else list(items)
    return [int(getattr(item, "id", item)) for item in listed]


PAGE_TRAITS = (
    "selected", "highlight", "expanded", "overlay", "theme", "height", "camera", "query", "only",
    "hidden", "kernels", "bookmarks",
)  # fmt: skip


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
    query = traitlets.Unicode("").tag(sync=True)
    """The text in the search box; `find` says what it finds."""
    only = traitlets.List(traitlets.Int(), allow_none=True, default_value=None).tag(sync=True)
    """Ids to which the graph is limited, or None for all."""
    hidden = traitlets.List(traitlets.Int()).tag(sync=True)
    """Ids that are hidden."""
    kernels = traitlets.Dict({}).tag(sync=True)
    """The kernel of an instruction by id, for queries with ``kernel:``."""
    bookmarks = traitlets.List().tag(sync=True)
    """Places to come back to: for each the id of an instruction or None, a pass or None, and a note."""

    scene: Scene
    _budget = OPEN_BUDGET
    _remembered: tuple[str, ...] = (
        "selected", "expanded", "camera", "theme", "query", "only", "hidden", "bookmarks",
    )  # fmt: skip

    @traitlets.validate("overlay")
    def _check_overlay(self, proposal: Any) -> dict[str, Any]:
        return overlay_of(proposal["value"], self._instructions())

    @traitlets.validate("bookmarks")
    def _check_bookmarks(self, proposal: Any) -> list[Bookmark]:
        return checked(proposal["value"])

    def _instructions(self) -> Iterable[Any]:
        """Those that an overlay can name."""
        return self.scene.versions

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

    def find(self, query: str) -> list[int]:
        """Find instructions, as the search box does; docs/views.md describes the language.

        Args:
            query: Words, fields and comparisons: ``op:dot ms>0.1 -scope:head``.

        Returns:
            Ids, in the program's order.

        Raises:
            QueryError: The query is wrong; the message says where, and what was expected.
        """
        return find_ids(query, facts_of(self.scene, self._versions()), self._known())

    def isolate(self, ids: Any) -> None:
        """Show only some instructions; edges through hidden ones are dashed.

        Args:
            ids: Ids or instructions, one or many.
        """
        self.only, self.hidden = ids_of(ids), []

    def hide(self, ids: Any) -> None:
        """Hide instructions, in addition to those that are hidden.

        Args:
            ids: Ids or instructions, one or many.
        """
        self.hidden = sorted({*self.hidden, *ids_of(ids)})

    def hops(self, ids: Any, n: int = 1, *, way: Way = "both") -> list[int]:
        """Show only what is within ``n`` edges of some instructions; constants count as no edge.

        Args:
            ids: Ids or instructions, one or many.
            n: The number of edges.
            way: ``in`` for inputs, ``out`` for users, ``both`` for either.

        Returns:
            The ids that are shown.
        """
        if way not in ("in", "out", "both"):
            raise ValueError(f"way is {way!r}, expected in, out or both")
        self.isolate(hops_around(self.scene, self._versions(), ids_of(ids), n, way))
        return list(self.only or ())

    def path(self, a: Any, b: Any) -> list[int]:
        """Show only the paths between two instructions, in whichever direction there are any.

        Args:
            a: Id or instruction.
            b: Id or instruction.

        Returns:
            The ids on the paths. If there are none, the view stays as it is.
        """
        found = path_between(self.scene, self._versions(), ids_of(a)[0], ids_of(b)[0])
        if found:
            self.isolate(found)
        return found

    def show_all(self) -> None:
        """Show all instructions again."""
        self.only, self.hidden = None, []

    def bookmark(self, item: Any = None, note: str = "", *, step: int | None = None) -> None:
        """Remember a place with a note; docs/views.md says where it is shown.

        Args:
            item: Id or instruction; by default the selected one, if no step is given.
            note: What there is to say.
            step: In a pass explorer, the index of a pass.
        """
        found = ids_of(self.selected if item is None and step is None else item)
        if not found and step is None:
            raise ValueError("a bookmark needs an instruction or a pass")
        self.bookmarks = [*self.bookmarks, [found[0] if found else None, step, note]]

    def bookmarks_frame(self) -> DataFrame:
        """The bookmarks as a table: instruction, operation, nodes of the model, pass and note."""
        facts = {fact.id: fact for fact in facts_of(self.scene, self._versions())}
        return frame(self.bookmarks, facts, self._passes())

    def blocks(self, key: str | None = None) -> DataFrame:
        """The blocks of a fold, such as the layers of ``layer.0 … layer.11 × 12``, a row each.

        Args:
            key: The key of the fold, as in `expanded`; not needed if the program has one fold.

        Returns:
            The name and the number of instructions of each block, by its number from 0; and of the overlay's
            numbers the least, the largest and the sum, in columns with the overlay's name and unit.

        Raises:
            ValueError: There is no such fold, or without a key there are several; the message lists them.
        """
        return blocks.frame(self._blocks(key), self.overlay)

    def compare_blocks(self, a: int, b: int, key: str | None = None) -> DataFrame:
        """The instructions in which two blocks of a fold differ by more than names, a row each.

        Args:
            a: The number of a block, from 0; negative ones count from the end.
            b: The number of another block.
            key: The key of the fold; not needed if the program has one fold.

        Returns:
            The operation, the printed names and the nodes of the model of both, in what they differ, the
            largest difference between the elements of their constants, and the overlay's numbers of both.
            Steps of a recording may have changed one block otherwise than another: then an instruction may
            have no counterpart.

        Raises:
            ValueError: There is no such fold.
            IndexError: There is no such block.
        """
        listed = self._blocks(key)
        known = blocks.Known(self.scene, self._versions(), self._rows(), self.overlay)
        for k in (a, b):
            if k not in range(-len(listed), len(listed)):
                raise IndexError(f"no block {k!r}; there are {len(listed)}, from 0")
        return blocks.compared(known, listed[a], listed[b])

    def _blocks(self, key: str | None) -> list[blocks.Block]:
        fold = blocks.fold_of(self.scene, key)
        return blocks.blocks_of(self.scene, self._versions(), fold)

    def _rows(self) -> Mapping[int, Any]:
        """The rows of the program that is shown, by id."""
        raise NotImplementedError(f"{type(self).__name__} has no rows to compare")

    def _passes(self) -> list[str]:
        """The names of the passes that bookmarks can name."""
        return []

    def slots_shown(self) -> set[int] | None:
        """The slots of the scene that the filter shows, or None for all."""
        return slots_shown(self.scene, self.only, self.hidden)

    def _versions(self) -> list[int]:
        """The versions of instructions that are searched, in the program's order."""
        return self.scene.steps[0]

    def _known(self) -> Known:
        kernels = {int(id): str(words) for id, words in self.kernels.items()}
        return Known(overlay=self.overlay or None, kernels=kernels or None)


class GraphView(View):
    """A program or module as a graph: open groups and select instructions, in Python or in the browser.

    Args:
        program_or_module: The program or module.
        highlight: Ids or instructions to mark.
        overlay: Numbers by instruction or node of the model, shown as colours: a mapping, Series or table.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
    """

    entry = "graph_view.js"
    _esm = assets.module(entry)
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
        with lasting():
            self.table = table_of(program_or_module)
            self.scene = scene_of([self.table])
            data = packed(self.columns())
        super().__init__(
            data=data,
            highlight=ids_of(highlight),
            overlay=overlay_of(overlay, self.scene.versions),
            height=height,
            theme=theme,
            state=state,
        )

    def _rows(self) -> Mapping[int, Any]:
        return rows_shown(self.program).instructions

    def columns(self) -> dict[str, Any]:
        """The columns for the browser: the scene, its only step, and the initially open groups."""
        data = payload(self.scene)
        steps = [Ints(step) for step in self.scene.steps]
        return data | {"steps": steps, "open": sorted(self.scene.default_open())}

    def page_data(self) -> dict[str, Any]:
        """All data, for a page without a kernel."""
        return inlined(self.columns())

    def to_svg(self, *, all_nodes: bool = True) -> str:
        """The picture as SVG, with this view's groups open.

        Args:
            all_nodes: Whether to draw all nodes of a large graph; otherwise the picture is cut, and says so.
        """
        from workbench.widgets.svg import svg  # noqa: PLC0415

        return svg(self.scene, self.open_groups(), theme=self.theme, selected=self.selected,
                   overlay=self.overlay, limit=None if all_nodes else 400,
                   shown=self.slots_shown())  # fmt: skip

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with this view in its current state; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        title = self.table.name or "program"
        text = page(self.entry, self.page_values(), title, self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def page_values(self) -> dict[str, Any]:
        """The traits that an offline page has."""
        return {name: getattr(self, name) for name in PAGE_TRAITS} | {"data": self.page_data()}

    def to_dot(self) -> str:
        """The graph in Graphviz's language, with this view's groups open."""
        from workbench.widgets.dot import dot  # noqa: PLC0415

        return dot(self.scene, self.open_groups(), slots=self.slots_shown())

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
                      theme=self.theme, limit=LIMIT, shown=self.slots_shown())  # fmt: skip
        return bundle(super()._repr_mimebundle_(**kwargs), picture, self.summary(), [self])
