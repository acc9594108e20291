"""Comparison of two profiles: rows that compute the same nodes, and whether differences are noise."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import comb, erfc, isnan, sqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.timings import COPY, Measured, Spread, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

LEVEL = 0.01
"""The probability that a comparison of equal runs reports any difference as real."""
_EXACT = 40
"""The most measurements for which the distribution of ranks is computed exactly."""


@dataclass(frozen=True)
class Group:
    """Rows of two runs that compute the same nodes."""

    computes: str
    a: tuple[Timing, ...]
    b: tuple[Timing, ...]

    @property
    def kind(self) -> str:
        """``copy`` or ``kernels``."""
        return COPY if all(t.where == COPY for t in (*self.a, *self.b)) else "kernels"


class Timed(Protocol):
    """A result of a profiled run, or a profile of another runtime laid over the model."""

    @property
    def measured(self) -> Measured:
        """The rows."""
        ...


class TimingComparison:
    """The comparison of two runs of one model by time.

    A difference is noise unless the rank sums of the repetitions tell the runs apart: a two-sided
    test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947), which assumes nothing about the
    distribution of the times, with Holm's correction for the number of rows (Scandinavian Journal of
    Statistics 6, 1979). So of 100 comparisons of a run with itself, one is expected to report a
    difference. The test knows only the spread inside each profile: a clock that rose between two
    profiles counts as a real difference, so measure both within minutes, and then a second time.
    """

    def __init__(self, a: Timed, b: Timed, names: tuple[str, str] = ("a", "b")) -> None:
        """Compare two results."""
        self.a = a
        self.b = b
        self.names = names

    @cached_property
    def groups(self) -> list[Group]:
        """Rows that compute the same nodes, in the order of the first run."""
        return grouped(self.a.measured.rows, self.b.measured.rows)

    @cached_property
    def repetitions(self) -> tuple[int, int]:
        """The number of repetitions of each."""
        return _repetitions(self.a.measured.rows), _repetitions(self.b.measured.rows)

    def table(self) -> DataFrame:
        """A row per group of kernels or copy, then one for the sum of everything but copies.

        Columns: the computed nodes (or the operation), kind (kernels, copy, total), kernels of
        each run, ms of each (the median of their sums), ratio (a over b: above 1 where b is faster),
        difference in ms (b minus a), p (of the rank test), and whether the difference is within noise.
        """
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self._rows)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows = [self._row(g.computes, g.kind, g.a, g.b) for g in self.groups]
        for row, noise in zip(rows, within_noise([r["p"] for r in rows]), strict=True):
            row["within noise"] = noise
        work = [[t for t in r.measured.rows if t.where != COPY] for r in (self.a, self.b)]
        total = self._row("all but copies", "total", *work)
        total["within noise"] = not total["p"] <= LEVEL
        return [*rows, total]

    def _row(
        self, computes: str, kind: str, a: Sequence[Timing], b: Sequence[Timing]
    ) -> dict[str, Any]:
        first, second = sums_of(a), sums_of(b)
        ms_a, ms_b = (Spread.of(x).median * 1e3 if len(x) else np.nan for x in (first, second))
        return {
            "computes": computes,
            "kind": kind,
            "kernels a": len(a),
            "kernels b": len(b),
            "ms a": ms_a,
            "ms b": ms_b,
            "ratio": ms_a / ms_b if ms_b else np.nan,
            "difference ms": ms_b - ms_a,
            "p": rank_test(first, second),
            "within noise": False,
        }

    def plot(self, ax: Axes | None = None, top: int = 20) -> Axes:
        """Bars of both runs side by side, with their ratio, or ≈ if they differ only by noise."""
        from workbench.compiler.report.timing_plots import plot_comparison  # noqa: PLC0415

        return plot_comparison(self.table(), self.names, ax, top)

    def __str__(self) -> str:
        """The total, and how many of the groups differ."""
        *rows, total = self._rows
        real = sum(not row["within noise"] for row in rows)
        said = f"{self.names[0]} {total['ms a']:.4g} ms, {self.names[1]} {total['ms b']:.4g} ms"
        noise = "within noise" if total["within noise"] else f"{total['ratio']:.3g} times"
        few = _too_few(*self.repetitions)
        return f"{said} ({noise}); {real} of {len(rows)} groups differ{few}"

    def __repr__(self) -> str:
        """The same in angle brackets."""
        return f"<TimingComparison: {self}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        html = self.table().to_html(border=0, index=False)
        return {"text/plain": repr(self), "text/html": f"<p>{escape(str(self))}</p>{html}"}


def compare_timings(a: Timed, b: Timed, names: tuple[str, str] = ("a", "b")) -> TimingComparison:
    """Compare the timings of two profiled runs: fused and unfused, two devices, two builds.

    Args:
        a: A result of ``build.run(inputs, profile=True)``, or a profile of another runtime:
            ``wb.load_trace(path).over(build)``.
        b: Another one, of the same model.
        names: Names of the two results in tables and plots.

    Returns:
        The comparison, which prints as a table and has ``table()`` and ``plot()``. Kernels that compute
        the same nodes form one group, so a fused kernel is compared with the kernels it replaces.

    Raises:
        OperationError: One of them ran on a device without a profile.
    """
    for result, name in ((a, names[0]), (b, names[1])):
        if not hasattr(type(result), "measured"):
            raise OperationError(
                f"compare_timings: {name} is a {type(result).__name__}; expected a result of "
                "build.run(inputs, profile=True)"
            )
    _ = a.measured, b.measured
    return TimingComparison(a, b, names)


def _repetitions(rows: Iterable[Timing]) -> int:
    return min((len(t.seconds) for t in rows if t.where != COPY), default=0)


def _too_few(a: int, b: int) -> str:
    """A remark for when there are too few repetitions to tell any difference from noise."""
    if a and b and 2 / comb(a + b, a) <= LEVEL:
        return ""
    return f"; {min(a, b)} repetitions are too few to tell a difference from noise, take 10"


def sums_of(rows: Sequence[Timing]) -> Array:
    """The sum of the rows in each repetition that all of them have."""
    count = min((len(t.seconds) for t in rows), default=0)
    return np.array([t.seconds[:count] for t in rows], np.float64).reshape(len(rows), count).sum(0)


# Grouping


def grouped(a: Sequence[Timing], b: Sequence[Timing]) -> list[Group]:
    """Rows of two runs, grouped if they share a source node, directly or through other rows."""
    rows, members = [*a, *b], list[Group]()
    for found in joined([timing_keys(t) for t in rows]):
        x, y = (tuple(rows[k] for k in found if (k >= len(a)) == late) for late in (False, True))
        members.append(Group(_computes(x + y), x, y))
    return members


def joined(keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """The rows that share a key, directly or through other rows, in the order of the first of each."""
    leader: dict[Hashable, Hashable] = {}

    def find(key: Hashable) -> Hashable:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for found in keys:
        for key in found[1:]:
            leader[find(key)] = find(found[0])
    members: dict[Hashable, list[int]] = {}
    for k, found in enumerate(keys):
        members.setdefault(find(found[0]), []).append(k)
    return list(members.values())


def timing_keys(row: Timing) -> list[tuple[Any, ...]]:
    """The keys that a row shares with others of the same work: nodes, or ids if it has none."""
    if row.where == COPY:
        return [(row.op, row.kernel, row.name)]
    return [("node", s) for s in row.sources] or [
        ("id", i) for i in sorted(row.aliases or {row.id})
    ]


def _computes(rows: Sequence[Timing]) -> str:
    names = dict.fromkeys(s for t in rows for s in t.sources) if rows[0].where != COPY else {}
    if names:
        return ", ".join(names)
    most = max(rows, key=lambda t: len(t.aliases))
    return f"{most.kernel} {most.name}"


# Noise


def rank_test(a: Sequence[float] | Array, b: Sequence[float] | Array) -> float:
    """The probability that equal runs have rank sums at least this far apart: a two-sided Mann-Whitney test.

    Exact for up to 40 measurements, ties included; by a normal distribution for more. NaN if
    there are no measurements on one side.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not len(x) or not len(y):
        return float("nan")
    ranks = _doubled_ranks(np.concatenate([x, y]))
    observed = abs(2 * int(ranks[: len(x)].sum()) - 2 * len(x) * (len(ranks) + 1))
    if len(ranks) <= _EXACT:
        return _counted(ranks, len(x), observed)
    return _approximated(ranks, len(x), observed)


