"""Charts of a tensor as paths over a square of side 100, which the browser and the static form draw alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from workbench.widgets import palette
from workbench.widgets.svg import number_text

GREY = "#8c8c8c99"
_LEVELS = 8
Chart = dict[str, Any]
Ends = tuple[float, float]


def charts(overview: Mapping[str, Any]) -> list[Chart]:
    """The distribution, errors by magnitude, and errors by index along each axis, where there are any."""
    axes = range(len(overview["lens"])) if overview["comparable"] else ()
    found = [_histogram(overview["histogram"]), _magnitude(overview.get("magnitude", {}))]
    return [c for c in (*found, *(_by_index(overview, k) for k in axes)) if c]


def _chart(
    title: str, x: list[tuple[float, str]], y: list[tuple[float, str]], parts: list[Any], words: str
) -> Chart:
    """A chart: ticks as positions from 0 to 100 with texts, parts as fill, stroke, dashes and path."""
    return {"title": title, "x": x, "y": y, "parts": parts, "words": words}


def _histogram(given: Mapping[str, Any]) -> Chart | None:
    title = "Distribution: value (line), reference (grey)"
    if "words" in given:
        return _chart(title, [], [], [], f"{given['words']}.")
    most = math.log10(max(*given["value"], *given["reference"], 1) + 1)
    up = _scale((0.0, most * 1.05))
    heights = {k: [up(math.log10(n + 1)) for n in given[k]] for k in ("value", "reference")}
    counts = [(up(math.log10(10**p + 1)), _power(p)) for p in range(math.floor(most) + 1)]
    low, high = given["edges"]
    x = [(100 * k / 2, number_text(low + (high - low) * k / 2)) for k in range(3)]
    parts = [
        [GREY, "", False, _stairs(heights["reference"])],
        ["", "accent", False, _stairs(heights["value"])],
    ]
    return _chart(title, x, _thinned(counts), parts, "")


def _magnitude(m: Mapping[str, Any]) -> Chart | None:
    if "cells" not in m:
        return None
    x_ends, y_ends, one = m["x"], m["y"], m.get("rounding")
    title = "Error against the reference's magnitude"
    if one:
        y_ends = (min(y_ends[0], math.floor(x_ends[0] + math.log10(one))), y_ends[1])
        title += f"; dashed: one rounding of {m['rounded']}"
    across, up = _scale(x_ends), _scale(y_ends)
    parts = [*_cells(m, across, up)]
    if one:
        ends = [(across(v), up(v + math.log10(one))) for v in x_ends]
        way = "L".join(f"{x:.2f} {100 - y:.2f}" for x, y in ends)
        parts.append(["", "removed", True, f"M{way}"])
    return _chart(title, _decades(x_ends, 6), _decades(y_ends), parts, m["words"])


def _cells(
    m: Mapping[str, Any], across: Callable[[float], float], up: Callable[[float], float]
) -> Iterable[Any]:
    """The cells of a picture of counts, those of one colour as one path."""
    (nx, ny), (x0, x1), (y0, y1) = m["grid"], m["x"], m["y"]
    most = math.log(max(n for _, _, n in m["cells"]) + 1)
    paths: dict[int, list[str]] = {}
    for i, j, n in m["cells"]:
        level = round((_LEVELS - 1) * math.log(n + 1) / most)
        left, right = (across(x0 + (x1 - x0) * k / nx) for k in (i, i + 1))
        low, high = (up(y0 + (y1 - y0) * k / ny) for k in (j, j + 1))
        box = f"M{left:.2f} {100 - high:.2f}H{right + 0.1:.2f}V{100 - low + 0.1:.2f}H{left:.2f}z"
        paths.setdefault(level, []).append(box)
    for level, boxes in sorted(paths.items()):
        color = palette.sample(palette.SCALES["viridis"], level / (_LEVELS - 1))
        yield [color, "", False, "".join(boxes)]


def _by_index(overview: Mapping[str, Any], axis: int) -> Chart | None:
    """The largest and the mean error by index along an axis; what is not finite at full height."""
    given, length = overview["channels"][axis], overview["lens"][axis]
    known = [math.log10(e) for k in ("largest", "mean") for e in given[k] if e]
    lost = sum(map(bool, given["lost"]))
    if not known and not lost:
        return None
    high = math.ceil(max(known, default=0.0) + 0.05)
    low = max(math.floor(min(known, default=-1.0)), high - 8)
    low = min(low, high - 1)
    up = _scale((low, high))
    heights = {
        k: [max(0.0, up(math.log10(e))) if e else 0.0 for e in given[k]]
        for k in ("largest", "mean")
    }
    marks = [100.0 * (n > 0) for n in given["lost"]]
    parts = [
        [f"{palette.NAN}66", "", False, _stairs(marks)],
        [GREY, "", False, _stairs(heights["largest"])],
        ["accent", "", False, _stairs(heights["mean"])],
    ]
    words = f"full height: not finite on one side ({lost:,} of {len(marks):,})" if lost else ""
    title = f"Error by index along axis {axis}: largest (grey), mean"
    ends = [(0.0, "0"), (100.0, f"{length - 1:,}")] if length > 1 else [(50.0, "0")]
    return _chart(title, ends, _decades((low, high)), parts, words) | {"axis": axis}


def _scale(ends: Ends) -> Callable[[float], float]:
    """The position of a number between two others, from 0 to 100."""
    low, high = ends
    return lambda v: 100 * (v - low) / ((high - low) or 1)


def _decades(ends: Ends, most: int = 4) -> list[tuple[float, str]]:
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    at = _scale(ends)
    return [
        (at(p), _power(p)) for p in range(low, high + 1, max(1, math.ceil((high - low) / most)))
    ]


def _power(p: int) -> str:
    return f"{10.0**p:g}" if -2 <= p <= 3 else f"1e{p}"


def _thinned(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    return ticks[:: math.ceil(len(ticks) / 5)]


def _stairs(heights: Sequence[float]) -> str:
    """Steps of equal width from the bottom, closed."""
    step = 100 / len(heights)
    tops = "".join(f"V{100 - y:.2f}H{(k + 1) * step:.2f}" for k, y in enumerate(heights))
    return f"M0 100{tops}V100z"
