"""Checks after each pass of a compilation: the program must be valid and compute the same results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.errors import EvaluationError, GraphError, MeaningError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.listener import Listener, PassLike
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.validate import validate
from workbench.compiler.laws.claims import Claim, claims
from workbench.compiler.record.edits import Edit, Step
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.failures import place
from workbench.compiler.run.reference import Interpreter


class Validation(Listener):
    """A listener that validates the program after every pass."""

    def __init__(self, program: Program) -> None:
        """Watch a program."""
        self.program = program
        self.version = program.version

    def pass_ended(self, pass_: PassLike, error: BaseException | None) -> None:
        """Validate.

        Raises:
            GraphError: The pass left an invalid program; it is named.
        """
        if error is not None:
            return  # the pass's own error is reported instead
        try:
            validate(self.program)
        except GraphError as invalid:
            raise GraphError(f"after pass {pass_}: {invalid}") from invalid
        if self.version != self.program.version:
            self.version = self.program.version
            self.compare(pass_)

    def compare(self, pass_: PassLike) -> None:
        """Do nothing; a subclass may compare results."""


class MeaningCheck(Validation):
    """A listener that also runs the program after every pass and compares the results with the original ones.

    Args:
        recording: The recording of the program; it names the edit that caused a difference.
        inputs: An array for each parameter.
        tolerance: Relative RMS up to which results are equal; by default by the types in the program.
    """

    def __init__(
        self, recording: Recording, inputs: Mapping[str, Any], tolerance: float | None = None
    ) -> None:
        """Run the program in its current state; later results are compared with these."""
        super().__init__(recording.program)
        self.recording = recording
        self.inputs = dict(inputs)
        self.tolerance = tolerance
        self.wanted = Interpreter(self.program).run(self.inputs)

    def compare(self, pass_: PassLike) -> None:
        """Run, compare, and find the first edit after which the results differ.

        Raises:
            MeaningError: A result differs by more than the tolerance; the message names the pass, rule,
                instruction and nodes of the model.
        """
        problem = self._problem(self.program)
        if problem:
            step = next(s for s in reversed(self.recording.steps) if s.pass_ is pass_)
            edit = self._first_wrong(step)
            claim, reason = (None, "") if edit is None else self._first_broken(step, edit)
            error = MeaningError(_message(pass_, step, edit, problem) + reason)
            error.step, error.edit = step, edit
            error.instruction = None if claim is None else claim.after
            raise error

    def _problem(self, program: Program) -> str:
        """The problem with a program's results; empty if there is none."""
        try:
            found = Interpreter(program).run(self.inputs)
        except EvaluationError as error:
            return f"a run fails: {error}"
        limit = self._limit(program)
        for i, (one, other) in enumerate(zip(self.wanted, found, strict=True)):
            name = program.output_names[i] if i < len(program.output_names) else f"output {i}"
            if reason := difference(one, other, limit):
                return f"{name}: {reason}"
        return ""

    def _first_wrong(self, step: Step) -> Edit | None:
        """The first edit after which the results are wrong, by bisection."""
        low, high = 0, len(step.edits)  # right after `low` edits, wrong after `high`
        while high - low > 1:
            middle = (low + high) // 2
            if self._problem(step.after_edit(middle - 1)):
                high = middle
            else:
                low = middle
        return step.edits[high - 1] if step.edits else None

    def _first_broken(self, step: Step, edit: Edit) -> tuple[Claim | None, str]:
        """The first value that the edit made another one than it says, and the words for it."""
        before, after = step.after_edit(edit.index - 1), step.after_edit(edit.index)
        stated = claims(edit, before, after)
        try:
            wanted = self._values(before, {c.before.id for c in stated})
            found = self._values(after, {c.after.id for c in stated})
        except EvaluationError:
            return None, ""  # the message has the instruction already
        for claim in stated:
            if claim.before.id not in wanted or claim.after.id not in found:
                continue
            one, other = wanted[claim.before.id], found[claim.after.id]
            if reason := difference(one, other, self._limit(after)):
                return claim, f"; {_replacement(claim)}: {reason}"
        return None, ""

    def _values(self, program: Program, ids: set[int]) -> dict[int, Value]:
        """The values of some instructions of the main module."""
        known: dict[int, Value] = {}

        def keep(instruction: Instruction, value: Value, _: object) -> None:
            if instruction.id in ids:
                known[instruction.id] = value

        Interpreter(program).run(self.inputs, hook=keep)
        given = {i.id: self.inputs[n] for n, i in program.main.parameters.items() if i.id in ids}
        literals = {i.id: i.literal.numpy() for i in program.main if i.literal and i.id in ids}
        return known | given | literals

    def _limit(self, program: Program) -> float:
        return program_tolerance(program) if self.tolerance is None else self.tolerance


def _replacement(claim: Claim) -> str:
    """An instruction, and the one that it replaced."""
    before, after = claim
    same = before.id == after.id and before.op == after.op
    return place(after) if same else f"{place(after)} in place of {place(before)}"


def _message(pass_: PassLike, step: Step, edit: Edit | None, problem: str) -> str:
    where = f"after pass {pass_}: {problem}"
    if edit is None:
        return f"{where}; the pass made no edit"
    named = f"edit {edit.index + 1} of {len(step.edits)}, by {edit.label}"
    return f"{where}; it began with {named}: {edit.law}"
