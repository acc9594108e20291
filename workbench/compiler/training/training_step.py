"""A training step: a program that returns its loss and the next value of each weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import DifferentiationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import build, rows_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.gradients.differentiate import Differentiate
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import change
from workbench.compiler.training.histograms import PREFIX, histogram_of
from workbench.compiler.training.optimizers import Optimizer

STEP = "training_step"
"""The name of the parameter that counts the steps."""


class TrainingStep(Program):
    """A program that returns the outputs of another, then the next value of each weight.

    Attributes:
        initial: The values that the weights and the optimizer's state start with, by parameter.
        recording: The edits that made it.
    """

    initial: dict[str, Array]
    recording: Recording


def training_step(
    program: Program,
    optimizer: Optimizer | None,
    weights: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    loss: int | str = 0,
    norms: bool = False,
    histograms: bool = False,
) -> TrainingStep:
    """A copy of a program that also computes the next weights, by differentiation and an optimizer.

    Args:
        program: The program, as parsed or built and not compiled; it is not changed.
        optimizer: Such as ``wb.SGD(0.1)`` or ``wb.Adam()``; None returns the gradients, as ``grad_`` and the
            weight's name, and no next weights.
        weights: The weights: parameters by name with their first values, or names of constants (of the model,
            or ids as ``"#12"``), whose values they start with. By default all floating-point constants with
            more than one element that the loss depends on.
        loss: The output to minimise, of one element, by position or name.
        norms: With an optimizer, also return the Euclidean norm of each weight's gradient, as ``norm_`` and
            its name.
        histograms: With an optimizer, also return a histogram of each weight's gradient by powers of two, as
            ``histogram_`` and its name: 64 counts, of ``2**(k - 40) <= abs(g) < 2**(k - 39)``.

    Returns:
        The step, for ``wb.compile``. `Build.stateful` runs it and keeps the weights between runs.

    Raises:
        DifferentiationError: The loss has more than one element, there is no such weight, or an instruction
            between them is not differentiable.
    """
    rows = rows_of(program)
    made = TrainingStep()
    build(rows, made)
    made.initial = {}
    with Recording(made, rows) as recording:
        position = _loss(made, loss)
        names = _weights(made, weights, position)
        run_pass(Differentiate(wrt=names, of=(position,)), made)
        if optimizer is not None:
            _Updates(made, optimizer, names).append(norms, histograms)
    made.recording = recording
    return made


def _loss(program: Program, loss: int | str) -> int:
    """The position of the loss among the outputs."""
    names = list(program.output_names)
    if isinstance(loss, str) and loss not in names:
        listed = ", ".join(names) or "unnamed"
        raise DifferentiationError(
            f"loss {loss!r}: no output has this name; the outputs are {listed}"
        )
    position = names.index(loss) if isinstance(loss, str) else loss
    if not -len(program.outputs) <= position < len(program.outputs):
        raise DifferentiationError(
            f"loss={loss}; the program has {len(program.outputs)} outputs, counted from 0"
        )
    shape = program.outputs[position].shape
    if shape.is_dynamic or not shape.is_tensor or prod(shape.lens) != 1:
        raise DifferentiationError(f"the loss is {shape}; expected one element, such as a mean")
    return position % len(program.outputs)


def _weights(
    program: TrainingStep, given: Mapping[str, Any] | Iterable[str] | None, loss: int
) -> tuple[str, ...]:
    """The weights' names, each a parameter now."""
    if isinstance(given, Mapping):
        values = cast("Mapping[str, Any]", given)
        for name, value in values.items():
            _start(program, name, value)
        return tuple(values)
    chosen = _constants(program, loss) if given is None else [_constant(program, n) for n in given]
    if not chosen:
        raise DifferentiationError(
            "the loss depends on no floating-point constant with more than one element; give weights, "
            "by name with their first values"
        )
    names = {id: name for name, id in reversed(program.tensors.items())}
    return tuple(_promote(c, names.get(c.id, f"weight{k}")) for k, c in enumerate(chosen))


def _start(program: TrainingStep, name: str, value: Any) -> None:
    """Give a parameter that is a weight its first value."""
    shape = program.parameters.get(name)
    if shape is None:
        listed = ", ".join(program.parameters) or "none"
        raise DifferentiationError(
            f"weight {name!r}: no parameter has this name; the parameters are {listed}"
        )
    array = np.asarray(value, shape.type.numpy)
    if array.shape != shape.lens:
        raise DifferentiationError(
            f"weight {name!r}: its first value has lens {list(array.shape)}; expected {shape}"
        )
    program.initial[name] = array


