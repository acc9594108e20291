"""The table of schedules; operations without one are computed element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.gpu.declarations import Declarations
from workbench.gpu.kernels.kernel import Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

Schedule: TypeAlias = "Callable[[Lowering, Instruction], list[Launch] | None]"
"""A function for the kernels of an instruction; None if the schedule does not support it."""

_SCHEDULES: Declarations[Schedule] = Declarations("a schedule", "workbench.gpu.kernels")


def schedule(*ops: type[Operation]) -> Callable[[Schedule], Schedule]:
    """Declare the kernels of these operations, and of those derived from them."""

    def declare(function: Schedule) -> Schedule:
        for op in ops:
            _SCHEDULES.add(op, function)
        return function

    return declare


def schedule_of(op: Operation) -> Schedule | None:
    """The schedule of an operation; None if it is computed element by element."""
    return _SCHEDULES.of(op)
