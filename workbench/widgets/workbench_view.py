"""Workbench: a program, its builds and everything known of them in one widget, over one selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from workbench.compiler import showing
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.targets import all_targets
from workbench.compiler.errors import OperationError, WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.compiler.report.result import Result
from workbench.widgets import assets
from workbench.widgets.base_view import Answer, BaseView, embedded
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.graph_view import GraphView
from workbench.widgets.kernel_view import KernelView
from workbench.widgets.label import clipped
from workbench.widgets.overlay import overlay_of
from workbench.widgets.packing import packed
from workbench.widgets.session import tables
from workbench.widgets.session.session import ACTIONS, AGAIN, Session
from workbench.widgets.session.settings import PRECISIONS, Settings, switches
from workbench.widgets.session.shading import SHADES, shading
from workbench.widgets.session.task import Stopped, Task, in_kernel
from workbench.widgets.state import LETTERS

VIEWS: dict[str, type[BaseView]] = {
    "graph": GraphView,
    "passes": PassExplorer,
    "kernels": KernelView,
}
"""The panes that are views which also stand alone; their traits have the pane's name before them."""
TABLES = ("timings", "memory", "numbers", "lint", "builds")
"""The panes that are tables."""
SAVED_PASSES = 500
"""Most instructions of a program whose passes are laid out to be saved, though nobody looked at them."""
PANES = (*VIEWS, *TABLES)
_SHARED = {"selected", "theme", "height", "overlay", "bookmarks"}


def _own(view: type[BaseView]) -> list[str]:
    """The synchronised traits of a view that its pane has for itself."""
    common = {*anywidget.AnyWidget.class_trait_names(sync=True), *_SHARED}
    return [name for name in view.class_trait_names(sync=True) if name not in common]


def _trait(default: Any = None) -> Any:
    return traitlets.Any(default).tag(sync=True)


def _part(view: type[BaseView], name: str) -> Any:
    """The trait of a pane that stands for one of its view's; None until the view is there."""
    trait = view.class_traits()[name]
    if isinstance(trait, traitlets.Enum):
        return traitlets.Enum(trait.values, default_value=None, allow_none=True).tag(sync=True)
    return _trait()


_PARTS = {f"{p}_{name}": _part(view, name) for p, view in VIEWS.items() for name in _own(view)}
_Parts: Any = type("_Parts", (BaseView,), _PARTS)


