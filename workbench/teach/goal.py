"""Goals: a program is to be made smaller or faster, with the best so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.teach.exercise import Exercise, Feedback, amount


class Goal(Exercise):
    """Bring something down to a goal: kernels, bytes, milliseconds.

    Args:
        question: The question.
        measure: A function from the answer, such as a build or a list of passes, to a number; the lower the
            better. An exception that it raises is shown, and counts as a wrong answer.
        goal: The number to reach.
        unit: The unit, for messages.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.
    """

    expects = "something that can be measured"

    def __init__(
        self,
        question: str,
        measure: Callable[[Any], float],
        goal: float,
        *,
        unit: str = "",
        because: str = "",
        **options: Any,
    ) -> None:
        """Set a goal."""
        super().__init__(question, **options)
        self.measure, self.goal, self.unit, self.because = measure, goal, unit, because
        self.best: float | None = None
        """The lowest number so far."""

    def _check(self, given: Any) -> Feedback:
        try:
            found = float(self.measure(given))
        except Exception as error:
            return Feedback(False, f"{type(error).__name__}: {error}")
        if found != found:  # noqa: PLR0124 - NaN
            return Feedback(False, "The measurement gave no number.")
        self.best = found if self.best is None else min(self.best, found)
        said = amount(found, self.unit)
        goal = f"the goal is {amount(self.goal)}, the best so far {amount(self.best)}"
        if found <= self.goal:
            return Feedback(True, f"{said}; {goal}. {self.because}".strip())
        return Feedback(False, f"{said}; {goal}.")
