"""The forms of objects in a notebook: a small table, or lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def bundle(text: str, title: str, rows: Mapping[str, object]) -> dict[str, str]:
    """Text, and a table with a row for each name that has a value."""
    cells = "".join(
        f"<tr><th>{escape(k)}</th><td>{escape(_shown(v))}</td></tr>"
        for k, v in rows.items()
        if v is not None
    )
    html = f"<table><caption>{escape(title)}</caption>{cells}</table>"
    return {"text/plain": text, "text/html": html}


def text_bundle(title: str, text: str) -> dict[str, str]:
    """Text, and the same text with a title."""
    html = f"<div><b>{escape(title)}</b><pre>{escape(text)}</pre></div>"
    return {"text/plain": text, "text/html": html}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
