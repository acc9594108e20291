"""A builder whose instructions come from the user's lines that made the operations."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from workbench.compat.popart.ir.op import Op
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value


class LineBuilder(ModuleBuilder):
    """Appends to a module; inside ``lines_of`` what it makes comes from an operation's line."""

    @contextmanager
    def lines_of(self, op: Op) -> Generator[None]:
        """Instructions made inside come from the line that made an operation."""
        node = op.location.node if op.location is not None else None
        program = self.module.program
        if node is not None:
            program.source_nodes.setdefault(node.name, node)
        with program.source(*([node.name] if node is not None else [])):
            yield

    def returns(self, *values: Value) -> None:
        """End the module."""
        self.module.add_return(*[v.instruction for v in values])
