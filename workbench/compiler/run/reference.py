"""The reference interpreter: NumPy, instruction by instruction. It defines what programs mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import Any, cast

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.errors import EvaluationError, InputError, WorkbenchError
from workbench.compiler.ir.dtypes import Array, DType, held
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Family, Operation, Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.sym.bindings import bindings, bound
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.steps import Plan, Step, lasting, read_by, step_of, steps_of

Hook = Callable[[Instruction, Value, Sequence[Value]], None]
"""Called after an instruction of the main module: the instruction, its value, its inputs' values."""


_scope: ContextVar[tuple[Mapping[int, Value], ...]] = ContextVar("scope", default=())
"""Values of the modules that are being evaluated, the innermost last."""


class Interpreter:
    """Runs a program on arrays. Make it once, run it often.

    The order of work is planned once, constants are computed once, and a run uses the memory of the
    one before. What a run holds is its own, so threads may run one interpreter at the same time.

    Args:
        program: The program; it must not be edited while the interpreter is in use.
        float64: Compute every floating-point value in float64, whatever its type: the yardstick for
            what rounding costs. Values of other types are as ever.
    """

    def __init__(self, program: Program, float64: bool = False) -> None:
        """Plan the main module; modules that it calls are planned when first met."""
        self.program = program
        self.float64 = float64
        self._plans: dict[tuple[Module, bool], Plan] = {}
        self._literals: dict[int, Array] = {}
        shapes = program.parameters.items()
        self._symbolic = [(name, s) for name, s in shapes if s.dims is not None or s.subs]
        self.idle: list[memory.Buffers] = []
        """Memory that waits for the next run."""

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
        values = [self._widened(checked[name]) for name in self.program.parameters]
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
        shapes = [o.shape for o in self.program.outputs]
        return [as_result(o, s) for o, s in zip(outputs, shapes, strict=True)]

    def evaluate(self, module: Module, values: Sequence[Value]) -> list[Value]:
        """Run a module with values for its parameters, in the order of ``Module.parameters``."""
        plan = self._plan(module)
        return self._evaluate(module, values, plan, plan.steps)

    def step(self, instruction: Instruction, values: Mapping[int, Value]) -> Value:
        """The value of one instruction; values by id of what it and the modules that it calls read."""
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
        except WorkbenchError as error:
            raise EvaluationError(f"{_where(instruction)}: {error}") from error
        except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
            found = ", ".join(_described(v) for v in inputs)
            raise EvaluationError(f"{_where(instruction)}: {error}; inputs were {found}") from error
        value = _in_lens(value, instruction.shape)
        if step.is_dynamic:
            _check_lens(instruction, value, inputs)
        if hook is not None:
            hook(instruction, value, inputs)
        return value

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

    def _widened(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(self._widened, value))
        return self._widen(value)

    def _widen(self, array: Array) -> Array:
        if self.float64 and DType.of(array.dtype).is_float:
            return array.astype(np.float64)
        return array

    def _operation(self, instruction: Instruction) -> Operation:
        op = instruction.op
        return op.widened() if self.float64 else op

    def _plan(self, module: Module, whole: bool = False) -> Plan:
        """The plan of a module; a whole one has a step for every constant, as hooks want to see."""
        plan = self._plans.get((module, whole))
        if plan is None:
            plan = Plan(steps_of(module), {}) if whole else self._plan_of(module)
            self._plans[module, whole] = plan
        return plan

    def _plan_of(self, module: Module) -> Plan:
        """Steps for what differs from run to run, and the constants that these read."""
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
    """A value that is kept for all runs, and so may not be written to by whoever gets it."""
    if isinstance(value, tuple):
        return tuple(map(_read_only, value))
    value = value.view()
    value.flags.writeable = False
    return value


def _spare(step: Step, inputs: list[Value]) -> Array | None:
    """An operand that the result may be written over: nothing else refers to its memory."""
    buffers = memory.current()
    return None if buffers is None else buffers.spare(inputs, step.dies)


def _in_lens(value: Value, shape: Shape) -> Value:
    """A value in its shape's lens: an operation cannot tell the scalar ``{1}`` from one element."""
    if shape.dims is not None or isinstance(value, tuple) or value.shape == shape.lens:
        return value
    return value.reshape(shape.lens) if value.size == shape.elements and shape.lens else value


