"""TensorView in Chromium with Python behind it: slices, elements and layers by mouse and keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.browser.conftest import Shown
from tests.browser.live import Live
from tests.widgets.views import tensor
from workbench.widgets import TensorView

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]
NAMES = ("slice", "at", "layer", "theme", "height", "data", "detail")
PIXEL = """(canvas, [x, y]) => {
  const k = canvas.width / canvas.clientWidth;
  return [...canvas.getContext("2d").getImageData(x * k, y * k, 1, 1).data].slice(0, 3);
}"""


@pytest.fixture
def live() -> Live:
    return Live(TensorView(tensor()), *NAMES)


def opened(live: Live, show: Show, **options: Any) -> Shown:
    return show(live, wait=".wb-near table", **options)


def reading(shown: Shown) -> str:
    return shown.page.locator(".wb-reading").inner_text()


def test_it_opens_on_the_worst_element_and_marks_what_is_not_finite(
    live: Live, show: Show, pictures: Path
):
    shown = opened(live, show)
    assert "[1, 2, 2, 4]: value ∞, expected" in reading(shown)
    heat = shown.page.locator(".wb-heat")
    side = heat.bounding_box()["height"] / 6
    assert heat.evaluate(PIXEL, [5.2 * side, 2.5 * side]) == [0x56, 0xB4, 0xE9]
    assert heat.evaluate(PIXEL, [4.2 * side, 2.5 * side]) == [0, 0x9E, 0x73]
    legend = shown.page.locator(".wb-legend").inner_text()
    assert "NaN: 1, expected 0" in legend
    assert "∞: 1, expected 0" in legend
    assert shown.page.locator(".wb-near .wb-here").inner_text().startswith("∞")
    shown.page.screenshot(path=pictures / "tensor-light.png")


def test_a_click_and_the_arrow_keys_choose_an_element(live: Live, show: Show):
    shown = opened(live, show)
    heat = shown.page.locator(".wb-heat")
    side = heat.bounding_box()["height"] / 6
    heat.click(position={"x": 1.5 * side, "y": 3.5 * side})
    assert shown.trait("at") == "1,2,3,1"
    heat.press("ArrowRight")
    heat.press("ArrowUp")
    assert shown.trait("at") == "1,2,2,2"
    live.answer(shown)
    assert live.view.at == "1,2,2,2"
    exact = f"{float(live.view.tensor.value[1, 2, 2, 2]):.8g}"
    assert f"[1, 2, 2, 2]: value {exact}" in reading(shown)
    assert "[1, 2, 2, 2]" in (shown.page.get_by_role("status").text_content() or "")


def test_sliders_and_axes_ask_python_for_slices(live: Live, show: Show):
    shown = opened(live, show)
    shown.page.get_by_role("slider", name="Index along axis 1").press("ArrowLeft")
    shown.page.wait_for_function("() => window.__wbModel.get('slice') === '1,1,:,:'")
    live.answer(shown)
    assert live.view.slice == "1,1,:,:"
    assert f"[{live.view.at.replace(',', ', ')}]" in reading(shown)
    shown.page.get_by_label("Axes of the slice").select_option("1,3")
    live.answer(shown)
    assert live.view.slice.count(":") == 2
    assert live.view.slice.split(",")[1::2] == [":", ":"]
    assert shown.page.get_by_role("slider", name="Index along axis 2").count() == 1
    shown.page.get_by_role("button", name="Go to the element with the largest error").click()
    live.answer(shown)
    assert live.view.at == "1,2,2,4"


def test_layers_are_tabs(live: Live, show: Show, pictures: Path):
    shown = opened(live, show, dark=True, width=700)
    shown.page.get_by_role("tab", name="Image").click()
    assert shown.trait("layer") == "image"
    assert "value | reference | |error|" in shown.page.locator(".wb-legend").inner_text()
    shown.page.keyboard.press("ArrowLeft")
    assert shown.trait("layer") == "reference"
    parts = [shown.page.locator(s).bounding_box() for s in (".wb-slice", ".wb-figures")]
    assert parts[1]["y"] >= parts[0]["y"] + parts[0]["height"]
    shown.page.screenshot(path=pictures / "tensor-dark.png", full_page=True)


def test_a_stored_page_says_what_it_lacks(show: Show):
    shown = show(TensorView(tensor()), wait=".wb-near table")
    assert "other slices need a running notebook" in shown.page.locator(".wb-axes").inner_text()
    assert shown.page.locator(".wb-axes input").count() == 0
    shown.page.locator(".wb-heat").press("ArrowLeft")
    assert "[1, 2, 2, 3]: value" in reading(shown)


def test_what_has_no_slice_is_words(show: Show):
    shown = show(TensorView(wb.inspect(np.ones((2, 3)), np.ones((3, 2)))), wait=".wb-statement")
    assert "no counterpart" in shown.page.locator(".wb-statement").inner_text()
    assert shown.page.locator(".wb-heat").count() == 0
