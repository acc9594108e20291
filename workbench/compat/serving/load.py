"""Throughput and latency of a model under load, against runtimes, streams and batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compat.aitemplate.model import Model
from workbench.compat.serving.clients import Client, together
from workbench.compat.serving.plots import plot_load
from workbench.compat.serving.subjects import Subject, inputs_of, subjects_of
from workbench.compiler.counts import is_count
from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.progress import progress_bar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_QUANTILES = (50, 90, 99)


@dataclass(frozen=True)
class Load:
    """One combination of runtimes, streams and batch, and what was measured."""

    runtimes: int
    """Executions, each for one run at a time."""
    streams: int
    """Threads that run the model one run after another, each in a stream of its own."""
    batch: int
    """Samples of a run."""
    seconds: float
    """From the start of the first run to the end of the last one."""
    latencies: tuple[float, ...]
    """Seconds of each run, as its caller sees it: waiting for a runtime included."""

    @property
    def runs_per_second(self) -> float:
        """Runs of all streams together."""
        return len(self.latencies) / self.seconds

    def row(self) -> dict[str, Any]:
        """Plain values, with units in their names."""
        ms = 1e3 * np.asarray(self.latencies)
        quantiles = np.percentile(ms, _QUANTILES)
        return {
            "runtimes": self.runtimes, "streams": self.streams, "batch": self.batch,
            "runs": len(ms), "runs/s": self.runs_per_second,
            "samples/s": self.batch * self.runs_per_second,
            **{f"p{q} ms": float(v) for q, v in zip(_QUANTILES, quantiles, strict=True)},
            "mean ms": float(ms.mean()), "max ms": float(ms.max()),
        }  # fmt: skip


class ServeBench:
    """Throughput and latency of each combination that ``serve_bench`` measured.

    Args:
        loads: The combinations, in the order in which they were measured.
        about: The model, its device, and how kernels were launched.
        is_complete: False if it was interrupted.
    """

    def __init__(self, loads: Sequence[Load], about: str, is_complete: bool = True) -> None:
        """Keep the measurements."""
        self.loads = tuple(loads)
        self.about = about
        self.is_complete = is_complete

    def table(self) -> DataFrame:
        """A row per combination of runtimes, streams and batch.

        Columns: runtimes, streams, batch, runs, runs/s, samples/s, and the latency of a run in ms: p50, p90,
        p99, mean and max.
        """
        import pandas as pd  # noqa: PLC0415

        table = pd.DataFrame([load.row() for load in self.loads])
        table.attrs.update(about=self.about, complete=self.is_complete)
        return table

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of samples a second, and above them the quantiles of the latency on an axis of their own."""
        return plot_load([load.row() for load in self.loads], self.about, ax)

    @property
    def summary(self) -> str:
        """The greatest throughput, and what it costs in latency."""
        rows = [load.row() for load in self.loads]
        best = max(rows, key=lambda r: r["samples/s"])
        said = (
            f"{self.about}: most are {_rounded(best['samples/s'])} samples/s with {best['streams']} streams, "
            f"{best['runtimes']} runtimes and a batch of {best['batch']} (p50 {best['p50 ms']:.3g} ms, "
            f"p99 {best['p99 ms']:.3g} ms)"
        )
        return said if self.is_complete else said + "; it was interrupted"

    def __repr__(self) -> str:
        """The summary."""
        return f"<ServeBench {self.summary}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<p>{escape(self.summary)}</p>{self.table().to_html(border=0, index=False)}"


def serve_bench(
    model: Any,
    *,
    runtimes: Iterable[int] | None = None,
    streams: Iterable[int] = (1, 2, 4),
    batches: Iterable[int] | None = None,
    seconds: float = 1.0,
    graph_mode: bool = False,
    copies: bool = False,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> ServeBench:
    """Measure throughput and latency of a model that several streams run at once.

    For each combination, as many threads as streams run the model one run after another, each in a stream of
    its own, and take their runtimes from one pool. An interrupt ends the measurement; what was measured until
    then is returned, unless it is nothing.

    Args:
        model: A build, a model of ``workbench.compat.aitemplate``, a program or the path of a model's file;
            or several of them by batch, as ``{1: build, 8: other}``.
        runtimes: Sizes of the pool; by default as many as there are streams.
        streams: Numbers of streams.
        batches: Lengths of the first axis of each input, where that is a range.
        seconds: Time that each combination runs for, after its warm-up.
        graph_mode: Launch the kernels of a run at once, where the device has graphs.
        copies: Copy inputs and results from and to the host in each run; else they stay on the device.
        inputs: An array for each input, by name; missing ones are generated from ``seed``.
        seed: Seed of the generated inputs.
        progress: Show a progress bar; by default after the first second.
        **options: Those of `workbench.compile`, for a program or a path.

    Raises:
        InputError: A number is not positive, or a batch does not fit the model.
        AITemplateError: A run failed.
    """
    counts = {
        "streams": list(streams),
        "runtimes": list(runtimes or ()),
        "batches": list(batches or ()),
    }
    _expect_positive(counts, seconds)
    loads: list[Load] = []
    is_complete = True
    with ExitStack() as stack:
        subjects = subjects_of(model, counts["batches"], stack, options)
        cases = [
            (subject, r, s)
            for subject in subjects
            for s in counts["streams"]
            for r in (counts["runtimes"] or [s])
        ]
        try:
            with progress_bar(cases, progress, "serve_bench") as shown:
                for subject, r, s in shown:
                    given = inputs_of(subject, inputs, seed)
                    loads.append(_load(subject, given, r, s, seconds, graph_mode, copies))
        except KeyboardInterrupt:
            is_complete = False
            if not loads:
                raise
        return ServeBench(loads, _about(subjects[0].model, graph_mode, copies), is_complete)


def _load(
    subject: Subject,
    inputs: Mapping[str, Array],
    runtimes: int,
    streams: int,
    seconds: float,
    graph_mode: bool,
    copies: bool,
) -> Load:
    with subject.model.beside(runtimes) as model:
        clients = [Client(model, inputs, graph_mode, copies) for _ in range(streams)]
        passed = together(clients, seconds)
        latencies = tuple(t for c in clients for t in c.seconds)
    return Load(runtimes, streams, subject.batch, passed, latencies)


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _expect_positive(counts: Mapping[str, Sequence[Any]], seconds: float) -> None:
    for name, numbers in counts.items():
        for n in cast("Sequence[object]", numbers):
            if not is_count(n):
                raise InputError(f"{name}: expected whole numbers of at least 1, found {n!r}")
    if not counts["streams"]:
        raise InputError("streams: expected at least one number, found none")
    if not seconds > 0:
        raise InputError(f"seconds: expected more than 0, found {seconds!r}")


def _about(model: Model, graph_mode: bool, copies: bool) -> str:
    said = [model.build.program.name or "a model", f"on {model.build.runner.name}"]
    if graph_mode and model.has_graphs:
        said.append("as graphs")
    if copies:
        said.append("with copies")
    return " ".join(said)
