"""Every error that the workbench raises on purpose."""

from __future__ import annotations

from typing import Any


class WorkbenchError(Exception):
    """Base of all errors that a user of the workbench can cause or should read."""

    recording: Any = None
    """Where a compilation failed: the `Recording` of its passes until then, the last step with its error."""


class ShapeError(WorkbenchError, ValueError):
    """An operation was given operands that its shape rule refuses."""


class OperationError(WorkbenchError, ValueError):
    """An operation name or attribute that does not exist, or has a value out of its range."""


class GraphError(WorkbenchError, ValueError):
    """An edit that would make a module invalid, or a module found to be invalid."""


class TextError(WorkbenchError, ValueError):
    """A text form that does not parse; the message names the line."""


class ModelError(WorkbenchError, ValueError):
    """A model file that is missing, damaged, hostile or uses something that is not supported."""


class RuntimeValueError(ModelError):
    """A value that is needed at import and computed at run time; ``inputs`` names what it follows from.

    Importing the model again with these inputs fixed (``constant_inputs``) resolves it.
    """

    def __init__(self, message: str, inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.inputs = inputs


class InputError(WorkbenchError, ValueError):
    """Inputs of a run that do not fit the program's parameters."""


class EvaluationError(WorkbenchError, RuntimeError):
    """An instruction that failed while it was being evaluated."""


class DeviceError(WorkbenchError, RuntimeError):
    """A device is missing or full, or a kernel does not compile or failed; says which and what to do."""


class RewriteError(WorkbenchError, RuntimeError):
    """A pass or rule that misbehaved: it raised, returned a wrong value, or never came to rest."""


class MeaningError(RewriteError):
    """A pass after which a program computes something else."""

    step: Any = None
    """The `Step` of the recording that went wrong."""
    edit: Any = None
    """The `Edit` of that step after which results differ."""
