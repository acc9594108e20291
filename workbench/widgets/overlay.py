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


def _id(key: Any) -> int:
    return int(getattr(key, "id", key))


def _number(value: Any) -> float | None:
    """A finite float, or None for NaN and infinity, which JSON lacks."""
    number = float(value)
    return number if math.isfinite(number) else None
