"""PassExplorer: a recording on a timeline, with the graph before and after each pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import traitlets

from workbench.compiler.builds.garbage import lasting
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.text.naming import ids_kept
from workbench.widgets import assets
from workbench.widgets.ahead import Ahead
from workbench.widgets.base_view import Answer, BaseView, embedded
from workbench.widgets.edit_states import StatesWithin
from workbench.widgets.facts import facts_of, told
from workbench.widgets.filter import links, reached, slots_shown
from workbench.widgets.glimpse import Glimpse
from workbench.widgets.graph_view import PAGE_TRAITS, GraphView, View
from workbench.widgets.label import clipped
from workbench.widgets.overlay import overlay_of
from workbench.widgets.packing import inlined, packed
from workbench.widgets.payload import Payload
from workbench.widgets.query import find_ids
from workbench.widgets.steps import Steps, laws

MOST_AHEAD = 16_000_000
"""The bytes of all steps' details from which on no more of them are made ahead."""
AT_ONCE = 0.01
"""Seconds until the rest of a step is made of which a part is shown."""
MOST_LAWS = 6
"""Most laws that are written above a picture."""
SAVED_BOXES, HOPS = 40, 2
"""Instructions that a saved picture shows, about, and the edges from an edit to those around it."""
SAVED_NODES = 7_000
"""Most instructions of a graph that is saved where the whole recording does not fit."""
MARK_WORDS = ("added", "removed", "changed")


