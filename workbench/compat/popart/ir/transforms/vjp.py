"""Gradients of one operation: from its meaning, by the core's differentiation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.errors import DifferentiationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.gradients import control
from workbench.compiler.passes.gradients.reverse import Reverse

__all__ = ["Gradient", "control"]


@dataclass(frozen=True)
class Gradient:
    """The gradients of some inputs of an operation, given those of some outputs.

    As a meaning it takes the given gradients, then the inputs that ``needed`` lists, and computes the
    operation again on the way; passes remove what the gradients do not use of it.
    """

    op: Op
    given: tuple[int, ...]
    """The outputs whose gradients are given."""
    wanted: tuple[int, ...]
    """The inputs whose gradients are returned."""
    needed: tuple[int, ...]
    """The inputs whose values it takes."""

    def __call__(self, *values: Value) -> tuple[Value, ...]:
        """Append the gradients."""
        grads, rest = values[: len(self.given)], iter(values[len(self.given) :])
        builder = values[0].builder
        known = dict(zip(self.needed, rest, strict=False))
        inputs = [
            known[k] if k in known else builder.zeros(*_spec(t))
            for k, t in enumerate(self.op.inputs)
        ]
        return pulled_back(self.op, inputs, dict(zip(self.given, grads, strict=True)), self.wanted)


def _spec(tensor: Tensor) -> tuple[Sequence[int], str]:
    """The lengths and the type of a tensor, as builders take them."""
    return tensor.shape, tensor.dtype._name  # pyright: ignore[reportPrivateUsage]


def gradient_of(op: Op, given: Sequence[int], wanted: Sequence[int]) -> Gradient:
    """The gradient of an operation with the fewest inputs that it can do with.

    Raises:
        popart_exception: The operation is not differentiable.
    """
    scratch = ModuleBuilder(Program().main)
    grads = [scratch.input(f"g{k}", *_spec(op.outputs[k])) for k in given]
    inputs = [scratch.input(f"x{k}", *_spec(t)) for k, t in enumerate(op.inputs)]
    found = pulled_back(op, inputs, dict(zip(given, grads, strict=True)), wanted)
    used = _used([v.instruction for v in found])
    needed = tuple(k for k, x in enumerate(inputs) if x.instruction in used)
    return Gradient(op, tuple(given), tuple(wanted), needed)


def _used(outputs: Sequence[Instruction]) -> set[Instruction]:
    """The instructions that some outputs depend on."""
    found: set[Instruction] = set()
    stack = list(outputs)
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack.extend(current.inputs)
    return found


def pulled_back(
    op: Op, inputs: Sequence[Value], grads: dict[int, Value], wanted: Sequence[int]
) -> tuple[Value, ...]:
    """Append an operation, and the gradients of its inputs.

    Args:
        op: The operation, which has a meaning.
        inputs: The values of its inputs.
        grads: The gradients of outputs, by index.
        wanted: The inputs whose gradients are returned.

    Raises:
        popart_exception: The operation is not differentiable.
    """
    assert op.meaning is not None
    builder: ModuleBuilder = inputs[0].builder
    apart = _apart(inputs)
    module, last = builder.module, builder.module.last
    found = op.meaning(*apart)
    outputs = found if isinstance(found, tuple) else (found,)
    made = _since(module, last)
    reverse = Reverse(module, {}, [apart[k].instruction for k in wanted], builder)
    for k, gradient in grads.items():
        output = outputs[k].instruction
        before = reverse.gradients.get(output)
        reverse.gradients[output] = gradient if before is None else before + gradient
    try:
        reverse.run(made)
    except DifferentiationError as error:
        raise popart_exception(f"autodiff: {op!r} is not differentiable: {error}") from error
    results = tuple(reverse.of(apart[k].instruction) for k in wanted)
    kept = {v.instruction for v in results}
    for instruction in reversed(made):
        if not instruction.is_used and instruction not in kept:
            module.remove(instruction)
    return results


def _apart(inputs: Sequence[Value]) -> list[Value]:
    """The inputs, each another instruction, so that x · x has a gradient for either factor."""
    seen: set[Instruction] = set()
    found: list[Value] = []
    for value in inputs:
        one = value.apply("identity") if value.instruction in seen else value
        seen.add(one.instruction)
        found.append(one)
    return found


def _since(module: Module, last: Instruction | None) -> list[Instruction]:
    """The instructions after one, or all; literals stand before."""
    if last is None:
        return list(module)
    current = last.following
    found: list[Instruction] = []
    while current is not None:
        found.append(current)
        current = current.following
    return found
