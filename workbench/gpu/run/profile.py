"""Profiles of a program on a device: kernels timed by events, alternating with whole runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import ceil
from time import perf_counter
from typing import Any

from workbench.compiler.errors import DeviceError
from workbench.compiler.progress import progress_bar
from workbench.compiler.report.timings import COPY, DEVICE, HOST, LAUNCH, Measured, Span, Timing
from workbench.compiler.run.inputs import check_inputs
from workbench.gpu.devices.base import Event, Launch, Peaks, Stream
from workbench.gpu.lowering.plan import KernelStep, Step
from workbench.gpu.report.timings import Taken, output_names, rows_of, run_times
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.sequence import Gate, Timed, costs_of, gate_of

_SHARE_OF_EVENTS = 0.04
"""The fraction of a run's time that events may add; above it, they are divided among several runs."""
_MOST_TURNS = 16
_QUICK, _FEW = 0.1, 3
"""Programs that run for more seconds than this have everything but kernels measured only three times."""


def profiled(
    executable: Executable,
    inputs: Mapping[str, Any],
    repetitions: int,
    progress: bool | None = None,
) -> tuple[list[Any], Measured]:
    """Run a program to warm up, and then measure it.

    A repetition is, in this order: an ordinary run; a run in which the host reads its clock at each copy
    and launch; the launches without events; and the launches with events around each.

    Args:
        executable: The program on its device.
        inputs: An array for each parameter, by name.
        repetitions: The number of measurements.
        progress: Show a progress bar; None shows one after the first second.

    Returns:
        The outputs, and what was measured.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
        DeviceError: A kernel failed.
    """
    outputs = executable.run(inputs, progress=progress)
    device = executable.device
    stream = device.stream() if device.has_graphs else None
    with executable.alone(), gate_of(device) as gate:
        profile = _Profile(executable, inputs, gate, stream)
        profile.warm_up()
        often = repetitions if profile.is_quick else min(_FEW, repetitions)
        apart = {k * repetitions // often for k in range(often)}
        with progress_bar(range(repetitions), progress, "profile") as turns:
            for turn in turns:
                if turn in apart:
                    profile.measure_run()
                profile.measure_kernels()
        return outputs, profile.measured()


class _Part:
    """Consecutive steps of the device, or one step of the host."""

    def __init__(self, first: int, launches: Sequence[Launch], is_host: bool) -> None:
        self.first = first
        self.launches = list(launches)
        self.is_host = is_host
        self.whole: Timed | None = None
        self.turns: list[Timed] = []

    @property
    def end(self) -> int:
        return len(self.launches)

    def prepare(self, gate: Gate, stream: Stream) -> None:
        if not self.is_host:
            self.whole = Timed(gate, self.launches, (0, self.end), stream)

    def share(self, turns: int, gate: Gate, stream: Stream) -> None:
        """Divide the events among runs that together time every launch."""
        if not self.is_host:
            marks = (marks_of(self.end, turns, k) for k in range(turns))
            self.turns = [Timed(gate, self.launches, m, stream) for m in marks]


def turns_for(steps: int, event: float, whole: float) -> int:
    """The number of runs among which the events are divided, so that they add little to each.

    Args:
        steps: The number of steps.
        event: Seconds that an event adds.
        whole: Seconds of a run without events.
    """
    allowed = _SHARE_OF_EVENTS * whole
    if steps < 2 or (steps + 1) * event <= allowed:
        return 1
    return max(2, min(_MOST_TURNS, steps, ceil(2 * steps * event / max(allowed, 1e-12))))


def marks_of(count: int, turns: int, turn: int) -> list[int]:
    """The boundaries of every ``turns``-th launch, with the first and the last of all."""
    inner = {b for k in range(turn, count, turns) for b in (k, k + 1)}
    return sorted({0, count} | inner)


class _Profile:
    """The measurements of one executable, which is held exclusively."""

    def __init__(
        self, executable: Executable, inputs: Mapping[str, Any], gate: Gate, stream: Stream
    ) -> None:
        self.executable = executable
        self.device = executable.device
        self.inputs = inputs
        self.checked = check_inputs(executable.plan.program, inputs)
        self.gate = gate
        self.stream = stream
        each = list(executable.each())
        self.rows = [row for row, _, _ in each]
        """For each launch, the position of its step among those that are timed."""
        self.steps = [step for _, step, _ in each]
        self.launches = [launch for _, _, launch in each]
        self.parts = list(_parts(self.steps, self.launches))
        self.count = len(executable.plan.timed)
        self.taken = Taken.of(self.count)
        self.costs = costs_of(gate, stream)
        self.turns = 1
        self.is_quick = True
        self._graph: Any = None
        self._live = _Live()

    def warm_up(self) -> None:
        """Run everything once, time it, and decide how many events a run may have."""
        for part in self.parts:
            part.prepare(self.gate, self.stream)
        self._whole()
        started = perf_counter()
        whole = self._whole()
        self.is_quick = perf_counter() - started < _QUICK
        self.turns = turns_for(len(self.steps), self.costs.event, whole)
        for part in self.parts:
            part.share(self.turns, self.gate, self.stream)
        self._each(Taken.of(self.count))
        with suppress(DeviceError):
            self._graph = self._recorded()

    def _recorded(self) -> Any:
        """The whole run as a graph; None if there are no graphs, or the run has host steps."""
        if not self.device.has_graphs or [p.is_host for p in self.parts] != [False]:
            return None
        with self.device.capture(self.stream) as captured:
            for launch in self.launches:
                launch(self.stream)
        return captured[0]

    # One repetition

    def measure_run(self) -> None:
        """Measure the whole run: an ordinary one, step by step, without events, and as a graph."""
        started = perf_counter()
        self.executable.run(self.inputs)
        self.taken.wall.append(perf_counter() - started)
        self._live = self._narrated()
        if self._graph is not None:
            self.taken.graph.append(self._replayed())
        self.taken.pairs.append(len(self.taken.profiled))
        self.taken.whole.append(self._whole())

    def measure_kernels(self) -> None:
        """Each step."""
        self._each(self.taken)

    def _whole(self) -> float:
        """The device's time for a whole run, in seconds."""
        total = 0.0
        for part in self.parts:
            if part.whole is None:
                part.launches[0](self.stream)
            else:
                total += part.whole()[part.end]
        return total

    def _replayed(self) -> float:
        self.gate.held(0.0)(self.stream)
        first = self.device.record(self.stream)
        self.device.replay(self._graph, self.stream)
        return self.device.elapsed(first, self.device.record(self.stream))

    def _each(self, taken: Taken) -> None:
        totals: list[float] = []
        sums = [0.0] * self.count
        for turn in range(self.turns):
            totals.append(0.0)
            for part in self.parts:
                if not part.is_host:
                    totals[-1] += self._read(part, turn, sums)
                    continue
                seconds = self._on_host(part.launches[0])
                if turn == 0:
                    sums[self.rows[part.first]] += seconds
        _append(taken.steps, sums)
        taken.profiled.append(sum(totals) / len(totals))

    def _read(self, part: _Part, turn: int, sums: list[float]) -> float:
        """Add the times of a turn's launches to those of their steps; the time of all."""
        times = part.turns[turn]()
        for k in range(turn, part.end, self.turns):
            seconds = times[k + 1] - times[k] - self.costs.event
            sums[self.rows[part.first + k]] += max(0.0, seconds)
        return times[part.end]

    def _on_host(self, launch: Launch) -> float:
        self.device.synchronize(self.stream)
        started = perf_counter()
        launch(self.stream)
        self.device.synchronize(self.stream)
        return perf_counter() - started

    # A run with the host's clock read at each step

    def _narrated(self) -> _Live:
        live, taken, executable = _Live(), self.taken, self.executable
        for name in executable.plan.parameters:
            array = self.checked[name]
            seconds = live.timed(COPY, f"upload {name}", -1, self._uploaded, name, array)
            taken.uploads.setdefault(name, []).append(seconds)
        live.mark(self.device.record(self.stream))
        sums = [0.0] * self.count
        for k, step, launch in zip(self.rows, self.steps, self.launches, strict=True):
            if _needs_host(step):
                self.device.synchronize(self.stream)
                live.timed(HOST, step.instruction.name, k, launch, self.stream)
            else:
                seconds = live.timed(LAUNCH, step.instruction.name, k, launch, self.stream)
                sums[k] += seconds
                live.events.append((k, self.device.record(self.stream)))
        _append(taken.launches, sums)
        self.device.synchronize(self.stream)
        for k, name in enumerate(output_names(executable.plan)):
            seconds = live.timed(COPY, f"download {name}", -1, executable.download, k, self.stream)
            taken.downloads.setdefault(name, []).append(seconds)
        return live

    def _uploaded(self, name: str, array: Any) -> None:
        self.executable.upload(name, array, self.stream)
        self.device.synchronize(self.stream)

    # Results

    def measured(self) -> Measured:
        """The rows, the last run by the host's clock, and the times of the whole run."""
        rows = rows_of(self.executable.plan, self.taken)
        first = len(self.taken.uploads)
        timed = [t for p in self.parts for t in p.turns]
        mode = timed[0].mode if timed else "queue"
        marked = sum(len(t.marks) for t in timed) // self.turns
        peaks = Peaks(0.0, {})
        with suppress(DeviceError):  # out of memory
            peaks = self.device.peaks()
        return Measured(
            rows,
            tuple(self._live.spans_with(rows, first, self.device.elapsed)),
            run_times(self.device, rows, self.taken, self.costs, mode, marked),
            peaks.bandwidth,
            peaks.flops,
        )


def _append(lists: Sequence[list[float]], values: Sequence[float]) -> None:
    for one, value in zip(lists, values, strict=True):
        one.append(value)


class _Live:
    """One run by the host's clock, with the events of its launches."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        self._spans: list[Span] = []
        self.events: list[tuple[int, Event]] = []
        self._first: Event = None
        self._zero = 0.0

    def timed(self, row: str, name: str, step: int, work: Callable[..., Any], *given: Any) -> float:
        """Do some work and record its time."""
        start = perf_counter()
        work(*given)
        seconds = perf_counter() - start
        self._spans.append(Span(row, name, start - self._begun, seconds, step))
        return seconds

    def mark(self, event: Event) -> None:
        """Align the clocks at an event, before which the device was idle."""
        self._first = event
        self._zero = perf_counter() - self._begun

    def spans_with(self, rows: Sequence[Timing], first: int, elapsed: Any) -> Iterator[Span]:
        """All spans, those of kernels too, in order of their starts; steps' rows begin at ``first``."""
        found = [*self._host_spans(rows, first), *self._kernels(rows, first, elapsed)]
        return iter(sorted(found, key=lambda s: (s.start, -s.seconds)))

    def _host_spans(self, rows: Sequence[Timing], first: int) -> Iterator[Span]:
        copies = {f"{t.kernel} {t.name}": k for k, t in enumerate(rows) if t.where == COPY}
        end = max((s.start + s.seconds for s in self._spans), default=0.0)
        yield Span(LAUNCH, "run", 0.0, end)
        for s in self._spans:
            if s.row == COPY:
                yield Span(s.row, s.name, s.start, s.seconds, copies.get(s.name, -1))
            else:
                row = rows[first + s.timing]
                word = "launch " if s.row == LAUNCH else ""
                name = f"{word}{row.name} {row.kernel}"
                yield Span(s.row, name, s.start, s.seconds, first + s.timing)

    def _kernels(self, rows: Sequence[Timing], first: int, elapsed: Any) -> Iterator[Span]:
        """The spans of kernels: each ends at its event, and lasts its median time or since the one before."""
        before = self._zero
        for k, event in self.events:
            row = rows[first + k]
            end = max(before, self._zero + elapsed(self._first, event))
            start = max(before, end - row.spread.median / max(row.launches, 1))
            yield Span(DEVICE, f"{row.name} {row.kernel}", start, end - start, first + k)
            before = end


def _parts(steps: Sequence[Step], launches: Sequence[Launch]) -> Iterator[_Part]:
    """The runs of steps between host steps, and each host step."""
    for is_host, group in groupby(range(len(steps)), key=lambda k: _needs_host(steps[k])):
        places = list(group)
        if is_host:
            yield from (_Part(k, [launches[k]], True) for k in places)
        else:
            yield _Part(places[0], [launches[k] for k in places], False)


def _needs_host(step: Step) -> bool:
    """Whether the host computes a step, reads a value for it, or starts more than is timed."""
    return not isinstance(step, KernelStep)
