"""Costs: the kernels of a compiled program, their bytes and their arithmetic, counted without a run."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.memory.liveness import aliased
from workbench.compiler.report.result import kernel_text, work_of
from workbench.compiler.text.printing import names

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class KernelCost:
    """One kernel of a compiled program."""

    id: int
    """Its instruction."""
    instruction: str
    """That instruction's name in the text form."""
    parts: str
    """The operation, or the operations fused into it."""
    bytes: int
    """Bytes that enter and leave it."""
    flops: int
    """Its arithmetic operations."""


@dataclass(frozen=True)
class Cost:
    """The kernels of a compiled program. Lengths that are ranges count as nothing."""

    rows: tuple[KernelCost, ...]

    @property
    def kernels(self) -> int:
        """The number of kernels."""
        return len(self.rows)

    @property
    def bytes(self) -> int:
        """Bytes that all kernels read and write."""
        return sum(r.bytes for r in self.rows)

    @property
    def flops(self) -> int:
        """Arithmetic operations of all kernels."""
        return sum(r.flops for r in self.rows)

    def table(self) -> DataFrame:
        """A row per kernel: instruction, operations, kilobytes, and thousands of operations."""
        import pandas as pd  # noqa: PLC0415

        rows = [(r.instruction, r.parts, r.bytes / 1e3, r.flops / 1e3) for r in self.rows]
        columns = ["instruction", "kernel", "kB", "kFLOP"]
        return pd.DataFrame(rows, columns=pd.Index(columns))

    def __repr__(self) -> str:
        """The sums."""
        kernels = f"{self.kernels} kernel{'s' * (self.kernels != 1)}"
        return f"{kernels}: {self.bytes:,} bytes, {self.flops:,} operations"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        shown = self.table().to_html(border=0, index=False, float_format="{:,.1f}".format)
        return {"text/plain": repr(self), "text/html": f"<p>{escape(repr(self))}</p>{shown}"}


def cost(compiled: Build | Program) -> Cost:
    """Count the kernels of a compiled program, the bytes that they move, and their arithmetic.

    Each instruction of the main module that computes or copies is one kernel; views and constants are none. A
    device may split a kernel, as `build.kernels()` shows.

    Args:
        compiled: A build, or its program.
    """
    program = compiled.program if isinstance(compiled, Build) else compiled
    named = names(program)
    return Cost(tuple(_row(i, named[i.id]) for i in program.main if _is_kernel(i)))


def _is_kernel(instruction: Instruction) -> bool:
    named = instruction.name.startswith("@")
    return not (named or instruction.is_constant or aliased(instruction) is not instruction)


def _row(instruction: Instruction, name: str) -> KernelCost:
    work = work_of(instruction)
    return KernelCost(instruction.id, name, kernel_text(instruction), work.bytes, work.flops)
