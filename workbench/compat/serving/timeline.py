"""Streams of a device over time: when each kernel of each run was at work, and what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from os import PathLike
from threading import Barrier
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.compat.aitemplate.model import Model
from workbench.compat.serving.plots import plot_streams
from workbench.compat.serving.subjects import Subject, inputs_of, subjects_of
from workbench.compiler import showing
from workbench.compiler.counts import is_count
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.progress import progress_bar
from workbench.compiler.report.timings import Measured, Span
from workbench.compiler.report.trace_events import save, trace
from workbench.gpu.devices.base import Device, Event
from workbench.gpu.report.timings import Taken, rows_of
from workbench.gpu.run.runner import DeviceRunner
from workbench.gpu.run.runtime import Runtime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class _Mark(NamedTuple):
    """One step of one run."""

    stream: int
    run: int
    step: int
    before: Event
    after: Event


class StreamTimeline:
    """Kernels of several runs on the device's clock, by stream.

    Args:
        measured: A row for each step of the program, and a span for each time that it ran; a span's row is
            its stream.
        device: The device's name.
        program: The program that ran.
    """

    def __init__(self, measured: Measured, device: str, program: Program) -> None:
        """Keep the measurements."""
        self.measured = measured
        self.device = device
        self.program = program

    def table(self) -> DataFrame:
        """A row per kernel of a run, in the order of time.

        Columns: stream, run, id (of the instruction), name (in the text form), kernel, op, start ms (since
        the first kernel), ms, and the model's nodes.
        """
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame([self._row(s) for s in self.measured.spans])

    def _row(self, span: Span) -> dict[str, Any]:
        timing = self.measured.rows[span.timing]
        return {
            "stream": int(span.row.split()[1]), "run": span.run, "id": timing.id, "name": timing.name,
            "kernel": timing.kernel, "op": timing.op, "start ms": span.start * 1e3,
            "ms": span.seconds * 1e3, "sources": ", ".join(timing.sources),
        }  # fmt: skip

    @property
    def overlap(self) -> float:
        """The number of streams that had a kernel at work, on average over the time that any had one."""
        ends = sorted(
            [(s.start, 1) for s in self.measured.spans]
            + [(s.start + s.seconds, -1) for s in self.measured.spans]
        )
        at_work, since, busy = 0, 0.0, 0.0
        for time, change in ends:
            busy += (time - since) * (at_work > 0)
            at_work, since = at_work + change, time
        return sum(s.seconds for s in self.measured.spans) / busy if busy else 0.0

    def plot(self, ax: Axes | None = None, selected: int | str | None = None) -> Axes:
        """A track for each stream; runs take turns in colour.

        Args:
            ax: Where to draw.
            selected: The id or name of an instruction whose kernels stand out, such as the ``selected`` of a
                view of the build.
        """
        rows = self.measured.rows
        chosen = {k for k, row in enumerate(rows) if selected in (row.id, row.name)}
        if selected is not None and not chosen:
            raise InputError(f"selected: no kernel computes {selected!r}")
        return plot_streams(self.measured, self.summary, ax, chosen)

    def view(self, **options: Any) -> Any:
        """The program's graph, coloured by the time of each instruction in all streams; needs widgets.

        Its ``selected`` is the id of the selected instruction, for ``plot``.

        Args:
            **options: Those of the graph's view, such as ``height``.
        """
        import pandas as pd  # noqa: PLC0415

        times: dict[int, float] = {}
        for row in self.measured.rows:
            times[row.id] = times.get(row.id, 0.0) + 1e3 * sum(row.seconds)
        return showing.view("graph")(self.program, overlay=pd.Series(times, name="ms"), **options)

    def trace(self) -> dict[str, Any]:
        """The runs in Chrome's trace format, for Perfetto and ``chrome://tracing``; a stream is a thread."""
        return trace(self.measured, self.device)

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write ``trace()`` to a file."""
        save(self.measured, path, self.device)

    @property
    def summary(self) -> str:
        """Runs, streams, time, and the overlap."""
        spans = self.measured.spans
        streams, runs = {s.row for s in spans}, {(s.row, s.run) for s in spans}
        end = max((s.start + s.seconds for s in spans), default=0.0)
        return (
            f"{len(runs)} runs in {len(streams)} streams of {self.device}: {end * 1e3:.3g} ms, "
            f"{self.overlap:.2g} streams at work on average"
        )

    def __repr__(self) -> str:
        """The summary."""
        return f"<StreamTimeline {self.summary}>"


def serve_timeline(
    model: Any,
    *,
    streams: int = 4,
    runs: int = 3,
    runtimes: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> StreamTimeline:
    """Run a model in several streams at once, and time each kernel of each run on the device's clock.

    Kernels are launched one by one, as events cannot be timed inside of several graphs at once. A span begins
    where the event before the launch has passed, so gaps of a few microseconds belong to it.

    Args:
        model: A build or a model for a device, a program, or the path of a model's file.
        streams: Threads, each with a stream of its own.
        runs: Runs of each stream that are timed, after one to warm up.
        runtimes: The size of the pool that they share; by default as many as streams.
        inputs: An array for each input, by name; missing ones are generated from ``seed``.
        seed: Seed of the generated inputs.
        progress: Show a progress bar; by default after the first second.
        **options: Those of `workbench.compile`, for a program or a path.

    Raises:
        InputError: A number is not positive, or an input is wrong.
        OperationError: The model does not run on a device.
        AITemplateError: A run failed.
    """
    for name, count in (("streams", streams), ("runs", runs), ("runtimes", runtimes or streams)):
        if not is_count(count):
            raise InputError(f"{name}: expected at least 1, found {count!r}")
    with ExitStack() as stack:
        (subject,) = subjects_of(
            model, (), stack, {"target": "gpu", **options} if options else options
        )
        device = _device(subject)
        given = inputs_of(subject, inputs, seed)
        part = stack.enter_context(subject.model.beside(runtimes or streams))
        there = {n: part.on_device(a) for n, a in given.items()}
        base, marks, runtime = _watched(part, device, there, streams, runs, progress)
        made = _measured(runtime, base, marks)
        return StreamTimeline(made, device.facts.name, runtime.plan.program)


def _device(subject: Subject) -> Device:
    runner = subject.model.build.runner
    if not isinstance(runner, DeviceRunner):
        raise OperationError(
            f"the model runs on {runner.name}, which has no streams; compile it for the target gpu"
        )
    return runner.here()


def _watched(
    model: Model,
    device: Device,
    inputs: Mapping[str, Any],
    streams: int,
    runs: int,
    progress: bool | None,
) -> tuple[Event, list[_Mark], Runtime]:
    """The event from which time counts, every step of every run, and a runtime that ran."""
    ready = Barrier(streams)
    found: list[list[_Mark]] = [[] for _ in range(streams)]
    queues = [model.new_stream() for _ in range(streams)]

    def client(k: int) -> Runtime:
        try:
            runtime = model.marked_run(inputs, queues[k], _unmarked)
            ready.wait()
            for run in range(runs):
                model.marked_run(
                    inputs,
                    queues[k],
                    lambda s, a, b, run=run: found[k].append(_Mark(k, run, s, a, b)),
                )
        except BaseException:
            ready.abort()
            raise
        return runtime

    base = device.record()
    device.wait(base)
    with ThreadPoolExecutor(streams) as pool:
        jobs = [pool.submit(client, k) for k in range(streams)]
        with progress_bar(jobs, progress, "serve_timeline") as shown:
            runtimes = [job.result() for job in shown]
    return base, [m for marks in found for m in marks], runtimes[0]


def _unmarked(step: int, before: Event, after: Event) -> None:
    """Runs to warm up are not timed."""


def _measured(runtime: Runtime, base: Event, marks: Sequence[_Mark]) -> Measured:
    """Rows and spans of what was marked; time counts from the first kernel."""
    device, plan = runtime.device, runtime.plan
    spans: list[tuple[_Mark, float, float]] = []
    sums: dict[tuple[int, int, int], float] = {}
    taken = Taken.of(len(plan.timed))
    for mark in marks:
        start = device.begun(base, mark.before, mark.after)
        end = max(start, device.elapsed(base, mark.after))
        spans.append((mark, start, end - start))
        run = mark.stream, mark.run, mark.step
        sums[run] = sums.get(run, 0.0) + end - start  # a kernel of a loop has several
    for (_, _, step), seconds in sums.items():
        taken.steps[step].append(seconds)
    rows = rows_of(plan, taken)
    first = min((start for _, start, _ in spans), default=0.0)
    return Measured(
        rows,
        tuple(
            Span(f"stream {m.stream}", f"{rows[m.step].name} {rows[m.step].kernel}", s - first, seconds,
                 m.step, m.run)
            for m, s, seconds in sorted(spans, key=lambda one: one[1])
        ),
    )  # fmt: skip
