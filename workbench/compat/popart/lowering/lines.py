"""A builder whose instructions come from the user's lines that made the operations."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.compat.popart.ir.op import Op
from workbench.compiler.expressions.builder import Builder, Operand
from workbench.compiler.ir.instruction import Instruction, SourceNode


class LineBuilder(Builder):
    """A builder that is told the source of the instructions that it makes."""

    _line: SourceNode | None = None

    @contextmanager
    def lines_of(self, op: Op) -> Generator[None]:
        """Instructions made inside come from the line that made an operation."""
        before, self._line = self._line, op.location.node if op.location is not None else None
        try:
            yield
        finally:
            self._line = before

    def _made(
        self, name: str, operands: Sequence[Operand], attributes: dict[str, Any],
        caller: SourceNode | None,
    ) -> list[Instruction]:  # fmt: skip
        return super()._made(name, operands, attributes, self._line)
