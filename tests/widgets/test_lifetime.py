"""Views let go of what they show: when nobody refers to them, or when their cell runs again."""

import gc
import weakref
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import Widget

import workbench as wb
from tests.widgets.networks import residual
from workbench.widgets import GraphView
from workbench.widgets.base_view import embedded
from workbench.widgets.lifetime import _instances

TEXT = 'module: "main"\nx = @param:x -> float_type, {4}, {1}\ny = relu(x) -> float_type, {4}, {1}\n'


@pytest.fixture(autouse=True, scope="module")
def only_what_is_made_here() -> None:
    """Leaves what other tests made, views among them, out of the collections here, each of which is whole."""
    gc.collect()
    gc.freeze()


def alive(refs: list[weakref.ref[Any]]) -> int:
    gc.collect()
    return sum(ref() is not None for ref in refs)


def test_views_that_nobody_refers_to_go_with_their_recordings():
    refs: list[weakref.ref[Any]] = []
    before = len(_instances)
    for _ in range(5):
        build = wb.compile(wb.parse(TEXT), target="cpu")
        view = build.explore()
        refs += [weakref.ref(build.recording), weakref.ref(view)]
    assert alive(refs) == 2
    assert view.selected is None
    del build, view
    assert alive(refs) == 0
    assert len(_instances) == before


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str, code: str) -> None:
    vars(shell)["get_parent"] = lambda: {"metadata": {"cellId": cell}, "content": {"code": code}}
    result = shell.run_cell(code, store_history=True)
    result.raise_error()


def test_a_cell_that_runs_again_keeps_only_what_it_shows_now(shell: InteractiveShell):
    refs: list[weakref.ref[Any]] = []
    shell.user_ns |= {"wb": wb, "TEXT": TEXT, "keep": lambda x: refs.append(weakref.ref(x))}
    code = "b = wb.compile(wb.parse(TEXT), target='cpu'); keep(b.recording); b.explore()"
    for _ in range(4):
        run(shell, "one", code)
    assert alive(refs) == 1
    run(shell, "two", code)  # another cell's view is no predecessor
    assert alive(refs) == 2


def test_a_view_that_its_cell_shows_again_stays_open(shell: InteractiveShell):
    shell.user_ns["v"] = view = wb.compile(wb.parse(TEXT), target="cpu").explore()
    for _ in range(3):
        run(shell, "one", "v")
    assert view.comm is not None
    assert "relu" in view.to_svg()


def test_a_host_that_opens_a_channel_to_each_widget_opens_none_to_a_pane():
    heard: list[Widget] = []
    Widget.on_widget_constructed(heard.append)
    try:
        view = GraphView(residual())
        assert view in heard
        with embedded(), embedded():
            pane = GraphView(residual())
        assert pane not in heard
        again = GraphView(residual())
        assert again in heard
    finally:
        Widget.on_widget_constructed(None)
