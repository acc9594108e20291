"""The views on the Python side: selection, state, overlays, errors."""

import itertools
import math

import pandas as pd
import pytest

from tests.widgets.networks import recorded, residual
from workbench.compiler.ir.program import Program
from workbench.widgets import GraphView, PassExplorer, palette
from workbench.widgets.overlay import overlay_of, share
from workbench.widgets.state import read_state, write_state
from workbench.widgets.svg import number_text


@pytest.fixture
def view() -> GraphView:
    return GraphView(residual(2))


def test_selecting_one_or_many(view: GraphView):
    first, second = list(view.program.main)[-2:]
    view.select(first)
    assert (view.selected, view.highlight) == (first.id, [])
    view.select([first, second.id])
    assert (view.selected, view.highlight) == (first.id, [first.id, second.id])
    view.select()
    assert (view.selected, view.highlight) == (None, [])


def test_id_zero_is_an_instruction_like_any_other(view: GraphView):
    view.select(0)
    assert view.selected == 0
    assert view.state == "s=0"


def test_the_state_reopens_the_view(view: GraphView):
    view.selected, view.expanded, view.camera = 3, ["layer0", "layer0/block0"], "1.0,2.0,0.5"
    view.theme = "dark"
    again = GraphView(residual(2), state=view.state)
    assert again.state == view.state
    assert (again.selected, again.theme, again.camera) == (3, "dark", "1.0,2.0,0.5")
    assert sorted(again.expanded) == ["layer0", "layer0/block0"]
    again.state = ""
    assert (again.selected, again.expanded, again.theme) == (None, None, "auto")


def test_the_explorer_s_state_holds_the_step():
    recording = recorded(residual(1))
    view = PassExplorer(recording, step=2)
    assert "k=2" in view.state
    assert PassExplorer(recording, state="k=1&s=5").step == 1


def test_a_foreign_state_is_refused(view: GraphView):
    with pytest.raises(ValueError, match="unknown key 'zz'"):
        view.state = "zz=1"


def test_closing_everything_is_not_the_same_as_the_first_view():
    assert write_state({"expanded": []}) == "o="
    assert read_state("o=") == {"expanded": []}


def test_an_overlay_is_a_mapping_or_a_series(view: GraphView):
    pandas = pytest.importorskip("pandas")
    view.overlay = pandas.Series({1: 0.5, 2: 2.0}, name="ms")
    assert view.overlay["name"] == "ms"
    assert view.overlay["values"] == {"1": 0.5, "2": 2.0}
    view.overlay = {"name": "error", "scale": "magma", "values": {1: math.nan}}
    assert view.overlay["values"] == {"1": None}
    assert "not finite" in overlaid_svg(view)


def test_a_static_picture_has_the_key_of_its_scale(view: GraphView):
    ids = [i.id for i in view.program.main if i.name in ("convolution", "relu")]
    view.overlay = {
        "name": "<b>error", "scale": "magma", "tolerance": 1e-3,
        "values": dict(zip(ids, [1e-5, 0.1, math.inf], strict=False)),
    }  # fmt: skip
    text = view.to_svg()
    assert "&lt;b&gt;error 1.00e-05" in text
    assert "0.1 (log), ┃ tolerance 1.00e-03, ▲ over it, 1 not finite" in text
    assert text.count("0.1 ▲") == 1
    assert share(view.overlay, 1e-3) == pytest.approx(0.5)
    assert share(view.overlay, 0.0) == 0
    again = GraphView(view.program, overlay=view.overlay)  # an overlay of an overlay is the same
    assert again.overlay == view.overlay


def overlaid_svg(view: GraphView) -> str:
    node = next(n for n in view.table.nodes.values() if n.title == "convolution")
    view.overlay = {"scale": "magma", "values": {node.id: math.nan}}
    return view.to_svg()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"values": {1: 2}, "color": 1}, "unknown key 'color'"),
        ({"values": {1: 2}, "scale": "jet"}, "unknown scale .jet.; expected one of"),
    ],
)
def test_a_wrong_overlay_is_refused(given: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        overlay_of(given)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (3.14159, "3.14"), (42, "42"), (123.4, "123"), (4567, "4,567"),
     (1e-6, "1.00e-06"), (12345, "1.23e+04")],
)  # fmt: skip
def test_numbers_have_three_significant_digits(value: float, text: str):
    assert number_text(value) == text


@pytest.mark.parametrize("dark", [False, True])
def test_the_selection_and_the_marks_of_changes_are_told_apart(dark: bool):
    selected = palette.SELECTED_DARK if dark else palette.SELECTED
    light = (palette.ADDED, palette.REMOVED, palette.CHANGED)
    marks = (palette.ADDED_DARK, palette.REMOVED_DARK, palette.CHANGED_DARK) if dark else light
    near = [math.dist(palette.rgb(a), palette.rgb(b))
            for a, b in itertools.combinations([selected, palette.FOUND, *marks], 2)]  # fmt: skip
    assert min(near) > 60


def test_an_empty_program_is_drawn_in_words():
    view = GraphView(Program("nothing"))
    assert "This program has no instructions" in view.to_svg()
    assert view.find("-x") == []


def test_importing_widgets_imports_no_anywidget():
    import subprocess
    import sys

    code = "import workbench.widgets, sys; assert 'anywidget' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_overlay_is_given_by_nodes_of_the_model_too():
    program = residual(2)
    view = GraphView(program)
    by_node = {i.sources[-1]: i.id for i in program.main if i.name == "convolution"}
    table = pd.DataFrame({"note": "x", "ms": range(len(by_node))}, index=list(by_node))
    view.overlay = table
    assert view.overlay["name"] == "ms"
    assert view.overlay["values"] == {str(id): float(k) for k, id in enumerate(by_node.values())}
    view.overlay = table["ms"].rename(by_node)
    assert view.overlay["values"] == {str(id): float(k) for k, id in enumerate(by_node.values())}
    with pytest.raises(ValueError, match=r"no instruction came from a node .*near ones are '"):
        view.overlay = {next(iter(by_node))[:-1]: 1.0}
    with pytest.raises(ValueError, match=r"expected one column of numbers.*found a, b"):
        view.overlay = pd.DataFrame({"a": [1], "b": [2]})
