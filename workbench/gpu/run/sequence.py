"""Timing of a sequence of launches without gaps: the device never waits for the host."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.gpu.code.cache import compiled
from workbench.gpu.devices.base import Device, Event, Launch, Stream
from workbench.gpu.kernels.kernel import Kernel

_ONE = (1, 1, 1)
_HOLD = Kernel(
    "hold",
    "KERNEL(1) hold(GLOBAL f32 *to, i32 steps) {\n  f32 x = to[0];\n"
    "  for (i32 k = 0; k < steps; ++k) x = x * (f32)0.5 + (f32)1.5;\n  to[0] = x;\n}\n",
    _ONE,
    _ONE,
)
_EMPTY = Kernel(
    "empty",
    "KERNEL(1) empty(GLOBAL f32 *to) {\n  if (to[0] == (f32)12345) to[0] = 0;\n}\n",
    _ONE,
    _ONE,
)
_STEPS = 1 << 16
_MARGIN, _LEAST, _LONGEST = 1.5, 1e-4, 0.25
"""The factor by which a device is held for longer than the host needs, and its bounds in seconds."""
_CHAIN, _TRIALS = 32, 9


class Gate:
    """Keeps a device busy while the host queues work, which then runs without gaps.

    Args:
        device: The device.
    """

    def __init__(self, device: Device) -> None:
        """Compile two small kernels, and measure how fast the device runs the first one's loop."""
        self.device = device
        codes = compiled([_HOLD, _EMPTY], device.compiler, progress=False)
        self._hold, self._empty = (device.load(codes[k.name], k.name) for k in (_HOLD, _EMPTY))
        self._buffer = device.allocate(256)
        try:
            self._pointer = device.pointer(self._buffer, 0, 256)
            device.fill(self._pointer, 256)
            self.empty = device.prepare(self._empty, _ONE, _ONE, 0, [self._pointer])
            """A launch of an empty kernel."""
            self.empty(None)
            self._speed = max(self._measured(), 1e-12)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free its memory."""
        self.device.free(self._buffer)

    def _measured(self) -> float:
        """Seconds per step of the loop."""
        times: list[float] = []
        for _ in range(3):
            first = self.device.record()
            self._holding(_STEPS)(None)
            times.append(self.device.elapsed(first, self.device.record()))
        return min(times) / _STEPS

    def _holding(self, steps: int) -> Launch:
        arguments = [self._pointer, np.int32(steps).tobytes()]
        return self.device.prepare(self._hold, _ONE, _ONE, 0, arguments)

    def held(self, seconds: float) -> Launch:
        """A launch of a kernel that keeps the device busy for some seconds, at most a quarter."""
        return self._holding(max(1, int(min(seconds, _LONGEST) / self._speed)))


@contextmanager
def gate_of(device: Device) -> Generator[Gate]:
    """A gate, whose memory is freed at the end of the block."""
    gate = Gate(device)
    try:
        yield gate
    finally:
        gate.close()


class Timed:
    """A sequence of launches with events at some of their boundaries; each call runs it once.

    If the device times events in graphs, the sequence is replayed as a graph; otherwise the device is held
    while the host queues the launches.

    Args:
        gate: The gate of the device.
        launches: The launches to time.
        marks: Boundaries at which an event is recorded, in order: 0 is before the first launch, 1 before
            the second, and so on.
        stream: The stream; graphs need one other than the default.
    """

    def __init__(
        self, gate: Gate, launches: Sequence[Launch], marks: Sequence[int], stream: Stream = None
    ) -> None:
        """Capture the graph, if the sequence is replayed as one."""
        self._gate = gate
        self._launches = list(launches)
        self.marks = tuple(marks)
        self._stream = stream
        self._host = 0.0
        self._events: list[Event] = []
        self._graph: Any = None
        if gate.device.times_graphs and stream is not None:
            try:
                self._capture()
            except DeviceError:
                self._graph = None

    @property
    def mode(self) -> str:
        """``graph`` or ``queue``."""
        return "queue" if self._graph is None else "graph"

    def __call__(self) -> dict[int, float]:
        """Seconds from the first mark to each one, on the device's clock."""
        device = self._gate.device
        if self._graph is not None:
            device.replay(self._graph, self._stream)
            # Until the replay reaches an event, the event still has the time of the last replay.
            device.synchronize(self._stream)
            events = self._events
        else:
            events = self._queued()
        first = events[0]
        times = [0.0, *(device.elapsed(first, e) for e in events[1:])]
        return dict(zip(self.marks, times, strict=True))

    def _capture(self) -> None:
        with self._gate.device.capture(self._stream) as captured:
            events = self._queue()
        self._graph, self._events = captured[0], events
        if self._launches and not self()[self.marks[-1]] > 0:
            self._graph = None

    def _queued(self) -> list[Event]:
        """Queue the launches while the device is held, for a little longer than the host needed last time."""
        self._gate.held(self._host * _MARGIN + _LEAST)(self._stream)
        started = perf_counter()
        events = self._queue()
        self._host = perf_counter() - started
        return events

    def _queue(self) -> list[Event]:
        record, stream = self._gate.device.record, self._stream
        marks = set(self.marks)
        events: list[Event] = []
        for k, launch in enumerate(self._launches):
            if k in marks:
                events.append(record(stream))
            launch(stream)
        events.append(record(stream))
        return events


@dataclass(frozen=True)
class Costs:
    """The costs of measuring and launching on the device, in seconds."""

    event: float
    """The time that an event adds between two kernels."""
    empty: float
    """The time of an empty kernel after another one."""


def costs_of(gate: Gate, stream: Stream = None) -> Costs:
    """The costs, measured on a chain of empty kernels with and without events in between."""
    chain = [gate.empty] * _CHAIN
    plain = Timed(gate, chain, (0, _CHAIN), stream)
    marked = Timed(gate, chain, range(_CHAIN + 1), stream)
    pairs = [(plain()[_CHAIN], marked()[_CHAIN]) for _ in range(_TRIALS)]
    # Interference only adds time, so the minimum is the best estimate.
    without, with_events = np.min(pairs[1:], axis=0)
    event = max(0.0, float(with_events - without) / (_CHAIN - 1))
    return Costs(event, float(without) / _CHAIN)
