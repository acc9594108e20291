"""Every view in Chromium: hostile names are text, and all that can be clicked is reached by keys."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Shown
from tests.widgets.views import found, made
from workbench.widgets.base_view import BaseView

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]
views = pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)
MOST_STOPS = 200
PRESSES = {"ArrowUp": 60, "ArrowDown": 60, "ArrowRight": 8}

# An element is known by its words: lists are made anew while they are walked.
NOTES = """
const add = EventTarget.prototype.addEventListener;
window.clickable = new Set();
EventTarget.prototype.addEventListener = function (type, ...rest) {
  if (type === "click" && this instanceof Element) window.clickable.add(this);
  return add.call(this, type, ...rest);
};
window.reached = new Set();
window.named = (el) => `${el.tagName} ${el.getAttribute("aria-label") ?? el.textContent}`;
window.reach = () => {
  const chosen = document.querySelectorAll(".wb-item.wb-chosen");
  for (const el of [document.activeElement, ...chosen]) window.reached.add(window.named(el));
};
"""
UNREACHED = """() => {
  const parts = new Set([...window.clickable, ...document.querySelectorAll("button, input, a[href]")]);
  // One handler of a slider moves between all of its parts.
  const here = (el) => el.isConnected && el.checkVisibility() && !el.matches(":disabled");
  return [...parts].filter((el) => here(el) && !el.closest("[role=slider] > *"))
    .map((el) => window.named(el)).filter((name) => !window.reached.has(name));
}"""
STATE = """() => {
  window.reach();
  const el = document.activeElement, all = [...document.querySelectorAll("*")];
  const own = ["selected", "step", "edit", "kernel", "tab", "at", "layer"];
  const names = [...own, "passes_step", "passes_edit", "kernels_kernel", "kernels_tab"];
  const traits = names.map((name) => window.__wbModel.get(name));
  return JSON.stringify([traits, all.indexOf(el), el.scrollTop, el.getAttribute("aria-activedescendant")]);
}"""
IS_WALKED = (
    """() => document.activeElement.matches("[tabindex='0']:not(input, button), [role=tab]")"""
)
RESTS = """() => {
  const el = document.activeElement;
  return el.scrollHeight <= el.clientHeight && !el.matches("[role=slider], [role=tree], [role=tab], tr");
}"""
ON_NAMES = """() => [...document.querySelectorAll(".wb-root *")]
  .flatMap((el) => el.getAttributeNames()).filter((name) => name.startsWith("on"))"""


def stops(page: Page) -> Iterator[str]:
    """Goes through the page by the Tab key, and says where it stops."""
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement === document.body"):
            return
        yield page.evaluate("() => (window.reach(), window.named(document.activeElement))")
    raise AssertionError(f"the Tab key has not come round after {MOST_STOPS} stops")


def walked(page: Page) -> bool:
    """Presses arrow keys until nothing more happens; whether anything did."""
    states = [page.evaluate(STATE)]
    for key, most in PRESSES.items():
        for _ in range(most):
            page.keyboard.press(key)
            states.append(page.evaluate(STATE))
            if states[-1] == states[-2]:
                break
    return len(set(states)) > 1


def dead_stops(page: Page) -> list[str]:
    """Goes through the page and walks each list; the stops that can be walked, but are not."""
    dead: list[str] = []
    for stop in stops(page):
        if page.evaluate(IS_WALKED):
            rests = page.evaluate(RESTS)
            if not walked(page) and not rests:
                dead.append(stop)
    return dead


@views
def test_all_that_can_be_clicked_is_reached_by_keys(view: type[BaseView], show: Show):
    page = show(made(view), wait=".wb-root", before=NOTES).page
    assert dead_stops(page) == []
    if page.evaluate(UNREACHED):  # what a list shows may depend on one that comes after it
        dead_stops(page)
    assert page.evaluate(UNREACHED) == []


@views
def test_hostile_names_are_only_ever_text(view: type[BaseView], show: Show, pictures: Path):
    shown = show(made(view, unfriendly=True), wait=".wb-root")
    for key in ("Tab", "/", "Escape", "ArrowDown", "Enter", "f"):
        shown.page.keyboard.press(key)
    shown.page.mouse.move(400, 300)
    shown.page.screenshot(path=pictures / f"hostile-{view.__name__}.png")
    assert shown.page.locator("img, iframe, svg, .wb-root script").count() == 0
    assert "onerror=alert(1)" in shown.page.locator(".wb-root").first.inner_text()
    assert shown.page.evaluate(ON_NAMES) == []
