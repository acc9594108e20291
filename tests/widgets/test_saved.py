"""The saved form of views: bounded, complete where there is room, and smaller views where there is not."""

import base64
import json
import re
from pathlib import Path

import pytest

import workbench as wb
from tests.widgets.kernels import rows
from tests.widgets.networks import recorded, residual, transformer
from tests.widgets.views import found, made, unpacked
from workbench.knobs import knobs
from workbench.teach.stored import ENTRY as EXERCISE
from workbench.widgets import GraphView, KernelView, PassExplorer, assets
from workbench.widgets.base_view import BaseView
from workbench.widgets.display import is_unattended
from workbench.widgets.kernel_view import KernelExplorer
from workbench.widgets.packing import packed
from workbench.widgets.saved import LIMIT, MIME, saved


def stored(value):
    return unpacked(base64.b64decode(value["base64"]))


@pytest.mark.parametrize("unfriendly", [False, True])
@pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)
def test_every_view_has_a_saved_form_in_its_output(view: type[BaseView], unfriendly: bool):
    data, _ = made(view, unfriendly=unfriendly)._repr_mimebundle_()
    text = json.dumps(data[MIME])
    (form,) = json.loads(text)["views"]
    assert len(text) <= LIMIT
    assert form["entry"] == view.entry
    assert (assets.STATIC / view.entry).exists()
    assert stored(form["values"]["data"])
    assert {"selected", "theme", "height"} <= set(form["values"])
    assert not [name for name in form["values"] if name.startswith("_")]


def test_each_step_of_a_small_recording_is_answered():
    view = PassExplorer(recorded(residual()))
    (form,) = saved([view])["views"]
    answers = form["answers"]["step"]
    assert answers["trait"] == "detail"
    assert {int(k) for k in answers["by"]} == set(range(len(view.steps.steps)))
    for k, value in answers["by"].items():
        assert stored(value) == unpacked(packed(view.steps.detail(int(k))))


def test_with_less_room_there_are_fewer_answers_then_a_smaller_view_then_none():
    view = PassExplorer(recorded(transformer(2)))
    forms = {limit: saved([view], limit) for limit in (LIMIT, 20_000, 8_000, 100)}
    for limit, form in forms.items():
        assert len(json.dumps(form)) <= max(limit, 40)
    counts = [
        len(v["answers"].get("step", {"by": ()})["by"]) for f in forms.values() for v in f["views"]
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1]
    entries = [[v["entry"] for v in form["views"]] for form in forms.values()]
    assert entries[0] == ["explorer.js"]
    assert ["graph_view.js"] in entries
    assert entries[-1] == []


def test_linked_views_are_saved_together():
    graph = GraphView(residual(2))
    both = KernelExplorer(graph, KernelView(rows(), graph=graph))
    data, _ = both._repr_mimebundle_()
    assert [v["entry"] for v in data[MIME]["views"]] == ["graph_view.js", "kernel_view.js"]
    room = len(json.dumps(saved([both.kernels]))) + 500
    assert [v["entry"] for v in saved([both.graph, both.kernels], room)["views"]] == [
        "kernel_view.js"
    ]


def test_the_workbench_saves_its_passes_and_its_tables():
    view = wb.compile(residual(), "cpu").open()
    data, _ = view._repr_mimebundle_()
    (form,) = data[MIME]["views"]
    assert stored(form["values"]["memory_data"])["rows"]
    assert stored(form["values"]["passes_data"])["steps"]
    assert form["answers"]["passes_step"]["trait"] == "passes_detail"


def test_static_pictures_alone_if_the_knobs_say_so():
    with knobs.scope(static=True):
        data, _ = GraphView(residual())._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/svg+xml"}


@pytest.mark.parametrize(
    ("request_", "unattended"),
    [({"content": {"allow_stdin": False}}, True), ({"content": {"allow_stdin": True}}, False),
     ({"content": {}}, False), ({}, False), (None, False)],
)  # fmt: skip
def test_a_cell_that_cannot_ask_for_input_is_unattended(monkeypatch, request_, unattended: bool):
    class Shell:
        parent_header = request_

    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    assert is_unattended() is unattended


def test_the_extension_has_what_jupyterlab_looks_for():
    folder = assets.STATIC.parent / "labextension"
    package = json.loads((folder / "package.json").read_text())
    assert package["version"] == wb.__version__
    assert (folder / package["jupyterlab"]["_build"]["load"]).exists()
    assert json.loads((folder / "install.json").read_text())["packageName"] == package["name"]
    for path in Path(folder).rglob("*.js"):
        assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_the_extension_has_the_palette_of_the_views():
    copy = json.loads((assets.STATIC / "palette.json").read_text(encoding="utf-8"))
    assert copy == json.loads(json.dumps(assets.colors())), "`python -m tests.pages` writes it anew"


def test_the_extension_draws_every_view_that_there_is():
    allowed = (assets.STATIC.parent / "labextension/static/model.js").read_text(encoding="utf-8")
    names = re.search(r"ENTRY = /\^\(([\w|]+)\)", allowed)[1].split("|")
    assert {f"{name}.js" for name in names} == {EXERCISE, *(view.entry for view in found())}
