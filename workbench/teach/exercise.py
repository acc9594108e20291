"""Exercises: a question, answers that are checked, hints in steps, and the progress of a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from workbench.compiler.errors import OperationError

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.teach.stored import Asked


def _display(data: dict[str, Any]) -> None:
    """Show an output before that of the cell's last expression."""
    shell: Any = import_module("IPython.display")
    shell.display(data, raw=True)


@dataclass(frozen=True)
class Feedback:
    """The response to an answer: whether it is right, and why."""

    right: bool
    message: str
    """One sentence or two: what is right, or where to look again."""
    shown: Any = None
    """Something to look at, such as the graphs before and after a wrong rule; None if there is nothing."""

    def __bool__(self) -> bool:
        """Whether the answer was right."""
        return self.right

    def __str__(self) -> str:
        """The verdict and the message."""
        return f"{'Right' if self.right else 'Not yet'}. {self.message}".strip()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        head = f"<p><strong>{'Right' if self.right else 'Not yet'}.</strong> {escape(self.message)}</p>"
        data: dict[str, Any] = {"text/plain": str(self), "text/html": head}
        if self.shown is None or not hasattr(self.shown, "_repr_mimebundle_"):
            return data
        _display(data)
        return self.shown._repr_mimebundle_(**options)


class Exercise(ABC):
    """A question with a check of its own.

    In a notebook it shows a form. `answer` does the same from code; such a cell keeps the answer in the
    notebook, which is also how nbgrader collects it.

    Args:
        question: The question.
        hints: Hints, from a slight one to the full way.
        name: A short name, unique in the notebook, by which progress is listed; by default the question.
        points: Points for a right answer.
    """

    expects = "an answer"
    """The kind of answer, for messages."""
    view: Any = None
    """The view that the question is about, which a page without a kernel shows; None if there is none."""

    def __init__(
        self, question: str, *, hints: Sequence[str] = (), name: str = "", points: int = 1
    ) -> None:
        """Ask a question, which replaces one of the same name."""
        self.question = question
        self.hints = tuple(hints)
        self.name = name or question
        self.points = points
        self.attempts: list[Feedback] = []
        self.hints_shown = 0
        _EXERCISES[self.name] = self

    @property
    def solved(self) -> bool:
        """Whether an answer was right."""
        return any(self.attempts)

    def answer(self, given: Any) -> Feedback:
        """Check an answer.

        Args:
            given: The answer; its type depends on the exercise.

        Returns:
            The feedback. It never raises for a wrong answer, or for one of the wrong type.
        """
        found = self._check(given)
        self.attempts.append(found)
        return found

    def hint(self) -> str:
        """The next hint; the last one again if there are no more."""
        if not self.hints:
            return "There are no hints; look at the views again."
        self.hints_shown = min(self.hints_shown + 1, len(self.hints))
        return self.hints[self.hints_shown - 1]

    def expect_solved(self) -> None:
        """Fail unless an answer was right, as nbgrader's test cells need it.

        Raises:
            AssertionError: No answer was right.
        """
        if not self.solved:
            tried = self.attempts[-1] if self.attempts else "There is no answer."
            raise AssertionError(f"{self.name}: {tried}")

    @abstractmethod
    def _check(self, given: Any) -> Feedback:
        """The feedback to an answer."""

    def feedback(self, given: Any) -> Feedback:
        """The feedback to an answer, which is not noted as an attempt."""
        return self._check(given)

    def on_page(self) -> Asked | None:
        """Returns the form for pages without Python, or None if only Python can check an answer."""
        return None

    def field(self) -> Any:
        """The widget that takes the answer, with a ``value``; None if answers are given in code only."""
        return None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        from workbench.knobs import knobs  # noqa: PLC0415
        from workbench.teach.form import form  # noqa: PLC0415
        from workbench.teach.stored import stored  # noqa: PLC0415
        from workbench.widgets.display import html_bundle, is_unattended  # noqa: PLC0415
        from workbench.widgets.saved import MIME, NOTHING  # noqa: PLC0415

        unattended = is_unattended()
        shown: Any = None if unattended else form(self)
        widget = None if shown is None else shown._repr_mimebundle_(**options)
        asked = f"<p><strong>{escape(self.question)}</strong></p><p>Run the cell to answer.</p>"
        data, metadata = html_bundle(widget, asked, repr(self))
        if not unattended:
            return data, metadata
        if self.view is not None:
            _display(data | {MIME: {**NOTHING, "asked": "below"}})  # a live page asks there
            data, metadata = self.view._repr_mimebundle_(**options)
        return data | ({} if knobs.static else {MIME: stored(self)}), metadata

    def __repr__(self) -> str:
        """The name and how it stands."""
        stands = "solved" if self.solved else f"{len(self.attempts)} answers, none right"
        return f"<{type(self).__name__} {self.name!r}: {stands}>"


_EXERCISES: WeakValueDictionary[str, Exercise] = WeakValueDictionary()


def progress() -> DataFrame:
    """A row for each exercise that was asked in this kernel: solved, answers, hints taken, points."""
    import pandas as pd  # noqa: PLC0415

    rows = [
        {
            "exercise": e.name,
            "solved": e.solved,
            "answers": len(e.attempts),
            "hints": e.hints_shown,
            "points": e.points if e.solved else 0,
            "of": e.points,
        }
        for e in _EXERCISES.values()
    ]
    columns = ["exercise", "solved", "answers", "hints", "points", "of"]
    return pd.DataFrame(rows, columns=pd.Index(columns)).set_index("exercise")


def known(truth: Any) -> Any:
    """The truth; where it is a function, what it computes now, so that no key stands in the notebook.

    Raises:
        OperationError: The function failed, which is the exercise's fault and not the student's.
    """
    if not callable(truth):
        return truth
    try:
        return truth()
    except Exception as error:
        raise OperationError(f"the exercise cannot compute its own answer: {error}") from error


def amount(number: float, unit: str = "") -> str:
    """A number with its unit, which is a plural or an abbreviation: ``1,024 bytes``, ``1 kernel``."""
    is_whole = float(number).is_integer() and abs(number) < _EXACT
    shown = f"{number:,.0f}" if is_whole else f"{number:g}"
    return f"{shown} {unit.removesuffix('s') if number == 1 else unit}".strip()


_EXACT = 1e15
"""Numbers below this are printed with all digits if they are whole."""
