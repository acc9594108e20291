"""The query language of the search box, as ``static/query.js`` has it: same hits, same errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from workbench.widgets.palette import FAMILY_COLORS

FIELDS = (
    "op", "name", "source", "node", "scope", "dtype", "shape", "attr", "family", "mark", "rule", "pass",
    "kernel",
)  # fmt: skip
MARK_WORDS = ("added", "removed", "changed")
_NUMBER = re.compile(r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|inf)", re.IGNORECASE)
_END = r"(?=[\s|)]|\Z)"
_PATTERN = re.compile(rf"/((?:\\.|[^\\/])+)/(i?){_END}")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):")
_COMPARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(>=|<=|!=|>|<|=)")
_NAMED = re.compile(rf"[^\s|]*?@[0-9]+{_END}")
_ID = re.compile(rf"#[0-9]+{_END}")
_RELATION = re.compile(r">=|<=|!=|>|<|=")
_OR = re.compile(r"\s*(?:\||or(?=[\s(]|\Z))", re.IGNORECASE)
_SIZE = re.compile(r"\*|\.\.\.|[A-Za-z0-9_]+(?:\.\.[A-Za-z0-9_]+)?")
_PARTS = re.compile(r"_type, \{([^}]*)\}")
_TYPES = re.compile(r"([A-Za-z0-9_]+)_type\b", re.ASCII)
_NEEDS = {
    "mark": "mark: needs the graphs before and after a pass, as in the pass explorer",
    "rule": "rule: needs the edits of a pass, as in the pass explorer",
    "pass": "pass: needs a recording, as in the pass explorer",
    "kernel": "kernel: needs a view that knows kernels: the lowering step of the explorer, "
    "or a graph beside a kernel view",
}


class QueryError(ValueError):
    """A wrong query: what was expected, and the position in the text."""

    def __init__(self, message: str, at: int) -> None:
        """Keep the message and the position, counted from 0."""
        super().__init__(f"position {at + 1}: {message}")
        self.message = message
        self.at = at


class Source(NamedTuple):
    """A node of the model: its name and its scope."""

    name: str
    scope: str


class Facts(NamedTuple):
    """The facts of one instruction that a query can ask for."""

    id: int
    name: str
    title: str
    fact: str
    text: str
    shape: str
    family: str
    sources: tuple[Source, ...]


@dataclass
class Known:
    """The facts that only some views know, by id; None where a view knows none."""

    overlay: Mapping[str, Any] | None = None
    marks: Mapping[int, str] | None = None
    rules: Mapping[int, str] | None = None
    """The rules of the edits of the step, one in a line."""
    passes: Mapping[int, str] | None = None
    """The pass that made an instruction."""
    kernels: Mapping[int, str] | None = None


@dataclass(frozen=True)
class Value:
    """A word, a text in quotes, or a regular expression."""

    words: str
    quoted: bool = False
    pattern: re.Pattern[str] | None = None


class Term(NamedTuple):
    """A node of the tree of a query; its kind says how many of the other members it has."""

    kind: str
    terms: tuple[Any, ...] = ()
    name: str = ""
    op: str = ""
    value: Value = Value("")
    low: float = 0.0
    high: float = 0.0
    at: int = 0


Test = Callable[[Facts], bool]
Like = Callable[[str], bool]


class _Reader:
    """Reads one query from the left to the right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.depth = 0

    def take(self, pattern: re.Pattern[str] | str) -> str:
        """The text of a pattern's match, which is consumed; empty if it does not match."""
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def any(self) -> Term:
        """Terms that are joined by ``or``."""
        terms = [self.all()]
        while self.take(_OR):
            terms.append(self.all())
        return Term("or", tuple(terms)) if len(terms) > 1 else terms[0]

    def all(self) -> Term:
        """Terms of which all have to match."""
        terms: list[Term] = []
        while True:
            self.take(r"\s*")
            ends = self.at >= len(self.text) or _OR.match(self.text, self.at)
            if ends or (self.depth and self.text[self.at] == ")"):
                break
            terms.append(self.term())
        if not terms:
            raise QueryError(
                "expected something to search for: a word, a field such as op:dot, or a text in quotes",
                self.at,
            )
        return Term("and", tuple(terms)) if len(terms) > 1 else terms[0]

    def term(self) -> Term:
        at = self.at
        if self.take("-"):
            if self.at >= len(self.text) or self.text[self.at].isspace():
                raise QueryError("expected a term to leave out after -", self.at)
            return Term("not", (self.term(),))
        if not self.take(r"\("):
            return self.atom()
        self.depth += 1
        found = self.any()
        self.depth -= 1
        if not self.take(r"\)"):
            raise QueryError(f"expected ) for the ( at position {at + 1}", self.at)
        return found

    def atom(self) -> Term:
        at, text = self.at, self.text
        field = _FIELD.match(text, at)
        if text[at] == '"':
            return self.quoted_term(at)
        if field and field[1].lower() in FIELDS:
            return self.field_term(field[1].lower(), at)
        if name := self.take(_NAMED):
            return Term("name", name=name.lower())
        if field:
            return self.range_term(at)
        if compared := _COMPARED.match(text, at):
            return self.compare_term(compared[1], compared[2], at, compared[0])
        if id := self.take(_ID):
            return Term("id", low=int(id[1:]))
        return Term("text", value=self.value())

    def quoted_term(self, at: int) -> Term:
        """A text in quotes, or a comparison with an overlay whose name is in quotes."""
        value = self.value()
        op = _RELATION.match(self.text, self.at)
        return self.compare_term(value.words, op[0], at, op[0]) if op else Term("text", value=value)

    def field_term(self, field: str, at: int) -> Term:
        self.take(_FIELD)
        if field != "attr":
            return Term("field", name=field, value=self.value(field), at=at)
        key, op = self.take(r"[^\s|=<>!)]+"), self.take(_RELATION)
        if not key:
            raise QueryError("expected an attribute after attr:, as in attr:axis=1", self.at)
        if not op:
            return Term("attr", name=key, at=at)
        start, value = self.at, self.value("attr")
        if op[0] in "<>" and not _NUMBER.fullmatch(value.words):
            raise QueryError(f"expected a number after {op}", start)
        return Term("attr", name=key, op=op, value=value, at=at)

    def range_term(self, at: int) -> Term:
        """``ms:0.1..0.5``, the only use of a name that is no field."""
        name = self.take(_FIELD)[:-1]
        low, between, high = self.take(r"[^\s|)]*").partition("..")
        if between and _NUMBER.fullmatch(low) and _NUMBER.fullmatch(high):
            return Term("range", name=name, low=float(low), high=float(high), at=at)
        listed = ", ".join(FIELDS)
        raise QueryError(
            f"there is no field {name}: — expected one of {listed}, or quotes around a text with a colon",
            at,
        )

    def compare_term(self, name: str, op: str, at: int, rest: str) -> Term:
        """A comparison; ``rest`` is left to consume before the number."""
        began = self.at
        self.at += len(rest)
        start, text = self.at, self.take(r"[^\s|)]*")
        is_number = _NUMBER.fullmatch(text)
        if not is_number and op[0] in "<>":
            raise QueryError(f"expected a number after {name}{op}", start)
        words = Value(self.text[began : self.at])
        if not is_number:
            return Term("text", value=words)
        return Term("compare", name=name, op=op, low=float(text), value=words, at=at)

    def value(self, field: str = "") -> Value:
        """A word, a text in quotes, or a regular expression."""
        at = self.at
        if self.take('"'):
            words = self.take('[^"]*')
            if not self.take('"'):
                raise QueryError(
                    f"expected a closing quote for the one at position {at + 1}", self.at
                )
            return Value(words, quoted=True)
        if found := _PATTERN.match(self.text, at):
            return self.pattern(found)
        last = ")" if self.depth else ""
        words = self.take(rf"(?:\{{[^}}]*\}}|[^\s|{last}])*" if field else rf"[^\s|{last}]*")
        if not words:
            raise QueryError(f"expected a value after {field}:", self.at)
        return Value(words)

    def pattern(self, found: re.Match[str]) -> Value:
        at, self.at = self.at, found.end()
        flags = re.DOTALL | re.ASCII | (re.IGNORECASE if found[2] else re.DOTALL)
        try:
            return Value(found[0], pattern=re.compile(found[1], flags))
        except re.error:
            raise QueryError("this regular expression is invalid", at) from None


