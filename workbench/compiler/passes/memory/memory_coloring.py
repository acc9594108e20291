"""Allocations that share an arena, by colouring their interference graph."""

from __future__ import annotations

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.coloring import alignment, color, overlapping
from workbench.compiler.memory.liveness import lifetimes
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.memory.allocation import (
    BACKEND,
    gather_allocations,
    static_allocations,
)


@register
class MemoryColoring(Pass):
    """Place allocations in an arena, ``scratch``; those whose lifetimes do not overlap share memory.

    Args:
        allocation_op: Name of the operation that allocates.
        verify: Whether to check that no two allocations with overlapping lifetimes overlap in memory.
    """

    name = "memory_coloring"
    rests = True
    apart = BACKEND
    allocation_op: str = "allocate"
    verify: bool = False

    def apply(self, program: Program) -> None:
        """Colour the allocations of each module."""
        for module in open_modules(program):
            self._color(module)

    def _color(self, module: Module) -> None:
        allocations = static_allocations(module, self.allocation_op)
        if not allocations:
            return
        values = lifetimes(module, allocations, careful=True)
        unit = alignment(i.shape for i in allocations)
        offsets = color(values, unit)
        if self.verify and (pair := overlapping(values, offsets)):
            raise GraphError(
                f"{pair[0].instruction!r} and {pair[1].instruction!r} overlap in memory"
            )
        ends = [o + -(-v.bytes // unit) * unit for o, v in zip(offsets, values, strict=True)]
        gather_allocations(allocations, offsets, max(ends), "scratch")
