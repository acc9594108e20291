"""The lines that made operations and tensors, as PopART's JSON file."""

# ruff: noqa: N802 - PopART's names
from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.compat.popart.ir.context import get_current_context

if TYPE_CHECKING:
    from workbench.compat.popart.ir.op import Op
    from workbench.compat.popart.ir.tensors import Tensor
    from workbench.compiler.expressions.location import Location


class Collected:
    """Everything made since the file was opened; texts are in a table of their own."""

    def __init__(self, path: str) -> None:
        """Nothing yet."""
        self.path = path
        self.contexts: list[dict[str, Any]] = []
        self.strings: dict[str, int] = {}

    def add(self, category: str, location: Location | None, **details: Any) -> None:
        """Add an operation or a tensor."""
        found: dict[str, Any] = {
            "id": len(self.contexts),
            "category": category,
            "layer": "popart.ir",
        }
        if location is not None:
            found["location"] = {
                "fileName": self._index(location.file),
                "functionName": self._index(location.function),
                "lineNumber": location.line,
            }
        self.contexts.append(found | details)

    def _index(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))


_open: list[Collected] = []


def initializePoplarDebugInfo(path: str, format: str = "json") -> None:
    """Collect what is made from now on, for a file.

    Args:
        path: The file.
        format: Only ``json``.

    Raises:
        ValueError: The format is another one.
    """
    if format != "json":
        raise ValueError(f"debug information as {format!r}: expected 'json'")
    _open[:] = [Collected(path)]


def closePoplarDebugInfo() -> None:
    """Write the file, and collect no more."""
    while _open:
        found = _open.pop()
        written = {"contexts": found.contexts, "stringTable": list(found.strings)}
        Path(found.path).write_text(json.dumps(written, indent=1))


def note_op(op: Op) -> None:
    """Collect an operation."""
    if _open:
        inputs, outputs = [t.id for t in op.inputs], [t.id for t in op.outputs]
        _open[0].add(
            "op", op.location, api=op.api, opType=op.op_type, inputs=inputs, outputs=outputs
        )


def note_tensor(tensor: Tensor) -> None:
    """Collect a tensor."""
    if _open:
        _open[0].add("tensor", get_current_context().location, tensorId=tensor.id)
