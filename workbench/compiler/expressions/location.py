"""Lines of the user's Python, as the sources of the instructions that they made."""

from __future__ import annotations

import linecache
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import currentframe

from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.program import Program

_SHOWN = 80


@dataclass(frozen=True)
class Location:
    """A line of the user's Python."""

    file: str
    line: int
    function: str = ""
    """The function that it belongs to."""

    @property
    def label(self) -> str:
        """The number of the line and its text, cut to 80 characters."""
        text = linecache.getline(self.file, self.line).strip()
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        return f"line {self.line}: {shown}" if shown else f"line {self.line}"

    @property
    def node(self) -> SourceNode:
        """The line as a node of the model, for lineage, with its file."""
        return SourceNode(self.label, "python", attributes=f"{self.file}:{self.line}")


def location_outside(folder: str, out: int = 0) -> Location | None:
    """The innermost line outside of a folder that led here.

    Args:
        folder: A folder of the workbench.
        out: The number of callers further out that the line is of.
    """
    frame = currentframe()
    while frame is not None and _is_of(frame.f_code.co_filename, folder):
        frame = frame.f_back
    while frame is not None and out > 0:
        frame, out = frame.f_back, out - 1
    if frame is None:
        return None
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _is_of(file: str, folder: str) -> bool:
    return file == __file__ or file.startswith(folder)


@contextmanager
def sourced(program: Program, node: SourceNode | None) -> Generator[None]:
    """Instructions that are added to a program inside come from a node, or from none."""
    names = () if node is None else (node.name,)
    if node is not None:
        program.source_nodes.setdefault(node.name, node)
    with program.source(*names):
        yield
