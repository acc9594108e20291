"""Runs that are watched: every instruction's result and time, as callbacks and as a list."""

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
    """Its position in its module: the number in ``@3``."""
    name: str
    """The operation's name."""
    result: Value
    instruction: Instruction
    seconds: float
    """Time that it took, modules that it calls included."""


class Watched(PlannedInterpreter):
    """An interpreter whose instructions are seen one by one, those of called modules included.

    Bodies of fused kernels count as one instruction. What is constant is computed once, before the
    first run, and not seen again, unless ``keep`` is set.

    Args:
        program: The program.
        keep: See constants too, and leave every result in its own memory, so that it can be kept.
        float64: Compute every floating-point value in float64.
    """

    def __init__(self, program: Program, keep: bool = False, float64: bool = False) -> None:
        super().__init__(program, float64)
        self.keep = keep
        self._waiting: list[tuple[Instruction, Value]] = []
        """Parameters of the main module that were not seen yet, the last one first."""

    def began(self, instruction: Instruction) -> None:
        """An instruction is about to be computed."""

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """An instruction was computed."""

    def watch(self, inputs: Mapping[str, Any] | None = None) -> list[Any]:
        """Run, and see it; the values of the program's outputs."""
        if not self.keep:
            return self.run(inputs)
        checked = check_inputs(self.program, inputs or {})
        given = [i for i in self.program.main if i.parameter is not None]
        self._waiting = [(i, checked[i.parameter or ""]) for i in reversed(given)]
        outputs = self.run(inputs, _ignore)
        self._see_parameters(None)
        return outputs

    def _see_parameters(self, until: Instruction | None) -> None:
        """See the parameters that stand before an instruction of the main module."""
        while self._waiting and (until is None or self._waiting[-1][0].order < until.order):
            self._seen_at_once(*self._waiting.pop())

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a called module; one that is no body of a kernel is watched as the main one is."""
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
    """Goes through a program without computing anything: the time is that of the interpreter itself."""

    def _step(self, step: Step, env: dict[int, Value], hook: Hook | None = None) -> Value:
        for id in step.inputs:
            if id not in env:
                self._read(id)
        return _NOTHING


class Timed(Watched):
    """Adds up the times of each instruction of a run, by id: a list, for a loop runs its body often."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.times: dict[int, list[float]] = {}

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """Note the time."""
        self.times.setdefault(instruction.id, []).append(seconds)


class _Calling(Watched):
    """Calls a function with everything that is computed."""

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
    """Run a program and hear of every result, in the order of the run, as MIGraphX's ``run_trace``.

    Parameters and literals are heard of too, and instructions of branches and loops each time that they
    run; bodies of fused kernels are not. Results may be kept: nothing overwrites them.

    Args:
        program: The program, compiled or not.
        inputs: An array for each parameter, by name.
        callback: Called after each instruction; what it raises ends the run.
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
    """See nothing: what is kept is kept because there is a hook."""
