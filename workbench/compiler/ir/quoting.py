"""Names in the text form: unquoted if they can be parsed back, and quoted otherwise."""

from __future__ import annotations

import json
import re

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_ALWAYS = rf'^$|^\s|\s$|^"|\\| = | -> | # |{_CONTROL}'
_VALUE = re.compile(rf"{_ALWAYS}|^#(\s|$)|,|(^|:)@\d+$")  # "# " begins a comment
_MODULE = re.compile(rf'{_ALWAYS}|[,"\[\]]')
_SYMBOL = re.compile(rf"{_ALWAYS}|, ")
_WORD = re.compile(rf'{_CONTROL}|[,="\\()\[\]{{}}]| -> | # |^\s|\s$|^nullopt$')
_STRUCTURE = re.compile(rf"[^ !-~]|[,=()\[\]{{}}>#]|{_CONTROL}")


def value_text(name: str) -> str:
    """The printed name of a parameter, or of a value with its module's name before it."""
    return quoted(name) if _VALUE.search(name) or _unbalanced(name) else name


def module_text(name: str) -> str:
    """The printed name of a module in a line that calls it."""
    return quoted(name) if _MODULE.search(name) or _unbalanced(name) else name


def symbol_text(symbol: str) -> str:
    """The printed form of a debug symbol after a line."""
    return quoted(symbol) if _SYMBOL.search(symbol) else symbol


def word_text(value: str) -> str:
    """The printed form of a string attribute, or of a part of an operation's name."""
    return quoted(value) if _WORD.search(value) else value


def quoted(text: str) -> str:
    """A string as JSON text in which every character that the grammar uses is escaped."""
    shown = json.dumps(text, ensure_ascii=False)
    return _STRUCTURE.sub(_escaped, shown)


def unquoted(text: str) -> str:
    """The name that one of the functions above printed as ``text``.

    Raises:
        ValueError: The text begins with a quotation mark but is not a complete JSON string.
    """
    return str(json.loads(text)) if text.startswith('"') else text


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isascii():
        return f"\\u{ord(char):04x}"
    return char if char.isprintable() else json.dumps(char)[1:-1]


_PAIRS = {")": "(", "]": "[", "}": "{"}


def _unbalanced(name: str) -> bool:
    """Whether the brackets of a name do not match."""
    opened: list[str] = []
    for char in name:
        if char in "([{":
            opened.append(char)
        elif char in _PAIRS and (not opened or opened.pop() != _PAIRS[char]):
            return True
    return bool(opened)
