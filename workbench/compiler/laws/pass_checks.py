"""Watching the passes of a compilation: is the program valid after each, does it compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import EvaluationError, GraphError, MeaningError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.listener import Listener, PassLike
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.validate import validate
from workbench.compiler.record.edits import Edit, Step
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import Interpreter

TOLERANCES = {
    DType.DOUBLE: 1e-9,
    DType.FLOAT: 1e-4,
    DType.HALF: 2e-2,
    DType.BF16: 1e-1,
}
"""Relative RMS up to which two results are equal, by the narrowest float type that a program computes in."""
NARROW = 0.5
"""The same for floats of 8 bits and fewer."""


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
            return  # the pass's own error is said, and nothing else
        try:
            validate(self.program)
        except GraphError as invalid:
            raise GraphError(f"after pass {pass_}: {invalid}") from invalid
        if self.version != self.program.version:
            self.version = self.program.version
            self.compare(pass_)

    def compare(self, pass_: PassLike) -> None:
        """Nothing more is checked."""


class MeaningCheck(Validation):
    """A listener that also runs the program after every pass and compares the results with the first.

    Args:
        recording: What is being recorded of the program; it names the edit that is to blame.
        inputs: An array for each parameter.
        tolerance: Relative RMS up to which results are equal; by default by the types in the program.
    """

    def __init__(
        self, recording: Recording, inputs: Mapping[str, Any], tolerance: float | None = None
    ) -> None:
        """Run the program as it is now: that is what later results are compared with."""
        super().__init__(recording.program)
        self.recording = recording
        self.inputs = dict(inputs)
        self.tolerance = tolerance
        self.wanted = Interpreter(self.program).run(self.inputs)

    def compare(self, pass_: PassLike) -> None:
        """Run, compare, and find the edit after which the results differ.

        Raises:
            MeaningError: A result differs by more than the tolerance; the message names pass and rule.
        """
        problem = self._problem(self.program)
        if problem:
            step = next(s for s in reversed(self.recording.steps) if s.pass_ is pass_)
            edit = self._first_wrong(step)
            error = MeaningError(_message(pass_, step, edit, problem))
            error.step, error.edit = step, edit
            raise error

    def _problem(self, program: Program) -> str:
        """What is wrong with a program's results; empty if nothing is."""
        try:
            found = Interpreter(program).run(self.inputs)
        except EvaluationError as error:
            return f"a run fails: {error}"
        limit = narrowest_tolerance(program) if self.tolerance is None else self.tolerance
        for i, (one, other) in enumerate(zip(self.wanted, found, strict=True)):
            name = program.output_names[i] if i < len(program.output_names) else f"output {i}"
            if reason := difference(one, other, limit):
                return f"{name}: {reason}"
        return ""

    def _first_wrong(self, step: Step) -> Edit | None:
        """By bisection, the edit after which results are wrong."""
        low, high = 0, len(step.edits)  # right after `low` edits, wrong after `high`
        while high - low > 1:
            middle = (low + high) // 2
            if self._problem(step.after_edit(middle - 1)):
                high = middle
            else:
                low = middle
        return step.edits[high - 1] if step.edits else None


def narrowest_tolerance(program: Program) -> float:
    """The tolerance for the narrowest float type in which a program has values."""
    types = {
        s.type
        for i in program.instructions
        for s in (i.shape.subs or (i.shape,))
        if s.subs is None and s.type.is_float
    }
    found = [TOLERANCES.get(t, NARROW) for t in types]
    return max(found, default=0.0)


def difference(wanted: Any, found: Any, tolerance: float) -> str:
    """How a result differs from the one that is wanted; empty where they are equal.

    Floats are equal up to a relative RMS of ``tolerance``, with NaN and infinities in the same places;
    everything else is equal exactly.
    """
    if isinstance(wanted, tuple | list):
        pairs = zip(cast("Sequence[Any]", wanted), cast("Sequence[Any]", found), strict=True)
        return next((p for p in (difference(a, b, tolerance) for a, b in pairs) if p), "")
    a, b = np.asarray(wanted), np.asarray(found)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{b.dtype} of lens {list(b.shape)}; it was {a.dtype} of {list(a.shape)}"
    if not _is_float(a):
        count = int(np.count_nonzero(a != b))
        return f"{count} of {a.size} elements differ" if count else ""
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if bool(np.any(~finite & ~same)):
        return "a NaN or an infinity is not where it was"
    scale = _rms(x[np.isfinite(x)])
    relative = _rms(x[finite] - y[finite]) / max(scale, 1e-30)
    return f"relative RMS {relative:.3g}, more than {tolerance:.3g}" if relative > tolerance else ""


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _is_float(array: Any) -> bool:
    return array.dtype.kind in "fV" or "float" in str(array.dtype)


def _message(pass_: PassLike, step: Step, edit: Edit | None, problem: str) -> str:
    where = f"after pass {pass_}: {problem}"
    if edit is None:
        return f"{where}; the pass made no edit"
    named = f"edit {edit.index + 1} of {len(step.edits)}, by {edit.label}"
    return f"{where}; it began with {named}: {edit.law}"
