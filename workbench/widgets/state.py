"""The state of a view as a short string, from which a cell, a link or a report can reopen it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from workbench.widgets.bookmarks import checked

LETTERS = {
    "selected": "s", "step": "k", "edit": "e", "expanded": "o", "camera": "c", "theme": "t", "kernel": "n",
    "tab": "b", "query": "q", "only": "i", "hidden": "h", "pane": "p", "shade": "a",
    "graph_expanded": "go", "graph_camera": "gc", "graph_query": "gq", "graph_only": "gi",
    "graph_hidden": "gh", "passes_step": "pk", "passes_edit": "pe", "passes_expanded": "po",
    "passes_camera": "pc", "passes_query": "pq", "passes_only": "pi", "passes_hidden": "ph", "bookmarks": "m",
    "kernels_kernel": "kn", "kernels_tab": "kb", "inspected": "v", "slice": "x", "at": "y", "layer": "l",
}  # fmt: skip
"""The keys of a state by trait; a pane's trait has the form of the view's own."""
_NUMBERS = {"selected", "step", "edit", "kernel", "inspected"}
_IDS = {"only", "hidden"}
_REAL = r"-?[0-9]+(?:\.[0-9]+)?"
_RUN = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_FORMS = (
    {
        "camera": (re.compile(f"{_REAL},{_REAL},{_REAL}"), "left, top and zoom"),
        "slice": (re.compile(r"([0-9]{1,9}|:)(,([0-9]{1,9}|:))*"), "numbers and colons"),
        "at": (re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*"), "whole numbers"),
    }
    | dict.fromkeys(_NUMBERS, (re.compile(r"-?[0-9]{1,9}"), "a whole number"))
    | dict.fromkeys(_IDS, (re.compile(f"(?:{_RUN}(?:,{_RUN})*)?"), "ids such as 3,5-8"))
)
_FRESH: dict[str, Any] = {
    "bookmarks": [], "theme": "auto", "tab": "source", "kernel": 0, "hidden": [], "pane": "graph",
    "layer": "error",
}  # fmt: skip
_MOST_IDS = 1_000_000


def _form(name: str) -> str:
    """The trait of a view whose form a trait has: ``step`` for ``passes_step``."""
    return name.rpartition("_")[2]


def write_state(values: Mapping[str, Any]) -> str:
    """``s=31&o=layer1,layer2``: the traits that differ from a fresh view's, in a fixed order."""
    found: dict[str, str] = {}
    for name, letter in LETTERS.items():
        value = values.get(name)
        if value is None or value == "" or value == _FRESH.get(_form(name)):
            continue
        if _form(name) in _IDS:
            value = _runs(value)
        if _form(name) == "expanded":
            value = "|".join(key.replace("%", "%25").replace("|", "%7C") for key in sorted(value))
        if _form(name) == "bookmarks":
            value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        found[letter] = str(value)
    return urlencode(found, safe=",/|@#")


def read_state(state: str) -> dict[str, Any]:
    """The traits that a state string sets.

    Raises:
        ValueError: The string was not written by `write_state`.
    """
    names = {letter: name for name, letter in LETTERS.items()}
    found: dict[str, Any] = {}
    for letter, text in parse_qsl(state, keep_blank_values=True, strict_parsing=bool(state)):
        if letter not in names:
            raise ValueError(f"state {state!r}: unknown key {letter!r}")
        name = names[letter]
        form, words = _FORMS.get(_form(name), (None, ""))
        if form and not form.fullmatch(text):
            raise ValueError(f"state {state!r}: {name} is {text!r}, expected {words}")
        if _form(name) in _NUMBERS:
            found[name] = int(text)
        elif _form(name) in _IDS:
            found[name] = _ids(text, state)
        elif _form(name) == "bookmarks":
            found[name] = _bookmarks(text, state)
        elif _form(name) == "expanded":
            found[name] = [unquote(key) for key in text.split("|") if key]
        else:
            found[name] = text
    return found


def _runs(ids: Iterable[int]) -> str:
    """``3,5-8``: ids in their order, with runs of neighbours as their ends."""
    runs: list[list[int]] = []
    for id in sorted(set(ids)):
        if runs and runs[-1][1] == id - 1:
            runs[-1][1] = id
        else:
            runs.append([id, id])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _bookmarks(text: str, state: str) -> list[Any]:
    try:
        return checked(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"state {state!r}: bookmarks is {text!r}, expected a list: {error}"
        ) from None


def _ids(text: str, state: str) -> list[int]:
    ends = [(run.partition("-")[0], run.rpartition("-")[2]) for run in text.split(",") if run]
    spans = [range(int(a), int(b) + 1) for a, b in ends]
    if sum(map(len, spans)) > _MOST_IDS:
        raise ValueError(f"state {state!r}: too many ids; expected at most {_MOST_IDS:,}")
    return [id for span in spans for id in span]