def _check_lens(instruction: Instruction, value: Value, inputs: Sequence[Value]) -> None:
    """Refuse a value whose lengths are not within its shape, or operands whose lengths differ."""
    shape = instruction.shape
    if not isinstance(value, np.ndarray) or not shape.is_tensor:
        return
    fits = value.shape == shape.lens
    if shape.dims is not None:
        fits = len(value.shape) == len(shape.dims) and all(
            d.min <= n <= d.max for d, n in zip(shape.dims, value.shape, strict=True)
        )
    pairs = zip(inputs, instruction.inputs, strict=True)
    lens = {_lens(x) for x, i in pairs if i.shape.dims is not None or i.shape.elements != 1}
    if fits and (len(lens) < 2 or instruction.op.family is not Family.POINTWISE):
        return
    found = ", ".join(_described(v) for v in inputs)
    raise EvaluationError(
        f"{_where(instruction)}: a value of {_described(value)}; expected {shape}; "
        f"inputs were {found}"
    )


def _lens(value: Value) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None


def as_result(value: Value, shape: Shape) -> Any:
    """A value as a caller gets it: a sequence as a list, an optional as its value or None."""
    if not isinstance(value, tuple):
        return np.asarray(value)
    if not shape.kind:
        return value
    element = shape.subs[0] if shape.subs else Shape()
    values = [as_result(v, element) for v in value]
    if shape.kind == "sequence":
        return values
    return values[0] if values else None


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


def evaluate_constant(
    instruction: Instruction, known: dict[Instruction, Array] | None = None
) -> Array:
    """The value of a constant instruction.

    Args:
        instruction: The instruction.
        known: Values that were computed before; those computed now are added.

    Raises:
        EvaluationError: The instruction depends on a parameter, or on a value too large to compute here.
    """
    known = {} if known is None else known
    stack = [instruction]
    while stack:
        current = stack[-1]
        waiting = [i for i in current.inputs if i not in known]
        if current in known:
            stack.pop()
        elif waiting:
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


def check_inputs(program: Program, inputs: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs as arrays (sequences as tuples of them), checked against the program's parameters.

    Raises:
        InputError: A parameter has no input, an input no parameter, or type or lens differ.
    """
    wanted = program.parameters
    if unknown := [name for name in inputs if name not in wanted]:
        raise InputError(f"no parameter is called {unknown[0]!r}; parameters are {_listed(wanted)}")
    if missing := [name for name in wanted if name not in inputs]:
        raise InputError(f"no input for parameter {missing[0]!r} of shape {wanted[missing[0]]}")
    found = {name: _checked(name, inputs[name], shape) for name, shape in wanted.items()}
    _check_names(wanted, found)
    return found


def _check_names(wanted: Mapping[str, Shape], found: Mapping[str, Value]) -> None:
    """Refuse inputs whose lengths differ where the program takes them to be one."""
    seen: dict[str, tuple[str, int]] = {}
    for name, shape in wanted.items():
        value = found[name]
        if shape.dims is None or isinstance(value, tuple):
            continue
        for axis, (dim, length) in enumerate(zip(shape.dims, value.shape, strict=True)):
            first, known = seen.setdefault(dim.name, (name, length)) if dim.name else (name, length)
            if known != length:
                raise InputError(
                    f"input {name!r}: axis {axis} has length {length}; expected {known}, the length "
                    f"that {dim.name!r} has in input {first!r}"
                )


def _checked(name: str, value: Any, shape: Shape) -> Value:
    if shape.is_tuple:
        return _checked_tuple(name, value, shape.subs or ())
    if not shape.kind:
        return _checked_array(name, value, shape)
    if shape.kind == "optional":
        value = [] if value is None else [value]
    elif not isinstance(value, list | tuple):
        raise InputError(f"input {name!r}: expected a list of arrays, found {type(value).__name__}")
    if value and not shape.subs:
        raise InputError(
            f"input {name!r}: nothing is known of its elements, so it has to be empty; import the "
            f"model with map_input_dims={{{name!r}: lens}}"
        )
    parts = enumerate(cast("Sequence[Any]", value))
    element = shape.subs[0] if shape.subs else Shape()
    return tuple(_checked(f"{name}[{i}]", one, element) for i, one in parts)


def _checked_tuple(name: str, value: Any, shapes: Sequence[Shape]) -> Value:
    parts = cast("Sequence[Any] | None", value if isinstance(value, list | tuple) else None)
    if parts is None or len(parts) != len(shapes):
        found = type(cast("object", value)).__name__ if parts is None else str(len(parts))
        raise InputError(f"input {name!r}: expected a tuple of {len(shapes)} values, found {found}")
    pairs = zip(parts, shapes, strict=True)
    return tuple(_checked(f"{name}[{i}]", one, shape) for i, (one, shape) in enumerate(pairs))


def _checked_array(name: str, value: Any, shape: Shape) -> Array:
    kind = type(cast("object", value)).__name__
    try:
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
        array: Array = held(np.asarray(cast("Any", value)))
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
