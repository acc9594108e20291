"""ReportView: the graph of a comparison, coloured by error; kernels open, and values are looked into."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.compiler.errors import WorkbenchError
from workbench.widgets import assets
from workbench.widgets.graph_view import GraphView
from workbench.widgets.packing import inlined, packed
from workbench.widgets.state import read_state
from workbench.widgets.tensor_traits import TensorTraits, data_of


class ReportView(TensorTraits, GraphView):
    """The graph of a build, coloured by error on a log scale; it opens on the culprit.

    The inspector has the numbers of the selected value, and shows both tensors below the graph. A kernel
    opens like a module: what is inside is evaluated then, and coloured by its own error.

    Args:
        report: A report of `wb.compare`.
        local: Colour by the errors of each kernel alone.
        overlay: Other numbers by instruction id, shown as colours.
        options: Those of ``GraphView``.
    """

    inspected = traitlets.Int(None, allow_none=True).tag(sync=True)
    """Id of the instruction whose values are shown below the graph, or None."""
    values = traitlets.Bytes().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True)
    """The numbers of what was evaluated inside fused kernels, by id."""

    _remembered = (*GraphView._remembered, "inspected", "slice", "at", "layer")
    entry = "report_view.js"
    _esm = assets.module(entry)

    def __init__(
        self,
        report: Any,
        *,
        local: bool = False,
        overlay: Any = None,
        height: int = 560,
        state: str = "",
        **options: Any,
    ) -> None:
        """Colour the graph, and select the first culprit; one that is known inside is opened."""
        self.report: Any = report
        self._facts: dict[int, Any] = report.facts()
        colors: dict[str, Any] = {
            "name": "local relative RMS" if local else "relative RMS", "scale": "magma",
            "tolerance": report.tolerance, "values": report.overlay(local=local),
        }  # fmt: skip
        super().__init__(report.program, overlay=overlay or colors, height=height, **options)
        self._colored = overlay is None
        self._open_culprit()
        self.observe(self._look_inside, names=["expanded"])
        self.observe(self._load_values, names=["inspected"])
        if state:
            self.state = state

    def _open_culprit(self) -> None:
        shown = next((c for c in self.report.culprits() if self.table.node(c.id)), None)
        if shown is None:
            return
        if self.selected is None:
            self.selected = shown.id
        around = self._around(shown.part.id) if shown.part is not None else set[str]()
        opened: Any = self.expanded
        if around and opened is None:
            self._tell_parts([shown.id])
            self.expanded = sorted({*self.open_groups(), *around})

    def _around(self, id: int) -> set[str]:
        """The keys of the bodies around an instruction."""
        owners = {m: n for n in self.table.nodes.values() for m in n.bodies}
        node, found = self.table.node(id), set[str]()
        while node is not None and (node := owners.get(node.module)) is not None:
            found.add(f"@{node.id}")
        return found & self.scene.openable()

    def columns(self) -> dict[str, Any]:
        """The columns of the graph, and the numbers of each row."""
        facts = {str(k): v for k, v in self._facts.items()}
        return super().columns() | {"facts": facts, "live": self.report.is_live}

    def retire(self) -> None:
        """Close the view and let go of the report."""
        super().retire()
        self.report = self.tensor = None

    # Inside kernels

    def _look_inside(self, _change: Any) -> None:
        """Evaluate what is inside the kernels that were opened."""
        opened = [int(k[1:]) for k in self.open_groups() if k.startswith("@") and k[1:].isdecimal()]
        if self.report is not None:
            self._tell_parts([id for id in opened if id in self._facts])

    def _tell_parts(self, ids: list[int]) -> None:
        """Add the numbers and the colours of what is inside kernels."""
        fresh = [id for id in ids if not any(self._is_in(id, k) for k in self.parts)]
        if not fresh:
            return
        try:
            found = self.report.facts_inside(fresh)
        except WorkbenchError as error:
            found = {id: {"said": [str(error)], "rows": []} for id in self._inner(fresh)}
        more = {k: v.pop("error") for k, v in found.items() if "error" in v}
        self.parts = {**self.parts, **{str(k): v for k, v in found.items()}}
        if self._colored:
            colors: dict[str, Any] = dict(self.overlay)
            self.overlay = colors | {"values": {**colors["values"], **more}}

    def _is_in(self, id: int, part: str) -> bool:
        node, owner = self.table.node(int(part)), self.table.node(id)
        return node is not None and owner is not None and node.module in owner.bodies

    def _inner(self, ids: list[int]) -> list[int]:
        """Ids of what is directly inside some instructions."""
        bodies = {m for id in ids if (n := self.table.node(id)) for m in n.bodies}
        return [k for k, n in self.table.nodes.items() if n.module in bodies]

    # Values

    def _load_values(self, _change: Any) -> None:
        """Run both sides once more for the value that is asked for; its worst slice is shown."""
        self.tensor = None
        self.slice = self.at = ""
        if self.inspected is None or self.report is None:
            self.values = self.detail = b""
            return
        try:
            tensor = self.report.inspect(self.inspected)
        except WorkbenchError as error:
            self.values = packed({"error": str(error)})
            return
        self.inspect_tensor(tensor)
        self.values = packed(data_of(tensor))

    def _read_state(self, change: Any) -> None:
        super()._read_state(change)
        for name in ("slice", "at"):  # now that there is a tensor that they can be of
            setattr(self, name, read_state(change["new"]).get(name, ""))

    # Forms

    def page_data(self) -> dict[str, Any]:
        """All data, for a page without a kernel."""
        return inlined(self.columns() | {"stored": True})

    def page_values(self) -> dict[str, Any]:
        """The traits of an offline page: with the parts of the first culprits, and the shown values."""
        if self.report.is_live:
            self._tell_parts([c.id for c in self.report.culprits()[:3] if c.id in self._facts])
        names = ("inspected", "slice", "at", "layer", "parts")
        found = super().page_values() | {name: getattr(self, name) for name in names}
        if self.tensor is not None:
            found |= {"values": data_of(self.tensor) | {"stored": True}, "detail": self.shown()}
        return found
