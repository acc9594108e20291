"""Colours: eight families in muted tones of the Okabe-Ito set, changes, and scales for magnitudes."""

from __future__ import annotations

import math
from collections.abc import Sequence

FAMILY_COLORS = {
    "contraction": "#d55e00",
    "pointwise": "#009e73",
    "reduce": "#cc79a7",
    "view": "#56b4e9",
    "movement": "#b8a100",
    "control": "#e69f00",
    "parameter": "#8c8c8c",
    "kernel": "#0072b2",
}
FAMILY_WORDS = {
    "contraction": "dot, convolution",
    "pointwise": "pointwise",
    "reduce": "reduce",
    "view": "view, layout",
    "movement": "data movement",
    "control": "control",
    "parameter": "parameter, literal",
    "kernel": "kernel, fallback",
}
ADDED, REMOVED, CHANGED = "#0072b2", "#d55e00", "#666666"
ADDED_DARK, REMOVED_DARK, CHANGED_DARK = "#56b4e9", "#f0a04b", "#b8b8b8"
NAN, INFINITE, LOST = "#56b4e9", "#009e73", "#b8b8b8"
"""Elements that are NaN or infinite, and finite ones where the reference is not; off the scales below."""
SELECTED, SELECTED_DARK, FOUND = "#000000", "#ffffff", "#f0e442"
"""The rings of the selection (double, with corners) and of hits (dotted): no colour of a change."""
GLYPHS = {"added": "+", "removed": "−", "changed": "~"}

SCALES = {
    "viridis": ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"),
    "magma": ("#000004", "#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#fcfdbf"),
    "puor": ("#7f3b08", "#e08214", "#fee0b6", "#f7f7f7", "#d8daeb", "#8073ac", "#2d004b"),
}


def rgb(color: str) -> tuple[int, int, int]:
    """A ``#rrggbb`` as three numbers."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def mix(color: str, base: str, share: float) -> str:
    """A colour blended over a base by a share."""
    pairs = zip(rgb(color), rgb(base), strict=True)
    return "#" + "".join(f"{math.floor(b + (a - b) * share + 0.5):02x}" for a, b in pairs)


def fill(family: str, dark: bool = False) -> str:
    """A family's tone for the body of a node."""
    color = FAMILY_COLORS.get(family, FAMILY_COLORS["control"])
    return mix(color, "#1c1f24" if dark else "#ffffff", 0.3 if dark else 0.17)


def sample(stops: Sequence[str], share: float) -> str:
    """The colour at a position on a scale, from 0 to 1."""
    at = min(1.0, max(0.0, share)) * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    return mix(stops[low + 1], stops[low], at - low)


def ink_on(color: str) -> str:
    """Black or white, whichever contrasts better with a colour."""
    linear = [(c / 255) ** 2.2 for c in rgb(color)]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if light > 0.18 else "#ffffff"
