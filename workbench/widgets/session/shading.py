"""Numbers of a session that nodes can be coloured by: times, and errors."""

from __future__ import annotations

from typing import Any

from workbench.widgets.session.session import Session

SHADES = ("", "time", "error", "own error")
"""What nodes can be coloured by; the first is their family."""


def shading(session: Session, shade: str) -> dict[str, Any] | None:
    """The overlay of a shade; None if it is not known."""
    if shade == "time" and session.timed and session.result is not None:
        values: dict[int, float] = {}
        for t in session.result.measured.rows:
            values[t.id] = values.get(t.id, 0.0) + t.spread.median * 1e3
        return {"name": "time", "unit": "ms", "values": values, "total": True}
    if shade in ("error", "own error") and session.report is not None:
        report, own = session.report, shade == "own error"
        return {
            "name": "own relative RMS" if own else "relative RMS",
            "scale": "magma",
            "tolerance": report.tolerance,
            "values": report.overlay(local=own),
        }
    return None
