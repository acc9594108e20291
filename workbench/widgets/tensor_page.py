"""A tensor beside its reference as HTML without scripts: a slice and both histograms as SVG, and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from workbench.widgets import palette
from workbench.widgets.svg import number_text
from workbench.widgets.tensor_traits import axes_of, index_of, is_drawn

CELLS = 1600
"""The most cells of the picture."""
_LEVELS = 24
_MARKS = (palette.NAN, palette.INFINITE, palette.LOST)
_WORDS = ("NaN", "infinite", "finite, where the reference is not")
_SIDE, _GAP, _TOP, _THIN = 300.0, 64.0, 26.0, 24.0
_CELL = "padding:2px 10px;text-align:{};white-space:nowrap"


def tensor_html(tensor: Any, slice: str, at: str, data: Mapping[str, Any]) -> str:
    """The default form of a tensor inspector where no kernel answers.

    Args:
        tensor: A value and its reference.
        slice: The slice of the picture.
        at: The element whose neighbours are listed.
        data: What the browser gets of it.
    """
    said = escape(f"{data['title']}: {data['statement']}")
    near = _near(tensor, slice, at) if is_drawn(tensor) else ""
    table = _table(f"{said}.", ("distance", ""), data["distances"])
    return f'{_picture(tensor, slice, data)}<div style="overflow-x:auto">{table}</div>{near}'


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the rows."""
    sides = ["left", *["right"] * (len(heads) - 1)]
    head = "".join(
        f'<th scope="col" style="{_CELL.format(s)}">{escape(h)}</th>'
        for s, h in zip(sides, heads, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL.format(s)}">{escape(c)}</td>'
            for s, c in zip(sides, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    title = f'<caption style="text-align:left;caption-side:top">{caption}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _near(tensor: Any, slice: str, at: str) -> str:
    """The neighbours of an element, as lines of value and reference."""
    place = tuple(int(p) for p in at.split(",")) if at else ()
    axes = axes_of(index_of(tensor, slice))
    found = tensor.around(place, axes)
    names = ["row", *[f"{c}" for c in found["columns"]]]
    rows = [
        [
            str(r),
            *(f"{a} ({b})" for a, b in zip(found["value"][k], found["reference"][k], strict=True)),
        ]
        for k, r in enumerate(found["rows"])
    ]
    words = f"Around [{', '.join(map(str, place))}]: value (reference)"
    return f"<details><summary>{words}</summary>{_table('', names, rows)}</details>"


def _picture(tensor: Any, slice: str, data: Mapping[str, Any]) -> str:
    """The errors of the slice, and the histograms, side by side."""
    parts: list[str] = []
    width = 0.0
    if is_drawn(tensor):
        parts.append(_slice(tensor, slice))
        width = _SIDE + _GAP
    parts.append(f'<g transform="translate({width:g} 0)">{_histogram(data)}</g>')
    words = escape(f"Absolute error and distribution of {data['title']}")
    size = f'width="{width + _SIDE + 40:g}" height="{_SIDE + _TOP + 44:g}"'
    box = f'viewBox="0 0 {width + _SIDE + 40:g} {_SIDE + _TOP + 44:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box} style="max-width:100%;height:auto" '
        f'aria-label="{words}"><title>{words}</title>{"".join(parts)}</svg>'
    )


def _slice(tensor: Any, slice: str) -> str:
    cells = tensor.cells(index_of(tensor, slice), CELLS)
    rows, columns = cells.errors.shape
    scale = min(_SIDE / columns, _SIDE / rows)
    across, down = max(scale, _THIN / columns), max(scale, _THIN / rows)
    levels, (low, high) = _levels(cells)
    paths = [_runs(levels == k, across, down, _color(k)) for k in np.unique(levels).tolist()]
    lost = [
        (m, w)
        for k, (m, w) in enumerate(zip(_MARKS, _WORDS, strict=True))
        if (levels == -1 - k).any()
    ]
    end = f"log scale from {number_text(low)} to {number_text(high)}" if high else "all equal"
    return (
        _words(f"|value − reference| at [{slice.replace(',', ', ')}]", 0, 14, 12)
        + f'<g transform="translate(0 {_TOP:g})">{"".join(paths)}</g>'
        + _words(end, 0, _TOP + rows * down + 16)
        + "".join(
            f'<rect x="{150 * k}" y="{_TOP + rows * down + 24:g}" width="9" height="9" fill="{color}"/>'
            + _words(words, 150 * k + 14, _TOP + rows * down + 32)
            for k, (color, words) in enumerate(lost)
        )
    )


def _levels(cells: Any) -> tuple[Any, tuple[float, float]]:
    """A step of the colour scale for each cell; −1, −2 and −3 for what is not finite."""
    errors, value = cells.errors, cells.value
    known = np.isfinite(errors) & (errors > 0)
    high = float(errors[known].max()) if known.any() else 0.0
    low = max(float(errors[known].min()), high * 1e-8) if known.any() else 0.0
    share = np.zeros(errors.shape)
    if high > low:
        share[known] = np.log(np.maximum(errors[known], low) / low) / math.log(high / low)
    elif high:
        share[known] = 1.0
    levels = np.rint(share * (_LEVELS - 1)).astype(int)
    levels[np.isinf(errors)] = -3
    levels[np.isinf(errors) & np.isinf(value)] = -2
    levels[np.isinf(errors) & np.isnan(value)] = -1
    return levels, (low, high)


def _color(level: int) -> str:
    if level < 0:
        return _MARKS[-1 - level]
    return palette.sample(palette.SCALES["magma"], level / (_LEVELS - 1))


def _runs(mask: Any, across: float, down: float, color: str) -> str:
    """The cells of one colour, joined along rows, as one path."""
    found: list[str] = []
    for r, row in enumerate(mask):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(int)))
        for start, end in ends.reshape(-1, 2).tolist():
            wide = (end - start) * across
            found.append(f"M{start * across:.5g} {r * down:.5g}h{wide:.5g}v{down:.5g}h{-wide:.5g}z")
    return f'<path fill="{color}" stroke="{color}" stroke-width=".3" d="{"".join(found)}"/>'


def _histogram(data: Mapping[str, Any]) -> str:
    """Both distributions, as the inspector draws them."""
    chart = data["charts"][0]
    colors = {"accent": palette.ADDED, "": "none"}
    paths = [
        f'<path fill="{colors.get(fill, fill)}" stroke="{colors.get(stroke, stroke)}" d="{d}" '
        'vector-effect="non-scaling-stroke"/>'
        for fill, stroke, _, d in chart["parts"]
    ]
    frame = f'<g transform="translate(0 {_TOP:g}) scale({_SIDE / 100:g})">{"".join(paths)}</g>'
    x = [
        _words(text, _SIDE * at / 100, _TOP + _SIDE + 16, anchor="middle")
        for at, text in chart["x"]
    ]
    y = [
        _words(text, -6, _TOP + _SIDE * (1 - at / 100) + 4, anchor="end") for at, text in chart["y"]
    ]
    head = _words(chart["title"], 0, 14, 12)
    said = _words(chart["words"], 0, _TOP + 20) if chart["words"] else ""
    return "".join([head, frame, *x, *y, said])


def _words(text: str, x: float, y: float, size: int = 11, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="#7a828c" '
        f'font-family="system-ui, sans-serif" text-anchor="{anchor}">{escape(text)}</text>'
    )
