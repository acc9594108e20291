"""Allocations placed one after another in an arena."""

from __future__ import annotations

from itertools import accumulate

from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import (
    BACKEND,
    gather_allocations,
    static_allocations,
)


@register
class EliminateAllocation(Pass):
    """Give each allocation its own place in an arena, the parameter ``memory``.

    Args:
        allocation_op: Name of the operation that allocates.
        alignment: The alignment of every place in bytes.
    """

    name = "eliminate_allocation"
    rests = True
    apart = BACKEND
    allocation_op: str = "allocate"
    alignment: int = 32

    def apply(self, program: Program) -> None:
        """Lay out the allocations of each module in its order."""
        for module in open_modules(program):
            allocations = static_allocations(module, self.allocation_op)
            sizes = [-(-i.shape.bytes // self.alignment) * self.alignment for i in allocations]
            ends = list(accumulate(sizes))
            if allocations and ends[-1]:
                gather_allocations(allocations, [0, *ends[:-1]], ends[-1], "memory")
