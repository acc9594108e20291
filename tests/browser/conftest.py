"""A page of headless Chromium that shows a view's own HTML, and notes every complaint and request."""

from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page


@dataclass
class Shown:
    """A view in the browser."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def canvas(self) -> Locator:
        """The first canvas."""
        return self.page.locator(".wb-canvas").first

    def nodes(self, pane: int = 0) -> list[dict[str, Any]]:
        """The nodes that are drawn, with their positions on the canvas."""
        return self.page.locator(".wb-canvas").nth(pane).evaluate("c => c.__wb.nodes()")

    def node(self, title: str, pane: int = 0) -> dict[str, Any]:
        """The first node of that title."""
        return next(n for n in self.nodes(pane) if n["title"] == title)

    def click(self, node: dict[str, Any], pane: int = 0) -> None:
        """Click in the middle of a node."""
        canvas = self.page.locator(".wb-canvas").nth(pane)
        canvas.click(position={"x": node["x"] + node["w"] / 2, "y": node["y"] + node["h"] / 2})

    def trait(self, name: str) -> Any:
        """A trait as Python would have it."""
        return self.page.evaluate("name => window.__wbModel.get(name)", name)

    def stats(self) -> dict[str, float]:
        """Frames drawn, time of the last, and when the first was painted."""
        return self.canvas.evaluate("c => ({...c.__wb.stats})")


class Pages:
    """Pages that tests use one after another: to open one takes longer than most tests do with it."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._opened: defaultdict[str, list[Shown]] = defaultdict(list)

    def take(self, number: int, context: dict[str, Any]) -> Shown:
        """The page of that number, in a context with these options, as if it were new."""
        opened = self._opened[repr(context)]
        while len(opened) <= number:
            opened.append(listening(self._chromium.new_context(**context).new_page()))
        shown = opened[number]
        shown.page.mouse.move(-1, -1)
        shown.page.context.clear_permissions()
        shown.complaints.clear()
        shown.requests.clear()
        return shown


def listening(page: Page) -> Shown:
    """A page whose complaints and requests are noted."""
    shown = Shown(page)
    page.on("console", lambda m: shown.complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: shown.complaints.append(str(e)))
    page.on("dialog", lambda d: (shown.complaints.append(f"dialog {d.message}"), d.dismiss()))
    page.on("request", lambda r: shown.requests.append(r.url))
    return shown


@pytest.fixture(scope="session")
def pages(chromium: Browser) -> Pages:
    """The pages of this process."""
    return Pages(chromium)


@pytest.fixture
def show(pages: Pages, tmp_path: Path) -> Generator[Callable[..., Shown]]:
    """`show(view)` opens the view's page; at the end there must be no complaint and no request."""
    opened: list[Shown] = []

    def open_page(
        view: Any,
        *,
        dark: bool = False,
        width: int = 1200,
        height: int = 760,
        wait: str = ".wb-canvas",
        before: str = "",
        **context: Any,
    ) -> Shown:
        path = tmp_path / f"view{len(opened)}.html"
        view.to_html(path)
        if before:
            text = path.read_text("utf-8")
            path.write_text(text.replace("<head>", f"<head><script>{before}</script>", 1), "utf-8")
        shown = pages.take(len(opened), context)
        shown.page.set_viewport_size({"width": width, "height": height})
        scheme = "dark" if dark else "light"
        shown.page.emulate_media(media="null", color_scheme=scheme, reduced_motion="reduce")
        shown.page.goto(path.as_uri())
        shown.page.locator(wait).first.wait_for(state="visible", timeout=10_000)
        while wait == ".wb-canvas" and shown.stats()["firstPaint"] is None:
            shown.page.wait_for_timeout(20)
        opened.append(shown)
        return shown

    yield open_page
    for shown in opened:
        fetched = [u for u in shown.requests if not u.startswith(("file:", "data:", "blob:"))]
        assert shown.complaints == []
        assert fetched == []
