"""The key of a static picture's colours and marks, as SVG: a row of samples with words, or several."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from workbench.widgets import label, palette

ROW = 20.0
_SIDE, _GAP, _NARROW = 11.0, 14.0, 240.0
_FAMILIES = tuple(palette.FAMILY_COLORS)


def color_key(
    families: Iterable[str], marks: Iterable[str], top: float, width: float
) -> tuple[str, float, float]:
    """The key, its width and its height.

    Args:
        families: The families of the nodes that are drawn.
        marks: The changes that are marked: ``added``, ``removed`` or ``changed``.
        top: The top of the first row.
        width: The width to keep to, unless it is very narrow.
    """
    used, changes = set(families), set(marks)
    entries = [(_mark(m), m) for m in palette.GLYPHS if m in changes]
    entries += [(_family(k), palette.FAMILY_WORDS[f]) for k, f in enumerate(_FAMILIES) if f in used]
    parts: list[str] = []
    x, y, widest = 0.0, top, 0.0
    for sample, words in entries:
        taken = _SIDE + 5 + label.text_width(words, label.FACT_SIZE)
        if x and x + taken > max(width, _NARROW):
            x, y = 0.0, y + ROW
        parts.append(
            f'<g transform="translate({x:g} {y:g})">{sample}'
            f'<text class="s" x="{_SIDE + 5:g}" y="{_SIDE - 1:g}">{escape(words)}</text></g>'
        )
        x += taken + _GAP
        widest = max(widest, x - _GAP)
    return "".join(parts), widest, y + ROW - top if entries else 0.0


def _family(index: int) -> str:
    return (
        f'<rect class="f{index}" width="{_SIDE:g}" height="{_SIDE:g}" rx="2"/>'
        f'<rect class="b{index}" width="3" height="{_SIDE:g}" rx="1"/>'
    )


def _mark(mark: str) -> str:
    middle = _SIDE / 2
    return (
        f'<circle class="badge-{mark}" cx="{middle:g}" cy="{middle:g}" r="{middle + 1:g}"/>'
        f'<text class="badge" x="{middle:g}" y="{middle + 4.5:g}">{palette.GLYPHS[mark]}</text>'
    )
