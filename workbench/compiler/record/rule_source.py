"""The source text of the rules and passes that made the edits of a recording, for views."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

_ROOT = Path(__file__).parents[3]
_LINES, _CHARACTERS = 90, 8000

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class RuleSource(NamedTuple):
    """The text of a definition, and the number of its first line in its file."""

    first: int
    text: str


def rule_source(file: str, line: int, pass_: Any = None) -> RuleSource | None:
    """The innermost definition around a line, at most 90 lines of it; None if its file is not found.

    Args:
        file: The file as a recording has it: from ``workbench/`` on, or only its name.
        line: The line.
        pass_: The pass that was running; its file is looked at first.
    """
    for path in _paths(file, pass_):
        lines = linecache.getlines(path)
        if 0 < line <= len(lines):
            first, last = _around(path, line)
            first = max(first, line - _LINES // 2)
            text = "".join(lines[first - 1 : min(last, first + _LINES - 1)])
            return RuleSource(first, text[:_CHARACTERS])
    return None


def _paths(file: str, pass_: Any) -> Iterator[str]:
    """The files that may be meant."""
    if file.startswith("workbench/"):
        yield str(_ROOT / file)
    elif file:
        try:
            own = inspect.getsourcefile(cast("type[Any]", type(pass_))) or ""
        except (TypeError, OSError):  # defined in a console or a notebook
            own = ""
        known = [own, *linecache.cache]
        yield from (path for path in known if path.replace("\\", "/").rpartition("/")[2] == file)


@lru_cache(maxsize=256)
def _definitions(path: str) -> list[tuple[int, int]]:
    """The first and the last line of each definition of a file, decorators included."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return []
    found = [n for n in ast.walk(tree) if isinstance(n, _Definition)]
    return [
        (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno or n.lineno)
        for n in found
    ]


def _around(path: str, line: int) -> tuple[int, int]:
    """The lines of the innermost definition around a line; else a few lines around it."""
    around = [(a, b) for a, b in _definitions(path) if a <= line <= b]
    return min(around, key=lambda ends: ends[1] - ends[0], default=(max(1, line - 5), line + 5))
