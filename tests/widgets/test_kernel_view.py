"""KernelView without a browser: what it sends, how it follows a selection, its static form."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from tests.widgets.kernels import row, rows
from tests.widgets.networks import residual
from workbench.knobs import knobs
from workbench.widgets import GraphView, KernelView, assets
from workbench.widgets.kernel_page import LINES, ROWS, digits, kernels_html
from workbench.widgets.kernel_view import explorer, times


def unpacked(data: bytes) -> dict[str, Any]:
    return json.loads(zlib.decompress(data))


def test_the_slowest_kernel_comes_first_and_nothing_is_selected():
    view = KernelView(rows())
    assert (view.kernel, view.selected) == (1, None)
    assert KernelView([row(0, 3, "add"), row(1, 4, "mul")]).kernel == 0


def test_texts_of_one_kernel_are_sent_and_machine_code_only_when_it_is_looked_at():
    made: list[str] = []
    given = [
        row(k, k, "add", assembly=lambda k=k: made.append(str(k)) or f"code {k}") for k in range(3)
    ]
    view = KernelView(given)
    assert unpacked(view.detail)["source"] == given[0]["source"]
    assert made == []
    view.kernel = 2
    view.tab = "machine"
    assert unpacked(view.detail)["assembly"] == "code 2"
    assert made == ["2"]
    assert not {"source", "log", "assembly"} & set(unpacked(view.data)["rows"][0])


def test_a_kernel_selects_its_instruction_and_an_instruction_its_kernel():
    view = KernelView(rows())
    view.kernel = 0
    assert view.selected == 7
    view.selected = 12
    assert view.kernel == 3
    view.selected = 21  # a part of the first one
    assert (view.kernel, view.selected) == (0, 21)
    view.selected = 999  # no kernel computes it
    assert view.kernel == 0
    view.kernel = 99
    assert view.kernel == 3


def test_a_kernel_of_several_keeps_the_instruction():
    view = KernelView(rows())
    view.selected = 9
    view.kernel = 2
    assert (view.kernel, view.selected) == (2, 9)


def test_the_graph_and_the_kernels_have_one_selection():
    program = residual()
    first, second = [i for i in program.main if i.inputs][:2]
    graph = GraphView(program)
    graph.selected = first.id
    view = KernelView([row(0, second.id, "a"), row(1, first.id, "b")], graph=graph)
    assert (view.selected, view.kernel) == (first.id, 1)
    view.kernel = 0
    assert graph.selected == second.id
    graph.selected = first.id
    assert view.kernel == 1


def test_the_explorer_colours_the_graph_by_time():
    program = residual()
    instruction = next(i for i in program.main if i.inputs)
    both = explorer(program, [row(k, instruction.id, "conv", ms=1.5) for k in range(2)])
    assert both.graph.overlay["values"] == {str(instruction.id): 3.0}
    both.selected = instruction.id
    assert both.graph.selected == both.kernels.selected == instruction.id
    assert times([row(0, 3, "add")]) is None


def test_the_state_is_a_short_string_that_reopens_the_view():
    view = KernelView(rows())
    assert KernelView([row(0, 3, "add")]).state == ""
    view.kernel, view.tab = 3, "machine"
    assert view.state == "s=12&n=3&b=machine"
    again = KernelView(rows(), state=view.state)
    assert (again.kernel, again.selected, again.tab) == (3, 12, "machine")


def test_a_view_of_nothing_works():
    view = KernelView([])
    assert "0 launches of 0 kernels" in view.summary()
    assert view.to_static()
    assert "<!doctype html>" in view.to_html()


def test_a_page_stores_each_code_once_and_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workbench.widgets.kernel_view.PAGE_CHARACTERS", 10)
    details = list(KernelView(rows())._details())
    assert [d["name"] for d in details] == ["kernel_0", "kernel_1", "kernel_2"]
    assert ["assembly" in d for d in details] == [True, False, False]


def test_the_static_form_has_the_same_facts_as_text():
    text = KernelView(rows(), title="block → cpu").to_static()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for said in (
        "block → cpu: 4 launches of 3 kernels",
        "62.5 %",
        "1,024",
        "KERNEL(256)",
        "vmulss",
    ):
        assert said in text
    assert "#define GLOBAL" not in text


def test_the_static_form_is_bounded():
    long = [row(k, k, "add", module="line\n" * 9999) for k in range(300)]
    text = kernels_html(long, 0, "")
    assert text.count("<tr>") == ROWS + 1
    assert "and 100 more" in text
    assert f"{9999 - LINES:,} more lines" in text


def test_without_widgets_the_html_stays():
    with knobs.scope(static=True):
        data, _ = KernelView(rows())._repr_mimebundle_()
    assert {"text/html", "text/plain"} <= set(data)
    assert "application/vnd.jupyter.widget-view+json" not in data


def test_a_notebook_gets_the_widget_and_the_html():
    data, _ = KernelView(rows())._repr_mimebundle_()
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= set(data)
    both, _ = explorer(residual(), rows())._repr_mimebundle_()
    assert "<svg" in both["text/html"]
    assert "<table>" in both["text/html"]


def test_the_module_is_small_and_whole():
    text = assets.module("kernel_view.js")
    assert len(text.encode()) < 60_000
    assert "import " not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "0"), (0.01, "0.01"), (1.2345, "1.23"), (1234.5, "1,234"), (123456, "1.23e5"),
     (0.00123, "1.23e-3")],
)  # fmt: skip
def test_three_digits_and_no_exponent_where_none_is_needed(value: float | None, text: str):
    assert digits(value) == text
