"""The reference interpreter: NumPy, instruction by instruction. It defines what programs mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

import numpy as np

from workbench.compiler.dtypes import Array, DType
from workbench.compiler.errors import EvaluationError, InputError, WorkbenchError
from workbench.compiler.ir import Instruction, Module
from workbench.compiler.operation import Operation, Value
from workbench.compiler.ops.builtin import Param, Return
from workbench.compiler.program import Program
from workbench.compiler.progress import progress_bar
from workbench.compiler.shape import Shape

Hook = Callable[[Instruction, Value, Sequence[Value]], None]
"""Called after an instruction of the main module: the instruction, its value, its inputs' values."""


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction made ready: where its inputs are, and which values are read for the last time."""

    instruction: Instruction
    inputs: tuple[int, ...]
    frees: tuple[int, ...]


class Interpreter:
    """Runs a program on arrays. Make it once, run it often: the order of work is planned once.

    What a run holds is its thread's own, so threads may run one interpreter at the same time.

    Args:
        program: The program; it must not be edited while the interpreter is in use.
        float64: Compute every floating-point value in float64, whatever its type: the yardstick for
            what rounding costs. Values of other types are as ever.
    """

    def __init__(self, program: Program, float64: bool = False) -> None:
        """Plan the main module; modules that it calls are planned when first met."""
        self.program = program
        self.float64 = float64
        self._plans: dict[Module, list[_Step]] = {}
        self._literals: dict[int, Array] = {}
        self._running = threading.local()

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
        values = [self._widen(checked[name]) for name in self.program.parameters]
        steps = self._plan(self.program.main)
        outer, self._running.scope = self._scope, []
        try:
            with progress_bar(steps, progress, "run") as shown:
                outputs = self._evaluate(self.program.main, values, shown, hook, times)
        finally:
            self._running.scope = outer
        return [o if isinstance(o, tuple) else np.asarray(o) for o in outputs]

    @property
    def _scope(self) -> list[dict[int, Value]]:
        """Values of the modules that this thread is in, the innermost last."""
        return self._running.__dict__.setdefault("scope", [])

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a module with values for its parameters, in the order of ``Module.parameters``."""
        return self._evaluate(module, values, self._plan(module))

    def _evaluate(
        self,
        module: Module,
        values: Sequence[Value],
        steps: Iterable[_Step],
        hook: Hook | None = None,
        times: dict[int, float] | None = None,
    ) -> list[Value]:
        env: dict[int, Value] = {}
        for parameter, value in zip(module.parameters.values(), values, strict=True):
            env[parameter.id] = value
        scope = self._scope
        scope.append(env)
        try:
            for step in steps:
                started = perf_counter()
                value = self._step(step, env, hook)
                if times is not None and step.inputs:
                    times[step.instruction.id] = perf_counter() - started
                env[step.instruction.id] = value
                for gone in step.frees:
                    env.pop(gone, None)
            return [self._read(o.id) for o in module.outputs]
        finally:
            scope.pop()

    def _step(self, step: _Step, env: dict[int, Value], hook: Hook | None) -> Value:
        instruction = step.instruction
        if instruction.literal is not None:
            return self._literal(instruction)
        inputs = [env[i] if i in env else self._read(i) for i in step.inputs]
        try:
            if instruction.modules:
                value = instruction.op.compute_modules(self.evaluate, instruction.modules, *inputs)
            else:
                value = self._operation(instruction).compute(*inputs)
        except WorkbenchError as error:
            raise EvaluationError(f"{_where(instruction)}: {error}") from error
        except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
            found = ", ".join(_described(v) for v in inputs)
            raise EvaluationError(f"{_where(instruction)}: {error}; inputs were {found}") from error
        value = _in_lens(value, instruction.shape)
        if hook is not None:
            hook(instruction, value, inputs)
        return value

    def _read(self, id: int) -> Value:
        for env in reversed(self._scope):
            if id in env:
                return env[id]
        raise EvaluationError(f"instruction #{id} was read before it was computed")

    def _literal(self, instruction: Instruction) -> Array:
        known = self._literals.get(instruction.id)
        if known is None:
            assert instruction.literal is not None
            known = self._literals[instruction.id] = self._widen(instruction.literal.numpy())
        return known

    def _widen(self, array: Array) -> Array:
        if self.float64 and DType.of(array.dtype).is_float:
            return array.astype(np.float64)
        return array

    def _operation(self, instruction: Instruction) -> Operation:
        op = instruction.op
        return op.widened() if self.float64 else op

    def _plan(self, module: Module) -> list[_Step]:
        plan = self._plans.get(module)
        if plan is None:
            plan = self._plans[module] = _plan_of(module)
        return plan


def _in_lens(value: Value, shape: Shape) -> Value:
    """A value in its shape's lens: an operation cannot tell the scalar ``{1}`` from one element."""
    if shape.dims is not None or isinstance(value, tuple) or value.shape == shape.lens:
        return value
    return value.reshape(shape.lens) if value.size == shape.elements and shape.lens else value


