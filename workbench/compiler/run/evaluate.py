"""One run of a program by an interpreter, with a trace if one is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from workbench.compiler.ir.tracing import traced_run
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.reference import Interpreter

AnyInterpreter: TypeAlias = Interpreter | PlannedInterpreter


def evaluate(
    interpreter: AnyInterpreter,
    inputs: Mapping[str, Any],
    times: dict[int, float] | None = None,
    progress: bool | None = False,
) -> list[Any]:
    """The values of a program's outputs; prints a trace if one is wanted.

    Args:
        interpreter: The interpreter of the program. A traced run uses its own.
        inputs: An array for each parameter, by name.
        times: Receives the seconds of each instruction of the main module, by id, if not traced.
        progress: Show a progress bar; None shows one after the first second.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
        EvaluationError: An instruction failed.
    """
    if (outputs := traced_run(interpreter.program, inputs)) is not None:
        return outputs
    return interpreter.run(inputs, times=times, progress=progress)