def parse_query(text: str) -> Term | None:
    """A query as a tree, or None if it is blank.

    Raises:
        QueryError: The text is not a query.
    """
    return _Reader(text).any() if text.strip() else None


def find_ids(text: str, facts: Iterable[Facts], known: Known) -> list[int]:
    """The ids of the instructions that a query finds, in their order.

    Raises:
        QueryError: The text is not a query, or asks for something that the view does not know.
    """
    term = parse_query(text)
    if term is None:
        return []
    test = _test(term, known)
    return [f.id for f in facts if test(f)]


def _test(term: Term, known: Known) -> Test:
    """The test of a query on the facts of one instruction."""
    if term.kind in ("or", "and", "not"):
        tests = [_test(t, known) for t in term.terms]
        some = term.kind == "or"
        if term.kind == "not":
            return lambda f: not tests[0](f)
        return lambda f: any(t(f) for t in tests) if some else all(t(f) for t in tests)
    if term.kind == "id":
        return lambda f: f.id == term.low
    if term.kind == "name":
        return lambda f: f.name.lower() == term.name
    if term.kind == "text":
        return _text_test(term.value)
    if term.kind == "attr":
        return _attribute_test(term)
    return _field_test(term, known) if term.kind == "field" else _number_test(term, known)


def _text_test(value: Value) -> Test:
    if value.pattern:
        search = value.pattern.search
        return lambda f: search(_hay(f)) is not None
    wanted = value.words.lower()
    return lambda f: wanted in _hay(f).lower()


