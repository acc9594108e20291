"""Run plans as plain rows: kernels with their machine code and arguments, copies, host steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.compiler.ir.dtypes import Array

if TYPE_CHECKING:
    from pandas import DataFrame


Size: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class TileMap:
    """Memory as a kernel's bulk copies see it: they load a tile by the indices of its first element.

    Elements past the end of an axis are 0. Axes are in the order of the tensor, the last one contiguous.
    """

    argument: int
    """The number of the kernel's argument that points to the memory."""
    offset: int
    """The first element, of 16 bits, counted from the start of the memory."""
    lens: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements from one index to the next one; but for the last one, multiples of 16 bytes."""
    box: tuple[int, ...]
    """The lens of a tile, whose rows of 128 bytes are swizzled in shared memory."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel with its machine code."""

    name: str
    """The name of the function in the code object."""
    source: str
    """The compiled source, including the dialect's prologue."""
    code_object: bytes
    """The machine code: an ELF file for the device, or OpenCL's program binary."""
    maps: tuple[TileMap, ...] = ()
    """CUDA's tensor maps of 16-bit elements that the kernel has as arguments after its pointers."""

    def __repr__(self) -> str:
        """Name and size."""
        return f"<CompiledKernel {self.name}: {len(self.code_object):,} bytes>"


@dataclass(frozen=True)
class ArgumentRow:
    """One argument of a kernel, or the source or destination of a copy."""

    kind: str
    """``arena``, ``literal``, ``parameter``, ``output`` or ``scalar``."""
    name: str
    """The parameter's or output's name, or the literal's key in ``RunPlan.literals``; "" in the arena."""
    offset: int
    """Offset in bytes in that memory."""
    bytes: int
    writes: bool = False
    """Whether the step writes it."""


@dataclass(frozen=True)
class PlanRow:
    """One step of a run."""

    kind: str
    """``upload``, ``kernel``, ``collective``, ``host``, ``download``, ``loop``, or ``branch``: the host reads
    the condition.

    The steps of both modules of a branch follow it. A loop is followed by the steps of an iteration, and
    those after its last one.
    """
    instruction: str
    """The instruction's name in the text form."""
    what: str
    """The operation, or the name of the parameter or output that is copied."""
    arguments: tuple[ArgumentRow, ...]
    """For a kernel, in its order; for a host step, its inputs, then its outputs."""
    kernel: CompiledKernel | None = None
    grid: Size = (0, 0, 0)
    """Blocks."""
    block: Size = (0, 0, 0)
    """Work items per block."""
    shared: int = 0
    """Bytes of dynamic shared memory."""
    shape: str = ""
    """For an upload or download: type, lens and strides in memory, as in the text form."""
    start: int = 0
    """For a download: offset in elements from the argument's start."""
    sources: tuple[str, ...] = ()
    """The model's nodes that it comes from."""
    reason: str = ""
    """For a host step: the reason why no kernel computes it."""
    runs: int | None = 1
    """How often a run takes the step: once, or in all iterations of a loop; None if only the run knows."""
    swaps: tuple[tuple[ArgumentRow, ArgumentRow], ...] = ()
    """For a loop: pairs of memory that odd iterations, counted from 0, use the other way round."""
    steps: tuple[int, int] = (0, 0)
    """For a loop: the number of steps of an iteration, and of those after the last one, which follow it."""


@dataclass(frozen=True)
class RunPlan:
    """All steps of a run, in order."""

    rows: tuple[PlanRow, ...]
    literals: Mapping[str, Array]
    """Constants by key, flat as in memory; they are uploaded once, before the first run."""
    arena: int
    """Size of the arena in bytes."""
    device: str

    def __iter__(self) -> Iterator[PlanRow]:
        """The rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def table(self) -> DataFrame:
        """A row per step: kind, instruction, kernel and its sizes, arguments, nodes, reason."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "kind": r.kind,
                "instruction": r.instruction,
                "what": r.what,
                "runs": "" if r.runs is None else r.runs,
                "kernel": r.kernel.name if r.kernel else "",
                "grid": r.grid if r.kernel else "",
                "block": r.block if r.kernel else "",
                "shared": r.shared if r.kernel else "",
                "code bytes": len(r.kernel.code_object) if r.kernel else "",
                "arguments": ", ".join(map(_said, r.arguments)),
                "sources": ", ".join(r.sources),
                "reason": r.reason,
            }
            for r in self.rows
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        """The number of steps of each kind, and the host steps, each with its reason."""
        kinds = [r.kind for r in self.rows]
        counted = ", ".join(f"{kinds.count(k)} × {k}" for k in dict.fromkeys(kinds))
        left = [f"; the host computes {r.instruction}: {r.reason}" for r in self.rows if r.reason]
        if "collective" in kinds:
            left.append(
                "; graphs of launches end at its collectives, as other replicas take part in them"
            )
        return (
            f"<RunPlan for {self.device}: {counted}; arena of {self.arena:,} bytes{''.join(left)}>"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table().to_html(border=0)
        return {"text/plain": repr(self), "text/html": f"<p>{escape(repr(self))}</p>{table}"}


def _said(argument: ArgumentRow) -> str:
    where = f"{argument.kind} {argument.name}".strip()
    at = f"+{argument.offset}" if argument.kind == "arena" else ""
    return f"{'→ ' if argument.writes else ''}{where}{at}"
