"""KernelView: the kernels that a build launches, and the source, module and machine code of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets

from workbench.widgets import assets
from workbench.widgets.base_view import Answer, BaseView
from workbench.widgets.display import is_unattended
from workbench.widgets.graph_view import GraphView
from workbench.widgets.kernel_page import kernels_html, kernels_text
from workbench.widgets.packing import packed

TABS = ("source", "module", "machine", "log", "search")
PAGE_CHARACTERS = 6_000_000
"""Most characters of machine code in one page; the page says what it leaves out."""

_DETAILS = ("source", "log", "assembly")

Row = Mapping[str, Any]


class KernelView(BaseView):
    """A table of kernels to sort and filter, with the source, module, machine code and compile log of one.

    Args:
        rows: A mapping per launch: ``id`` and ``ids`` of the instruction and its parts, ``instruction``,
            ``what``, ``name``, numbers such as ``ms``, ``bytes`` and ``registers`` (None if unknown),
            and the texts ``source``, ``module``, ``log``, ``search`` (empty if nothing was measured) and
            ``assembly``, the last one a function.
        title: The program and the target.
        graph: A view of the compiled program; the two share the selection.
        selected: The id of an instruction whose kernel is shown first; by default the slowest kernel.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
    """

    kernel = traitlets.Int(0).tag(sync=True)
    """Index of the kernel that is shown."""
    tab = traitlets.Enum(TABS, default_value="source").tag(sync=True)
    """The text that is shown: ``source``, ``module``, ``machine``, ``log`` or ``search``."""
    detail = traitlets.Bytes().tag(sync=True)

    _remembered = ("selected", "kernel", "tab", "theme")
    entry = "kernel_view.js"
    _esm = assets.module(entry)
    _css = assets.style()

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        title: str = "",
        graph: GraphView | None = None,
        selected: int | None = None,
        height: int = 560,
        theme: str = "auto",
        state: str = "",
    ) -> None:
        """Show the rows; the texts of a kernel are sent when it is shown."""
        self.rows = list(rows)
        self.title = title
        self.graph = graph
        super().__init__(
            data=packed(self.columns()),
            kernel=slowest(self.rows),
            height=height,
            theme=theme,
        )
        self.observe(self._follow_selection, names=["selected"])
        self.observe(self._follow_kernel, names=["kernel"])
        self.observe(self._tell, names=["kernel", "tab"])
        if graph is not None:
            selected = graph.selected if selected is None else selected
            traitlets.link((self, "selected"), (graph, "selected"))
            graph.kernels = kernel_names(self.rows)
        self.selected = selected
        if state:
            self.state = state
        self._tell(None)

    def columns(self) -> dict[str, Any]:
        """The first message to the browser: everything but the texts of kernels."""
        rows = [{k: v for k, v in row.items() if k not in _DETAILS} for row in self.rows]
        return {"title": self.title, "rows": rows}

    def page_data(self) -> dict[str, Any]:
        """All data, for a page without a kernel."""
        return self.columns() | {"details": list(self._details())}

    def answers(self) -> Iterable[Answer]:
        """The texts of kernels, this one's first, without machine code, which takes long to disassemble."""
        for k in sorted(range(len(self.rows)), key=lambda k: abs(k - self.kernel)):
            yield Answer("kernel", k, "detail", packed(_detail(self.rows[k], machine=False)))

    @traitlets.validate("kernel")
    def _check_kernel(self, proposal: Any) -> int:
        return max(0, min(len(self.rows) - 1, int(proposal["value"])))

    def _follow_selection(self, change: Any) -> None:
        wanted = change["new"]
        if wanted is None or not self.rows or wanted in self.rows[self.kernel]["ids"]:
            return
        found = (k for k, row in enumerate(self.rows) if wanted in row["ids"])
        self.kernel = next(found, self.kernel)

    def _follow_kernel(self, change: Any) -> None:
        row = self.rows[change["new"]]
        if self.selected not in row["ids"]:
            self.selected = row["id"]

    def _tell(self, _change: Any) -> None:
        if self.rows:
            self.detail = packed(_detail(self.rows[self.kernel], self.tab == "machine"))

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with all kernels and their texts; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        names = ("selected", "kernel", "tab", "theme", "height")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values["data"] = self.page_data()
        text = page("kernel_view.js", values, self.title or "kernels", self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _details(self) -> list[dict[str, Any]]:
        """The texts of each kernel, once; machine code up to the page's limit."""
        found: dict[str, dict[str, Any]] = {}
        left = PAGE_CHARACTERS
        for row in self.rows:
            if row["name"] in found:
                continue
            made = _detail(row, left > 0)
            left -= len(made.get("assembly", ""))
            found[row["name"]] = made
        return list(found.values())

    def to_static(self) -> str:
        """The view as HTML without scripts: the table, and the texts of the current kernel."""
        return kernels_html(self.rows, self.kernel, self.title)

    def summary(self) -> str:
        """The view in one line of words."""
        return kernels_text(self.rows, self.title)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with the static form and text beside it."""
        from workbench.widgets.display import html_bundle  # noqa: PLC0415

        widget = super()._repr_mimebundle_(**kwargs)
        return html_bundle(widget, self.to_static(), self.summary(), [self])


def kernel_names(rows: Iterable[Row]) -> dict[str, str]:
    """The names of the kernels that compute each instruction and its parts, by id, one in a line."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for id in {row["id"], *row["ids"]}:
            found.setdefault(str(id), {})[f"{row['name']} {row['what']}"] = None
    return {id: "\n".join(names) for id, names in found.items()}


def slowest(rows: Sequence[Row]) -> int:
    """The index of the slowest kernel, or of the first if no times are known."""
    return max(range(len(rows)), key=lambda k: (rows[k]["ms"] or 0.0, -k), default=0)


def _detail(row: Row, machine: bool) -> dict[str, Any]:
    """The texts of a kernel; machine code is disassembled only on request."""
    found: dict[str, Any] = {name: row[name] for name in ("name", "source", "prologue", "log")}
    if machine:
        found["assembly"] = row["assembly"]()
    return found


class KernelExplorer(ipywidgets.VBox):
    """The graph of a compiled program above its kernels, with a shared selection.

    Args:
        graph: The graph.
        kernels: The kernels, linked with the graph.
    """

    def __init__(self, graph: GraphView, kernels: KernelView) -> None:
        """Stack the two views."""
        self.graph = graph
        self.kernels = kernels
        super().__init__([graph, kernels])

    def open(self) -> None:
        """Open the channel to the browser, unless nobody watches."""
        if not is_unattended():
            super().open()

    @property
    def selected(self) -> int | None:
        """Id of the selected instruction."""
        return self.kernels.selected

    @selected.setter
    def selected(self, id: int | None) -> None:
        self.kernels.selected = id

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Both widgets, with their static forms and text beside them."""
        from workbench.widgets.display import LIMIT, html_bundle  # noqa: PLC0415
        from workbench.widgets.svg import svg  # noqa: PLC0415

        graph = self.graph
        picture = svg(graph.scene, graph.open_groups(), selected=graph.selected,
                      overlay=graph.overlay, theme=graph.theme, limit=LIMIT)  # fmt: skip
        words = f"{graph.summary()}; {self.kernels.summary()}"
        widget = super()._repr_mimebundle_(**kwargs) if self.comm is not None else None
        html = picture + self.kernels.to_static()
        return html_bundle(widget, html, words, [self.graph, self.kernels])


def explorer(
    program: Any,
    rows: Sequence[Row],
    *,
    title: str = "",
    graph_height: int = 320,
    height: int = 480,
    theme: str = "auto",
) -> KernelExplorer:
    """The graph of a compiled program linked with its kernels, whose times colour the graph.

    Args:
        program: The compiled program.
        rows: The kernels, as for `KernelView`.
        title: The program and the target.
        graph_height: Height of the graph in pixels.
        height: Height of the kernels in pixels.
        theme: ``auto``, ``light`` or ``dark``.
    """
    graph = GraphView(program, overlay=times(rows), height=graph_height, theme=theme)
    return KernelExplorer(
        graph, KernelView(rows, title=title, graph=graph, height=height, theme=theme)
    )


def times(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Milliseconds by instruction as an overlay of a graph; None if no times are known."""
    found: dict[int, float] = {}
    for row in rows:
        if row["ms"] is not None:
            found[row["id"]] = found.get(row["id"], 0.0) + row["ms"]
    return {"name": "time", "unit": "ms", "values": found, "total": True} if found else None
