"""Predictions, checked against what the program really does: numbers, choices, texts, picks in a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from workbench.compiler.errors import OperationError
from workbench.teach.exercise import Exercise, Feedback, amount, known
from workbench.teach.stored import Asked

NEAR = 50
"""Whole numbers on either side of the truth to which a page without Python says too high or too low."""


class Number(Exercise):
    """Predict a number: how many kernels, bytes, instructions.

    Args:
        question: The question.
        truth: The number, or a function that computes it.
        within: The relative error that is accepted.
        unit: The unit, for messages.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.
    """

    expects = "a number"

    def __init__(
        self,
        question: str,
        truth: float | Callable[[], float],
        *,
        within: float = 0.0,
        unit: str = "",
        because: str = "",
        **options: Any,
    ) -> None:
        """Ask for a number."""
        super().__init__(question, **options)
        self.truth, self.within, self.unit, self.because = truth, within, unit, because

    def _check(self, given: Any) -> Feedback:
        try:
            number = float(given)
        except (TypeError, ValueError):
            return Feedback(False, f"Expected a number; found {given!r}.")
        truth = known(self.truth)
        if number == truth or abs(number - truth) <= self.within * abs(truth) < math.inf:
            return Feedback(True, self.because)
        if number != number:  # noqa: PLR0124 - NaN
            return Feedback(False, "NaN is not a prediction.")
        said = amount(number, self.unit)
        return Feedback(False, f"{said} is too {'high' if number > truth else 'low'}.")

    def field(self) -> Any:
        """A field for a number."""
        import ipywidgets  # noqa: PLC0415

        return ipywidgets.Text(placeholder=f"a number of {self.unit}" if self.unit else "a number")

    def on_page(self) -> Asked:
        """A field; the feedback to whole numbers near the truth, or to all right ones, is stored."""
        truth, otherwise = float(known(self.truth)), "That is not a number, or far away."
        if self.within and truth and math.isfinite(truth):
            digits = max(0, math.ceil(math.log10(2 / self.within)))
            return Asked(_within(truth, self.within, digits), otherwise, digits=digits)
        first = math.floor(truth) - NEAR if math.isfinite(truth) else 0
        return Asked((truth, *range(first, first + 2 * NEAR + 1)), otherwise, digits=14)


class Choice(Exercise):
    """Choose one of several answers.

    Args:
        question: The question.
        choices: The choices, each with what to say where it is wrong (or why it is right).
        truth: The right one, or a function that computes it.
        **options: Those of `Exercise`.

    Raises:
        OperationError: The right one is not among the choices.
    """

    expects = "one of the choices"

    def __init__(
        self,
        question: str,
        choices: Mapping[str, str] | Sequence[str],
        truth: str | Callable[[], str],
        **options: Any,
    ) -> None:
        """Ask for a choice."""
        super().__init__(question, **options)
        self.choices = dict(choices) if isinstance(choices, Mapping) else dict.fromkeys(choices, "")
        self.truth = truth
        if not callable(truth) and truth not in self.choices:
            raise OperationError(f"the right answer {truth!r} is not among the choices")

    def _check(self, given: Any) -> Feedback:
        if given not in self.choices:
            return Feedback(False, f"Expected one of: {', '.join(self.choices)}.")
        return Feedback(given == known(self.truth), self.choices[given])

    def field(self) -> Any:
        """A list of choices, none of them chosen."""
        import ipywidgets  # noqa: PLC0415

        whole = {"width": "max-content"}  # a line that is wrapped lies on the next choice
        return ipywidgets.RadioButtons(options=list(self.choices), value=None, layout=whole)

    def on_page(self) -> Asked:
        """The choices."""
        return Asked(self.choices, "", choices=tuple(self.choices))


class Text(Exercise):
    """Predict a short text: an operation, a shape, the name of a pass.

    Spaces and case do not count.

    Args:
        question: The question.
        truth: The text, several that are right, or a function that computes either.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.
    """

    expects = "a text"

    def __init__(
        self,
        question: str,
        truth: str | Collection[str] | Callable[[], str | Collection[str]],
        *,
        because: str = "",
        **options: Any,
    ) -> None:
        """Ask for a text."""
        super().__init__(question, **options)
        self.truth, self.because = truth, because

    def _check(self, given: Any) -> Feedback:
        if not isinstance(given, str):
            return Feedback(False, f"Expected a text; found {given!r}.")
        if _plain(given) in {_plain(text) for text in self._right()}:
            return Feedback(True, self.because)
        return Feedback(False, f"It is not {given!r}." if given.strip() else "The answer is empty.")

    def field(self) -> Any:
        """A field for a line of text."""
        import ipywidgets  # noqa: PLC0415

        return ipywidgets.Text()

    def on_page(self) -> Asked:
        """A field; only the feedback to right answers is stored."""
        return Asked(self._right(), "It is something else.")

    def _right(self) -> Collection[str]:
        truth = known(self.truth)
        return [truth] if isinstance(truth, str) else truth


class Pick(Exercise):
    """Click a node of a graph: the one that was added, that costs most, that loses accuracy.

    Args:
        question: The question.
        view: The view in which to click: a `GraphView`, a `PassExplorer`, a report's view.
        truth: The ids of the instructions that are right, or a function that computes them.
        explain: A function from a wrong id to a sentence that helps.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.
    """

    expects = "an instruction: its id, or a click in the graph"

    def __init__(
        self,
        question: str,
        view: Any,
        truth: Collection[int] | Callable[[], Collection[int]],
        *,
        explain: Callable[[int], str] | None = None,
        because: str = "",
        **options: Any,
    ) -> None:
        """Ask for a click."""
        super().__init__(question, **options)
        self.view, self.truth, self.explain, self.because = view, truth, explain, because

    def answer(self, given: Any = None) -> Feedback:
        """Check an instruction, by default the selected one; a right one is marked in the view."""
        found = super().answer(self.view.selected if given is None else given)
        if found:
            self.view.query = " or ".join(f"#{one}" for one in sorted(known(self.truth)))
        return found

    def _check(self, given: Any) -> Feedback:
        if given is None:
            return Feedback(False, "Nothing is selected; click a node of the graph.")
        id = getattr(given, "id", given)
        if not isinstance(id, int):
            return Feedback(False, f"Expected an instruction or its id; found {given!r}.")
        if id in set(known(self.truth)):
            return Feedback(True, self.because)
        return Feedback(False, self.explain(id) if self.explain else "Look at another node.")

    def field(self) -> Any:
        """The view itself; what is selected in it is the answer."""
        return self.view

    def on_page(self) -> Asked:
        """The view itself; the feedback to each instruction of its program is stored."""
        right = known(self.truth)
        program = getattr(self.view, "program", None)
        others = [i.id for i in program.instructions] if self.explain and program else []
        return Asked(
            [*right, *(id for id in others if id not in right)],
            "Look at another node.",
            is_click=True,
        )


def _within(truth: float, within: float, digits: int) -> Iterator[float]:
    """All numbers of so many digits after the point whose relative error is accepted."""
    low, high = abs(truth) * max(1 - within, 0.01), abs(truth) * (1 + within)
    yield truth
    for decade in range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1):
        scale = 10**digits
        first, last = (end / 10.0**decade * scale for end in (low, high))
        for k in range(max(math.ceil(first), scale), min(math.floor(last), 10 * scale - 1) + 1):
            yield math.copysign(k / scale * 10.0**decade, truth)


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()
