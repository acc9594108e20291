"""Headless Chromium for the bench: pages, the first paint of a graph, frames during a drag."""

import itertools
import math
import statistics
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

FLAGS = ["--disable-gpu", "--no-sandbox", "--disable-background-networking", "--no-first-run"]
WITH_WEBGL = ["--enable-unsafe-swiftshader", "--use-angle=swiftshader"]
"""For pages that draw with WebGL, on a machine without a GPU."""
SIZE = {"width": 1280, "height": 800}
# Netron replaces eval, which the driver itself needs.
KEEP_EVAL = "const e = window.eval; Object.defineProperty(window, 'eval', {get: () => e, set() {}})"
PAINTED = """() => [...document.querySelectorAll('canvas')].some((canvas) => {
  const context = canvas.width && canvas.getContext('2d');
  if (!context) return false;
  const data = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const colours = new Set();
  for (let k = 0; k < data.length; k += 7) colours.add(data[k]);
  return colours.size > 3;
})"""
COUNT_FRAMES = """() => {
  const frames = window.__frames = [];
  const tick = (now) => {
    frames.push(now);
    if (window.__frames === frames) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""
FRAMES = "() => { const frames = window.__frames; window.__frames = null; return frames; }"


@contextmanager
def chromium(executable: str | None, more: Iterable[str] = ()) -> Generator[Any]:
    """A headless browser; `executable` is where Chromium is, or None for Playwright's own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS, *more])
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser: Any, allowed: Iterable[str] = ()) -> Any:
    """A page that may load files, and from the network only addresses that start as allowed."""
    context = browser.new_context(viewport=SIZE)
    allowed = ("file:", "data:", "blob:", "about:", *allowed)
    context.route("**/*", lambda route: _guard(route, allowed))
    page = context.new_page()
    page.add_init_script(KEEP_EVAL)
    return page


def _guard(route: Any, allowed: tuple[str, ...]) -> None:
    """Lets a request through, or not."""
    if route.request.url.startswith(allowed):
        route.continue_()
    else:
        route.abort()


def drag(element: Any, seconds: float = 3.0) -> list[float]:
    """Drags over an element in circles; the seconds between the frames drawn meanwhile."""
    page, box = element.page, element.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    radius = min(box["width"], box["height"]) / 4
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(COUNT_FRAMES)
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        angle = 2 * math.pi * passed
        page.mouse.move(x + radius * math.sin(angle), y + radius * math.cos(angle))
    page.mouse.up()
    stamps = page.evaluate(FRAMES)
    return [(b - a) / 1e3 for a, b in itertools.pairwise(stamps)]


def worst_rate(gaps: list[float], window: float = 0.25) -> float:
    """The lowest frame rate over any stretch of consecutive frames that lasts a quarter second."""
    worst, first, length = math.inf, 0, 0.0
    for last, gap in enumerate(gaps):
        length += gap
        while length - gaps[first] >= window:
            length -= gaps[first]
            first += 1
        if length >= window:
            worst = min(worst, (last - first + 1) / length)
    return worst


def typical_rate(gaps: list[float]) -> float:
    """The median frame rate."""
    return 1 / statistics.median(gaps)
