"""Every error that the workbench raises on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class WorkbenchError(Exception):
    """Base of all errors that a user of the workbench can cause or should read."""

    recording: Any = None
    """For a failed compilation, the `Recording` of its passes so far; the last step has the error."""


class ShapeError(WorkbenchError, ValueError):
    """Operands that an operation's shape rule rejects."""


class OperationError(WorkbenchError, ValueError):
    """An operation name or attribute that does not exist, or a value out of range."""


class DifferentiationError(WorkbenchError, ValueError):
    """A value that cannot be differentiated, or a request for gradients that does not fit the program."""


class GraphError(WorkbenchError, ValueError):
    """An edit that would make a module invalid, or an invalid module."""


class TextError(WorkbenchError, ValueError):
    """A text form that does not parse; the message names the line."""


class ModelError(WorkbenchError, ValueError):
    """A model file that is missing, damaged, hostile, or uses an unsupported feature."""


class RuntimeValueError(ModelError):
    """A value that import needs but that is computed at run time; ``inputs`` names the inputs it depends on.

    Importing the model again with these inputs fixed (``constant_inputs``) resolves it.
    """

    def __init__(self, message: str, inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.inputs = inputs


class InputError(WorkbenchError, ValueError):
    """Inputs of a run that do not fit the program's parameters."""


class EvaluationError(WorkbenchError, RuntimeError):
    """An instruction that failed during evaluation."""

    instruction: Any = None
    """The `Instruction` that failed, if an interpreter ran it; one of the main module as far as possible."""


class DeviceError(WorkbenchError, RuntimeError):
    """A device that is missing or full, or a kernel that does not compile or failed; with a remedy.

    ``instruction`` is the `Instruction` of the kernel, or None if the device itself is the problem.
    """

    def __init__(self, message: str = "", instruction: Any = None) -> None:
        super().__init__(message)
        self.instruction = instruction


class RewriteError(WorkbenchError, RuntimeError):
    """A pass or rule that misbehaved: it raised, returned a wrong value, or never terminated."""


class MeaningError(RewriteError):
    """A pass after which a program computes different results."""

    step: Any = None
    """The `Step` of the recording that caused the difference."""
    edit: Any = None
    """The `Edit` of that step after which results differ."""
    instruction: Any = None
    """The `Instruction` with the first wrong value after that edit, if values could be compared."""


class PrecisionError(WorkbenchError, RuntimeError):
    """A tolerance that no choice of types meets."""

    result: Any = None
    """The `MixedPrecision` with the smallest error that was found."""


def did_you_mean(name: str, known: Iterable[str], show: Callable[[str], str] = str) -> str:
    """The end of a message about an unknown name: the three known ones that are most like it, if any are.

    Args:
        name: The unknown name.
        known: The known ones.
        show: Writes a name.
    """
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, list(known), 3)
    return f"; did you mean {' or '.join(map(show, near))}?" if near else ""
