"""Predictions, checked against what the program really does: numbers, choices, texts, picks in a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from workbench.compiler.errors import OperationError
from workbench.teach.exercise import Exercise, Feedback, amount, known


class Number(Exercise):
    """A number is to be predicted: how many kernels, bytes, instructions.

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
        if abs(number - truth) <= self.within * abs(truth):
            return Feedback(True, self.because)
        if number != number:  # noqa: PLR0124 - NaN
            return Feedback(False, "NaN is not a prediction.")
        said = amount(number, self.unit)
        return Feedback(False, f"{said} is too {'high' if number > truth else 'low'}.")

    def field(self) -> Any:
        """A field for a number."""
        import ipywidgets  # noqa: PLC0415

        return ipywidgets.Text(placeholder=f"a number of {self.unit}" if self.unit else "a number")


class Choice(Exercise):
    """One of several answers is right.

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


class Text(Exercise):
    """A short text is to be predicted: an operation, a shape, the name of a pass.

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
        truth = known(self.truth)
        right = {_plain(t) for t in ([truth] if isinstance(truth, str) else truth)}
        if _plain(given) in right:
            return Feedback(True, self.because)
        return Feedback(False, f"It is not {given!r}." if given.strip() else "The answer is empty.")

    def field(self) -> Any:
        """A field for a line of text."""
        import ipywidgets  # noqa: PLC0415

        return ipywidgets.Text()


class Pick(Exercise):
    """A node of a graph is to be clicked: the one that was added, that costs most, that loses accuracy.

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
        """Check an instruction; by default the one that is selected in the view."""
        return super().answer(self.view.selected if given is None else given)

    def _check(self, given: Any) -> Feedback:
        if given is None:
            return Feedback(False, "Nothing is selected; click a node of the graph.")
        id = getattr(given, "id", given)
        if not isinstance(id, int):
            return Feedback(False, f"Expected an instruction or its id; found {given!r}.")
        right = set(known(self.truth))
        if id in right:
            self.view.query = " or ".join(f"#{one}" for one in sorted(right))
            return Feedback(True, self.because)
        return Feedback(False, self.explain(id) if self.explain else "Look at another node.")

    def field(self) -> Any:
        """The view itself; what is selected in it is the answer."""
        return self.view


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()
