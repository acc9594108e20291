"""Overlays: a number per instruction, shown as colour, with a name, a unit and a scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.widgets.palette import SCALES

_KEYS = {"name", "unit", "scale", "tolerance", "total", "values"}


def overlay_of(given: Any) -> dict[str, Any]:
    """An overlay in the form that views read.

    Args:
        given: None, or a mapping (or Series) of instruction ids to numbers, or a mapping with ``values``
            and any of ``name``, ``unit``, ``scale`` (viridis, magma, puor), ``tolerance``, and ``total``
            (whether a closed group shows the sum of its instructions, instead of the largest).

    Raises:
        ValueError: A key or scale is unknown, or a value is not a number.
    """
    if given is None:
        return {}
    if hasattr(given, "to_dict") and not isinstance(given, Mapping):
        given = {"name": str(getattr(given, "name", "") or "value"), "values": given.to_dict()}
    if not given:
        return {}
    if "values" not in given:
        given = {"values": given}
    if unknown := sorted(str(k) for k in set(given) - _KEYS):
        raise ValueError(
            f"overlay: unknown key {unknown[0]!r}; expected one of {', '.join(sorted(_KEYS))}"
        )
    found: dict[str, Any] = {
        "name": "value",
        "unit": "",
        "scale": "viridis",
        "tolerance": None,
        "total": False,
        **given,
    }
    if found["scale"] not in SCALES:
        raise ValueError(
            f"overlay: unknown scale {found['scale']!r}; expected one of {', '.join(SCALES)}"
        )
    values = found["values"]
    pairs = values.items() if hasattr(values, "items") else values
    found["values"] = {str(_id(k)): _number(v) for k, v in pairs}
    return found


def share(overlay: Mapping[str, Any], value: float) -> float:
    """The position of a finite value on the scale of an overlay, from 0 to 1; that of the browser's views."""
    low, high = bounds(overlay)
    is_log = overlay["scale"] == "magma"
    if is_log and value <= 0:
        return 0.0
    if high <= low:
        return float(high > 0)
    return math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)


def bounds(overlay: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of the scale of an overlay; a log scale (magma) includes the tolerance."""
    values = [v for v in overlay["values"].values() if v is not None]
    is_log, tolerance = overlay["scale"] == "magma", overlay["tolerance"]
    if is_log and tolerance is not None and tolerance > 0:
        values.append(tolerance)
    span = max((abs(v) for v in values), default=0.0)
    if overlay["scale"] == "puor":
        return -span, span
    if is_log:
        return min((v for v in values if v > 0), default=span), span
    return min([*values, 0.0]), max([*values, 0.0])


def _id(key: Any) -> int:
    return int(getattr(key, "id", key))


def _number(value: Any) -> float | None:
    """A finite float, or None for NaN and infinity, which JSON lacks; None stays."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None
