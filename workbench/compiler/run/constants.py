"""Constants: values that depend only on literals, computed before a run."""

from __future__ import annotations

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.run.failures import place

MAX_FOLDED_BYTES = 1 << 31
"""The largest value that is folded, in bytes; values that depend on a larger one are left to the run."""


def is_large(instruction: Instruction) -> bool:
    """Whether a constant's value is too large to be computed before a run."""
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
        known: Values computed before; new ones are added.

    Raises:
        EvaluationError: The instruction depends on a parameter, or on a value too large to fold.
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
        raise EvaluationError(f"{place(instruction)}: not a constant")
    if is_large(instruction):
        raise EvaluationError(f"{place(instruction)}: over {MAX_FOLDED_BYTES:,} bytes")
    try:
        return instruction.op.compute(*inputs)
    except (ArithmeticError, ValueError, TypeError, IndexError, MemoryError) as error:
        raise EvaluationError(f"{place(instruction)}: {error}") from error
