"""Errors of the runtime: the original's text, with the reason that the original only logs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from workbench.compiler.errors import WorkbenchError


class AITemplateError(WorkbenchError, RuntimeError):
    """A call of the runtime that failed: ``Error in function: <call>: <reason>``."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"Error in function: {function}: {reason}")
        self.function = function
        self.reason = reason


RUN = "AITemplateModelContainerRun"
SET_CONSTANT = "AITemplateModelContainerSetConstant"
FOLD = "AITemplateModelContainerFoldConstants"


@contextmanager
def named(function: str) -> Generator[None]:
    """Raise errors of the core as those of one of the runtime's functions."""
    try:
        yield
    except AITemplateError:
        raise
    except WorkbenchError as error:
        raise AITemplateError(function, str(error)) from error
