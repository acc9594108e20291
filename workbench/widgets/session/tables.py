"""Tables of a session for its panes: timings, memory, numbers and lint, a row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import OperationError
from workbench.compiler.lint.report import LintReport
from workbench.compiler.report.memory_plan import MemoryPlan
from workbench.compiler.report.run_comparison import RunComparison
from workbench.compiler.report.timings import Measured
from workbench.compiler.text.naming import ids_in, name_of, resolved
from workbench.compiler.text.printing import names
from workbench.widgets import label
from workbench.widgets.session.session import Session

Table = dict[str, Any]

TEXT = 120
"""The longest text of a cell."""


def table_of(session: Session, name: str) -> Table:
    """The table of a pane.

    Raises:
        OperationError: There is nothing to show yet.
    """
    if name == "timings" and session.timed and session.result is not None:
        return timings(session.result.measured)
    if name == "memory" and session.build is not None:
        return memory(session.build.memory())
    if name == "numbers" and session.report is not None:
        return numbers(session.report, session.build)
    if name == "builds" and len(session.runs()) > 1:
        return builds(session)
    if name == "lint" and session.build is not None:
        return lint(session.lint(), names(session.build.program))
    raise OperationError(f"there is nothing to show in {name!r} yet")


def timings(measured: Measured) -> Table:
    """Timings: a row per kernel, host step or copy, in the order of the run."""
    whole = sum(t.spread.median for t in measured.rows) or 1.0
    rows = [
        _row(t.id, t.aliases, [
            t.name, t.kernel, t.where, t.spread.median * 1e3, t.spread.iqr * 1e3,
            t.spread.median / whole, t.bytes, t.flops, ", ".join(t.sources),
        ])
        for t in measured.rows
    ]  # fmt: skip
    columns = [
        _column("instruction"), _column("kernel", "wide"), _column("where"),
        _column("ms", "bar", title="Median time of the repetitions"),
        _column("± ms", "number", title="Interquartile range of the repetitions"),
        _column("share", "percent"), _column("bytes", "bytes", title="Bytes that enter and leave"),
        _column("flops", "count", title="Floating-point operations"), _column("model", "wide", nodes=True),
    ]  # fmt: skip
    total = sum(t.spread.median for t in measured.rows) * 1e3
    said = f"{len(rows):,} rows, {total:.3g} ms together"
    if (run := measured.run) is not None:
        said += f"; a run as called takes {run.wall.median * 1e3:.3g} ms"
    return {"columns": columns, "rows": rows, "said": said, "sort": 3, "way": -1}


def memory(plan: MemoryPlan) -> Table:
    """Memory: a row per buffer with its lifetime over the program and its offset in the arena."""
    steps = max(len(plan.steps), 1)
    rows = [
        _row(b.id, (b.id,), [
            b.instruction, b.op, b.bytes, b.offset, [b.first, b.last + 1], ", ".join(b.sources),
        ])
        for b in plan.buffers
    ]  # fmt: skip
    columns = [
        _column("instruction"), _column("operation"), _column("bytes", "bytes", bar=True),
        _column("offset", "count", title="Offset in the arena, in bytes"),
        _column("lifetime", "span", title="From the instruction to its last use", of=steps),
        _column("model", "wide", nodes=True),
    ]  # fmt: skip
    said = f"{len(rows):,} buffers, {plan.peak:,} bytes at the peak, {plan.total:,} without sharing"
    return {"columns": columns, "rows": rows, "said": said, "sort": None, "way": 1}


def numbers(report: Any, build: Build | None = None) -> Table:
    """Numbers: a row per compared value with its inherited and its local error, the culprits first.

    Args:
        report: The report of a comparison.
        build: The build that was compared; with its recording, the edit of a culprit is a link.
    """
    blamed = {c.id: k + 1 for k, c in enumerate(report.culprits())}
    rows = [
        _row(r.id, (r.id,), [
            blamed.get(r.id), r.name, r.kernel, _error(r.metrics.error),
            None if r.local is None else _error(r.local.error), r.bound, r.metrics.nan, r.metrics.inf,
            ", ".join(r.sources),
        ], report.is_wrong(r))
        for r in report.rows
    ]  # fmt: skip
    columns = [
        _column("culprit", "number", title="Place among the culprits"), _column("instruction"),
        _column("kernel", "wide"),
        _column("error", "error", title="Relative RMS as it ran", tolerance=report.tolerance),
        _column("own error", "error", title="Relative RMS of this kernel on the reference's inputs"),
        _column("rounding", "error", title="The own error that rounding accounts for"),
        _column("NaN", "count"), _column("inf", "count"), _column("model", "wide", nodes=True),
    ]  # fmt: skip
    notes = [_note(c, build) for c in report.culprits()[:20]]
    sort, way = (0, 1) if blamed else (3, -1)
    return {"columns": columns, "rows": rows, "said": report.counts, "notes": notes,
            "sort": sort, "way": way}  # fmt: skip


def builds(session: Session) -> Table:
    """Builds: a row per group of nodes with the time and the error of each build, by their spread."""
    found = RunComparison([*session.runs().values()])
    columns = [_column("model", "wide", nodes=True, title="Nodes that are computed together")]
    for run in found.runs:
        name = label.clipped(run.name, 40)
        columns += [_column(f"{name} ms", "number", title="Median time")] * bool(run.timings)
        columns += [_column(f"{name} error", "error", title="Largest error")] * bool(run.errors)
    columns.append(_column("spread ms", "bar", title="The slowest minus the fastest"))
    rows = []
    for work in found.works:
        cells: list[Any] = [work.computes]
        for run, side in zip(found.runs, work.sides, strict=True):
            cells += [_known(side.ms)] * bool(run.timings)
            cells += [_known(side.error)] * bool(run.errors)
        ids = [id for side in reversed(work.sides) for id in side.ids]
        rows.append(_row(ids[0], dict.fromkeys(ids), [*cells, _known(work.spread_ms)]))
    last = len(columns) - 1
    return {"columns": columns, "rows": rows, "said": found.summary, "sort": last, "way": -1}


def _known(value: float) -> float | str | None:
    """A number; None if it is not known, and words for one that JSON has no number for."""
    return None if isnan(value) else _error(value)


def _note(culprit: Any, build: Build | None) -> Table:
    """A culprit in a sentence, with the names in it that are links, and the edit that is wrong."""
    edit, place = culprit.edit, None
    if edit is not None and build is not None and build.is_recorded:
        found = (k for k, step in enumerate(build.recording) if edit in step.edits)
        if (step := next(found, None)) is not None:
            words = f"edit {edit.index + 1} of {label.clipped(build.recording[step].name, 80)}"
            place = [step, edit.index, words]
    return {
        "id": culprit.id,
        "text": label.clipped(str(culprit), 600),
        "names": dict.fromkeys((culprit.name, *culprit.sources[:4]), culprit.id),
        "edit": place,
    }


def lint(report: LintReport, named: Mapping[int, str]) -> Table:
    """Lint: a row per finding with its cost, its remedy and its reason, the most expensive first.

    Args:
        report: The findings, whose texts name instructions by id.
        named: The printed names.
    """
    rows = [
        _row(f.id, f.ids, [
            f.kind, f.instruction, f.cost.ms, f.cost.bytes, f.cost.flops or None, f.cost.kernels,
        ])
        for f in report
    ]  # fmt: skip
    ids: dict[str, int] = {}
    for row, f in zip(rows, report, strict=True):
        ids |= {name_of(id, named): id for text in (f.remedy, f.reason) for id in ids_in(text)}
        texts = (resolved(f.remedy, named), resolved(f.reason, named))
        row["cells"] += [
            *(label.clipped(t, 600) for t in texts),
            label.clipped(", ".join(f.sources), TEXT),
        ]
    columns = [
        _column("kind"), _column("instruction"), _column("ms", "bar", title="Measured time"),
        _column("bytes", "bytes", bar=True, title="Bytes read and written in each run"),
        _column("flops", "count", title="Floating-point operations in each run"),
        _column("kernels", "count", title="Kernels that would go"),
        _column("remedy", "prose", title="What to do"),
        _column("reason", "prose", title="Why the compiler left it"), _column("model", "wide", nodes=True),
    ]  # fmt: skip
    return {
        "columns": columns,
        "rows": rows,
        "said": report.summary,
        "ids": ids,
        "sort": None,
        "way": 1,
    }


def _column(name: str, kind: str = "text", **facts: Any) -> Table:
    return {"name": name, "kind": kind, **facts}


def _row(id: int, ids: Any, cells: Sequence[Any], marked: bool = False) -> Table:
    clipped = [label.clipped(c, TEXT) if isinstance(c, str) else c for c in cells]
    return {"id": id, "ids": sorted(ids), "cells": clipped, "marked": marked}


def _error(value: float) -> float | str:
    """An error; words for one that JSON has no number for."""
    return value if isfinite(value) else "not finite"
