"""State outside of tensors: rows of streams with the number of the next one, and remote buffers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream, Stream
from workbench.compat.popart.lowering.lowered import Printed
from workbench.compiler.expressions.value import Value

Place: TypeAlias = Stream | RemoteBuffer
"""A stream's buffer or a remote buffer."""


@dataclass
class Uses:
    """The effects of a graph, with those of the graphs that it calls."""

    transfers: Counter[Stream] = field(default_factory=Counter[Stream])
    """The number of loads from and stores to each stream in one execution."""
    buffers: dict[RemoteBuffer, bool] = field(default_factory=dict[RemoteBuffer, bool])
    """The remote buffers, and whether it stores to them."""

    @property
    def places(self) -> tuple[Place, ...]:
        """All of them."""
        return (*self.transfers, *self.buffers)

    @property
    def written(self) -> tuple[Place, ...]:
        """Those that change."""
        streams = (s for s in self.transfers if isinstance(s, DeviceToHostStream))
        return (*streams, *(b for b, stored in self.buffers.items() if stored))

    def add(self, other: Uses, times: int) -> None:
        """Add the effects of a graph that is executed a number of times."""
        for stream, count in other.transfers.items():
            self.transfers[stream] += count * times
        for buffer, stored in other.buffers.items():
            self.buffers[buffer] = self.buffers.get(buffer, False) or stored


def uses_of(graph: Graph) -> Uses:
    """The effects of a graph."""
    found = Uses()
    for op in graph.ops():
        for one in op.parts or (op,):
            _add(found, one)
    return found


def _add(found: Uses, op: Op) -> None:
    for graph in op.called_graphs:
        found.add(uses_of(graph), op.attributes.get("repeat_count", 1))
    if op.op_type in ("HostLoad", "HostStore"):
        found.transfers[op.details] += 1
    elif isinstance(op.details, RemoteBuffer):
        stored = op.op_type == "RemoteStore"
        found.buffers[op.details] = found.buffers.get(op.details, False) or stored


@dataclass
class Effects:
    """The state of streams and remote buffers at one moment."""

    contents: dict[Place, Value]
    """The rows, as arrays with one more axis."""
    first: dict[Stream, Value] = field(default_factory=dict[Stream, Value])
    """The number of the row at which a body begins, where only a run knows it."""
    done: Counter[Stream] = field(default_factory=Counter[Stream])
    """The number of rows that were transferred since."""
    printed: list[tuple[Printed, Value]] = field(default_factory=list[tuple[Printed, Value]])
    """Values to print, in order."""

    @property
    def next_printed(self) -> int:
        """The number of the next value to print."""
        return self.printed[-1][0].place[0] + 1 if self.printed else 0

    def next_row(self, stream: Stream) -> int | Value:
        """Take the number of the next row of a stream."""
        row = self.row(stream)
        self.done[stream] += 1
        return row

    def row(self, stream: Stream) -> int | Value:
        """The number of the next row of a stream."""
        first, done = self.first.get(stream), self.done[stream]
        return done if first is None else first + done if done else first

    def load(self, stream: HostToDeviceStream) -> Value:
        """The next row of a stream from the host."""
        return row_of(self.contents[stream], self.next_row(stream))

    def store(self, stream: DeviceToHostStream, value: Value) -> None:
        """Fill the next row of a stream to the host."""
        row = self.next_row(stream)
        self.contents[stream] = with_row(self.contents[stream], row, value)


def row_of(rows: Value, at: int | Value) -> Value:
    """One row of an array."""
    return rows[at] if isinstance(at, int) else rows.apply("gather", at, axis=0)


def with_row(rows: Value, at: int | Value, value: Value) -> Value:
    """An array with one row replaced."""
    row = value.apply("unsqueeze", axes=(0,))
    count = int(rows.shape[0])  # pyright: ignore[reportArgumentType] - lengths are fixed
    if isinstance(at, int):
        parts = [*([rows[:at]] if at else []), row, *([rows[at + 1 :]] if at + 1 < count else [])]
        return parts[0].apply("concat", *parts[1:], axis=0) if len(parts) > 1 else row
    return rows.apply("scatternd_none", at.apply("unsqueeze", axes=(0, 1)), row)


def index_of(offset: Value) -> Value:
    """A number from a tensor of one element, as int64 of rank 0."""
    whole = offset.astype("int64")
    return whole.apply("squeeze", axes=tuple(range(whole.ndim))) if whole.ndim else whole
