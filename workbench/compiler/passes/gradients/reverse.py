"""Reverse-mode differentiation of one module: the gradients of its values, from the last to the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from workbench.compiler.errors import DifferentiationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.rewrite import change


class Reverse:
    """The gradients of a module's values, appended to the module instruction by instruction.

    Args:
        module: The module that gets the instructions.
        seeds: The gradients of the values where differentiation starts.
        wanted: The values whose gradients are asked for, of this module or of outer ones.
        builder: What appends to the module; by default a new one.
    """

    def __init__(
        self,
        module: Module,
        seeds: Mapping[Instruction, Value],
        wanted: Iterable[Instruction],
        builder: ModuleBuilder | None = None,
    ) -> None:
        """Prepare; ``run`` differentiates."""
        self.builder = builder or ModuleBuilder(module)
        self.wanted = set(wanted)
        self.gradients: dict[Instruction, Value] = dict(seeds)
        """The gradient of each value so far; those of tuples are in ``parts``."""
        self.parts: dict[Instruction, dict[int, Value]] = {}
        """The gradients of a tuple's elements by index."""
        self.active: set[Instruction] = set()
        """The values that depend on a wanted one."""

    def run(self, instructions: Sequence[Instruction]) -> None:
        """Differentiate the instructions of the module, which are in order.

        Raises:
            DifferentiationError: An instruction on the way is not differentiable.
        """
        self.active = active_among(instructions, self.wanted)
        for instruction in reversed(instructions):
            known = instruction in self.gradients or instruction in self.parts
            if known and instruction in self.active and instruction.inputs:
                differentiate_instruction(instruction, self)

    def of(self, value: Instruction) -> Value:
        """The gradient of a value; zeros if no seed depends on it."""
        found = self.gradients.get(value)
        return found if found is not None else self.zeros(value.shape)

    def zeros(self, shape: Shape) -> Value:
        """Zeros of a shape's lengths and type."""
        return self.builder.zeros(shape.lens, shape.type)

    def add(self, value: Instruction, gradient: Value) -> bool:
        """Add to the gradient of a value; returns False if nothing asks for it."""
        if not self.asks_for(value):
            return False
        before = self.gradients.get(value)
        self.gradients[value] = gradient if before is None else before + gradient
        return True

    def asks_for(self, value: Instruction) -> bool:
        """Whether the gradient of a value is needed: it is a float that depends on a wanted one."""
        return value in self.active and value.shape.is_tensor and value.shape.type.is_float

    def add_part(self, value: Instruction, index: int, gradient: Value) -> None:
        """Add to the gradient of an element of a tuple."""
        parts = self.parts.setdefault(value, {})
        parts[index] = parts[index] + gradient if index in parts else gradient

    def given(self, instruction: Instruction) -> Any:
        """The gradient of a result: a value, or a list with one for each element of a tuple."""
        if instruction.shape.subs is None:
            return self.gradients[instruction]
        parts = self.parts.get(instruction, {})
        return [parts.get(k) for k in range(len(instruction.shape.subs))]

    def result(self, instruction: Instruction) -> Any:
        """The result: a value, or a list of the elements of a tuple."""
        subs = instruction.shape.subs
        if subs is None:
            return self.builder.of(instruction)
        whole = self.builder.of(instruction)
        return [whole.apply("get_tuple_elem", index=k) for k in range(len(subs))]


def active_among(
    instructions: Sequence[Instruction], wanted: Iterable[Instruction]
) -> set[Instruction]:
    """The instructions that depend on wanted values, also through modules that they call; and those."""
    found = set(wanted)
    for instruction in instructions:
        outer = (c for m in instruction.modules for c in captured(m))
        if any(i in found for i in (*instruction.inputs, *outer)):
            found.add(instruction)
    return found


@change
def differentiate_instruction(instruction: Instruction, reverse: Reverse) -> None:
    """∂L/∂xᵢ += ∂L/∂y · ∂y/∂xᵢ for y = op(x…)"""
    if isinstance(instruction.op, Return):
        return
    if isinstance(instruction.op, GetTupleElem):
        given = reverse.gradients[instruction]
        reverse.add_part(instruction.inputs[0], instruction.op.index, given)
        return
    expect_static(instruction)
    propagate(instruction.op, instruction, reverse)


@singledispatch
def propagate(op: Operation, instruction: Instruction, reverse: Reverse) -> None:
    """Add to the gradients of what an instruction reads, given that of its result.

    Raises:
        DifferentiationError: It is not differentiable.
    """
    if instruction.modules:
        _refuse(instruction, "differentiate the program before it is compiled")
    mark = instruction.module.program.new_id()
    operands = [reverse.builder.of(i) for i in instruction.inputs]
    result = reverse.result(instruction)
    try:
        found = op.gradient(reverse.given(instruction), result, *operands)
    except DifferentiationError as error:
        reason = str(error).removeprefix(f"{op.name}: ")
        raise DifferentiationError(f"{described(instruction)}: {reason}") from None
    kept: set[Instruction] = set()
    for operand, gradient in zip(instruction.inputs, found, strict=True):
        if gradient is not None and reverse.add(operand, gradient):
            kept.add(reverse.gradients[operand].instruction)
    for unused in (*found, *(result if instruction.shape.is_tuple else ())):
        if unused is not None:
            _discard(unused.instruction, mark, kept)


def _discard(unused: Instruction, mark: int, kept: set[Instruction]) -> None:
    """Remove an instruction that nothing uses, if it was made since ``mark``, and its inputs likewise."""
    stack = [unused]
    while stack:
        dead = stack.pop()
        here = dead.module.program.find(dead.id) is dead
        if (
            here
            and dead.id > mark
            and not dead.is_used
            and dead.literal is None
            and dead not in kept
        ):
            inputs = dead.inputs
            dead.module.remove(dead)
            stack.extend(dict.fromkeys(inputs))


def expect_static(instruction: Instruction) -> None:
    """Refuse values whose lengths only a run knows.

    Raises:
        DifferentiationError: The result or an operand has a range.
    """
    for value in (instruction, *instruction.inputs):
        if value.shape.is_dynamic:
            _refuse(instruction, f"{value.shape} has lengths that only a run knows; fix them first")


def described(instruction: Instruction) -> str:
    """An instruction in an error: its id, operation and model nodes."""
    nodes = f", from {', '.join(instruction.sources)}" if instruction.sources else ""
    return f"#{instruction.id} {instruction.name}{nodes}"


def _refuse(instruction: Instruction, reason: str) -> None:
    raise DifferentiationError(f"{described(instruction)}: {reason}")
