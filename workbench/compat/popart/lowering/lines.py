"""A builder whose instructions come from the user's lines that made the operations."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from workbench.compat.popart.ir.op import Op
from workbench.compiler.expressions.location import sourced
from workbench.compiler.expressions.module_builder import ModuleBuilder, Operand
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.instruction import Instruction, SourceNode


class LineBuilder(ModuleBuilder):
    """Appends to a module; it is told the source of the instructions that it makes."""

    _line: SourceNode | None = None

    @contextmanager
    def lines_of(self, op: Op) -> Generator[None]:
        """Instructions made inside come from the line that made an operation."""
        before, self._line = self._line, _node(op)
        try:
            yield
        finally:
            self._line = before

    def end(self, values: Sequence[Value]) -> None:
        """End the module by returning these values."""
        self.module.add_return(*[v.instruction for v in values])

    def calling(
        self, name: str, inputs: Sequence[Value], module: Any, **attributes: Any
    ) -> list[Value]:
        """Append an operation that runs a module; the elements of its tuple of results."""
        with sourced(self.module.program, self._line):
            given = [v.instruction for v in inputs]
            made = self.module.add(name, *given, modules=[module], **attributes)
            count = len(made.shape.subs or ())
            return [self.of(self.module.add("get_tuple_elem", made, index=k)) for k in range(count)]

    def _made(
        self, name: str, operands: Sequence[Operand], attributes: dict[str, Any]
    ) -> list[Instruction]:
        with sourced(self.module.program, self._line):
            return super()._made(name, operands, attributes)


def _node(op: Op) -> SourceNode | None:
    """The line that made an operation, with its placement where that is not the usual one.

    The placement is the scope, so that views draw a block for it, and queries find it.
    """
    if op.location is None:
        return None
    parts = [
        f"ipu {op.ipu}" if op.ipu else "",
        f"stage {op.pipeline_stage}" if op.pipeline_stage is not None else "",
        "io tiles" if op.tile_set == "io" else "",
    ]
    placed, node = tuple(filter(None, parts)), op.location.node
    if not placed:
        return node
    return replace(node, name=f"{node.name} [{', '.join(placed)}]", scope=placed)