def _hay(f: Facts) -> str:
    """The texts of an instruction as one."""
    return " ".join((f.name, f.title, f.fact, f.text, f.shape, *(s.name for s in f.sources)))


def _likeness(value: Value, whole: bool) -> Like:
    """Whether a text is the value's, or, unless the whole is asked for, contains it; ``*`` is any text."""
    if value.pattern:
        search = value.pattern.search
        return lambda text: search(text) is not None
    wanted = value.words.lower()
    if not value.quoted and "*" in wanted:
        like = re.compile(".*".join(map(re.escape, wanted.split("*"))), re.DOTALL)
        return lambda text: like.fullmatch(text.lower()) is not None
    return (lambda text: text.lower() == wanted) if whole else (lambda text: wanted in text.lower())


def _field_test(term: Term, known: Known) -> Test:
    field, value = term.name, term.value
    part, whole = _likeness(value, False), _likeness(value, True)
    if field == "op":
        bare = _likeness(replace(value, words=value.words.removeprefix("@")), True)
        return lambda f: bare(_operation(f))
    if field == "name":
        return lambda f: part(f.name) or part(f.title)
    if field == "scope":
        return _scope_test(value)
    if field == "dtype":
        kind = _likeness(replace(value, words=value.words.removesuffix("_type")), True)
        return lambda f: any(kind(t) for t in _TYPES.findall(f.shape))
    if field == "shape":
        return _shape_test(value, term.at)
    if field == "family":
        _check(value, whole, FAMILY_COLORS, term.at)
        return lambda f: whole(f.family)
    if field == "mark":
        _check(value, whole, MARK_WORDS, term.at)
    if field in _NEEDS:
        found = {"mark": known.marks, "rule": known.rules, "pass": known.passes}
        return _mapped_test(field, found.get(field, known.kernels), part, term.at)
    return lambda f: any(part(s.name) for s in f.sources)


def _mapped_test(field: str, texts: Mapping[int, str] | None, part: Like, at: int) -> Test:
    if texts is None:
        raise QueryError(_NEEDS[field], at)
    return lambda f: any(text and part(text) for text in texts.get(f.id, "").split("\n"))


def _check(value: Value, like: Like, words: Iterable[str], at: int) -> None:
    """Refuse a value that none of the words has."""
    if not any(map(like, words)):
        raise QueryError(f"expected one of {', '.join(words)}, not {value.words}", at)


def _operation(f: Facts) -> str:
    """The name of the operation."""
    return re.split(r"[\[:]", f.text.removeprefix("@"), maxsplit=1)[0]


