"""The memory of a program's values: sizes, lifetimes and offsets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import UNBOUNDED
from workbench.compiler.ir.shape import Shape
from workbench.compiler.memory.coloring import alignment, color
from workbench.compiler.memory.liveness import Lifetime, aliased, lifetimes
from workbench.compiler.text.printing import names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True)
class Buffer:
    """The memory of one value."""

    index: int
    """Its index among the buffers, in program order."""
    id: int
    """The instruction whose value it holds."""
    instruction: str
    """That instruction's name in the text form."""
    op: str
    family: str
    bytes: int
    offset: int
    """Its offset in the arena in bytes."""
    first: int
    """The position of the instruction in the main module."""
    last: int
    """The position of the last instruction that uses the value, directly or through a view."""
    sources: tuple[str, ...]
    """The model's nodes that the value comes from."""


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in one arena for all values made by a program's main module."""

    buffers: tuple[Buffer, ...]
    steps: tuple[str, ...]
    """The names and operations of the main module's instructions, as in the text form."""
    alignment: int
    """The alignment of offsets in bytes."""

    @cached_property
    def peak(self) -> int:
        """Size of the arena in bytes, where buffers with disjoint lifetimes share memory."""
        return max((self._end(b) for b in self.buffers), default=0)

    @cached_property
    def total(self) -> int:
        """Total size of all buffers in bytes, without sharing."""
        return sum(self._size(b) for b in self.buffers)

    @cached_property
    def live(self) -> tuple[int, ...]:
        """Live bytes at each instruction, including its operands and its result."""
        change = [0] * (len(self.steps) + 1)
        for buffer in self.buffers:
            change[buffer.first] += buffer.bytes
            change[buffer.last + 1] -= buffer.bytes
        return tuple(accumulate(change[:-1]))

    @property
    def busiest(self) -> int:
        """The position of the first instruction with the most live bytes; -1 if there are no instructions."""
        return self.live.index(max(self.live)) if self.live else -1

    def table(self) -> DataFrame:
        """A row per buffer: its instruction, bytes, offset, first and last use, and the model's nodes."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            (b.index, b.instruction, b.op, b.bytes, b.offset, b.first, b.last, ", ".join(b.sources))
            for b in self.buffers
        ]
        columns = ["buffer", "instruction", "op", "bytes", "offset"]
        columns += ["first use", "last use", "source nodes"]
        return pd.DataFrame(rows, columns=pd.Index(columns))

    def plot(self, ax: Axes | None = None) -> Axes:
        """The buffers as rectangles over instructions and bytes, and the live bytes."""
        from workbench.compiler.report.plots import plot_memory  # noqa: PLC0415

        return plot_memory(self, ax)

    def _size(self, buffer: Buffer) -> int:
        return -(-buffer.bytes // self.alignment) * self.alignment

    def _end(self, buffer: Buffer) -> int:
        return buffer.offset + self._size(buffer)

    def __repr__(self) -> str:
        """Number of buffers, and bytes with and without sharing."""
        shared = f"{self.peak:,} bytes, {self.total:,} without sharing"
        buffers = f"{len(self.buffers)} buffer{'s' * (len(self.buffers) != 1)}"
        return f"<MemoryPlan of {buffers}: {shared}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table().to_html(border=0)
        return {"text/plain": repr(self), "text/html": f"<p>{escape(repr(self))}</p>{table}"}


def plan(program: Program) -> MemoryPlan:
    """Plan the memory of a program's main module, as ``memory_coloring`` does for allocations.

    Every value that is not a view, a literal or a parameter gets a buffer. Lengths that are ranges
    count as their maximum.

    Raises:
        OperationError: A length has no maximum.
    """
    made = [i for i in program.main if _makes_value(i)]
    for instruction in made:
        _expect_bounded(instruction, instruction.shape)
    values = [v for v in lifetimes(program.main, made) if v.bytes]
    unit = alignment(v.instruction.shape for v in values)
    offsets = color(values, unit)
    named = names(program)
    buffers = [
        _buffer(k, v, o, named) for k, (v, o) in enumerate(zip(values, offsets, strict=True))
    ]
    steps = tuple(f"{named[i.id]} {i.name}" for i in program.main)
    return MemoryPlan(tuple(buffers), steps, unit)


def _makes_value(instruction: Instruction) -> bool:
    named = instruction.name.startswith("@")
    return not named and aliased(instruction) is instruction


def _expect_bounded(instruction: Instruction, shape: Shape) -> None:
    for part in shape.subs or ():
        _expect_bounded(instruction, part)
    if any(d.max >= UNBOUNDED for d in shape.dims or ()):
        raise OperationError(
            f"{instruction!r}: its lengths have no maximum; import the model with ranges or "
            "lengths for its inputs"
        )


def _buffer(index: int, value: Lifetime, offset: int, named: dict[int, str]) -> Buffer:
    i = value.instruction
    return Buffer(
        index,
        i.id,
        named[i.id],
        i.name,
        i.op.family.value,
        value.bytes,
        offset,
        value.first,
        value.last,
        i.sources,
    )
