"""Improvements: a program is to be written anew, with the same results, for fewer kernels or bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.differences import differences
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.expressions.builder import trace
from workbench.compiler.ir.program import Program
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.parsing import parse
from workbench.teach.exercise import Feedback
from workbench.teach.goal import Goal


class Improve(Goal):
    """Rewrite a program so that it computes the same with less: fewer kernels, fewer bytes, less memory.

    The answer is a Python function of the program's parameters, as `trace` takes it, a program, or its text.

    Args:
        question: The question.
        program: The program to improve.
        measure: A function from the build of an answer to a number; the lower the better.
        goal: The number to reach.
        passes: What compiles an answer, as for `compile`.
        tolerance: Relative RMS up to which results are equal; by default by the types in the program.
        unit: The unit, for messages.
        because: The explanation that a right answer shows.
        **options: Those of `Exercise`.
    """

    expects = "a function of the program's parameters, a program or its text"

    def __init__(
        self,
        question: str,
        program: Program,
        measure: Callable[[Build], float],
        goal: float,
        *,
        passes: Any = "gpu",
        tolerance: float | None = None,
        **options: Any,
    ) -> None:
        """Set the goal."""
        super().__init__(question, lambda answer: measure(self.build(answer)), goal, **options)
        self.program, self.passes = program, passes
        self.tolerance = program_tolerance(program) if tolerance is None else tolerance
        self._inputs = generated_inputs(program)
        self._wanted = Interpreter(program).run(self._inputs)

    def build(self, answer: Callable[..., Any] | Program | str) -> Build:
        """The answer, compiled as it is measured."""
        return compile(self._program(answer), "ref", passes=self.passes)

    def _program(self, answer: Any) -> Program:
        if isinstance(answer, Program):
            return answer
        if isinstance(answer, str):
            return parse(answer)
        if not callable(answer):
            raise TypeError(f"expected {self.expects}; found {type(answer).__name__}")
        return trace(answer, **self.program.parameters)

    def _check(self, given: Any) -> Feedback:
        try:
            program = self._program(given)
            wrong = self._difference(program)
        except Exception as error:
            return Feedback(False, f"{type(error).__name__}: {error}")
        if wrong:
            shown = differences(self.program, program, names=["before", "after"])
            return Feedback(False, f"The results differ: {wrong}.", shown)
        return super()._check(program)

    def _difference(self, program: Program) -> str:
        """The difference between the results of two programs; empty if there is none."""
        if program.parameters != self.program.parameters:
            return f"the parameters are {program.parameters}, but were {self.program.parameters}"
        found = Interpreter(program).run(self._inputs)
        if len(found) != len(self._wanted):
            return f"there are {len(found)} results, but were {len(self._wanted)}"
        reasons = (
            difference(one, other, self.tolerance)
            for one, other in zip(self._wanted, found, strict=True)
        )
        return next((reason for reason in reasons if reason), "")
