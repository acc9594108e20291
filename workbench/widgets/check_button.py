"""The button that checks an answer, whose click takes along what the field holds in the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from ipywidgets import Widget

from workbench.widgets import assets


class CheckButton(anywidget.AnyWidget):
    """A button beside a field.

    A change of a field waits in the browser until Python has taken the change before; a click does not wait.
    So the click has the field's content with it, as if that had come first.

    Args:
        of: The field: a view, or a widget with an index or a value.
        check: What to do once the field's content has come.
    """

    _esm = assets.module("check_button.js")
    field = traitlets.Unicode().tag(sync=True)
    """The field's model in the browser."""
    holds = traitlets.Unicode().tag(sync=True)
    """The trait of the field that is the answer."""

    def __init__(self, of: Widget, check: Callable[[], None]) -> None:
        """Make the button of a field."""
        holds = next(trait for trait in ("selected", "index", "value") if trait in of.keys)
        super().__init__(field=of.model_id or "", holds=holds)
        self._of, self._check = of, check
        self.on_msg(self._clicked)

    def _clicked(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and self.holds in content:
            self._of.set_state({self.holds: content[self.holds]})
        self._check()
