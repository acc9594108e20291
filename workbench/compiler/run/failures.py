"""Errors of a run: the instruction, the model's node and the inputs involved."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.errors import EvaluationError, WorkbenchError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value

RAISED = (WorkbenchError, ArithmeticError, ValueError, TypeError, IndexError, MemoryError)
"""The exceptions that an operation raises for values that it cannot compute; others are bugs."""


def failure(instruction: Instruction, inputs: Sequence[Value], error: Exception) -> EvaluationError:
    """The error to raise in place of an operation's own."""
    were = "" if isinstance(error, WorkbenchError) else f"; inputs were {listed(inputs)}"
    made = EvaluationError(f"{place(instruction)}: {error}{were}")
    made.instruction = instruction
    return made


def place(instruction: Instruction) -> str:
    """The operation, the instruction's id, and the nodes of the model that it comes from."""
    sources = f", from {', '.join(map(repr, instruction.sources))}" if instruction.sources else ""
    return f"{instruction.op} (#{instruction.id}{sources})"


def described(value: Value) -> str:
    """Type and lens of a value: ``float32[2, 3]``; a tuple in parentheses."""
    if isinstance(value, tuple):
        return f"({listed(value)})"
    return f"{value.dtype}{list(value.shape)}"


def listed(values: Sequence[Value]) -> str:
    """Types and lens of values."""
    return ", ".join(map(described, values))
