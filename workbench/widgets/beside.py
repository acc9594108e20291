"""Pictures beside each other in one SVG, each under its caption, below lines of words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from html import escape

from workbench.widgets import label
from workbench.widgets.display import SIZE
from workbench.widgets.svg import style

GAP, LINE = 24.0, 17.0
LONGEST = 160
"""Most characters of a line."""


def beside(
    pictures: Sequence[str], captions: Sequence[str], lines: Sequence[str], theme: str = "auto"
) -> str:
    """Pictures side by side.

    Args:
        pictures: Each as SVG.
        captions: The words above each.
        lines: The words above all; the first one says what is shown.
        theme: ``auto`` follows the page, or ``light`` or ``dark``.
    """
    said = [label.clipped(line, LONGEST) for line in lines]
    parts = [_text("t" if k == 0 else "s", 12, LINE * (k + 1), s) for k, s in enumerate(said)]
    head, at = LINE * (len(said) + 1) + 6, 0.0
    for caption, picture in zip(captions, pictures, strict=True):
        parts.append(_text("h", at + 12, head, caption))
        parts.append(picture.replace("<svg ", f'<svg x="{at:g}" y="{head + 6:g}" ', 1))
        at += _size(picture)[0] + GAP
    longest = max(label.text_width(line, label.TITLE_SIZE * label.BOLD) for line in said)
    width = f"{max(at - GAP, longest + GAP):g}"
    height = f"{head + 6 + max(_size(p)[1] for p in pictures):g}"
    body, words = "".join(parts), escape(lines[0])
    mark = "wb" + hashlib.sha256(body.encode()).hexdigest()[:8]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{mark}" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" style="max-width:100%;height:auto" '
        f'aria-label="{words}"><title>{words}</title><style>{style(mark, theme)}</style>'
        f'<rect class="bg" width="{width}" height="{height}"/>{body}</svg>'
    )


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _size(picture: str) -> tuple[float, float]:
    found = SIZE.search(picture)
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)
