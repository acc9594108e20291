"""The state of a view as a short string that a cell, a link or a report can reopen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

_LETTERS = {"selected": "s", "step": "k", "edit": "e", "expanded": "o", "camera": "c", "theme": "t",
            "kernel": "n", "tab": "b"}  # fmt: skip
_NUMBERS = {"selected", "step", "edit", "kernel"}
_FRESH = {"theme": "auto", "tab": "source", "kernel": 0}


def write_state(values: Mapping[str, Any]) -> str:
    """``s=31&o=layer1,layer2``: what differs from a fresh view, in a fixed order."""
    found: dict[str, str] = {}
    for name, letter in _LETTERS.items():
        value = values.get(name)
        if value is None or value == "" or value == _FRESH.get(name):
            continue
        if name == "expanded":
            value = "|".join(sorted(value))
        found[letter] = str(value)
    return urlencode(found, safe=",/|@#")


def read_state(state: str) -> dict[str, Any]:
    """The traits that a state string sets.

    Raises:
        ValueError: The string was not written by `write_state`.
    """
    names = {letter: name for name, letter in _LETTERS.items()}
    found: dict[str, Any] = {}
    for letter, text in parse_qsl(state, keep_blank_values=True, strict_parsing=bool(state)):
        if letter not in names:
            raise ValueError(f"state {state!r}: unknown key {letter!r}")
        name = names[letter]
        if name in _NUMBERS:
            found[name] = int(text)
        elif name == "expanded":
            found[name] = [key for key in text.split("|") if key]
        else:
            found[name] = text
    return found
