"""Kernels as HTML without scripts, for notebooks in which no widget runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

ROWS = 200
"""Most kernels in the static table, which says how many it leaves out."""
LINES = 400
"""Most lines of a text on the page."""

Row = Mapping[str, Any]

_CELL = "padding:3px 10px;text-align:{};white-space:nowrap"
_PRE = "max-height:24em;overflow:auto;font-size:11.5px;line-height:1.5;margin:4px 0;text-align:left"


def digits(value: float | None) -> str:
    """Three significant digits, without an exponent from 0.01 to 9,999; empty if unknown."""
    if value is None:
        return ""
    size = abs(value)
    if value == 0 or size >= 1000:
        return f"{value:,.0f}" if size < 10_000 else f"{value:.2e}".replace("e+0", "e")
    return f"{value:.3g}" if size >= 0.01 else f"{value:.2e}".replace("e-0", "e-")


def _percent(row: Row) -> str:
    return "" if row["share"] is None else f"{digits(100 * row['share'])} %"


_COLUMNS: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("kernel", "left", lambda r: f"{r['instruction']} {r['what']}"),
    ("ms", "right", lambda r: digits(r["ms"])),
    ("share", "right", _percent),
    ("MB", "right", lambda r: digits(r["bytes"] / 1e6)),
    ("registers", "right", lambda r: "" if r["registers"] is None else str(r["registers"])),
    ("shared bytes", "right", lambda r: "" if r["shared"] is None else f"{r['shared']:,}"),
    ("grid × block", "right", lambda r: f"{r['grid']} × {r['block']}"),
    ("from", "left", lambda r: _some(r["sources"])),
)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def kernels_text(rows: Sequence[Row], title: str) -> str:
    """The kernels in one line of words."""
    codes = len({row["name"] for row in rows})
    launched = f"{len(rows):,} launch{'es' if len(rows) != 1 else ''} of {codes:,} kernel"
    return f"{title or 'Kernels'}: {launched}{'s' if codes != 1 else ''}"


def kernels_html(rows: Sequence[Row], chosen: int, title: str) -> str:
    """A table of the kernels, and the texts of one.

    Args:
        rows: The kernels, as for `KernelView`.
        chosen: The index of the kernel whose texts are shown.
        title: The program and the target.
    """
    texts = _texts(rows[chosen]) if rows else ""
    return f'<div style="overflow:auto">{_table(rows, title)}</div>{texts}'


def _table(rows: Sequence[Row], title: str) -> str:
    columns = [c for c in _COLUMNS if any(c[2](row) for row in rows)]
    head = "".join(f'<th scope="col" style="{_CELL.format(a)}">{n}</th>' for n, a, _ in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL.format(a)}">{escape(text(row))}</td>' for _, a, text in columns
        )
        + "</tr>"
        for row in rows[:ROWS]
    )
    more = f"<p>and {len(rows) - ROWS:,} more</p>" if len(rows) > ROWS else ""
    said = escape(kernels_text(rows, title))
    caption = f'<caption style="text-align:left;caption-side:top">{said}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _texts(row: Row) -> str:
    body = "".join(row["source"].splitlines(keepends=True)[row["prologue"] :])
    name = escape(f"{row['instruction']} {row['what']}")
    shown = _folded(f"Source of {name}, without the prologue", body, is_open=True)
    shown += _folded(f"Module of {name}", row["module"])
    if row["search"]:
        shown += _folded(f"Search for {name}", row["search"])
    return shown + _folded(f"Machine code of {name}", row["assembly"]())


def _folded(summary: str, text: str, is_open: bool = False) -> str:
    lines = text.splitlines()
    kept = "\n".join(lines[:LINES])
    rest = f"\n… {len(lines) - LINES:,} more lines" if len(lines) > LINES else ""
    mark = " open" if is_open else ""
    pre = f'<pre style="{_PRE}">{escape(kept + rest)}</pre>'
    return f"<details{mark}><summary>{summary}</summary>{pre}</details>"