class Workbench(_Parts):
    """The whole workbench: settings on the left, panes over one selection, actions with progress above them.

    Args:
        program: The program; or a build, which is opened as it is.
        source: The code that makes the program, for "copy as code".
        settings: Settings that differ from the usual ones: ``target``, ``device``, ``precision``, ``off``,
            ``order``, ``seed``, ``inputs``.
        title: The name of the program; by default its own.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.

    Raises:
        OperationError: A setting is unknown, or its value is.
    """

    pane = traitlets.Enum(PANES, default_value="graph").tag(sync=True)
    """The pane that is open."""
    shade = traitlets.Enum(SHADES, default_value="").tag(sync=True)
    """What nodes are coloured by: nothing but their family, ``time``, ``error`` or ``own error``."""
    settings = _trait()
    """The settings by name."""
    choices = _trait()
    """The pipeline of the target as switches, and its devices."""
    status = _trait()
    """The action in progress and how far it is; the last error; what is known."""
    overlay = _trait({})
    bookmarks = traitlets.List().tag(sync=True)
    """Places to come back to: for each the id of an instruction or None, a pass or None, and a note."""
    timings_data = traitlets.Bytes().tag(sync=True)
    memory_data = traitlets.Bytes().tag(sync=True)
    numbers_data = traitlets.Bytes().tag(sync=True)
    lint_data = traitlets.Bytes().tag(sync=True)
    builds_data = traitlets.Bytes().tag(sync=True)
    code = traitlets.Unicode("").tag(sync=True)
    """The Python that does the same."""

    _remembered = (
        "selected",
        "pane",
        "shade",
        "theme",
        "bookmarks",
        *(n for n in LETTERS if n in _PARTS),
    )
    entry = "workbench.js"
    _esm = assets.module(entry)
    _css = assets.style()

    def __init__(
        self,
        program: Program | Build,
        *,
        source: str = "",
        settings: Mapping[str, Any] | None = None,
        title: str = "",
        height: int = 760,
        theme: str = "auto",
        state: str = "",
    ) -> None:
        """Open a program; its graph is laid out, nothing is compiled yet."""
        build = program if isinstance(program, Build) else None
        given = {"target": build.target.name} if build is not None else {}
        chosen = Settings.of({**given, **(settings or {})})
        subject = program.source if isinstance(program, Build) else program
        self.session = Session(subject, source=source, settings=chosen, build=build)
        self.title = title or clipped(subject.name) or "program"
        self.views: dict[str, BaseView] = {}
        self._links: dict[str, list[Any]] = {}
        self._shown: Build | None = None
        """The build that the views show."""
        self._why: dict[str, str] = {}
        """The reasons why panes of this build cannot be shown."""
        self._task: Task | None = None
        self._doing = ""
        super().__init__(
            data=packed(self.columns()), settings=chosen.as_dict(), height=height, theme=theme
        )
        self.on_msg(self._received)
        self.observe(self._set, names=["settings"])
        self.observe(self._open_pane, names=["pane"])
        self.observe(self._colour, names=["shade"])
        self._renew()
        if state:
            self.state = state

    # What is open, for Python

    @property
    def program(self) -> Program:
        """The source program."""
        return self.session.program

    @property
    def build(self) -> Build | None:
        """The last build; None if nothing was compiled."""
        return self.session.build

    @property
    def result(self) -> Result | None:
        """The last result."""
        return self.session.result

    @property
    def report(self) -> Any:
        """The last comparison's report."""
        return self.session.report

    @property
    def bisection(self) -> Any:
        """The last bisection."""
        return self.session.bisection

    def do(self, action: str) -> Any:
        """Carry out an action and show what it gives; it ends before this returns.

        Args:
            action: ``compile``, ``run``, ``profile``, ``compare`` or ``bisect``; ``again`` compiles and
                repeats what was done with the build before.

        Raises:
            OperationError: The action is unknown, or another one is running.
            WorkbenchError: It failed.
        """
        self._expect_idle()
        found = self.session.do(action)
        self._renew(action)
        return found

    def start(self, action: str) -> Task:
        """Start an action in a thread, as the buttons do; `stop` ends it."""
        self._expect_idle()
        self._say(doing="compile" if action == AGAIN else action, what="", done=0, of=0, error="")
        self._doing = action
        post = in_kernel()
        self._task = Task(
            lambda: self.session.do(action),
            partial(post, self._progressed),
            partial(post, self._ended),
        )
        return self._task

    def stop(self) -> None:
        """Ask the running action to end; what it has found so far is kept."""
        if self._task is not None:
            self._task.stop()

    def _expect_idle(self) -> None:
        if self._task is not None and self._task.is_running:
            raise OperationError("an action is running; stop it, or wait for its end")

    # Messages of the browser and of the thread

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if content.get("stop"):
            self.stop()
        elif (action := content.get("do")) in (*ACTIONS, AGAIN):
            if "settings" in content:
                self.set_state({"settings": content["settings"]})
            try:
                self.start(action)
            except OperationError as error:
                self._say(error=str(error))

    def _progressed(self, what: str, done: int, of: int) -> None:
        self._say(what=what, done=done, of=of)

    def _ended(self, _result: Any, error: BaseException | None) -> None:
        self._task = None
        if isinstance(error, Stopped):
            self._say(doing="", error="", note=f"Stopped: {error}")
        elif error is not None:
            known = isinstance(error, WorkbenchError)
            said = str(error) if known else f"{type(error).__name__}: {error}"
            self._say(doing="", error=said)
        else:
            self._renew(self._doing)

    def _say(self, **facts: Any) -> None:
        self.status = {**(self.status or {}), **facts}

    def _set(self, change: Any) -> None:
        """Take settings from the browser or from Python; impossible ones are taken back with a message."""
        if change["new"] == self.session.settings.as_dict():
            return
        try:
            self.session.settings = Settings.of(change["new"])
        except WorkbenchError as error:
            self._say(error=str(error))
            self.settings = self.session.settings.as_dict()
            return
        self._say(error="")
        self._show_choices()

    # Panes

    def _renew(self, action: str = "") -> None:
        """Show what there is now; views of a build that is still the last one stay."""
        with self.hold_sync():
            if (culprit := self._culprit(action)) is not None:
                self.selected = culprit
            is_other = self._shown is not self.session.build
            for pane in list(self.views) if is_other else ["kernels"]:
                self._drop(pane)
            self._shown = self.session.build
            self._why = {}
            for name in TABLES:  # findings are looked for when their pane is opened
                setattr(self, f"{name}_data", b"" if name == "lint" else self._table(name))
            self._show_choices()
            self._open_pane(None)
            self._colour(None)
            self._say(doing="", what="", done=0, of=0, error="", note=self.note())

    def _culprit(self, action: str) -> int | None:
        """The instruction that an action found to be wrong."""
        if action == "compare":
            return next((c.id for c in self.report.culprits()), None)
        return self.bisection.instruction if action == "bisect" else None

    def _drop(self, pane: str) -> None:
        """Forget the view of a pane, which shows what is no longer there."""
        for link in self._links.pop(pane, ()):
            link.unlink()
        if (view := self.views.pop(pane, None)) is not None:
            view.close()
            setattr(self, f"{pane}_data", None)

    def _show_choices(self) -> None:
        settings = self.session.settings
        target = settings.chosen()
        devices: list[str] = []
        if target.takes_device:
            found = showing.view("devices")()
            devices = [str(name) for name, row in found.iterrows() if not row["missing"]]
        self.choices = {
            "pipeline": switches(target.pipeline(), settings.off),
            "devices": devices,
            "target": target.name,
        }
        self.code = self.session.code()
        self._say(stale=self.session.is_stale, has=self.has(), why=self._why)

    def has(self) -> list[str]:
        """The panes that have something to show."""
        build, s = self.session.build, self.session
        found = {
            "graph": True,
            "passes": build is not None and build.is_recorded,
            "kernels": build is not None and build.target.takes_device,
            "timings": s.timed,
            "memory": build is not None,
            "numbers": s.report is not None,
            "lint": build is not None,
            "builds": len(s.runs()) > 1,
        }
        return [pane for pane, is_there in found.items() if is_there and pane not in self._why]

    def _open_pane(self, _change: Any) -> None:
        """Show the open pane."""
        self._fill(str(self.pane))

    def _fill(self, pane: str) -> None:
        """Make the view of a pane, unless it is there or has nothing to show."""
        if pane == "lint" and not self.lint_data:
            self.lint_data = self._table(pane)
        if pane not in VIEWS or getattr(self, f"{pane}_data") or pane not in self.has():
            return
        try:
            view = self.view(pane)
        except WorkbenchError as error:
            self._why[pane] = str(error)
            self._say(has=self.has(), why=self._why)
            return
        own = {name: f"{pane}_{name}" for name in _own(VIEWS[pane])}
        for name, ours in own.items():
            if ours in self._remembered and (wanted := getattr(self, ours)) is not None:
                setattr(view, name, wanted)
        with self.hold_sync():
            links = [traitlets.link((view, n), (self, ours)) for n, ours in own.items()]
            self._links.setdefault(pane, []).extend(links)

    def _fresh(self, name: str) -> Any:
        """None for a pane whose view is not made yet: it then decides by itself."""
        pane, _, own = name.partition("_")
        view = self.views.get(pane) if own else self
        return None if view is None else view.traits()[own or name].default(view)

    def view(self, pane: str) -> BaseView:
        """The view of a pane; it is made when it is first asked for."""
        if pane not in self.views:
            with embedded():
                made = self._made(pane)
            self.views[pane] = made
            links: list[Any] = [traitlets.link((self, "selected"), (made, "selected"))]
            if "overlay" in made.trait_names():
                links.append(traitlets.dlink((self, "overlay"), (made, "overlay")))
                links.append(traitlets.link((self, "bookmarks"), (made, "bookmarks")))
            self._links[pane] = links
        return self.views[pane]

    def _made(self, pane: str) -> BaseView:
        build = self.session.build
        if pane == "graph":
            return GraphView(build.program if build is not None else self.program)
        assert build is not None
        if pane == "passes":
            name = build.target.name
            return PassExplorer(build.recording, title=self.title, target=name, build=build)
        found = self.session.kernels()
        assert found is not None
        return KernelView(found.rows(), title=repr(found).strip("<>"))

    def _table(self, name: str) -> bytes:
        """The data of a table; empty if there is nothing to show."""
        return packed(self.table(name)) if name in self.has() else b""

    def table(self, name: str) -> dict[str, Any]:
        """The columns and rows of a pane that is a table.

        Raises:
            OperationError: There is nothing to show yet.
        """
        return tables.table_of(self.session, name)

    def _colour(self, _change: Any) -> None:
        """Colour the nodes by times or errors, where these are known."""
        self.overlay = overlay_of(shading(self.session, str(self.shade)))

    # Static forms

    def answers(self) -> Iterable[Answer]:
        """Answers of the panes that were opened."""
        for pane, view in self.views.items():
            for a in view.answers():
                yield a._replace(asked=f"{pane}_{a.asked}", trait=f"{pane}_{a.trait}")

    def smaller(self) -> BaseView | None:
        """The view of the graph."""
        return self.view("graph")

    def columns(self) -> dict[str, Any]:
        """The first message to the browser: the title, the targets, and what can be done."""
        targets = [
            {"name": t.name, "missing": t.missing, "what": t.summary}
            for t in all_targets().values()
        ]
        return {
            "title": self.title,
            "targets": targets,
            "precisions": list(PRECISIONS),
            "actions": list(ACTIONS),
            "shades": list(SHADES),
        }

    def note(self) -> str:
        """The last finding in one line of words, after what the last compilation changed."""
        return self.session.note()

    def summary(self) -> str:
        """The view in one line of words."""
        return f"{self.title}: {self.note()}"

    def to_static(self) -> str:
        """The view as HTML without scripts: the graph as a picture, and a table of what there is."""
        graph = self.view("graph")
        assert isinstance(graph, GraphView)
        rows = "".join(
            f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self._facts()
        )
        caption = f'<caption style="text-align:left;white-space:nowrap">{escape(self.summary())}</caption>'
        return f"<div>{graph.to_svg(all_nodes=False)}<table>{caption}<tbody>{rows}</tbody></table></div>"

    def _facts(self) -> list[tuple[str, str]]:
        settings = self.session.settings
        said = [(k, str(v)) for k, v in settings.as_dict().items() if v not in ("", [], None)]
        tables = [(name, str(self.table(name)["said"])) for name in self._filled()]
        return [("program", self.title), *said, *tables]

    def _filled(self) -> list[str]:
        """The tables that are there without further work."""
        return [n for n in TABLES if n in self.has() and (n != "lint" or self.lint_data)]

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with all panes; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        values: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("selected", "theme", "height", "pane", "shade", "settings", "choices", "status",
                         "overlay", "code", "bookmarks")
        }  # fmt: skip
        values["data"] = self.columns() | {"stored": True}
        for pane in VIEWS.keys() & set(self.has()):
            view: Any = self.view(pane)
            own = {f"{pane}_{n}": getattr(view, n) for n in _own(type(view))}
            values |= {k: v for k, v in own.items() if not isinstance(v, bytes)}
            values[f"{pane}_data"] = view.page_data()
        for name in TABLES:
            values[f"{name}_data"] = self.table(name) if name in self.has() else None
        text = page("workbench.js", values, self.title, self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def retire(self) -> None:
        """Close the view and let go of what it shows."""
        self.stop()
        super().retire()
        self.views.clear()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with the static form and text beside it."""
        from workbench.widgets.display import html_bundle  # noqa: PLC0415

        if len(self.program.main) <= SAVED_PASSES:
            self._fill("passes")
        widget = super()._repr_mimebundle_(**kwargs)
        return html_bundle(widget, self.to_static(), self.summary(), [self])
