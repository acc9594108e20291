"""PassExplorer: a recording on a timeline, with the graph before and after each pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import traitlets

from workbench.widgets import assets
from workbench.widgets.graph_view import View
from workbench.widgets.overlay import overlay_of
from workbench.widgets.packing import inlined, packed
from workbench.widgets.payload import payload
from workbench.widgets.steps import Steps

_WORDS = ("added", "removed", "changed")


class PassExplorer(View):
    """The passes of a recording, one at a time: what each changed, by which rule, and where.

    Args:
        recording: The recording.
        step: The step to show first; by default the first that changed something.
        overlay: Numbers by instruction id, shown as colours.
        title: The name of what was compiled; by default the program's.
        target: The target.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
    """

    step = traitlets.Int(0).tag(sync=True)
    """Index of the step that is shown."""
    edit = traitlets.Int(None, allow_none=True).tag(sync=True)
    """Index of the edit that is shown, within the step."""
    detail = traitlets.Bytes().tag(sync=True)

    _budget = 600
    _remembered = ("selected", "step", "edit", "expanded", "camera", "theme")
    _esm = assets.module("explorer.js")
    _css = assets.style()

    def __init__(
        self,
        recording: Any,
        *,
        step: int | None = None,
        overlay: Any = None,
        title: str = "",
        target: str = "",
        height: int = 720,
        theme: str = "auto",
        state: str = "",
    ) -> None:
        """Lay out all steps; the data of a step is sent when it is shown."""
        self.recording = recording
        self.steps = Steps(recording)
        self.scene = self.steps.scene
        self.title = title or self.scene.title
        self.target = str(target)
        super().__init__(
            data=packed(self.columns()),
            step=self.steps.first_changed() if step is None else step,
            overlay=overlay_of(overlay),
            height=height,
            theme=theme,
            state=state,
        )
        self._send_step(None)
        self.observe(self._send_step, names=["step"])

    def columns(self) -> dict[str, Any]:
        """The first message to the browser: the scene, the timeline, and the open groups."""
        return payload(self.scene) | {
            "title": self.title,
            "target": self.target,
            "steps": self.steps.overview(),
            "open": sorted(self.scene.default_open(self._budget)),
        }

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        return max(0, min(len(self.steps.steps) - 1, int(proposal["value"])))

    def _send_step(self, _change: Any) -> None:
        if self.steps.steps:
            self.detail = packed(self.steps.detail(self.step))

    def to_svg(self, *, all_nodes: bool = True) -> str:
        """The graphs before and after the current pass, side by side, with changes marked."""
        from workbench.widgets.svg import beside, svg  # noqa: PLC0415

        states = self.steps.at(self.step)
        pictures = [
            svg(self.scene, self.open_groups(), step=state, theme=self.theme, selected=self.selected,
                marks={id: _WORDS[m] for id, m in marks.items()}, overlay=self.overlay,
                limit=None if all_nodes else 250)
            for state, marks in zip(states, self.steps.marks(self.step), strict=True)
        ]  # fmt: skip
        return beside(pictures, self.summary())

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with all steps of this view; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        names = (
            "selected",
            "highlight",
            "expanded",
            "overlay",
            "theme",
            "height",
            "camera",
            "step",
            "edit",
        )
        details = [self.steps.detail(k) for k in range(len(self.steps.steps))]
        values = {name: getattr(self, name) for name in names}
        values["data"] = inlined(self.columns() | {"details": details})
        text = page("explorer.js", values, self.title or "passes", self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_dot(self) -> str:
        """The graph after the current pass in Graphviz's language."""
        from workbench.widgets.dot import dot  # noqa: PLC0415

        return dot(self.scene, self.open_groups(), self.steps.at(self.step)[1])

    def to_graphviz(self) -> Any:
        """The graph after the current pass as a `graphviz.Source`."""
        from workbench.widgets.dot import graphviz_of  # noqa: PLC0415

        return graphviz_of(self.to_dot())

    def summary(self) -> str:
        """The current step in one line of words."""
        overview = self.steps.overview()
        if not overview:
            return "A recording without steps"
        line = overview[self.step]
        lowered = getattr(self.steps.steps[self.step], "lowered", None)
        if lowered is not None:
            return f"Pass {self.step + 1} of {len(overview)}, {line['name']}: {lowered.summary}"
        return (
            f"Pass {self.step + 1} of {len(overview)}, {line['name']}: {line['before']:,} → "
            f"{line['after']:,} instructions, {line['edits']:,} edits, {line['ms']:.3g} ms"
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with a static picture and text beside it."""
        from workbench.widgets.display import bundle  # noqa: PLC0415

        return bundle(
            super()._repr_mimebundle_(**kwargs), self.to_svg(all_nodes=False), self.summary()
        )
