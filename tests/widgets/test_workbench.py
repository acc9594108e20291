"""The workbench as a widget, from Python's side: panes follow actions, settings and the selection."""

import json
from threading import Event
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.widgets.networks import residual, transformer
from tests.widgets.pressing import press
from tests.widgets.views import unpacked
from workbench.compiler import showing
from workbench.compiler.errors import OperationError
from workbench.compiler.text.printing import names
from workbench.widgets.workbench_view import Workbench


@pytest.fixture
def view() -> Workbench:
    return Workbench(residual(2), settings={"target": "cpu"})


def test_it_opens_on_the_source_and_compiles_nothing(view: Workbench):
    assert view.build is None
    assert view.has() == ["graph"]
    assert "nothing is compiled yet" in view.summary()
    assert view.graph_data, "the graph is there at once"
    assert not view.passes_data


def test_panes_appear_as_actions_make_them(view: Workbench):
    view.do("compile")
    assert view.has() == ["graph", "passes", "memory", "lint"]
    view.pane = "passes"
    assert view.passes_data
    assert view.view("passes").steps.recording is view.build.recording
    view.do("profile")
    view.do("compare")
    assert view.has() == ["graph", "passes", "timings", "memory", "numbers", "lint"]
    assert view.timings_data
    assert view.numbers_data
    assert view.report.passed


def test_a_view_of_the_same_build_stays_and_one_of_another_build_goes(view: Workbench):
    view.do("compile")
    graph = view.view("graph")
    view.do("profile")
    assert view.view("graph") is graph
    view.settings = {**view.settings, "off": ["fuse_pointwise"]}
    assert view.status["stale"]
    view.do("compile")
    assert view.view("graph") is not graph
    assert not view.status["stale"]


def test_one_selection_in_all_panes_and_in_python(view: Workbench):
    view.do("compile")
    view.pane = "passes"
    id = next(i.id for i in view.build.program.main if i.name == "convolution")
    view.selected = id
    assert view.view("graph").selected == view.view("passes").selected == id
    view.view("passes").selected = None
    assert view.selected is None
    assert view.view("graph").selected is None
    view.passes_step = 3
    assert view.view("passes").step == 3


def test_nodes_are_coloured_by_what_is_known(view: Workbench):
    view.shade = "time"
    assert view.overlay == {}, "nothing was timed"
    view.do("profile")
    assert view.overlay["unit"] == "ms"
    assert view.view("graph").overlay == view.overlay
    view.do("compare")
    view.shade = "error"
    assert view.overlay["tolerance"] == view.report.tolerance
    view.shade = ""
    assert view.view("graph").overlay == {}


def test_impossible_settings_are_taken_back_and_told(view: Workbench):
    before = view.settings
    for wrong in ({**before, "target": "tpu"}, {**before, "seed": "x"}, {"nothing": 1}, 5):
        view.settings = wrong
        assert view.settings == before
        assert view.status["error"]
    view.settings = {**before, "precision": "fp16"}
    assert view.status["error"] == ""
    assert 'precision="fp16"' in view.code.replace("'", '"')


def test_what_fails_is_told_and_the_rest_stays(view: Workbench):
    view.do("compile")
    view.settings = {**view.settings, "inputs": "missing.npz"}
    view.start("run").wait(60)
    assert "missing.npz" in view.status["error"]
    assert view.status["doing"] == ""
    assert view.build is not None


def test_an_action_of_the_browser_runs_aside_and_can_be_stopped(
    view: Workbench, monkeypatch: pytest.MonkeyPatch
):
    began, ended = Event(), Event()
    real = showing.view("compare")

    def slow(*args: Any, **options: Any) -> Any:
        began.set()
        while True:
            real(*args, **options)

    monkeypatch.setitem(showing._VIEWS, "compare", slow)
    view.observe(lambda c: ended.set() if not c["new"]["doing"] else None, names=["status"])
    view._received(view, {"do": "compare"}, [])
    assert began.wait(60)
    ended.clear()
    with pytest.raises(OperationError, match="an action is running"):
        view.do("run")
    assert view.status["doing"] == "compare"
    view._received(view, {"stop": True}, [])
    assert ended.wait(60)
    assert view.status["note"].startswith("Stopped: stopped in")
    assert view.report is None
    assert view.build is not None, "what it had compiled is kept"


