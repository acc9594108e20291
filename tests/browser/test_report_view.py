"""ReportView in Chromium with Python behind it: the culprit, kernels that open, and tensors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Shown
from tests.browser.live import Live
from tests.widgets.views import overflowing
from workbench.widgets import ReportView

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]
NAMES = ("selected", "highlight", "expanded", "overlay", "theme", "height", "camera", "inspected", "slice",
         "at", "layer", "parts", "values", "data", "detail")  # fmt: skip


@pytest.fixture
def live() -> Live:
    return Live(ReportView(overflowing()), *NAMES)


def test_it_opens_on_the_culprit_with_its_parts_coloured(live: Live, show: Show, pictures: Path):
    shown = show(live)
    culprit = live.view.report.culprits()[0]
    parts = {n["id"]: n for n in shown.nodes() if n["id"] in {p.id for p in culprit.parts}}
    assert culprit.part.id in parts
    assert parts[culprit.part.id]["color"] == "#fcfdbf"
    assert parts[culprit.part.id]["fact"] == "not finite"
    panels = shown.page.locator(".wb-canvas").evaluate("c => c.__wb.panels()")
    culprits = next(p for p in panels if p["key"] == f"@{culprit.id}")
    box = shown.canvas.bounding_box()
    assert 0 <= culprits["x"] + culprits["w"] / 2 <= box["width"]
    assert 0 <= culprits["y"] + culprits["h"] / 2 <= box["height"]
    numbers = shown.page.locator(".wb-numbers").inner_text()
    assert f"Culprit (precision): {culprit.reason}." in numbers
    assert "┃ tolerance 0.0156" in shown.page.locator(".wb-legend").first.inner_text()
    shown.click(parts[culprit.part.id])
    assert "overflows half" in shown.page.locator(".wb-numbers").inner_text()
    shown.page.screenshot(path=pictures / "report-light.png")


def test_a_kernel_that_is_opened_is_evaluated(show: Show):
    view = ReportView(overflowing(), state="o=")
    view.parts = {}
    live = Live(view, *NAMES)
    shown = show(live)
    id = view.report.culprits()[0].id
    node = next(n for n in shown.nodes() if n["id"] == id)
    shown.page.locator(".wb-canvas").dblclick(
        position={"x": node["x"] + node["w"] / 2, "y": node["y"] + node["h"] / 2}
    )
    assert f"@{id}" in shown.trait("expanded")
    live.answer(shown)
    assert view.selected == id
    inner = next(n["id"] for n in shown.nodes() if str(n["id"]) in view.parts)
    assert next(n for n in shown.nodes() if n["id"] == inner)["color"]


def test_values_are_inspected_below_the_graph(live: Live, show: Show, pictures: Path):
    shown = show(live, dark=True, width=700, height=1000)
    shown.page.get_by_role("button", name="Show both tensors element by element").click()
    assert "both sides run once more" in shown.page.locator(".wb-values").inner_text()
    live.answer(shown)
    assert live.view.inspected == live.view.selected == live.view.report.culprits()[0].id
    shown.page.locator(".wb-near table").wait_for()
    shown.page.locator(".wb-heat").press("ArrowDown")
    assert shown.trait("at") == "1,0"
    live.answer(shown)
    assert live.view.at == "1,0"
    shown.page.screenshot(path=pictures / "report-dark.png")
    shown.page.get_by_role("button", name="Close the values").click()
    assert shown.page.locator(".wb-values").is_hidden()
    live.answer(shown)
    assert (live.view.inspected, live.view.tensor) == (None, None)


def test_a_stored_page_has_the_parts_and_the_values_but_runs_nothing(show: Show):
    view = ReportView(overflowing())
    view.inspected = view.selected
    shown = show(view)
    shown.page.locator(".wb-near table").wait_for()
    assert shown.page.get_by_role("button", name="Show both tensors").count() == 0
    assert len(shown.trait("parts")) == len(view.report.culprits()[0].parts)
