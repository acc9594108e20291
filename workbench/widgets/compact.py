"""Compact JavaScript: no comments, no spaces that nothing needs, and short names for variables.

It knows tokens, brackets and what a brace opens, and no more of the grammar. ``tests/js/same_code.mjs``
checks with a parser that each file stays the same but for the names of its variables, declarations that
follow each other, ``let`` for ``const``, and how ``undefined``, ``true``, ``false`` and ``Infinity`` are
written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<space>(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+)"
    r"""|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"|(?P<word>[\w$#]+)|(?P<mark>=>|\.\.\.|\?\.|.)",
    re.DOTALL,
)
_PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[\n])+/\w*")
_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(?:`|\$\{)", re.DOTALL)
_BEFORE_VALUE = {
    "return", "typeof", "case", "in", "of", "yield", "await", "void", "delete", "else", "do", "new",
    "throw", "default",
}  # fmt: skip
_CONDITION = {"if", "while", "for", "switch"}
_SHORTER = {"undefined": "void 0", "true": "!0", "false": "!1", "Infinity": "1/0", "const": "let"}
_CLAUSES = {"else", "try", "finally", "do", "catch"}
_KEYWORDS = _BEFORE_VALUE | _CONDITION | {
    "const", "let", "var", "function", "class", "extends", "try", "catch", "finally", "break", "continue",
    "import", "export", "from", "as", "instanceof", "constructor", "arguments", "debugger", "with",
    "null", "true", "false", "undefined", "Infinity", "NaN", "this", "super", "async", "get", "set", "static",
}  # fmt: skip


class Token(NamedTuple):
    """A token, and the space before it."""

    text: str
    kind: str
    space: str
    inside: str
    """The kind of the innermost bracket: ``(``, ``[``, ``${``, a block, object, class, import or export.

    It is a clause if it is a block after which the next statement or method begins.
    """


def tokens(script: str) -> Iterator[Token]:
    """The tokens of a script."""
    at, space, last = 0, "", ""
    before, first = "", ""
    opened: list[tuple[str, str]] = []
    closed, is_class = "", False
    while found := _TOKEN.match(script, at):
        kind, text = found.lastgroup or "", found[0]
        if kind == "space":
            space, at = "\n" if "\n" in text else " ", found.end()
            continue
        if text == "/" and _expects_value(last, closed):
            found = _PATTERN.match(script, at)
            assert found is not None
            kind, text = "pattern", found[0]
        at = found.end()
        inside = opened[-1][0] if opened else "block"
        if text in ("(", "["):
            is_declared = before == "function" and first in ("", ";", "}")
            opened.append((text, "declared" if is_declared else last))
        elif text == "{":
            around = opened[-1][0] if opened else ""
            opened.append(("class" if is_class else _opens(last, closed, around), last))
            is_class = False
        elif text in (")", "]", "}"):
            inside, closed = opened.pop()
        if text == "`" or (text == "}" and inside == "${"):
            rest = _TEMPLATE.match(script, at)
            assert rest is not None
            kind, text, at = "template", text + rest[0], rest.end()
            if text.endswith("${"):
                opened.append(("${", ""))
        is_class = (is_class or text == "class") and text != ":"  # `class:` is a property
        yield Token(text, kind, space, inside)
        first, before, space = before, last, ""
        last = text if kind in ("word", "mark") else "(" if text.endswith("${") else "x"


def _expects_value(last: str, closed: str) -> bool:
    """Whether a slash after a token begins a regular expression."""
    if last == ")":
        return closed in _CONDITION
    return (
        not last or last in _BEFORE_VALUE or last in ("=>", "...") or last in "(,=:[!&|?{};+-*%<>~^"
    )


def _opens(last: str, closed: str, around: str) -> str:
    """The kind of a brace after a token, or after brackets behind one; around it is another bracket."""
    if last in ("import", "export"):
        return last
    is_headed = closed in _CONDITION or closed == "declared" or around == "class"
    if last in _CLAUSES or (last == ")" and is_headed):
        return "clause"
    is_block = last in ("", ")", "=>", ";", "{", "}")
    return "block" if is_block else "object"


@cache
def compacted(script: str) -> str:
    """A script that does the same in fewer characters; names that begin with a dollar sign are kept."""
    read = list(tokens(script))
    ends = _ends_of_conditions(read)
    read = [token for k, token in enumerate(read) if not _is_idle(read, k, ends)]
    short = _short_names(read)
    joined = _joined_declarations(read)
    made: list[str] = []
    last, is_ended = "", False
    for k, token in enumerate(read):
        if k - 1 in joined:
            continue
        text = "," if k in joined else token.text
        if token.kind == "word" and text in short and not _is_property(read, k):
            text = _renamed(read, k, short[text])
        elif token.kind == "word" and text in _SHORTER and not _is_property(read, k):
            text = _SHORTER[text]
        made.append(("" if is_ended else _space(last, token.space, text)) + text)
        last, is_ended = text, text == "}" and token.inside == "clause"
    return "".join(made)


def _joined_declarations(read: list[Token]) -> set[int]:
    """The semicolons that a comma replaces, with the word behind it: between two declarations."""
    found: set[int] = set()
    begins = [""]
    for k, (text, kind, _, inside) in enumerate(read):
        begins[-1] = begins[-1] or text
        if text == ";":
            after = read[k + 1].text if k + 1 < len(read) else ""
            if begins[-1] in ("const", "let") and after in ("const", "let"):
                found.add(k)
            else:
                begins[-1] = ""
        elif kind not in ("mark", "template"):
            continue
        if text in (")", "]", "}") or (kind == "template" and text[0] == "}"):
            begins.pop()
            begins[-1] = "" if inside == "clause" else begins[-1]
        if text in ("(", "[", "{") or (kind == "template" and text.endswith("${")):
            begins.append("")
    return found


def _ends_of_conditions(read: list[Token]) -> set[int]:
    """The closing brackets of conditions; what follows them is a statement, if only a semicolon."""
    found: set[int] = set()
    heads: list[str] = []
    for k, token in enumerate(read):
        if token.text == "(" and token.kind == "mark":
            heads.append(read[k - 1].text if k else "")
        elif token.text == ")" and token.kind == "mark" and heads.pop() in _CONDITION:
            found.add(k)
    return found


def _is_idle(read: list[Token], k: int, ends: set[int]) -> bool:
    """Whether nothing needs a token.

    That is a semicolon or comma at the end, brackets around one parameter, or the zero of ``0.5``.
    """
    text, before = read[k].text, read[k - 1] if k else None
    after = [token.text for token in read[k + 1 : k + 4]]
    if before is not None and text == "0":
        return after[:1] == ["."] and after[1][0].isdigit()
    if before is None or read[k].kind != "mark":
        return False
    if text == ",":
        return after[0] in ("}", "]", ")") and before.text not in (",", "[")
    if text == ";":
        return after[:1] == ["}"] and before.text not in (";", "{") and k - 1 not in ends
    if text == "(":
        return before.kind != "word" and read[k + 1].kind == "word" and after[1:] == [")", "=>"]
    alone = k > 2 and read[k - 2].text == "(" and read[k - 3].kind != "word"
    return text == ")" and after[:1] == ["=>"] and before.kind == "word" and alone


def _renamed(read: list[Token], k: int, short: str) -> str:
    """A variable by its short name; where it names a property, too, both names."""
    text, inside = read[k].text, read[k].inside
    if not _is_shorthand(read, k):
        return short
    return {"import": f"{text} as {short}", "export": f"{short} as {text}"}.get(
        inside, f"{text}:{short}"
    )


def _space(last: str, space: str, text: str) -> str:
    """The space that two tokens need between them."""
    if not space or not last:
        return ""
    a, b = last[-1], text[0]
    if space == "\n":
        return "" if a in ";{,([=&|?:<>" or b in "})],.?:" else "\n"
    is_needed = (_is_word(a) and _is_word(b)) or (a == b and a in "+-") or (a == "/" and b in "/*")
    return " " if is_needed else ""


def _is_word(character: str) -> bool:
    return character.isalnum() or character in "_$#"


def _is_property(read: list[Token], k: int) -> bool:
    """Whether a word is the name of a property or method."""
    before, after = read[k - 1].text if k else "", read[k + 1].text if k + 1 < len(read) else ""
    inside = read[k].inside
    if before in (".", "?."):
        return True
    if inside == "class":
        return before in ("{", "}", ";", "static", "get", "set", "async", "*")
    if inside == "object":
        return before in ("{", ",", "get", "set", "async", "*") and after in (":", "(")
    return inside == "import" and after == "as"


def _is_shorthand(read: list[Token], k: int) -> bool:
    """Whether a word is a property and a variable of the same name."""
    before, after = read[k - 1].text, read[k + 1].text
    is_listed = before in ("{", ",") and after in (",", "}", "=")
    return is_listed and read[k].inside in ("object", "import", "export")


def _short_names(read: list[Token]) -> dict[str, str]:
    """A short name for each variable that is declared in a script."""
    declared = _declared(read)
    gain: Counter[str] = Counter()
    words: set[str] = set()
    for k, token in enumerate(read):
        if token.kind == "word":
            words.add(token.text)
            if token.text in declared and not _is_property(read, k):
                gain[token.text] += -2 if _is_shorthand(read, k) else len(token.text) - 1
    fresh = (name for name in _names() if name not in words and name not in _KEYWORDS)
    return {name: next(fresh) for name, more in gain.most_common() if more > 2}


def _names() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
    yield from letters
    for k in count():
        yield letters[k // 10 % len(letters)] + str(k % 10)


def _declared(read: list[Token]) -> set[str]:
    """The names of variables, functions, classes and parameters."""
    found: set[str] = set()
    starts: list[tuple[int, bool]] = []
    for k, token in enumerate(read):
        before, after = read[k - 1].text if k else "", read[k + 1].text if k + 1 < len(read) else ""
        if token.text in ("(", "[", "{") and token.kind == "mark":
            starts.append((k, before in ("const", "let")))
        elif token.text in (")", "]", "}") and token.kind == "mark":
            start, is_pattern = starts.pop()
            head = read[start - 1].text if start else ""
            takes = token.text == ")" and (
                after == "=>" or (after == "{" and head not in _CONDITION)
            )
            if is_pattern or takes:
                found |= _bound(read, start, k)
        elif token.kind == "word" and (
            before in ("const", "let", "function", "class")
            or after == "=>"
            or (before == "," and after == "=" and token.inside != "object")
        ):
            found.add(token.text)
    return {name for name in found if name[0] != "$"} - _KEYWORDS


def _bound(read: list[Token], start: int, end: int) -> set[str]:
    """The names that a pattern or a list of parameters binds; those of default values may be among them."""
    return {
        token.text
        for k, token in enumerate(read[start + 1 : end], start + 1)
        if token.kind == "word" and not token.text[0].isdigit() and not _is_property(read, k)
        and read[k - 1].text in ("(", "[", "{", ",", ":", "...")
        and read[k + 1].text in (",", ")", "]", "}", "=")
    }  # fmt: skip
