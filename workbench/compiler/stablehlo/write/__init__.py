"""Writes programs as modules of StableHLO: ``to_stablehlo``."""

from __future__ import annotations

from pathlib import Path

from workbench.compiler.ir.program import Program
from workbench.compiler.stablehlo.write.block import module_text

__all__ = ["to_stablehlo"]


def to_stablehlo(program: Program, path: str | Path | None = None) -> str:
    """Write a program as a module of StableHLO, in MLIR's generic form; no other package is needed.

    Operations say by ``loc`` which node of the model they come from, arguments and results have the names of
    the program's. Fused modules are private functions that ``main`` calls. Layouts are left out: tensors of
    StableHLO have none. Values are those of the program.

    Args:
        program: The program; its lengths are fixed.
        path: The file to write, if any.

    Returns:
        The text of the module.

    Raises:
        ModelError: An instruction has no meaning in StableHLO; the message names it, its source node and why.
        OSError: The file cannot be written.

    Example::

        text = wb.to_stablehlo(wb.compile(program, target="cpu").program)
    """
    text = module_text(program)
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