def test_a_pass_switched_off_is_told_by_what_it_changed(view: Workbench):
    view.do("profile")
    view.do("compare")
    assert view.session.change == ""
    before = len(view.build.program.main)
    view.settings = {**view.settings, "off": ["fuse_pointwise"]}
    press(view, {"do": "again"})
    change = view.session.change
    after = len(view.build.program.main)
    assert change.startswith(f"without fuse_pointwise: {before} → {after} instructions, ")
    assert [word in change for word in (" ms", "error ")] == [True, True]
    assert view.status["note"].startswith(change)
    assert view.has() == ["graph", "passes", "timings", "memory", "numbers", "lint", "builds"]
    view.settings = {**view.settings, "off": []}
    view.do("compile")
    assert view.session.change == f"with fuse_pointwise: {after} → {before} instructions"


def test_an_action_takes_the_settings_of_its_message(view: Workbench):
    """The browser keeps a change back while Python has not taken the one before; a message comes at once."""
    settings = {**view.settings, "off": ["fuse_pointwise"], "seed": 3}
    press(view, {"do": "compile", "settings": settings})
    assert view.settings == settings
    assert view.session.settings.seed == 3
    assert "disable=('fuse_pointwise',)" in view.code


def test_lint_is_looked_for_when_its_pane_opens():
    view = Workbench(wb.compile(transformer(1), "cpu"))
    assert "lint" in view.has()
    assert not view.lint_data
    view.pane = "lint"
    table = view.table("lint")
    findings = view.build.lint()
    assert view.lint_data
    assert [row["id"] for row in table["rows"]] == [f.id for f in findings]
    assert [row["cells"][0] for row in table["rows"]] == [f.kind for f in findings]
    named = names(view.build.program)
    assert table["ids"]
    assert all(named[id] == name for name, id in table["ids"].items())
    view.do("compile")
    assert view.lint_data, "the open pane is filled again"


def test_the_culprit_of_a_comparison_is_selected(view: Workbench):
    view.settings = {**view.settings, "precision": "fp16"}
    inputs = {n: np.full(s.lens, 6e4, np.float32) for n, s in view.program.parameters.items()}
    view.session.given = inputs
    report = view.do("compare")
    assert view.selected == report.culprits()[0].id
    assert view.status["note"] == report.summary


def test_a_message_that_is_none_does_nothing(view: Workbench):
    for message in ({}, {"do": "rm -rf"}, {"do": None}, {"stop": 0}):
        view._received(view, message, [])
    assert view.status["doing"] == ""


def test_a_program_of_nothing_opens_and_does_what_can_be_done():
    view = Workbench(wb.Program(), settings={"target": "cpu"})
    for action in ("compile", "run", "profile", "compare", "bisect"):
        view.do(action)
    assert view.title == "program"
    assert "<!doctype html>" in view.to_html()


def test_a_pane_that_cannot_be_shown_says_why(monkeypatch: pytest.MonkeyPatch):
    view = Workbench(wb.compile(residual(1), "cpu"))
    reason = "kernels are made for fixed lengths"
    real = view.has

    def refuse() -> None:
        raise OperationError(reason)

    monkeypatch.setattr(view.session, "kernels", refuse)
    monkeypatch.setattr(view, "has", lambda: [*real(), *["kernels"][: "kernels" not in view._why]])
    view.pane = "kernels"
    assert view.status["why"] == {"kernels": reason}
    assert "kernels" not in view.status["has"]


def test_a_build_opens_with_its_own_target():
    build = wb.compile(residual(2), "cpu", precision="fp16")
    view = build.open()
    assert view.build is build
    assert view.settings["target"] == "cpu"
    assert "passes" in view.has()


def test_a_file_opens_with_the_code_that_reads_it(tmp_path):
    wb.save(residual(2), tmp_path / "m.wb")
    view = wb.open(tmp_path / "m.wb", "cpu", precision="bf16", title="mine")
    assert view.title == "mine"
    names: dict[str, Any] = {}
    exec(view.code, names)
    view.do("compile")
    assert str(names["build"].program) == str(view.build.program)


def test_a_report_is_one_page_with_all_that_is_known(tmp_path):
    build = wb.compile(residual(2), "cpu")
    view = build.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert view.has() == ["graph", "passes", "timings", "memory", "numbers", "lint"]
    data = json.loads(page.partition('id="wb-data">')[2].partition("</script>")[0])
    assert len(unpacked(data["passes_data"])["details"]) == len(build.recording.steps)
    assert len(data["numbers_data"]["rows"]) == len(view.report.rows)


def test_its_state_brings_back_pane_colour_and_selection(view: Workbench):
    view.do("profile")
    view.pane, view.shade, view.selected = "timings", "time", 5
    again = Workbench(residual(2), settings={"target": "cpu"}, state=view.state)
    assert (again.pane, again.shade, again.selected) == ("timings", "time", 5)


def test_panes_have_no_channels_of_their_own(view: Workbench):
    view.do("compile")
    assert view.comm is not None
    assert view.view("graph").comm is None
    view.retire()
    assert view.views == {}
