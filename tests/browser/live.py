"""A page that talks to its view, as a notebook's does: each takes the traits that the other has changed."""

import base64
from pathlib import Path
from typing import Any

from tests.browser.conftest import Shown
from workbench.widgets.page import page

SET = "([name, value]) => window.__wbModel.set(name, value)"
# What is unpacked is drawn in the same turn, before the timer.
COUNTS = """<script>
  window.unpacking = 0;
  const read = Response.prototype.arrayBuffer;
  Response.prototype.arrayBuffer = function () {
    window.unpacking += 1;
    return read.call(this).finally(() => setTimeout(() => (window.unpacking -= 1)));
  };
</script>"""


def inlined(value: Any) -> Any:
    """A trait as a page has it: bytes are text."""
    if isinstance(value, list):
        return [inlined(item) for item in value]
    if not isinstance(value, bytes):
        return value
    return {"deflated": base64.b64encode(value).decode()} if value else None


class Live:
    """A view, and a page of it with nothing stored.

    Args:
        view: The view.
        names: The traits that its page reads, those of bytes included.
    """

    def __init__(self, view: Any, *names: str) -> None:
        self.view = view
        self.names = names
        self.known = self.traits()

    def traits(self) -> dict[str, Any]:
        found = {name: getattr(self.view, name) for name in self.names}
        return {name: inlined(value) for name, value in found.items()}

    def to_html(self, path: Path) -> None:
        text = page(self.view.entry, self.traits(), "live", "live")
        path.write_text(text.replace("<head>", f"<head>{COUNTS}", 1))

    def answer(self, shown: Shown) -> None:
        """Give the view what the browser changed, and the browser what the view has changed then, to draw."""
        for name, before in self.known.items():
            value = getattr(self.view, name)
            is_sent = isinstance(value, bytes) or name == "more"
            if not is_sent and (now := shown.trait(name)) != before:
                setattr(self.view, name, now)
        before, self.known = self.known, self.traits()
        for name, now in self.known.items():
            if now not in (before[name], shown.trait(name)):
                shown.page.evaluate(SET, [name, now])
        shown.page.wait_for_function("() => !window.unpacking")
