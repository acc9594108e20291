"""Single instructions of a program, evaluated on values that the caller chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.sym.bindings import bindings, bound
from workbench.compiler.run.planned import PlannedInterpreter

Inner = Callable[[Instruction, Value, Sequence[Value]], None]
"""Called after each instruction inside a fused one, with its value and its inputs' values."""


class Evaluator(PlannedInterpreter):
    """Evaluates instructions of a program's main module by NumPy, outside of any run.

    Args:
        program: The program.
        inputs: The inputs of the run, for the lengths that its symbols stand for.
        float64: Compute every float in float64; else as typed.
    """

    def __init__(self, program: Program, inputs: Mapping[str, Any], float64: bool) -> None:
        """Bind the symbols."""
        super().__init__(program, float64)
        self._bound = bindings((k, s, inputs[k]) for k, s in self._symbolic)
        self._inner: Inner | None = None

    def value(
        self, instruction: Instruction, known: Mapping[int, Value], inner: Inner | None = None
    ) -> Value:
        """The value of an instruction.

        Args:
            instruction: An instruction of the main module.
            known: Values by id: those that it and its modules read.
            inner: Called after each instruction inside it.

        Raises:
            EvaluationError: It failed.
        """
        symbols = bound.set(self._bound)
        self._inner = inner
        try:
            with (
                np.errstate(all="ignore"),
                memory.using(None),
            ):  # a hook of a run may have called this
                return self.step(instruction, known)
        finally:
            self._inner = None
            bound.reset(symbols)

    def _literal(self, instruction: Instruction) -> Array:
        """The value of a literal, which is not kept: widened weights are large."""
        assert instruction.literal is not None
        return self._widen(instruction.literal.numpy())

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a module, and report the values inside it."""
        if self._inner is None:
            return super().evaluate(module, values)
        plan = self._plan(module, whole=True)
        return self._evaluate(module, values, plan, plan.steps, self._inner)


def as_typed(value: Value, shape: Shape) -> Value:
    """Float64 values rounded to the types of a shape; what is beyond a type's range becomes its limit.

    NaN and infinities stay. So a value that one instruction cannot represent does not spoil the next one's.
    """
    if isinstance(value, tuple):
        shapes = shape.subs or (shape,) * len(value)
        return tuple(as_typed(v, s) for v, s in zip(value, shapes, strict=True))
    type = shape.type
    if not type.is_float or value.dtype == type.numpy or not DType.of(value.dtype).is_float:
        return value
    low, high = type.format.limits
    with np.errstate(all="ignore"):
        held = np.where(np.isinf(value), value, np.clip(value, low, high))
        return np.asarray(held.astype(type.numpy))
