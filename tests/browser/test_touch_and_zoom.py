"""Graphs under fingers, and views on a page at 200 %."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Shown
from tests.widgets.networks import recorded, residual
from tests.widgets.views import found, made
from workbench.widgets import GraphView, PassExplorer
from workbench.widgets.base_view import BaseView

pytestmark = pytest.mark.browser
GRAPHS = {
    "graph": lambda: GraphView(residual(2)),
    "explorer": lambda: PassExplorer(recorded(residual(2))),
}
OUT_OF_REACH = """() => [...document.querySelectorAll("button, input, select, [role=slider]")]
  .filter((e) => e.checkVisibility() && !e.disabled && !e.closest(".wb-tree")).filter((e) => {
    e.scrollIntoView({ block: "nearest", inline: "nearest" });
    const { x, y, width, height } = e.getBoundingClientRect();
    const at = document.elementFromPoint(x + width / 2, y + height / 2);
    return !at || !(e.contains(at) || at.contains(e));
  }).map((e) => e.outerHTML)"""


class Fingers:
    """Fingers on a page's first canvas; each place is measured from the canvas's corner."""

    def __init__(self, shown: Shown) -> None:
        self.send = shown.page.context.new_cdp_session(shown.page).send
        self.corner = shown.canvas.bounding_box()

    def go(self, *ways: list[tuple[float, float]]) -> None:
        """Each finger goes its way, step by step beside the others."""
        for k, places in enumerate(zip(*ways, strict=True)):
            self.event("touchMove" if k else "touchStart", places)
        self.event("touchEnd", ())

    def event(self, kind: str, places) -> None:
        at = [
            {"id": n, "x": self.corner["x"] + x, "y": self.corner["y"] + y}
            for n, (x, y) in enumerate(places)
        ]
        self.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})


@pytest.mark.parametrize("name", GRAPHS)
def test_one_finger_moves_two_zoom_and_a_tap_selects(show: Callable[..., Shown], name: str):
    shown = show(GRAPHS[name](), has_touch=True)
    fingers = Fingers(shown)
    before = shown.node("convolution")
    fingers.go([(150.0, 300 - 10 * k) for k in range(9)])
    after = shown.node("convolution")
    assert after["y"] == pytest.approx(before["y"] - 80, abs=1)
    assert after["w"] == before["w"]
    assert shown.trait("selected") is None

    fingers.go([(150.0, 200 - 5 * k) for k in range(6)], [(150.0, 250 + 5 * k) for k in range(6)])
    wider = shown.node("convolution")
    assert wider["w"] == pytest.approx(2 * after["w"], rel=0.05)
    middle = 225
    assert wider["y"] - middle == pytest.approx(2 * (after["y"] - middle), abs=4)
    assert shown.trait("selected") is None

    fingers.go([(100.0, 225), (120.0, 225)], [(200.0, 225), (180.0, 225)])
    node = next(n for n in shown.nodes() if n["x"] > 0 and 0 < n["y"] < 300 and n.get("id"))
    fingers.go([(node["x"] + 20, node["y"] + 10)])
    assert shown.trait("selected") == node["id"]


@pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)
def test_at_200_percent_everything_is_in_reach(
    show: Callable[..., Shown], view: type[BaseView], pictures: Path
):
    wait = ".wb-canvas" if "highlight" in view.class_trait_names() else ".wb-root"
    shown = show(made(view), width=640, height=400, wait=wait, device_scale_factor=2)
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 640
    assert shown.page.evaluate(OUT_OF_REACH) == []
    for canvas in shown.page.locator(".wb-canvas").all():
        box = canvas.bounding_box()
        assert box["width"] >= 200
        assert box["height"] >= 200
    if wait == ".wb-canvas":
        shown.page.evaluate("scrollTo(0, 0)")
        wide = shown.canvas.bounding_box()["width"] - 80
        node = next(n for n in shown.nodes() if 0 < n["y"] < 150 and 0 < n["x"] < wide)
        shown.click(node)
        assert shown.trait("selected") == node["id"]
    shown.page.screenshot(path=pictures / f"zoom-200-{view.__name__}.png")
