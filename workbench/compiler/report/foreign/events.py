"""Events of a trace: complete ones, checked, with those that enclose each on its thread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from workbench.compiler.errors import InputError

MAX_EVENTS = 4_000_000
_KERNELS = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "device"}
"""Categories of work on a device, in the words of PyTorch's profiler and of ours."""


@dataclass(eq=False, slots=True)
class Event:
    """Something that took time."""

    name: str
    category: str
    start: float
    """Seconds on the trace's clock."""
    seconds: float
    track: tuple[str, str]
    """The process and the thread."""
    args: Mapping[str, Any]
    around: Event | None = None
    """The event in which it lies, or for work on a device that in which it was launched."""
    within: list[Event] = field(default_factory=list["Event"])

    @property
    def is_kernel(self) -> bool:
        """Whether a device did it."""
        return self.category in _KERNELS

    def outwards(self) -> Iterator[Event]:
        """The event, and those around it from the inside out."""
        at: Event | None = self
        while at is not None:
            yield at
            at = at.around


def events_of(given: Any) -> list[Event]:
    """The complete events of a document in Chrome's format, in the order of their start.

    Args:
        given: A list of events, or an object with ``traceEvents``.

    Raises:
        InputError: It has another form, too many events, or one with an impossible time.
    """
    listed = (
        cast("Mapping[str, Any]", given).get("traceEvents") if isinstance(given, dict) else given
    )
    if not isinstance(listed, list):
        raise InputError("no list of events; expected one, or an object with 'traceEvents'")
    rows = cast("list[Any]", listed)
    if len(rows) > MAX_EVENTS:
        raise InputError(
            f"{len(rows):,} events; expected at most {MAX_EVENTS:,}: record fewer runs"
        )
    found = [*_complete(rows), *_pairs(rows)]
    found.sort(key=lambda e: (e.start, -e.seconds))
    return nested(found)


def _complete(rows: Sequence[Any]) -> Iterator[Event]:
    for at, row in enumerate(rows):
        if isinstance(row, dict) and cast("dict[str, Any]", row).get("ph") == "X":
            yield _event(cast("dict[str, Any]", row), at, row.get("dur", 0))


def _pairs(rows: Sequence[Any]) -> Iterator[Event]:
    """Events whose beginning and end are two rows."""
    begun: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for at, given in enumerate(rows):
        row = cast("dict[str, Any]", given if isinstance(given, dict) else {})
        if row.get("ph") == "B":
            begun.setdefault(_track(row), []).append((at, row))
        elif row.get("ph") == "E" and (stack := begun.get(_track(row))):
            place, first = stack.pop()
            yield _event(first, place, _number(row, "ts", at) - _number(first, "ts", place))


def _event(row: Mapping[str, Any], at: int, length: Any) -> Event:
    start = _number(row, "ts", at)
    took = _number({"dur": length}, "dur", at)
    if took < 0:
        raise InputError(f"event {at}: a duration of {took} us; expected at least 0")
    args = row.get("args")
    return Event(
        str(row.get("name", "")), str(row.get("cat", "")), start / 1e6, took / 1e6, _track(row),
        cast("Mapping[str, Any]", args) if isinstance(args, dict) else {},
    )  # fmt: skip


def _track(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("pid", "")), str(row.get("tid", ""))


def _number(row: Mapping[str, Any], key: str, at: int) -> float:
    try:
        value = float(row.get(key, 0))
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"event {at}: {key} is {str(row.get(key))[:40]!r}; expected microseconds")
    return value


def nested(events: Sequence[Event]) -> list[Event]:
    """The events, each with the one around it: by time on its thread, by its launch for a device's."""
    open_: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        stack = open_.setdefault(event.track, [])
        while stack and not _contains(stack[-1], event):
            stack.pop()
        if stack:
            event.around = stack[-1]
        stack.append(event)
    _join_launches(events)
    for event in events:
        if event.around is not None:
            event.around.within.append(event)
    return list(events)


def _contains(outer: Event, inner: Event) -> bool:
    return inner.start + inner.seconds <= outer.start + outer.seconds + 1e-9


def _join_launches(events: Iterable[Event]) -> None:
    """Put work of a device into the host's event that launched it: the same correlation, or external id."""
    rows = list(events)
    for key in ("correlation", "External id"):
        hosts = {e.args[key]: e for e in rows if not e.is_kernel and _is_key(e.args.get(key))}
        for event in rows:
            if event.is_kernel and event.around is None:
                given = event.args.get(key)
                event.around = hosts.get(given) if _is_key(given) else None


def _is_key(value: Any) -> bool:
    return isinstance(value, int | str)
