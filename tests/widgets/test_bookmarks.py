"""Bookmarks: in the state, in the table, in every pane of the workbench."""

import pytest
import traitlets

import workbench as wb
from tests.widgets.networks import HOSTILE, recorded, residual
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.graph_view import GraphView
from workbench.widgets.state import read_state, write_state
from workbench.widgets.workbench_view import Workbench


def test_a_node_is_marked_with_a_note_and_the_state_brings_it_back():
    view = GraphView(residual(2))
    with pytest.raises(ValueError, match="needs an instruction"):
        view.bookmark()
    conv = next(i for i in view.program.main if i.name == "convolution")
    view.bookmark(conv, HOSTILE)
    view.selected = view.program.main.last.id
    view.bookmark()
    assert view.bookmarks == [[conv.id, None, HOSTILE], [view.selected, None, ""]]
    again = GraphView(residual(2), state=view.state)
    assert again.bookmarks == view.bookmarks
    table = again.bookmarks_frame()
    assert table["operation"].tolist() == ["convolution", "return"]
    assert table["note"].tolist() == [HOSTILE, ""]
    assert table["nodes"][0] == conv.sources[0]
    again.state = ""
    assert again.bookmarks == []
    assert list(again.bookmarks_frame().columns) == list(table.columns)


def test_a_step_is_marked_too():
    view = PassExplorer(recorded(residual(1)))
    view.bookmark(step=3, note="see")
    view.bookmark(10**6, step=10**6)
    table = view.bookmarks_frame()
    assert table["pass"].tolist() == [view.recording[3].name, ""]
    assert table["id"].isna().tolist() == [True, False]
    assert "see" in view.to_html()


def test_the_workbench_has_one_list():
    view = Workbench(wb.compile(residual(1), "cpu"))
    graph, passes = view.view("graph"), view.view("passes")
    graph.bookmark(0, "input")
    passes.bookmark(step=1, note="a pass")
    assert view.bookmarks == graph.bookmarks == passes.bookmarks
    assert len(view.bookmarks) == 2
    again = Workbench(wb.compile(residual(1), "cpu"), state=view.state)
    assert again.view("passes").bookmarks == view.bookmarks


@pytest.mark.parametrize(
    "wrong", [[1], [[1, 2]], [["1", None, ""]], [[1, None, 2]], [[True, None, ""]], [None], "x", 1]
)
def test_what_is_no_bookmark_is_refused(wrong: object):
    view = GraphView(residual(1))
    with pytest.raises((ValueError, traitlets.TraitError)):
        view.bookmarks = wrong
    assert view.bookmarks == []


@pytest.mark.parametrize(
    "text",
    ["m=", "m=1", "m=[1]", "m=[[1,2]]", "m={}", "m=[[1,null,", "m=null", f"m={'[' * 50_000}"],
    ids=lambda text: text[:12],
)
def test_a_state_with_other_things_is_refused(text: str):
    with pytest.raises(ValueError, match="bookmarks"):
        read_state(text)


def test_notes_are_cut_and_written_as_they_are():
    view = GraphView(residual(1))
    view.bookmarks = [[1, None, "x" * 10_000], (2, None, "é=&|%")]
    assert [len(note) for _, _, note in view.bookmarks] == [500, 5]
    assert read_state(write_state({"bookmarks": view.bookmarks}))["bookmarks"] == view.bookmarks
