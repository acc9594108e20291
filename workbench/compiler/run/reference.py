"""The reference: a plain interpreter on NumPy, one instruction at a time. It defines what programs mean.

It plans nothing, caches nothing between runs, and neither overwrites nor splits values. So it shares only
the definitions of operations with the code that is compared with it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compiler.arrays import memory, parallel
from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.builtin import Param, Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ir.sym.bindings import bindings, bound
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.failures import RAISED, failure
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.results import Hook, as_results, check_lens, in_lens, told


class Known(ChainMap[int, Value]):
    """Values by instruction id: first those of a module, then those of the enclosing modules."""

    def __missing__(self, id: int) -> Value:
        """Reject a program whose instructions are out of order."""
        raise EvaluationError(f"instruction #{id} was read before it was computed")


class Interpreter:
    """Runs a program on arrays, in its current state at each run.

    Args:
        program: The program.
        float64: Compute every floating-point value in float64, whatever its type, to measure
            rounding errors. Values of other types do not change.
    """

    def __init__(self, program: Program, float64: bool = False) -> None:
        self.program = program
        self.float64 = float64

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
        main, parameters = self.program.main, self.program.parameters
        checked = check_inputs(self.program, inputs or {})
        known = Known({i.id: self.widened(checked[n]) for n, i in main.parameters.items()})
        dead = _dead_after(main)
        symbols = bound.set(bindings((name, s, checked[name]) for name, s in parameters.items()))
        try:
            with (
                memory.using(None),
                parallel.undivided(),
                progress_bar(list(main), progress, "run") as instructions,
            ):
                for instruction in instructions:
                    self._step(instruction, known, hook, times)
                    for gone in dead.get(instruction, ()):
                        del known[gone]
        finally:
            bound.reset(symbols)
        outputs = main.outputs
        return as_results([self._read(o, known) for o in outputs], outputs, checked.values())

    def _call(self, module: Module, values: Sequence[Value], around: Known) -> list[Value]:
        ids = [i.id for i in module.parameters.values()]
        known = around.new_child(dict(zip(ids, values, strict=True)))
        for instruction in module:
            self._step(instruction, known)
        return [self._read(o, known) for o in module.outputs]

    def _step(
        self,
        instruction: Instruction,
        known: Known,
        hook: Hook | None = None,
        times: dict[int, float] | None = None,
    ) -> None:
        if isinstance(instruction.op, Param | Return):
            return
        if instruction.literal is not None:
            known[instruction.id] = instruction.literal.numpy()
            return
        selects = _selects(instruction)
        inputs = [known[i.id] if selects else self._read(i, known) for i in instruction.inputs]
        started = perf_counter()
        value = self._value(instruction, inputs, known)
        known[instruction.id] = value = self.widened(value) if selects else value
        if times is not None:
            times[instruction.id] = perf_counter() - started
        if hook is not None:
            known[instruction.id] = told(hook, instruction, value, inputs)

    def _read(self, instruction: Instruction, known: Known) -> Value:
        """A value that an instruction reads; a literal is widened at each use, so one at a time is."""
        value = known[instruction.id]
        return value if instruction.literal is None else self.widened(value)

    def _value(self, instruction: Instruction, inputs: list[Value], known: Known) -> Value:
        try:
            op = instruction.op.widened() if self.float64 else instruction.op
            if instruction.modules:
                value = op.compute_modules(
                    lambda module, values: self._call(module, values, known),
                    instruction.modules,
                    *inputs,
                )
            else:
                value = op.compute_as(instruction.shape, *inputs)
        except RAISED as error:
            raise failure(instruction, inputs, error) from error
        value = in_lens(value, instruction.shape)
        if any(i.shape.dims is not None for i in (instruction, *instruction.inputs)):
            check_lens(instruction, value, inputs)
        return value

    def widened(self, value: Value) -> Value:
        """A value as this interpreter computes with it: floats in float64, if it computes in float64."""
        if isinstance(value, tuple):
            return tuple(map(self.widened, value))
        return (
            value.astype(np.float64) if self.float64 and DType.of(value.dtype).is_float else value
        )


def _selects(instruction: Instruction) -> bool:
    """Whether an instruction only selects elements of a literal, so that these alone need to be widened."""
    selects = instruction.op.rearranges is Rearrangement.SELECTED
    return selects and all(i.literal is not None for i in instruction.inputs[:1])


def _dead_after(module: Module) -> dict[Instruction, list[int]]:
    """For each instruction, the values that it reads last, so that their memory can be freed."""
    kept = set(module.outputs)
    last = {read: i for i in module for read in _reads(i) if read not in kept}
    found: dict[Instruction, list[int]] = {}
    for read, instruction in last.items():
        found.setdefault(instruction, []).append(read.id)
    return found


def _reads(instruction: Instruction) -> Iterator[Instruction]:
    """The operands of an instruction, and the captures of the modules that it calls."""
    yield from instruction.inputs
    for module in instruction.modules:
        for inner in module:
            yield from (i for i in _reads(inner) if i.module is not module)


def run(
    program: Program, inputs: Mapping[str, Any] | None = None, float64: bool = False
) -> list[Any]:
    """Values of a program's outputs, computed by the reference."""
    return Interpreter(program, float64).run(inputs)
