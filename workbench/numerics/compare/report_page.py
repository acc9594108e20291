"""The report of a comparison in a notebook: its culprits, then the worst values."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import inf, isfinite
from typing import TYPE_CHECKING

from workbench.numerics.compare.culprit import Culprit

if TYPE_CHECKING:
    from workbench.numerics.compare.report import Report

_CULPRITS = 5
_NODES = 8
_COLUMNS = ["name", "kernel", "sources", "shape", "wrong", "local relative rms", "bound", "relative rms",
            "max abs"]  # fmt: skip
_COUNTS = ["nan", "inf", "wrongly finite"]
"""Columns that are shown if any of their numbers is not 0."""


def page(report: Report) -> str:
    """The counts, the first culprits, and the worst rows, as HTML with every name escaped."""
    return "".join([f"<p>{escape(report.counts)}.</p>", *_culprits(report), _worst(report)])


def _culprits(report: Report) -> Iterator[str]:
    found = report.culprits()
    if not found:
        return
    yield f"<p><b>{len(found)} culprit{'s' * (len(found) > 1)}</b></p><ol>"
    yield from (f"<li>{_sentence(c)}</li>" for c in found[:_CULPRITS])
    yield "</ol>"
    if len(found) > _CULPRITS:
        yield f"<p>and {len(found) - _CULPRITS} more: <code>report.culprits()</code></p>"


def _sentence(culprit: Culprit) -> str:
    """The instruction, the cause, the sentence, the nodes, and the error beside its bound."""
    kernel = f"<b>{escape(f'{culprit.name} {culprit.kernel}'.strip())}</b>"
    said = f"{kernel} ({escape(str(culprit.cause))}): {escape(culprit.reason)}."
    lines = [said, f"Error {_error(culprit)}."]
    if culprit.sources:
        nodes = ", ".join(f"<code>{escape(s)}</code>" for s in culprit.sources[:_NODES])
        lines.append(f"From {nodes}{', …' if len(culprit.sources) > _NODES else ''}.")
    if culprit.edit is not None:
        lines.append(f"By the rule <code>{escape(culprit.edit.rule)}</code>.")
    return "<br>".join(lines)


def _error(culprit: Culprit) -> str:
    """``0.3, 40 times the 0.007 accepted``."""
    error = f"{culprit.error:.3g}" if isfinite(culprit.error) else "∞"
    if not culprit.bound:
        return f"{error}, where none is accepted"
    times = f"{culprit.severity:,.3g} times " if culprit.severity < inf else "beyond "
    return f"{error}, {times}the {culprit.bound:.3g} accepted"


def _worst(report: Report) -> str:
    rows = report.worst()
    if rows.empty:
        return "<p>No value was compared.</p>"
    title = f"<p>The {len(rows)} values with the largest errors of their own</p>"
    counted = [c for c in _COUNTS if rows[c].to_numpy().any()]
    shown = [*_COLUMNS, *counted]
    table: str = rows.to_html(columns=shown, border=0, float_format=_number)
    return f'{title}<div style="overflow-x:auto">{table}</div>'


def _number(value: float) -> str:
    return "∞" if value == inf else f"{value:.3g}"