class PassExplorer(View):
    """The passes of a recording, one at a time: what each changed, by which rule, and where.

    Args:
        recording: The recording.
        step: The step to show first; by default the first that changed something that is drawn.
        overlay: Numbers by instruction or node of the model, shown as colours: a mapping, Series or table.
        title: The name of what was compiled; by default the program's.
        target: The target.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
        sides: For programs that no pass led to each other: a name for each, in place of "before" and "after".
        build: The build that the recording belongs to; with it, ``why_not`` can be asked in the view.
    """

    step = traitlets.Int(0).tag(sync=True)
    """Index of the step that is shown."""
    edit = traitlets.Int(None, allow_none=True).tag(sync=True)
    """Index of the edit that is shown, within the step: the graphs are those before and after it."""
    detail = traitlets.Bytes().tag(sync=True)
    more = traitlets.List(traitlets.Bytes()).tag(sync=True)
    """What the scene has grown by since it was sent, in parts: states that were laid out since."""
    within = traitlets.Bytes().tag(sync=True)
    """The programs before and after the edit that is shown."""
    asked = traitlets.List(None, allow_none=True).tag(sync=True)
    """Ids of two instructions: `answer` tells why they are not one kernel."""
    answer = traitlets.Dict().tag(sync=True)
    """The answer of ``build.why_not`` to `asked`: its pair and its text, with ids for names."""

    _budget = 600
    _remembered = (*View._remembered, "step", "edit")
    entry = "explorer.js"
    _esm = assets.module(entry)
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
        sides: Sequence[str] = (),
        build: Any = None,
    ) -> None:
        """Lay out all steps; the data of a step is sent when it is shown."""
        self.recording = recording
        self.target, self.sides = str(target), list(sides)
        with lasting():
            self.steps = Steps(recording, step)
            self.scene = self.steps.scene
            self._payload = Payload(self.scene)
            self._made: dict[int, bytes] = {}
            """The details of the steps that were shown, or made ahead."""
            self._parts: list[bytes] = []
            """What the scene has grown by ahead; the browser gets it when it needs it."""
            self.build = build
            self._within = StatesWithin(self.steps)
            self.title = title or self.scene.title
            data = packed(self.columns())
            self._extent = self._payload.extent
        super().__init__(
            data=data,
            step=self.steps.first_visible() if step is None else step,
            overlay=overlay_of(overlay, self._instructions()),
            height=height,
            theme=theme,
            state=state,
        )
        self._ahead = Ahead(self._make_ahead)
        self._send_step(None)
        self._send_edit(None)
        self.observe(self._send_step, names=["step"])
        self.observe(self._send_edit, names=["step", "edit"])
        self.observe(self._answer, names=["asked"])

    def columns(self) -> dict[str, Any]:
        """The first message to the browser: the scene, the timeline, and the open groups."""
        return self._payload.data() | {
            "title": self.title,
            "target": self.target,
            "sides": self.sides,
            "why": self.build is not None,
            "steps": self.steps.overview(),
            "open": sorted(self.scene.default_open(self._budget)),
        }

    def page_data(self) -> dict[str, Any]:
        """All data, for a page without a kernel; the states within passes as far as they fit."""
        with lasting():
            details = [self.steps.detail(k) for k in range(len(self.steps.steps))]
            stored = {} if self.sides else self._within.ask(lambda states: states.stored())
            for k, states in stored.items():
                details[k]["within"] = states
        return inlined(self.columns() | {"details": details, "why": False})

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        return max(0, min(len(self.steps.steps) - 1, int(proposal["value"])))

    def _send_step(self, _change: Any = None) -> None:
        if self.steps.steps:
            first = self._first_part(self.step) if self._ahead.is_possible() else None
            with self.hold_sync():
                self.detail = first or self._packed(self.step)
                self._send_more()
            self._ahead.soon(AT_ONCE if first else None)

    def _first_part(self, step: int) -> bytes | None:
        """The part of a large step outside closed groups, if it is not made yet; the rest comes soon."""
        if step in self._made:
            return None
        with lasting():
            glimpse = Glimpse(self.steps, step, self.open_groups())
            return packed(glimpse.detail()) if glimpse.is_of_use else None

    def _packed(self, step: int) -> bytes:
        """The details of a step; the scene is sent, too, if it has grown since it was."""
        self._make(step)
        self._send_more()
        return self._made[step]

    def _make(self, step: int) -> None:
        if step not in self._made:
            with lasting():
                self._made[step] = packed(self.steps.detail(step))
                self._grow()

    def _grow(self) -> None:
        """Make what the scene has grown by since it was sent."""
        if len(self.scene.versions) > self._extent.versions:
            self._parts.append(packed(self._payload.data(self._extent)))
            self._extent = self._payload.extent

    def _send_more(self) -> None:
        """Send what the scene has grown by since it was sent."""
        self._grow()
        if self._parts:
            self.more = [*self.more, *self._parts]
            self._parts.clear()

    def _make_ahead(self) -> bool:
        """Complete the step that is shown, or make another that changed something, the nearest first.

        Returns:
            Whether more steps are to be made, and may be: their data is bounded.
        """
        if self.step not in self._made:
            with self.hold_sync():
                self.detail = self._packed(self.step)
            return True
        k, steps = self.step, self.steps.steps
        left = [i for i in range(len(steps)) if steps[i].edits and i not in self._made]
        left.sort(key=lambda i: (abs(i - k), i < k))
        if left:
            self._make(left[0])
        return len(left) > 1 and sum(map(len, self._made.values())) < MOST_AHEAD

    def _instructions(self) -> Iterable[Any]:
        """Those of all states, of those that are not laid out yet, too."""
        return (row for rows in self.steps.rows for row in rows.instructions.values())

    def _send_edit(self, _change: Any) -> None:
        """Send the programs before and after the current edit, if there is one."""
        step = self.step
        edits = self.steps.steps[step].edits if self.steps.steps else ()
        if self.edit is None or self.sides or not edits:
            return
        self.steps.shown(step)
        edit = max(0, min(len(edits) - 1, self.edit))
        with self.hold_sync():
            data = self._within.ask(lambda states: states.data(step, edit - 1, edit))
            self._send_more()
            self.within = packed(data)

    def _answer(self, _change: Any) -> None:
        """Say why the two instructions that are asked for are not one kernel."""
        if self.build is None or not self.asked or len(self.asked) != 2:
            return
        with ids_kept():
            try:
                text = self.build.why_not(*self.asked)
            except WorkbenchError as error:
                text = str(error)
        self.answer = {"pair": list(self.asked), "text": text}

    def retire(self) -> None:
        """Close the view and let go of the build and of the states within passes."""
        self._ahead.stop()
        super().retire()
        self.build = None
        vars(self).pop("_within", None)

    def _versions(self) -> list[int]:
        """Those after the current step."""
        return self.scene.steps[self.steps.shown(self.step)[1]]

    def _rows(self) -> Mapping[int, Any]:
        return self.steps.rows[self.steps.at(self.step)[1]].instructions

    def find(self, query: str) -> list[int]:
        """Find instructions after the current pass, then among those that it removed."""
        known = replace(self._known(), **told(self.steps.steps, self.step))
        before, after = (
            find_ids(query, facts_of(self.scene, self.scene.steps[state]), replace(known, marks=m))
            for state, m in zip(self.steps.shown(self.step), self._marks(), strict=True)
        )
        there = {self.scene.versions[v].id for v in self._versions()}
        return [*after, *(id for id in before if id not in there)]

    def _passes(self) -> list[str]:
        return [step.name for step in self.steps.steps]

    def _marks(self) -> list[dict[int, str]]:
        """The marks before and after the current step, by id, in words."""
        if not self.steps.steps:
            return [{}, {}]
        return [
            {id: MARK_WORDS[m] for id, m in marks.items()} for marks in self.steps.marks(self.step)
        ]

    def answers(self) -> Iterable[Answer]:
        """The details of steps: this one's, then of those that changed something, the nearest first."""
        steps = self.steps.steps
        for k in sorted(range(len(steps)), key=lambda k: (not steps[k].edits, abs(k - self.step))):
            if self.steps.is_laid_out(k):
                yield Answer("step", k, "detail", self._packed(k))

    def smaller(self) -> BaseView | None:
        """The graph after this step, unless it is too large as well."""
        if not self.steps.steps or len(self._versions()) > SAVED_NODES:
            return None
        with embedded():
            return GraphView(self.steps.steps[self.step].after, overlay=self.overlay)

    def to_svg(self, *, all_nodes: bool = True) -> str:
        """The graphs before and after the current pass, side by side, with changes marked.

        Args:
            all_nodes: Whether to draw large graphs whole. Otherwise only the surroundings of the changes.
        """
        from workbench.widgets.beside import beside  # noqa: PLC0415
        from workbench.widgets.display import LIMIT  # noqa: PLC0415
        from workbench.widgets.svg import svg  # noqa: PLC0415

        states, shown, opened = self.steps.shown(self.step), self.slots_shown(), self.open_groups()
        if shown is None and not all_nodes and (shown := self._surroundings()):
            opened |= self.scene.around(shown)
        pictures = [
            svg(self.scene, opened, step=state, theme=self.theme, selected=self.selected,
                marks=marks, overlay=self.overlay, limit=None if all_nodes else LIMIT, shown=shown)
            for state, marks in zip(states, self._marks(), strict=True)
        ]  # fmt: skip
        lines = [self.summary(), *self._law_lines()]
        captions = self.sides[self.step : self.step + 2] or ("before", "after")
        return beside(pictures, captions, lines, self.theme)

    def row_svg(self) -> str:
        """All programs in one row: that before the first step and that after each, with differences marked.

        A program has the marks of what it adds to its left neighbour, and of what its right one removes.
        """
        from workbench.widgets.beside import beside  # noqa: PLC0415
        from workbench.widgets.svg import svg  # noqa: PLC0415

        last = len(self.steps.steps)
        found = [self.steps.marks(k) for k in range(last)]
        marked = [
            {**(found[k][0] if k < last else {}), **(found[k - 1][1] if k else {})}
            for k in range(last + 1)
        ]
        states = [self.steps.shown(min(k, last - 1))[k == last] for k in range(last + 1)]
        pictures = [
            svg(self.scene, self.open_groups(), step=state, theme=self.theme, overlay=self.overlay,
                marks={id: MARK_WORDS[m] for id, m in marks.items()}, selected=self.selected)
            for state, marks in zip(states, marked, strict=True)
        ]  # fmt: skip
        names = self.sides or ["start", *self._passes()]
        return beside(pictures, [clipped(name) for name in names], [self.title], self.theme)

    def _surroundings(self) -> set[int] | None:
        """The slots around the chosen edit and those after it while they fit; None for all."""
        states = [self.scene.steps[state] for state in self.steps.shown(self.step)]
        edits = self.steps.steps[self.step].edits if self.steps.steps else ()
        if not edits or max(map(len, states)) <= SAVED_BOXES:
            return None
        ways = [way for versions in states for way in links(self.scene, versions)]
        near = set[int]()
        for edit in sorted(edits, key=lambda e: e.index < (self.edit or 0)):
            more = near.union(*(reached(edit.rows, way, HOPS) for way in ways))
            if near and len(more) > SAVED_BOXES:
                break
            near = more
        return slots_shown(self.scene, near, ())

    def _law_lines(self) -> list[str]:
        """The rules of the current pass: how often each was applied, and its law."""
        found = laws(self.steps.steps[self.step].edits) if self.steps.steps else []
        times = [f" ×{one['count']:,}" if one["count"] > 1 else "" for one in found]
        pairs = list(zip(found, times, strict=True))[:MOST_LAWS]
        said = [f"{one['rule']}{count}: {one['law']}" for one, count in pairs]
        rest = len(found) - len(said)
        return [*said, *([f"and {rest} more rule{'s' * (rest > 1)}"] if rest else [])]

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with all steps of this view; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        names = (*PAGE_TRAITS, "step", "edit")
        values = {name: getattr(self, name) for name in names} | {"data": self.page_data()}
        text = page(self.entry, values, self.title or "passes", self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_dot(self) -> str:
        """The graph after the current pass in Graphviz's language."""
        from workbench.widgets.dot import dot  # noqa: PLC0415

        after = self.steps.shown(self.step)[1]
        return dot(self.scene, self.open_groups(), after, self.slots_shown())

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
        inside = f", inside kernels: {line['inside']:,}" if line["inside"] else ""
        before, after, count = line["before"], line["after"], line["edits"]
        ending = "" if count == 1 else "s"
        if self.sides:
            names = " and ".join(clipped(name) for name in self.sides[self.step : self.step + 2])
            return f"{names}: {before:,} and {after:,} instructions{inside}, {count:,} difference{ending}"
        return (
            f"Pass {self.step + 1} of {len(overview)}, {line['name']}: {before:,} → {after:,} instructions"
            f"{inside}, {count:,} edit{ending}, {line['ms']:.3g} ms"
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with a static picture and text beside it."""
        from workbench.widgets.display import bundle  # noqa: PLC0415

        widget = super()._repr_mimebundle_(**kwargs)
        return bundle(widget, self.to_svg(all_nodes=False), self.summary(), [self])
