"""The fast interpreter on NumPy: planned once, with reused memory and work shared among threads.

The tests compare it with the reference in ``reference.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sym.bindings import bindings, bound
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.failures import RAISED, failure
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.results import Hook, as_results, check_lens, in_lens, told
from workbench.compiler.run.steps import Plan, Step, lasting, read_by, step_of, steps_of

_scope: ContextVar[tuple[Mapping[int, Value], ...]] = ContextVar("scope", default=())
"""Values of the modules that are being evaluated, the innermost last."""


class PlannedInterpreter:
    """Runs a program on arrays. Make it once and run it often.

    The order of work is planned once, constants are computed once, and a run reuses the memory of the
    previous one. Runs share no state, so several threads may use one interpreter at the same time.

    Args:
        program: The program; it must not be edited while the interpreter is in use.
        float64: Compute every floating-point value in float64, whatever its type, to measure
            rounding errors. Values of other types do not change.
    """

    def __init__(self, program: Program, float64: bool = False) -> None:
        """Plan the main module; modules that it calls are planned when they first run."""
        self.program = program
        self.float64 = float64
        self._plans: dict[tuple[Module, bool], Plan] = {}
        self._literals: dict[int, Array] = {}
        shapes = program.parameters.items()
        self._symbolic = [(name, s) for name, s in shapes if s.dims is not None or s.subs]
        self.idle: list[memory.Buffers] = []
        """Memory kept for the next run."""

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        hook: Hook | None = None,
        times: dict[int, float] | None = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the program's outputs.

        Args:
            inputs: An array for each parameter, by name.
            hook: Called after each instruction of the main module.
            times: Receives the seconds of each instruction of the main module, by id.
            progress: Show a progress bar; None shows one after the first second.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            EvaluationError: An instruction failed.
        """
        checked = check_inputs(self.program, inputs or {})
        values = [self.widened(checked[name]) for name in self.program.parameters]
        plan = self._plan(self.program.main, whole=hook is not None)
        buffers = self.idle.pop() if self.idle else memory.Buffers()
        outer = _scope.set(())
        symbols = bound.set(bindings((k, s, checked[k]) for k, s in self._symbolic))
        try:
            with memory.using(buffers), progress_bar(plan.steps, progress, "run") as steps:
                outputs = self._evaluate(self.program.main, values, plan, steps, hook, times)
        finally:
            bound.reset(symbols)
            _scope.reset(outer)
            buffers.release()
            self.idle.append(buffers)
        return as_results(outputs, self.program.outputs, checked.values())

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a module with values for its parameters, in the order of ``Module.parameters``."""
        plan = self._plan(module)
        return self._evaluate(module, values, plan, plan.steps)

    def step(self, instruction: Instruction, values: Mapping[int, Value]) -> Value:
        """The value of one instruction, given by id the values that it and the modules it calls read."""
        outer = _scope.set((values,))
        try:
            return self._step(step_of(instruction), dict(values))
        finally:
            _scope.reset(outer)

    def _evaluate(
        self,
        module: Module,
        values: Sequence[Value],
        plan: Plan,
        steps: Iterable[Step],
        hook: Hook | None = None,
        times: dict[int, float] | None = None,
    ) -> list[Value]:
        env = dict(plan.known)
        for parameter, value in zip(module.parameters.values(), values, strict=True):
            env[parameter.id] = value
        outer = _scope.set((*_scope.get(), env))
        try:
            for step in steps:
                started = perf_counter()
                env[step.instruction.id] = self._step(step, env, hook)
                if times is not None and step.inputs:
                    times[step.instruction.id] = perf_counter() - started
                for gone in step.frees:
                    env.pop(gone, None)
            return [self._read(o.id) for o in module.outputs]
        finally:
            _scope.reset(outer)

    def _step(self, step: Step, env: dict[int, Value], hook: Hook | None = None) -> Value:
        instruction = step.instruction
        if instruction.literal is not None:
            return self._literal(instruction)
        inputs = [env[i] if i in env else self._read(i) for i in step.inputs]
        try:
            if step.dies and hook is None:
                for gone in step.frees:
                    env.pop(gone, None)
                value = self._operation(instruction).compute_into(_spare(step, inputs), *inputs)
            elif instruction.modules:
                value = instruction.op.compute_modules(self.evaluate, instruction.modules, *inputs)
            else:
                value = self._operation(instruction).compute_as(instruction.shape, *inputs)
        except RAISED as error:
            raise failure(instruction, inputs, error) from error
        value = in_lens(value, instruction.shape)
        if step.is_dynamic:
            check_lens(instruction, value, inputs)
        return value if hook is None else told(hook, instruction, value, inputs)

    def _read(self, id: int) -> Value:
        for env in reversed(_scope.get()):
            if id in env:
                return env[id]
        raise EvaluationError(f"instruction #{id} was read before it was computed")

    def _literal(self, instruction: Instruction) -> Array:
        known = self._literals.get(instruction.id)
        if known is None:
            assert instruction.literal is not None
            known = self._literals[instruction.id] = self._widen(instruction.literal.numpy())
        return known

    def widened(self, value: Value) -> Value:
        """A value as this interpreter computes with it: floats in float64, if it computes in float64."""
        if isinstance(value, tuple):
            return tuple(map(self.widened, value))
        return self._widen(value)

    def _widen(self, array: Array) -> Array:
        if self.float64 and DType.of(array.dtype).is_float:
            return array.astype(np.float64)
        return array

    def _operation(self, instruction: Instruction) -> Operation:
        op = instruction.op
        return op.widened() if self.float64 else op

    def _plan(self, module: Module, whole: bool = False) -> Plan:
        """The plan of a module; a whole one has a step for every constant, for hooks."""
        plan = self._plans.get((module, whole))
        if plan is None:
            plan = Plan(steps_of(module), {}) if whole else self._plan_of(module)
            self._plans[module, whole] = plan
        return plan

    def _plan_of(self, module: Module) -> Plan:
        """Steps for values that differ between runs, and the constants that these steps read."""
        known: dict[int, Value] = {}
        ids = lasting(module)
        steps = steps_of(module, ids)
        read = read_by(steps, module)
        for step in steps_of(module):
            if step.instruction.id in ids:
                frees = tuple(set(step.frees) - read)
                once = replace(step, frees=frees, dies=())
                known[step.instruction.id] = _read_only(self._step(once, known))
                for gone in frees:
                    known.pop(gone, None)
        return Plan(steps, {id: value for id, value in known.items() if id in read})


def _read_only(value: Value) -> Value:
    """A value kept for all runs, made read-only so that no operation or caller can change it."""
    if isinstance(value, tuple):
        return tuple(map(_read_only, value))
    value = value.view()
    value.flags.writeable = False
    return value


def _spare(step: Step, inputs: list[Value]) -> Array | None:
    """An operand that the result may overwrite, because nothing else refers to its memory."""
    buffers = memory.current()
    return None if buffers is None else buffers.spare(inputs, step.dies)
