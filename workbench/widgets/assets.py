"""The browser side as one ES module per view: the files in ``static/`` joined, since a blob cannot import.

A file begins with line comments and its imports, one per line, and ends with its only export. Only these
are parsed. The code between them is copied verbatim into a function of its own, so joining changes no
string, template or comment, and files may reuse names. Each function is then compacted.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from workbench.widgets import palette
from workbench.widgets.compact import compacted
from workbench.widgets.state import LETTERS

STATIC = Path(__file__).parent / "static"
_ASIDE = re.compile(r"(?:[ \t]*(?://[^\n]*)?\n)*")
_NAME = r"\w+(?: as \w+)?"
_IMPORT = re.compile(rf'import (\{{ {_NAME}(?:, {_NAME})* \}}) from "\./(\w+)\.js";\n')
_EXPORT = re.compile(r"\nexport (?:default )?(\{ \w+(?:, \w+)* \});\n\Z")
_STYLE_COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


def joined(folder: Path, name: str) -> str:
    """A file with its transitive imports in dependency order: ``const $name = ...`` for each.

    Args:
        folder: The folder of the files.
        name: The file's name without ``.js``.

    Raises:
        ValueError: The imports have a cycle, or a file does not end with its export.
    """
    return "".join(_scopes(folder, name))


def _scopes(folder: Path, *names: str) -> list[str]:
    scopes: dict[str, str] = {}
    for name in names:
        if name not in scopes:
            _join(folder, name, scopes, ())
    return list(scopes.values())


def _join(folder: Path, name: str, scopes: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"{' imports '.join((*above, name))}: a file may not import itself")
    text = (folder / f"{name}.js").read_text(encoding="utf-8")
    start, taken = _code(text, 0), ""
    while found := _IMPORT.match(text, start):
        names, source = found.groups()
        taken += f"const {names.replace(' as ', ': ')} = ${source};\n"
        if source not in scopes:
            _join(folder, source, scopes, (*above, name))
        start = _code(text, found.end())
    export = _EXPORT.search(text, start)
    if export is None:
        raise ValueError(f"{name}.js: expected `export {{ ... }};` as the last line")
    body = text[start : export.start()]
    scopes[name] = f"const ${name} = (() => {{\n{taken}{body}\nreturn {export[1]};\n}})();\n"


def _code(text: str, start: int) -> int:
    """The position of the first code at or after ``start``, past blank lines and line comments."""
    found = _ASIDE.match(text, start)
    return found.end() if found else start


@cache
def script(*names: str) -> str:
    """Views with their imports, as statements with ``const $name = { render };`` for each.

    Args:
        *names: The views' files without ``.js``, e.g. ``graph_view``.
    """
    made = json.dumps(colors(), ensure_ascii=False, separators=(",", ":"))
    parts = map(compacted, _scopes(STATIC, *names))
    return f"const PALETTE={made};\n{''.join(parts)}\n"


@cache
def module(name: str) -> str:
    """The ES module of a view: ``module("graph_view.js")``."""
    stem = name.removesuffix(".js")
    return f"{script(stem)}export default ${stem};\n"


@cache
def style() -> str:
    """The style sheet of all views."""
    return (STATIC / "style.css").read_text(encoding="utf-8")


@cache
def svg_rules() -> str:
    """The style rules of a static picture; ``.W`` stands for its class."""
    return _STYLE_COMMENT.sub("", (STATIC / "svg.css").read_text(encoding="utf-8"))


def colors() -> dict[str, object]:
    """The palette as the browser has it; the extension of JupyterLab has a copy, ``palette.json``."""
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
        "nan": palette.NAN,
        "infinite": palette.INFINITE,
        "lost": palette.LOST,
        "letters": LETTERS,
        "selected": palette.SELECTED,
        "selectedDark": palette.SELECTED_DARK,
        "found": palette.FOUND,
    }
