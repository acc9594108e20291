"""One run in Chrome's trace event format (JSON), for Perfetto and ``chrome://tracing``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from workbench.compiler.report.timings import COPY, DEVICE, HOST, LAUNCH, Measured, Span

_HOST, _DEVICE = 1, 2

_TRACKS = {LAUNCH: (_HOST, 1), HOST: (_HOST, 1), COPY: (_HOST, 2), DEVICE: (_DEVICE, 1)}
"""The process and thread of a row. On each thread, a span within another one is drawn below it."""
_NAMES = {
    (_HOST, 1): "launches and instructions on the host",
    (_HOST, 2): "copies",
    (_DEVICE, 1): "kernels",
}


def _track(row: str) -> tuple[int, int]:
    """The process and thread of a row; each stream of a device is a thread."""
    kind, _, number = row.partition(" ")
    return (_DEVICE, 1 + int(number)) if kind == "stream" else _TRACKS[row]


def trace(measured: Measured, device: str = "") -> dict[str, Any]:
    """The run that a timeline shows, as complete events (``ph`` is ``X``) in microseconds.

    The host and the device are processes. If an instruction has several kernels, they lie inside a
    span for it. ``args`` of a kernel hold its instruction, source nodes, bytes, operations and the
    median over all repetitions.

    Args:
        measured: The measurements; streams of a device are threads.
        device: Its name, if the measurements do not say it.
    """
    device = measured.run.device if measured.run else device
    events = [*_named(measured, device), *_nested(measured)]
    other = {} if measured.run is None else measured.run.facts()
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}


def save(measured: Measured, path: str | PathLike[str], device: str = "") -> None:
    """Write ``trace`` to a file that Perfetto opens."""
    Path(path).write_text(json.dumps(trace(measured, device), allow_nan=False), encoding="utf-8")


def _named(measured: Measured, device: str) -> Iterator[dict[str, Any]]:
    used = sorted({_track(s.row) for s in measured.spans})
    streams = {_track(r): r for s in measured.spans if (r := s.row).startswith("stream ")}
    names = {**_NAMES, **streams}
    for process in sorted({p for p, _ in used}):
        name = "host" if process == _HOST else device
        yield _meta("process_name", process, 0, {"name": name})
        yield _meta("process_sort_index", process, 0, {"sort_index": process})
    for process, thread in used:
        yield _meta("thread_name", process, thread, {"name": names[process, thread]})


def _meta(name: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": process, "tid": thread, "args": args}


def _nested(measured: Measured) -> Iterator[dict[str, Any]]:
    """Each span, preceded by one for its instruction if that has several kernels in a row."""
    for group in _instructions(measured):
        first, last = group[0], group[-1]
        if len(group) > 1:
            row = measured.rows[first.timing]
            whole = Span(DEVICE, f"{row.name} {row.op}", first.start, _end(last) - first.start)
            yield _event(measured, whole)
        for span in group:
            yield _event(measured, span)


def _instructions(measured: Measured) -> list[list[Span]]:
    """Consecutive spans on the device, grouped by instruction."""
    groups: list[list[Span]] = []
    for span in measured.spans:
        before = groups[-1][-1] if groups else None
        if (
            before is not None
            and before.row == span.row == DEVICE
            and _same(measured, before, span)
        ):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _same(measured: Measured, a: Span, b: Span) -> bool:
    known = a.timing >= 0 and b.timing >= 0
    return known and measured.rows[a.timing].id == measured.rows[b.timing].id


def _end(span: Span) -> float:
    return span.start + span.seconds


def _event(measured: Measured, span: Span) -> dict[str, Any]:
    process, thread = _track(span.row)
    # Whole nanoseconds, so that adjacent spans do not overlap after rounding.
    start, end = round(span.start * 1e9), round(_end(span) * 1e9)
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.row,
        "pid": process,
        "tid": thread,
        "ts": start / 1e3,
        "dur": (end - start) / 1e3,
        "args": _args(measured, span),
    }


def _args(measured: Measured, span: Span) -> dict[str, Any]:
    if span.timing < 0:
        return {}
    row = measured.rows[span.timing]
    sources: Sequence[str] = row.sources
    return {
        "instruction": f"{row.name} {row.op}",
        "sources": list(sources),
        "bytes": row.bytes,
        "flops": row.flops,
        "median us": row.spread.median * 1e6,
        **({"run": span.run} if span.run >= 0 else {}),
    }
