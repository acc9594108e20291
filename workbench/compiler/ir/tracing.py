"""Traces of passes and runs, provided from outside the compiler; by default nothing is printed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from workbench.compiler.ir.listener import Listener
    from workbench.compiler.ir.program import Program

PassTrace: TypeAlias = "Callable[[Program, str], Sequence[Listener]]"
"""Returns listeners for passes about to run on a program, for ``compile`` or ``quantize``."""

RunTrace: TypeAlias = "Callable[[Program, Mapping[str, Any]], list[Any] | None]"
"""Runs a program on inputs by name and prints a trace; None if no trace is wanted."""

_PASS_TRACES: list[PassTrace] = []
_RUN_TRACES: list[RunTrace] = []


def provide(passes: PassTrace, runs: RunTrace) -> None:
    """Set the functions to call when passes or a program are about to run."""
    _PASS_TRACES.append(passes)
    _RUN_TRACES.append(runs)


def listeners(program: Program, purpose: str) -> list[Listener]:
    """The listeners for passes that run on a program."""
    return [one for trace in _PASS_TRACES for one in trace(program, purpose)]


@contextmanager
def traced(program: Program, purpose: str) -> Generator[None]:
    """Trace the passes that run on the program inside, if a trace is wanted."""
    added = listeners(program, purpose)
    program.listeners += added
    try:
        yield
    finally:
        for one in added:
            program.listeners.remove(one)


def traced_run(program: Program, inputs: Mapping[str, Any]) -> list[Any] | None:
    """The program's outputs from a traced run; None if no trace is wanted."""
    results = (trace(program, inputs) for trace in _RUN_TRACES)
    return next((found for found in results if found is not None), None)
