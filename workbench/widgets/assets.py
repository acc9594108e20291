"""The browser side as one module a view: the files in ``static/`` inlined, since a blob cannot import."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from workbench.widgets import palette

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|let|function|class|async)\b)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?://.*|/\*\*.*\*/)\n", re.MULTILINE)
_BLOCK = re.compile(r"^\s*/\*\*\n(?:\s*\*.*\n)+", re.MULTILINE)
_STRING, _TEMPLATE = r'"(?:[^"\\\n]|\\.)*"', r"`(?:[^`\\]|\\.)*`"
_PATTERN = r"(?<=[(=:,] )/(?![/*])(?:[^/\\\n\[]|\\.|\[[^\]]*\])+/[gimsuy]*"
_LITERAL = re.compile(f"({_STRING}|{_TEMPLATE}|{_PATTERN})")
_STYLE_COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)
_BLANK = re.compile(r"\s*([{}()\[\],;:?=<>&|*!])\s*|[ \t]+")


def _order(name: str, seen: list[str]) -> list[str]:
    """The files that a module needs, each after those that it imports."""
    text = (STATIC / name).read_text(encoding="utf-8")
    for needed in _IMPORT.findall(text):
        if needed not in seen:
            _order(needed, seen)
    if name not in seen:
        seen.append(name)
    return seen


def _body(name: str) -> str:
    text = (STATIC / name).read_text(encoding="utf-8")
    for pattern in (_IMPORT, _BLOCK, _COMMENT):
        text = pattern.sub("", text)
    return _tight(_EXPORT.sub("", text).strip())


def _tight(text: str) -> str:
    """The text without the blanks that only people need; strings, templates and patterns as they are."""
    parts = _LITERAL.split(text)
    for k in range(0, len(parts), 2):
        parts[k] = "\n".join(
            _BLANK.sub(lambda m: m.group(1) or " ", line) for line in _lines(parts[k])
        )
    return "".join(parts)


def _lines(text: str) -> list[str]:
    """Lines without indentation; blank ones only where they end a piece."""
    lines = text.split("\n")
    return [lines[0], *(line.lstrip() for line in lines[1:])]


@cache
def module(name: str) -> str:
    """The ES module of a view with all that it imports, without comments: ``module("graph_view.js")``."""
    parts = [f"const PALETTE={json.dumps(_palette(), ensure_ascii=False, separators=(',', ':'))};"]
    return "\n".join(parts + [_body(file) for file in _order(name, [])]) + "\n"


@cache
def style() -> str:
    """The style sheet of all views."""
    return (STATIC / "style.css").read_text(encoding="utf-8")


@cache
def svg_rules() -> str:
    """The style rules of a static picture, with ``.W`` for its class."""
    return _STYLE_COMMENT.sub("", (STATIC / "svg.css").read_text(encoding="utf-8"))


def _palette() -> dict[str, object]:
    return {
        "families": palette.FAMILY_COLORS,
        "words": palette.FAMILY_WORDS,
        "scales": palette.SCALES,
        "glyphs": palette.GLYPHS,
        "added": palette.ADDED,
        "removed": palette.REMOVED,
        "changed": palette.CHANGED,
        "addedDark": palette.ADDED_DARK,
        "removedDark": palette.REMOVED_DARK,
        "changedDark": palette.CHANGED_DARK,
    }
