"""Traced runs: the result and time of every instruction, passed to callbacks or collected in a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.results import Hook
from workbench.compiler.run.steps import Step

_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Traced:
    """The result of one instruction of a run."""

    index: int
    """Its position in its module, the number in ``@3``."""
    name: str
    """The operation's name."""
    result: Value
    instruction: Instruction
    seconds: float
    """Time that it took, including modules that it calls."""


class Watched(PlannedInterpreter):
    """An interpreter that reports every instruction, including those of called modules.

    The body of a fused kernel counts as one instruction. Constants are computed once, before the
    first run, and not reported again, unless ``keep`` is set.

    Args:
        program: The program.
        keep: Report constants too, and give every result its own memory, so that it can be kept.
        float64: Compute every floating-point value in float64.
    """

    def __init__(self, program: Program, keep: bool = False, float64: bool = False) -> None:
        super().__init__(program, float64)
        self.keep = keep
        self._waiting: list[tuple[Instruction, Value]] = []
        """Parameters of the main module that have not been reported, the last one first."""

    def began(self, instruction: Instruction) -> None:
        """An instruction is about to be computed."""

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """An instruction was computed."""

    def watch(self, inputs: Mapping[str, Any] | None = None) -> list[Any]:
        """Run and report; returns the values of the program's outputs."""
        if not self.keep:
            return self.run(inputs)
        checked = check_inputs(self.program, inputs or {})
        given = [i for i in self.program.main if i.parameter is not None]
        self._waiting = [(i, checked[i.parameter or ""]) for i in reversed(given)]
        outputs = self.run(inputs, _ignore)
        self._see_parameters(None)
        return outputs

    def _see_parameters(self, until: Instruction | None) -> None:
        """Report the parameters before an instruction of the main module."""
        while self._waiting and (until is None or self._waiting[-1][0].order < until.order):
            self._seen_at_once(*self._waiting.pop())

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a called module; unless it is the body of a kernel, it is reported as the main module is."""
        if module.bypass or not self.keep:
            return super().evaluate(module, values)
        for parameter, value in zip(module.parameters.values(), values, strict=True):
            self._seen_at_once(parameter, value)
        plan = self._plan(module, whole=True)
        return self._evaluate(module, values, plan, plan.steps, _ignore)

    def _seen_at_once(self, instruction: Instruction, value: Value) -> None:
        self.began(instruction)
        self.ended(instruction, value, 0.0)

    def _step(self, step: Step, env: dict[int, Value], hook: Hook | None = None) -> Value:
        instruction = step.instruction
        if instruction.module.bypass:
            return super()._step(step, env, hook)
        if self._waiting and instruction.module is self.program.main:
            self._see_parameters(instruction)
        self.began(instruction)
        started = perf_counter()
        value = super()._step(step, env, hook)
        self.ended(instruction, value, perf_counter() - started)
        return value


class Dry(PlannedInterpreter):
    """Goes through a program without computing anything, to time the interpreter itself."""

    def _step(self, step: Step, env: dict[int, Value], hook: Hook | None = None) -> Value:
        for id in step.inputs:
            if id not in env:
                self._read(id)
        return _NOTHING


class Timed(Watched):
    """Collects the times of each instruction by id, in a list because a loop runs its body repeatedly."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.times: dict[int, list[float]] = {}

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """Record the time."""
        self.times.setdefault(instruction.id, []).append(seconds)


class _Calling(Watched):
    """Calls a function for each computed value."""

    def __init__(
        self, program: Program, callback: Callable[[Traced], object], float64: bool
    ) -> None:
        super().__init__(program, keep=True, float64=float64)
        self.callback = callback
        self._indices: dict[int, int] = {}
        for module in program.modules.values():
            self._indices.update({i.id: at for at, i in enumerate(module)})

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """Call the function."""
        index = self._indices[instruction.id]
        self.callback(Traced(index, instruction.name, value, instruction, seconds))


def run_trace(
    program: Program,
    inputs: Mapping[str, Any] | None,
    callback: Callable[[Traced], object],
    float64: bool = False,
) -> list[Any]:
    """Run a program and report each result in execution order, as MIGraphX's ``run_trace`` does.

    Parameters and literals are reported too, and instructions of branches and loops each time that they
    run, but not the bodies of fused kernels. Results may be kept: nothing overwrites them.

    Args:
        program: The program, compiled or not.
        inputs: An array for each parameter, by name.
        callback: Called after each instruction; an exception that it raises ends the run.
        float64: Compute every floating-point value in float64.

    Returns:
        Values of the program's outputs.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
        EvaluationError: An instruction failed.
    """
    return _Calling(program, callback, float64).watch(inputs)


def trace(
    program: Program, inputs: Mapping[str, Any] | None = None, float64: bool = False
) -> list[Traced]:
    """The results of all instructions of one run; see ``run_trace``."""
    found: list[Traced] = []
    run_trace(program, inputs, found.append, float64)
    return found


def _ignore(*_: Any) -> None:
    """Do nothing; the hook exists so that all values are kept."""
