"""The form of an exercise: the question, a field, buttons to check and for a hint, and the feedback."""

from __future__ import annotations

import re
from html import escape

import ipywidgets as widgets

from workbench.compiler.errors import WorkbenchError
from workbench.teach.exercise import Exercise, Feedback
from workbench.widgets.check_button import CheckButton


def form(exercise: Exercise) -> widgets.Widget:
    """The widget of an exercise; all of it is reached by keys, and the feedback is announced."""
    return _Form(exercise).box


class _Form:
    """The parts of a form, and what they do."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.field = exercise.field()
        self.said = widgets.HTML()
        self.shown = widgets.Output()
        hint = widgets.Button(description="Hint", disabled=not exercise.hints)
        hint.on_click(self.hint)
        asked = widgets.HTML(f"<strong>{_html(exercise.question)}</strong>")
        buttons = [hint] if self.field is None else [CheckButton(self.field, self.check), hint]
        rows = [asked, self.field, widgets.HBox(buttons), self.said, self.shown]
        self.box = widgets.VBox([row for row in rows if row is not None])
        if self.field is None:
            self._say(
                f"Answer in a cell: <code>.answer(…)</code> takes {escape(exercise.expects)}."
            )

    def hint(self, _button: object = None) -> None:
        """Show the next hint."""
        self._say(escape(self.exercise.hint()))

    def check(self) -> None:
        """Check what the field holds."""
        given = getattr(self.field, "value", None)
        try:
            found = self.exercise.answer(given)
        except WorkbenchError as error:
            found = Feedback(False, str(error))
        color = "var(--jp-success-color1, #006b3c)" if found else "var(--jp-warn-color0, #a04100)"
        head = "✓ Right." if found else "✗ Not yet."
        self._say(f'<strong style="color:{color}">{head}</strong> {_html(found.message)}')
        self.shown.clear_output()
        if found.shown is not None:
            self.shown.append_display_data(found.shown)

    def _say(self, html: str) -> None:
        self.said.value = f'<div role="status">{html}</div>'


def _html(text: str) -> str:
    """A text with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
