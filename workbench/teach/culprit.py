"""Culprits: a fault is planted in a program, and the instruction is to be named from the views."""

from __future__ import annotations

from typing import Any

from workbench.compiler.builds.differences import differences
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.text.printing import names
from workbench.teach.exercise import Exercise, Feedback
from workbench.teach.stored import Asked


class Culprit(Exercise):
    """Name the instruction in which a faulty program differs from the right one.

    Args:
        question: The question.
        program: The right program, which the student has as the reference.
        faulty: The faulty one.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.

    Raises:
        OperationError: The programs do not differ.
    """

    expects = "an instruction, its id, its printed name such as '@13', or its node of the model"

    def __init__(
        self, question: str, program: Program, faulty: Program, *, because: str = "", **options: Any
    ) -> None:
        """Ask for the culprit."""
        super().__init__(question, **options)
        self.faulty, self.because = faulty, because
        found = differences(program, faulty)
        own = {theirs: mine for mine, theirs in found.ids[1].items()}
        # A user of a changed instruction has other inputs, and is otherwise the same.
        edits = [e for step in found.recording for e in step.edits if e.law != "other inputs"]
        self._guilty = {own[id] for e in edits for id in (*e.changed, *e.added) if id in own}
        if not self._guilty:
            raise OperationError("the faulty program does not differ from the right one")

    def _check(self, given: Any) -> Feedback:
        ids = self._named(getattr(given, "id", given))
        if not ids:
            return Feedback(False, f"Expected {self.expects}; nothing is called {given!r}.")
        if ids & self._guilty:
            return Feedback(True, self.because)
        guilty = [i.order for i in self.faulty.main if i.id in self._guilty]
        asked = [i.order for i in self.faulty.main if i.id in ids]
        if asked and guilty and min(asked) > min(guilty):
            return Feedback(
                False, "It comes after the culprit: its error is inherited. Look further up."
            )
        return Feedback(
            False, "It comes before the culprit: its own results are right. Look further down."
        )

    def _named(self, given: Any) -> set[int]:
        """The ids of the main module's instructions that an answer names."""
        printed = names(self.faulty)
        return {
            i.id
            for i in self.faulty.main
            if given in (i.id, printed[i.id]) or (isinstance(given, str) and given in i.sources)
        }

    def field(self) -> Any:
        """A field for a name."""
        import ipywidgets  # noqa: PLC0415

        return ipywidgets.Text(placeholder="@13, or a node of the model")

    def on_page(self) -> Asked:
        """A field for a name; the feedback to every printed name and node is stored."""
        printed = names(self.faulty)
        known = {n: None for i in self.faulty.main for n in (printed[i.id], *i.sources)}
        return Asked(list(known), "Nothing is called that.")
