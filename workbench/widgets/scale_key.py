"""The key of an overlay's scale, as SVG: its ends, its colours, the tolerance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from workbench.widgets import palette
from workbench.widgets.overlay import bounds, share

_WIDTH, _HEIGHT, _PARTS = 160.0, 9.0, 32
_LETTER = 6.2
"""The width of a letter of 11 pixels, on average and generously."""


def scale_key(
    overlay: Mapping[str, Any], top: float, text: Callable[[float], str], *, blank: bool = False
) -> tuple[str, float]:
    """The key of an overlay, and its width in pixels.

    Args:
        overlay: An overlay, as `overlay_of` returns it, with values.
        top: The top of the ramp.
        text: Writes a number.
        blank: Whether some nodes have no value.
    """
    low, high = bounds(overlay)
    before = f"{overlay['name']} {text(low)}"
    at = _LETTER * len(before) + 6
    after = _after(overlay, high, text) + (", hatched: no value" if blank else "")
    parts = [
        _words(before, 0.0, top), *_ramp(overlay, at, top), _tolerance(overlay, at, top),
        _words(after, at + _WIDTH + 6, top),
    ]  # fmt: skip
    return "".join(parts), at + _WIDTH + 6 + _LETTER * len(after)


def _after(overlay: Mapping[str, Any], high: float, text: Callable[[float], str]) -> str:
    """The upper end, the kind of scale, the tolerance, and the number of values that are not finite."""
    tolerance = overlay["tolerance"]
    lost = sum(v is None for v in overlay["values"].values())
    parts = [
        f"{text(high)} {overlay['unit']}".strip()
        + (" (log)" if overlay["scale"] == "magma" else ""),
        f"┃ tolerance {text(tolerance)}, ▲ over it" if tolerance is not None else "",
        f"{lost:,} not finite" if lost else "",
    ]
    return ", ".join(filter(None, parts))


def _ramp(overlay: Mapping[str, Any], at: float, top: float) -> list[str]:
    stops, step = palette.SCALES[overlay["scale"]], _WIDTH / _PARTS
    colors = [palette.sample(stops, (k + 0.5) / _PARTS) for k in range(_PARTS)]
    return [
        f'<rect x="{at + k * step:g}" y="{top:g}" width="{step + 0.3:g}" height="{_HEIGHT:g}" fill="{c}"/>'
        for k, c in enumerate(colors)
    ]


def _tolerance(overlay: Mapping[str, Any], at: float, top: float) -> str:
    """A line through the ramp."""
    if overlay["tolerance"] is None:
        return ""
    x = at + _WIDTH * min(1.0, max(0.0, share(overlay, overlay["tolerance"])))
    return f'<rect class="q" x="{x - 1:g}" y="{top - 3:g}" width="2" height="{_HEIGHT + 6:g}"/>'


def _words(text: str, at: float, top: float) -> str:
    return f'<text class="s" x="{at:g}" y="{top + _HEIGHT:g}">{escape(text)}</text>'
