"""Traces of passes and runs, provided from outside of the compiler: without any, nothing is printed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from workbench.compiler.ir.listener import Listener
    from workbench.compiler.ir.program import Program

PassTrace: TypeAlias = "Callable[[Program, str], Sequence[Listener]]"
"""Gives listeners for passes that are about to run on a program, and for what: ``compile``, ``quantize``."""

RunTrace: TypeAlias = "Callable[[Program, Mapping[str, Any]], list[Any] | None]"
"""Runs a program on inputs by name and says what happens; None where no trace is wanted."""

_PASS_TRACES: list[PassTrace] = []
_RUN_TRACES: list[RunTrace] = []


def provide(passes: PassTrace, runs: RunTrace) -> None:
    """Ask these whenever passes or a program are about to run."""
    _PASS_TRACES.append(passes)
    _RUN_TRACES.append(runs)


def listeners(program: Program, purpose: str) -> list[Listener]:
    """The listeners that are wanted while passes run on a program."""
    return [one for trace in _PASS_TRACES for one in trace(program, purpose)]


@contextmanager
def traced(program: Program, purpose: str) -> Generator[None]:
    """Passes that run on the program inside are traced where that is wanted."""
    added = listeners(program, purpose)
    program.listeners += added
    try:
        yield
    finally:
        for one in added:
            program.listeners.remove(one)


def traced_run(program: Program, inputs: Mapping[str, Any]) -> list[Any] | None:
    """The program's outputs where somebody wants a trace of the run; None elsewhere."""
    results = (trace(program, inputs) for trace in _RUN_TRACES)
    return next((found for found in results if found is not None), None)