def _constants(program: Program, loss: int) -> list[Instruction]:
    """Floating-point constants of the main module with more than one element that the loss depends on."""
    found: dict[Instruction, None] = {}
    stack = [program.outputs[loss]]
    seen: set[Instruction] = set()
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        stack.extend(current.inputs)
        if (
            current.literal is not None
            and current.shape.type.is_float
            and current.shape.elements > 1
        ):
            found[current] = None
    return sorted(found, key=lambda i: i.id)


def _constant(program: Program, name: str) -> Instruction:
    id = int(name[1:]) if name.startswith("#") and name[1:].isdigit() else program.tensors.get(name)
    found = None if id is None else program.find(id)
    if found is None or found.literal is None or not found.shape.type.is_float:
        raise DifferentiationError(
            f"weight {name!r}: the program has no floating-point constant of that name"
        )
    return found


@change
def _promote(constant: Instruction, name: str) -> str:
    """@literal → @param, whose value a training step replaces"""
    program = constant.module.program
    assert isinstance(program, TrainingStep)
    assert constant.literal is not None
    unique = name
    while unique in program.parameters:
        unique += "_"
    program.initial[unique] = constant.literal.numpy()
    parameter = program.main.add_parameter(unique, constant.shape)
    constant.module.move(parameter, constant)
    constant.module.replace(constant, parameter)
    return unique


class _Updates:
    """The optimizer's instructions, appended to a program that returns gradients last."""

    def __init__(self, program: TrainingStep, optimizer: Optimizer, names: Sequence[str]) -> None:
        """Take the gradients off the outputs."""
        self.program, self.optimizer, self.names = program, optimizer, names
        outputs, named = program.outputs, program.output_names
        count = len(outputs) - len(names)
        self.outputs = list(outputs[:count])
        self.named = list(named[:count])
        self.gradients = outputs[count:]
        self.builder = ModuleBuilder(program.main)
        self.updates: dict[str, Value] = {}

    def append(self, norms: bool, histograms: bool) -> None:
        """Append the updates, and return them last."""
        module = self.program.main
        if module.last is not None:
            module.remove(module.last)
        step = self._step() if self.optimizer.counts else None
        shown: dict[str, Value] = {}
        for name, gradient in zip(self.names, self.gradients, strict=True):
            parameter = module.parameters[name]
            self._update(parameter, name, gradient, step)
            value = self.builder.of(gradient)
            if norms:
                shown[f"norm_{name}"] = (value * value).sum().sqrt()
            if histograms:
                shown[f"{PREFIX}{name}"] = histogram_of(value)
        more = {**shown, **{f"next_{n}": v for n, v in self.updates.items()}}
        module.add_return(*self.outputs, *[v.instruction for v in more.values()])
        self.program.output_names = (*self.named, *more)
        first = len(self.outputs) + len(shown)
        self.program.updates = {n: first + k for k, n in enumerate(self.updates)}

    def _step(self) -> Value:
        """The number of this step, a float of rank 0 that counts from 1."""
        before = self._kept(STEP, Shape("float"))
        self.updates[STEP] = before + 1.0
        return self.updates[STEP]

    def _kept(self, name: str, shape: Shape) -> Value:
        """A parameter for the optimizer's state, which starts at 0."""
        self.program.initial[name] = np.zeros(shape.lens, shape.type.numpy)
        return self.builder.of(self.program.main.add_parameter(name, shape))

    def _update(
        self, parameter: Instruction, name: str, gradient: Instruction, step: Value | None
    ) -> None:
        shape = parameter.shape.as_standard()
        state = {k: self._kept(f"{name}.{k}", shape) for k in self.optimizer.state}
        _append_update(parameter, self, name, self.builder.of(gradient), state, step)


@change
def _append_update(
    parameter: Instruction,
    updates: _Updates,
    name: str,
    gradient: Value,
    state: Mapping[str, Value],
    step: Value | None,
) -> None:
    """w′ = optimizer(w, ∂L/∂w)"""
    weight = updates.builder.of(parameter)
    at = step if step is None else step.astype(weight.dtype)
    following, kept = updates.optimizer.next(weight, gradient, state, at)
    updates.updates[name] = following
    updates.updates |= {f"{name}.{k}": kept[k] for k in state}
