"""Any number of runs of one model beside each other: times, kernels and errors of the same nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.report.result import Result
from workbench.compiler.report.timing_comparison import (
    joined,
    rank_test,
    sums_of,
    timing_keys,
    within_noise,
)
from workbench.compiler.report.timings import COPY, Spread, Timing

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Run:
    """One of the runs: its times, its errors, or both."""

    name: str
    timings: tuple[Timing, ...] = ()
    errors: tuple[Any, ...] = ()
    """The rows of a report."""

    @classmethod
    def of(cls, given: Any, name: str) -> Run:
        """A run from a result, a report, or a pair of them; None stands for what is not known.

        Raises:
            OperationError: It is none of these, or a device was not profiled.
        """
        found = cls(name)
        parts: list[Any] = [*given] if isinstance(given, tuple) else [given]
        for part in parts:
            if isinstance(part, Result):
                timings = tuple(t for t in part.measured.rows if t.where != COPY)
                found = cls(name, timings, found.errors)
            elif hasattr(part, "culprits"):
                found = cls(name, found.timings, tuple(part.rows))
            elif part is not None:
                raise OperationError(
                    f"compare_runs: {name} is a {type(part).__name__}; expected a result of "
                    "build.run(inputs, profile=True), a report of wb.compare, or a pair of them"
                )
        return found


@dataclass
class Side:
    """The part of a work that one run has."""

    timings: list[Timing] = field(default_factory=list[Timing])
    errors: list[Any] = field(default_factory=list[Any])

    @property
    def ids(self) -> list[int]:
        """Its instructions."""
        return list(dict.fromkeys(row.id for row in (*self.timings, *self.errors)))

    @property
    def ms(self) -> float:
        """The median of the sum of its times; NaN if it has none."""
        found = sums_of(self.timings)
        return Spread.of(found).median * 1e3 if len(found) else nan

    @property
    def error(self) -> float:
        """Its largest error, infinite where a value is not finite; NaN if none is known."""
        found = [e if isfinite(e := row.metrics.error) else np.inf for row in self.errors]
        return max(found, default=nan)


@dataclass(frozen=True)
class Work:
    """Nodes of the model that all runs compute together: what one fuses, others may compute apart."""

    computes: str
    sides: tuple[Side, ...]

    @property
    def spread_ms(self) -> float:
        """The slowest run's time minus the fastest's; NaN if fewer than two have one."""
        known = [ms for side in self.sides if (ms := side.ms) == ms]
        return max(known) - min(known) if len(known) > 1 else nan

    @property
    def chance(self) -> float:
        """The probability that equal runs differ as much as the slowest and the fastest do."""
        timed = sorted((s for s in self.sides if s.timings), key=lambda s: s.ms)
        if len(timed) < 2:
            return nan
        pairs = len(timed) * (len(timed) - 1) // 2
        return min(1.0, pairs * rank_test(*(sums_of(s.timings) for s in (timed[0], timed[-1]))))


class RunComparison:
    """Runs of one model beside each other, by what they compute.

    Kernels, host steps and compared values form a row if they compute the same nodes of the model, directly
    or through other rows, as in ``wb.compare_timings``. A difference of times is noise unless the rank sums
    of the slowest and of the fastest run tell them apart; the chance counts all pairs and all rows.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        """Compare runs."""
        self.runs = list(runs)

    @cached_property
    def works(self) -> list[Work]:
        """The works of the runs, in the order of the first one."""
        rows: list[tuple[int, Any]] = [
            (k, row) for k, run in enumerate(self.runs) for row in (*run.timings, *run.errors)
        ]
        made: list[Work] = []
        for members in joined([_keys(row) for _, row in rows]):
            sides = tuple(Side() for _ in self.runs)
            for k, row in (rows[m] for m in members):
                (sides[k].timings if isinstance(row, Timing) else sides[k].errors).append(row)
            made.append(Work(_computes([rows[m][1] for m in members]), sides))
        return made

    def table(self) -> DataFrame:
        """A row for each work, then their total; the largest difference of times first.

        Columns: the computed nodes, then of each run its kernels (if it was timed), ms and error as far as
        they are known; the slowest minus the fastest in ms, and whether that is within noise.
        """
        import pandas as pd  # noqa: PLC0415

        noise = within_noise([work.chance for work in self.works])
        rows = [
            self._row(work.computes, work.sides, work.spread_ms) | {"within noise": n}
            for work, n in zip(self.works, noise, strict=True)
        ]
        rows.sort(key=lambda row: -row["spread ms"] if row["spread ms"] == row["spread ms"] else 1)
        total = Work("all", tuple(Side(list(r.timings), list(r.errors)) for r in self.runs))
        last = self._row(total.computes, total.sides, total.spread_ms)
        is_noise = bool(within_noise([total.chance])[0])
        return pd.DataFrame([*rows, last | {"within noise": is_noise}])

    def _row(self, computes: str, sides: Iterable[Side], spread: float) -> dict[str, Any]:
        row: dict[str, Any] = {"computes": computes}
        for run, side in zip(self.runs, sides, strict=True):
            if run.timings:
                row[f"{run.name}: kernels"] = len(side.timings)
                row[f"{run.name}: ms"] = side.ms
            if run.errors:
                row[f"{run.name}: error"] = side.error
        return row | {"spread ms": spread}

    @property
    def summary(self) -> str:
        """The total of each run."""
        said = [f"{r.name} {Side(list(r.timings)).ms:.4g} ms" for r in self.runs if r.timings]
        names = ", ".join(said) or ", ".join(r.name for r in self.runs)
        return f"{len(self.runs)} runs, {len(self.works):,} groups of nodes; {names}"

    def __repr__(self) -> str:
        """The summary in angle brackets."""
        return f"<RunComparison: {self.summary}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = self.table().to_html(border=0, index=False)
        return {"text/plain": repr(self), "text/html": html}


def compare_runs(*runs: Any, names: Sequence[str] = ()) -> RunComparison:
    """Compare any number of runs of one model: targets, precisions, pipelines, devices.

    Args:
        *runs: For each a result of ``build.run(inputs, profile=True)``, a report of ``wb.compare``, or a pair
            of them.
        names: Names of the runs in tables; by default ``a``, ``b``, ``c`` and so on.

    Returns:
        The comparison; ``table()`` has a row for each group of nodes that are computed together.

    Raises:
        OperationError: There are fewer than two runs, names are missing or equal, or one is no run.
    """
    said = list(names) or [
        chr(ord("a") + k) if k < 26 else f"run {k + 1}" for k in range(len(runs))
    ]
    if len(runs) < 2 or len(said) != len(runs) or len(set(said)) != len(said):
        raise OperationError(
            f"compare_runs: expected two runs or more, each with a name of its own; found {len(runs)} "
            f"runs and the names {said}"
        )
    return RunComparison([Run.of(run, name) for run, name in zip(runs, said, strict=True)])


def _keys(row: Any) -> Sequence[Hashable]:
    """The keys that a row shares with others of the same work: nodes, or its id if it has none."""
    if isinstance(row, Timing):
        return timing_keys(row)
    return [("node", s) for s in row.sources] or [("id", row.id)]


def _computes(rows: Sequence[Any]) -> str:
    named = dict.fromkeys(s for row in rows for s in row.sources)
    return ", ".join(named) or f"{rows[0].kernel} {rows[0].name}"
