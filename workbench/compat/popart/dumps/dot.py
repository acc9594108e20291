"""Graphs as DOT files."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.compat.popart.ir.ir import Ir


def checkpoint(ir: Ir, check: str, save_dir: str | PathLike[str] | None) -> None:
    """Write the graphs of an Ir if checkpoints are on."""