def _plan_of(module: Module) -> list[_Step]:
    own = {i.id for i in module}
    keep = {o.id for o in module.outputs}
    last_use: dict[int, int] = {}
    work = [i for i in module if not isinstance(i.op, (Param, Return))]
    for instruction in work:
        for used in _uses(instruction):
            last_use[used] = instruction.id
    frees: dict[int, list[int]] = {}
    for used, by in last_use.items():
        if used in own and used not in keep:
            frees.setdefault(by, []).append(used)
    return [_Step(i, tuple(x.id for x in i.inputs), tuple(frees.get(i.id, ()))) for i in work]


def _uses(instruction: Instruction) -> list[int]:
    """Ids read by an instruction, captures of its modules included."""
    found = [x.id for x in instruction.inputs]
    for module in instruction.modules:
        for inner in module:
            found += _uses(inner)
    return found


def run(
    program: Program, inputs: Mapping[str, Any] | None = None, float64: bool = False
) -> list[Any]:
    """Values of a program's outputs, by the reference interpreter."""
    return Interpreter(program, float64).run(inputs)


MAX_FOLDED_BYTES = 1 << 31
"""The largest value that is computed before a run; what depends on a larger one is left to the run."""


def is_large(instruction: Instruction) -> bool:
    """Whether the value of a constant takes too much memory to be computed before a run."""
    shape = instruction.shape
    if instruction.literal is not None or instruction.op.alias is not None:
        return False
    return (
        shape.dims is None
        and shape.subs is None
        and (shape.elements * shape.type.size > MAX_FOLDED_BYTES)
    )


def evaluate_constant(instruction: Instruction) -> Array:
    """The value of a constant instruction.

    Raises:
        EvaluationError: The instruction depends on a parameter, or on a value too large to compute here.
    """
    known: dict[Instruction, Array] = {}
    stack = [instruction]
    while stack:
        current = stack[-1]
        waiting = [i for i in current.inputs if i not in known]
        if waiting:
            stack += waiting
        else:
            known[stack.pop()] = _constant(current, [known[i] for i in current.inputs])
    return known[instruction]


def _constant(instruction: Instruction, inputs: list[Array]) -> Array:
    if instruction.literal is not None:
        return instruction.literal.numpy()
    if not instruction.is_constant:
        raise EvaluationError(f"{_where(instruction)}: not a constant")
    if is_large(instruction):
        raise EvaluationError(f"{_where(instruction)}: over {MAX_FOLDED_BYTES:,} bytes")
    try:
        return instruction.op.compute(*inputs)
    except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
        raise EvaluationError(f"{_where(instruction)}: {error}") from error


def check_inputs(program: Program, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs as arrays, checked against the program's parameters.

    Raises:
        InputError: A parameter has no input, an input no parameter, or type or lens differ.
    """
    wanted = program.parameters
    if unknown := [name for name in inputs if name not in wanted]:
        raise InputError(f"no parameter is called {unknown[0]!r}; parameters are {_listed(wanted)}")
    if missing := [name for name in wanted if name not in inputs]:
        raise InputError(f"no input for parameter {missing[0]!r} of shape {wanted[missing[0]]}")
    return {name: _checked(name, inputs[name], shape) for name, shape in wanted.items()}


def _checked(name: str, value: Any, shape: Shape) -> Array:
    kind = type(cast("object", value)).__name__
    try:
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
        array: Array = np.asarray(cast("Any", value))
    except Exception as error:  # whatever a foreign tensor or a ragged list raises
        raise InputError(
            f"input {name!r}: expected an array of {shape.type.numpy}, found {kind}, "
            f"which NumPy cannot read: {error}"
        ) from error
    if array.dtype != shape.type.numpy:
        raise InputError(
            f"input {name!r}: expected {shape.type.numpy}, found {array.dtype}; "
            f"convert it with array.astype({str(shape.type.numpy)!r})"
        )
    if shape.dims is not None:
        fits = array.ndim == len(shape.dims) and all(
            d.min <= n <= d.max for d, n in zip(shape.dims, array.shape, strict=True)
        )
    else:
        fits = array.shape == shape.lens or (array.ndim == 0 and shape.elements == 1)
    if not fits:
        raise InputError(f"input {name!r}: expected shape {shape}, found {list(array.shape)}")
    return array.reshape(shape.lens) if shape.dims is None else array


def _listed(wanted: Mapping[str, Shape]) -> str:
    return "; ".join(f"{name!r} ({shape})" for name, shape in wanted.items()) or "none"


def _where(instruction: Instruction) -> str:
    sources = f", from {', '.join(map(repr, instruction.sources))}" if instruction.sources else ""
    return f"{instruction.op} (#{instruction.id}{sources})"


def _described(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))})"
    return f"{value.dtype}{list(value.shape)}"