def _scope_test(value: Value) -> Test:
    """A scope contains the path as whole segments."""
    if value.pattern:
        search = value.pattern.search
        return lambda f: any(search(s.scope) for s in f.sources)
    wanted = f"/{value.words.removeprefix('/').removesuffix('/')}/"
    loose = "*" in wanted and not value.quoted
    like = _likeness(replace(value, words=f"*{wanted}*" if loose else wanted), False)
    return lambda f: any(like(f"/{s.scope}/") for s in f.sources)


def _shape_test(value: Value, at: int) -> Test:
    """Sizes such as ``1x*x56x56`` or ``{1, *, 56}``; ``...`` stands for any number of them."""
    inner = value.words.removeprefix("{").removesuffix("}").strip()
    split = inner.split(",") if "," in inner else re.split("[x×]", inner)
    wanted = [] if inner in ("", "scalar") else [d.strip() for d in split]
    if value.pattern or not all(map(_SIZE.fullmatch, wanted)):
        raise QueryError(
            "expected sizes after shape:, as in shape:1x*x56x56 or shape:{1,*,56,56}", at
        )
    special = {"*": "[^,]*,", "...": "(?:[^,]*,)*"}
    like = re.compile("".join(special.get(d) or re.escape(d) + "," for d in wanted))
    return lambda f: any(like.fullmatch(_sizes(lens)) for lens in _PARTS.findall(f.shape))


def _sizes(lens: str) -> str:
    return re.sub(r"[\s\[\]]", "", lens) + "," if lens else ""


def _bare(text: str) -> str:
    """Without spaces, outer braces and quotes."""
    return re.sub(r'^[{\["]|[}\]"]\Z', "", re.sub(r"\s+", "", text))


def _attribute_test(term: Term) -> Test:
    named, value, op = _likeness(Value(term.name), True), term.value, term.op
    if not op:
        return lambda f: any(named(k) for k, _ in attributes(f.text))
    if op[0] in "<>":
        number = float(value.words)
        return lambda f: any(
            named(k) and _NUMBER.fullmatch(t) is not None and _ordered(float(t), op, number)
            for k, t in attributes(f.text)
        )
    like = _likeness(value if value.pattern else replace(value, words=_bare(value.words)), True)
    return lambda f: any(
        named(k) and like(t if value.pattern else _bare(t)) == (op == "=")
        for k, t in attributes(f.text)
    )


def attributes(text: str) -> list[tuple[str, str]]:
    """The attributes in an operation's text form, ``name[key=value,...]``, as pairs."""
    start = text.find("[")
    if start < 0 or not text.endswith("]"):
        return []
    found: list[tuple[str, str]] = []
    depth, start = 0, start + 1
    for k in range(start, len(text)):
        c, last = text[k], k == len(text) - 1
        depth += (c in "{[") - (c == "}" or (c == "]" and not last))
        if last or (c == "," and depth == 0):
            key, _, value = text[start:k].partition("=")
            found.append((key.strip(), value))
            start = k + 1
    return found


def _ordered(a: float, op: str, b: float) -> bool:
    if op[0] in "<>":
        return (a > b if op[0] == ">" else a < b) or (len(op) == 2 and a == b)
    return (a == b) == (op == "=")


def _number_test(term: Term, known: Known) -> Test:
    """A comparison with the overlay's value; a value that is not finite is larger than any number."""
    names = overlay_names(known.overlay) if known.overlay else []
    if not known.overlay or term.name.lower() not in names:
        if term.kind == "compare" and term.op in ("=", "!="):
            return _text_test(term.value)
        there = f"the overlay is called {', '.join(names)}" if names else "this view has no overlay"
        raise QueryError(f"there are no numbers called {term.name}: {there}", term.at)
    values: Mapping[str, float | None] = known.overlay["values"]

    def holds(f: Facts) -> bool:
        if (key := str(f.id)) not in values:
            return False
        given = values[key]
        value = math.inf if given is None else given
        if term.kind == "range":
            return term.low <= value <= term.high
        return _ordered(value, term.op, term.low)

    return holds


def overlay_names(overlay: Mapping[str, Any]) -> list[str]:
    """The names of an overlay: its own, its words, its unit, ``value``; ``error`` on a scale of errors."""
    own, is_error = str(overlay["name"]).lower(), overlay["scale"] == "magma"
    listed = [own, *own.split(), str(overlay["unit"]).lower(), "value", "error" if is_error else ""]
    return [name for name in dict.fromkeys(listed) if name]
