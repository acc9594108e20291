"""Constants: values that depend only on literals, computed before a run."""

from __future__ import annotations

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.run.failures import place

MAX_FOLDED_BYTES = 1 << 31
"""The largest value that is folded, in bytes; values that depend on a larger one are left to the run."""


def is_large(instruction: Instruction) -> bool:
    """Whether the value of a constant takes too much memory to be computed before a run."""
    return instruction.literal is None and _bytes(instruction) > MAX_FOLDED_BYTES


def _bytes(instruction: Instruction) -> int:
    """The memory that computing a value takes: none for a view, nor for what only a run knows the size of."""
    shape = instruction.shape
    unknown = shape.dims is not None or shape.subs is not None
    if unknown or instruction.op.alias is not None:
        return 0
    return shape.elements * shape.type.size


_KEPT_BYTES = 1 << 20
"""The most that a value and all on the way to it may take to be remembered for the next time."""


def evaluate_constant(
    instruction: Instruction, known: dict[Instruction, Array] | None = None
) -> Array:
    """The value of a constant instruction.

    Args:
        instruction: The instruction.
        known: Values that were computed before; those computed now are added, unless they are large.

    Raises:
        EvaluationError: The instruction depends on a parameter, or all that it depends on is too large to
            compute here.
    """
    before: dict[Instruction, Array] = {} if known is None else known
    made: dict[Instruction, Array] = {}
    stack, size = [instruction], 0
    while stack:
        current = stack[-1]
        waiting = [i for i in current.inputs if i not in made and i not in before]
        if current in made or current in before:
            stack.pop()
        elif waiting:
            stack += waiting
        else:
            size += 0 if current.literal is not None else _bytes(current)
            inputs = [made[i] if i in made else before[i] for i in current.inputs]
            made[stack.pop()] = _constant(current, inputs, size)
    value = made[instruction] if instruction in made else before[instruction]
    if size <= _KEPT_BYTES:
        before.update(made)
    return value


def _constant(instruction: Instruction, inputs: list[Array], size: int) -> Array:
    """One value; ``size`` is what it and all before it take."""
    if instruction.literal is not None:
        return instruction.literal.numpy()
    if not instruction.is_constant:
        raise EvaluationError(f"{place(instruction)}: not a constant")
    if size > MAX_FOLDED_BYTES:
        raise EvaluationError(f"{place(instruction)}: over {MAX_FOLDED_BYTES:,} bytes")
    try:
        return instruction.op.compute(*inputs)
    except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
        raise EvaluationError(f"{place(instruction)}: {error}") from error
