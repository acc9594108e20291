"""Timings of a run: one row per step, the whole run, and one run over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.dtypes import Array

if TYPE_CHECKING:
    from pandas import DataFrame

DEVICE, HOST, COPY, LAUNCH = "device", "host", "copy", "launch"
"""Where time is spent: a copy is between host and device; a launch is the host's call, and has no row."""

_COLUMNS = (
    "name",
    "kernel",
    "op",
    "where",
    "ms",
    "iqr ms",
    "share",
    "MB",
    "MFLOP",
    "GB/s",
    "GFLOP/s",
)
_OF_A_DEVICE = ("% of peak bandwidth", "% of peak flops", "launches", "launch us")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several measurements, and their interquartile range."""

    median: float
    iqr: float
    """Interquartile range."""

    @classmethod
    def of(cls, measured: Sequence[float] | Array) -> Spread:
        """The spread of these measurements; 0 if there are none."""
        if not len(measured):
            return cls(0.0, 0.0)
        low, median, high = np.percentile(np.asarray(measured, np.float64), [25, 50, 75])
        return cls(float(median), float(high - low))


@dataclass(frozen=True, slots=True)
class Timing:
    """One step of a run: a kernel, an instruction on the host, or a copy."""

    id: int
    """The instruction's id; for an upload the parameter's, for a download the output's."""
    name: str
    """The name in the text form; for a copy the parameter's or the output's."""
    kernel: str
    """The operation, or the parts of a fused one."""
    op: str
    where: str
    """``device``, ``host`` or ``copy``."""
    seconds: tuple[float, ...]
    """Seconds of each repetition."""
    flops: int = 0
    bytes: int = 0
    sources: tuple[str, ...] = ()
    """The model's nodes that it computes."""
    aliases: frozenset[int] = frozenset()
    """Ids of the instruction and of those fused into it, which align builds of programs without nodes."""
    launches: int = 0
    launch: float = 0.0
    """Seconds of the host's launch call, the median of several."""
    type: str = ""
    """``f32`` or ``f64``: the peak that its arithmetic is compared with."""

    @property
    def spread(self) -> Spread:
        """Median and interquartile range, in seconds."""
        return Spread.of(self.seconds)


@dataclass(frozen=True, slots=True)
class Span:
    """The start and duration of one step of a run."""

    row: str
    """``device``, ``host``, ``copy`` or ``launch``; or ``stream 0`` and so on, if there are several."""
    name: str
    start: float
    """Seconds from the beginning of the run."""
    seconds: float
    timing: int = -1
    """Its index among the rows."""
    run: int = -1
    """The number of its run, if there are several."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The whole run compared with its parts, in seconds; rows of a profile are checked against it."""

    device: str
    repetitions: int
    kernels: float
    """The device time of all rows in one repetition, as the median over repetitions.

    The sum of the rows' medians is smaller if some times are outliers.
    """
    whole: Spread
    """From the first kernel to the last on the device's clock, without events in between."""
    profiled: Spread
    """The same, with the events that time the kernels."""
    wall: Spread
    """A run as called: inputs uploaded, kernels launched one by one, outputs downloaded."""
    launches: int
    launch: float
    """Seconds of the host for all launches of a run."""
    event: float
    """Time that an event adds between two kernels; it is subtracted from each row."""
    empty: float
    """Time of an empty kernel. It is part of each row; nothing is subtracted for it."""
    graph: Spread | None = None
    """The whole run as one recorded graph, replayed; None if the device or the run has none."""
    mode: str = "queue"
    """``graph`` if kernels were timed in a replayed graph; ``queue`` if the host queued them first."""
    marked: int = 0
    """Events of one profiled run."""
    difference: float = 0.0
    """The excess of the sum of the kernels over the whole run, as a fraction of it.

    The median over pairs of consecutive runs, so that a drifting clock does not count.
    """
    slowdown: float = 0.0
    """The slowdown of a run by the events, as a fraction, measured in the same way."""

    @property
    def waits_for_the_host(self) -> bool:
        """Whether the host needs longer to launch the kernels than the device to run them."""
        return self.launch > self.whole.median

    def facts(self) -> dict[str, Any]:
        """The same as plain values, in milliseconds and percent."""
        facts: dict[str, Any] = {
            "device": self.device,
            "repetitions": self.repetitions,
            "kernels ms": self.kernels * 1e3,
            "run ms": self.whole.median * 1e3,
            "run iqr ms": self.whole.iqr * 1e3,
            "difference %": self.difference * 100,
            "profiled run ms": self.profiled.median * 1e3,
            "slowdown %": self.slowdown * 100,
            "wall ms": self.wall.median * 1e3,
            "launches": self.launches,
            "launch ms": self.launch * 1e3,
            "event us": self.event * 1e6,
            "empty kernel us": self.empty * 1e6,
            "timed in": self.mode,
        }
        if self.graph is not None:
            facts["graph ms"] = self.graph.median * 1e3
        return facts

    def __str__(self) -> str:
        """The whole run, the sum of its kernels, and the overhead of measuring."""
        ms = _milliseconds
        said = [
            f"{self.device}: a run takes {ms(self.whole.median)} on the device",
            f"its kernels add up to {ms(self.kernels)} ({self.difference:+.1%})",
            f"with {self.marked} events it takes {ms(self.profiled.median)} ({self.slowdown:+.1%})",
            f"an event adds {self.event * 1e6:.2g} us, which is subtracted from each kernel",
            f"{self.launches} launches take {ms(self.launch)} of the host",
            f"an empty kernel takes {self.empty * 1e6:.2g} us, which is not subtracted",
            f"as called, copies included, a run takes {ms(self.wall.median)}",
        ]
        if self.graph is not None:
            said.append(f"replayed as a graph it takes {ms(self.graph.median)}")
        if self.waits_for_the_host:
            said.append("called kernel by kernel, the device waits for the host")
        return "; ".join(said) + f". Medians of {self.repetitions} repetitions"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


