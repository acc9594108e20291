"""The line of the user's Python that made a part of a graph."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from inspect import currentframe
from pathlib import Path

from workbench.compiler.ir.instruction import SourceNode

_OWN = str(Path(__file__).parents[1])
_SHOWN = 80


@dataclass(frozen=True)
class Location:
    """A line of Python."""

    file: str
    line: int

    @property
    def node(self) -> SourceNode:
        """The line as a node of the model, for lineage."""
        text = linecache.getline(self.file, self.line).strip()
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        name = f"line {self.line}: {shown}" if shown else f"line {self.line}"
        return SourceNode(name, "python", attributes=f"{self.file}:{self.line}")


def caller() -> Location | None:
    """The line outside this package that led here."""
    frame = currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)