def _doubled_ranks(values: Array) -> Array:
    """Twice the rank of each value, from 2; equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return (2 * ends - count + 1)[place].astype(np.int64)


def _counted(ranks: Array, size: int, observed: int) -> float:
    """The fraction of all choices of ``size`` ranks whose sum is at least as far from the middle."""
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in map(int, ranks):
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    sums = 2 * np.arange(ways.shape[1]) - 2 * size * (len(ranks) + 1)
    return float(ways[size, np.abs(sums) >= observed].sum() / ways[size].sum())


def _approximated(ranks: Array, size: int, observed: int) -> float:
    n, other = len(ranks), len(ranks) - size
    # The variance of a rank sum, computed from the ranks themselves because ties reduce it.
    variance = size * other / n * float(np.var(ranks / 2, ddof=1))
    return erfc(observed / 4 / sqrt(2 * variance)) if variance else 1.0


def within_noise(chances: Sequence[float]) -> list[bool]:
    """For each row, whether it is within noise, by Holm's procedure; NaN compares nothing, so it is not."""
    noise = [not isnan(chance) for chance in chances]
    known = sorted((k for k, n in enumerate(noise) if n), key=chances.__getitem__)
    for rank, k in enumerate(known):
        if chances[k] > LEVEL / (len(known) - rank):
            break
        noise[k] = False
    return noise