@dataclass(frozen=True)
class Measured:
    """All measurements of a run."""

    rows: tuple[Timing, ...] = ()
    """Rows in the order of the run."""
    spans: tuple[Span, ...] = ()
    """One run over time."""
    run: RunTimes | None = None
    """The whole run; None where an interpreter ran it."""
    bandwidth: float = 0.0
    """The device's measured peak bandwidth in bytes per second; 0 if unknown."""
    flops: Mapping[str, float] = field(default_factory=dict[str, float])
    """The device's measured peak operations per second, by type."""

    def table(self) -> DataFrame:
        """A row per step, slowest first; see ``Result.timings``."""
        import pandas as pd  # noqa: PLC0415

        extra = _OF_A_DEVICE if self.run is not None else ()
        columns = [*_COLUMNS, *extra, "sources"]
        rows = [self._row(t) for t in self.rows]
        table = pd.DataFrame(rows, columns=["id", *columns]).set_index("id")
        table["share"] = table["ms"] / (table["ms"].sum() or 1)
        table = table.sort_values("ms", ascending=False, kind="stable")
        if self.run is not None:
            table.attrs.update(self.run.facts())
        return table

    def _row(self, t: Timing) -> dict[str, Any]:
        spread = t.spread
        rate = 1e-9 / spread.median if spread.median else 0.0
        row: dict[str, Any] = {
            "id": t.id, "name": t.name, "kernel": t.kernel, "op": t.op, "where": t.where,
            "ms": spread.median * 1e3, "iqr ms": spread.iqr * 1e3, "share": 0.0,
            "MB": t.bytes / 1e6, "MFLOP": t.flops / 1e6, "GB/s": t.bytes * rate,
            "GFLOP/s": t.flops * rate, "launches": t.launches, "launch us": t.launch * 1e6,
            "sources": ", ".join(t.sources),
        }  # fmt: skip
        if t.where == DEVICE:
            row["% of peak bandwidth"] = _percent(row["GB/s"] * 1e9, self.bandwidth)
            row["% of peak flops"] = _percent(row["GFLOP/s"] * 1e9, self.flops.get(t.type, 0.0))
        return row


def _percent(rate: float, peak: float) -> float:
    """The percentage of a peak; NaN if the peak is unknown."""
    return 100 * rate / peak if peak else float("nan")
