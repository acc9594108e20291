"""The numbers of a report by instruction as texts, for views: of a row, of a value without one, of a part."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.numerics.compare.culprit import Culprit
from workbench.numerics.compare.inside import Part
from workbench.numerics.metrics.metrics import Metrics

if TYPE_CHECKING:
    from workbench.numerics.compare.report import NotCompared, Report, Row

Facts: TypeAlias = dict[str, Any]
"""``said``: sentences; ``rows``: pairs of a name and a text; of parts also ``error``, which colours it."""


def facts_of(report: Report) -> dict[int, Facts]:
    """The facts of all values with or without a row, by instruction id."""
    culprits = {c.id: c for c in reversed(report.culprits())}
    found = {n.id: _missing(n) for n in report.not_compared}
    return found | {r.id: _row(report, r, culprits.get(r.id)) for r in report.rows}


def _row(report: Report, row: Row, culprit: Culprit | None) -> Facts:
    tolerance = report.tolerance if row.tolerance is None else row.tolerance
    wrong = report.is_wrong(row)
    said = [_sentence(culprit)] if culprit is not None else []
    said.append(f"{'Beyond' if wrong else 'Within'} the tolerance of {_text(tolerance)}.")
    rows = [["relative RMS", _marked(row.metrics.error, wrong)]]
    if row.local is not None:
        rows += [
            ["local RMS", _marked(row.local.error, row.local.exceeds(row.bound))],
            ["local bound", _text(row.bound)],
        ]
    rows += _distances(row.metrics)
    if row.reference:
        rows.append(["compared with", row.reference])
    return {"said": said, "rows": rows}


def _sentence(culprit: Culprit) -> str:
    edit = f" By the rule {culprit.edit.rule}." if culprit.edit is not None else ""
    return f"Culprit ({culprit.cause}): {culprit.reason}.{edit}"


def _distances(metrics: Metrics) -> Iterator[list[str]]:
    m = metrics.ranked
    pairs = (("max abs", m.max_abs), ("max rel", m.max_rel), ("RMS", m.rms), ("cosine", m.cosine))
    yield from ([name, _text(number)] for name, number in pairs)
    yield ["NaN", f"{m.nan:,} (expected {m.reference_nan:,})"]
    yield ["infinite", f"{m.inf:,} (expected {m.reference_inf:,})"]
    if m.lost:
        yield ["wrongly finite", f"{m.lost:,}"]


def _missing(value: NotCompared) -> Facts:
    return {"said": [f"Not compared: {value.reason}."], "rows": []}


def facts_of_part(part: Part) -> Facts:
    """The facts of an instruction inside a fused one."""
    said = [f"{part.reason[:1].upper()}{part.reason[1:]}."] if part.reason else []
    rows = [
        ["local RMS", _marked(part.local.error, part.is_beyond)],
        ["inherited here", _marked(part.inherited.error, part.strays)],
        ["local bound", _text(part.bound)],
        *_distances(part.local),
        *([f"operand {k}", str(o)] for k, o in enumerate(part.operands)),
    ]
    return {"said": said, "rows": rows, "error": part.local.error}


def _marked(error: float, is_over: bool) -> str:
    return f"{_text(error)}{' ▲' if is_over else ''}"


def _text(number: float) -> str:
    if isinf(number):
        return "∞" if number > 0 else "−∞"
    return f"{number:.3g}"
