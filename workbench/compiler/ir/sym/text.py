"""Symbolic dimensions in the text form: the bounds of symbols, and the printing of shapes."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from workbench.compiler.errors import ShapeError, TextError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym.expression import Expr, lit, parse, var

_BOUNDED = re.compile(r"([A-Za-z0-9_+\-*/() ]{0,500}[A-Za-z0-9_)])\[(\d+)\.\.(\d+)\]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST = 1 << 64

_known: ContextVar[Mapping[str, Expr] | None] = ContextVar("_known", default=None)


@contextmanager
def symbols_of_text(text: str) -> Generator[None]:
    """Parse expressions inside with the symbols whose bounds occur in a text."""
    token = _known.set(symbols(text, {}))
    try:
        yield
    finally:
        _known.reset(token)


def symbols(text: str, known: Mapping[str, Expr]) -> dict[str, Expr]:
    """The symbols in a text by name: first those printed alone with their bounds, then the others.

    The bounds of a symbol that is never printed alone are solved from the bounds of an expression in which
    it is the only unknown.
    """
    bounded = [(m[1].strip(), int(m[2]), int(m[3])) for m in _BOUNDED.finditer(text)]
    found = dict(known)
    for inner, low, high in bounded:
        if _NAME.fullmatch(inner) and 1 <= low <= high:
            found.setdefault(inner, var(inner, low, high))
    for inner, low, high in bounded:
        missing = set(_NAME.findall(inner)) - found.keys()
        if len(missing) == 1 and (solved := _solved(inner, missing.pop(), (low, high), found)):
            found[str(solved)] = solved
    return found


def _solved(
    text: str, name: str, wanted: tuple[int, int], known: Mapping[str, Expr]
) -> Expr | None:
    """The symbol whose bounds give an expression its bounds; None if they cannot be determined."""
    try:
        made = parse(text, {**known, name: var(name, 1, _MOST)})
        if made is None:
            return None
        low = _least(made, name, wanted[0], corner=0)
        high = _least(made, name, wanted[1], corner=1)
        for top in (high, low):
            one = var(name, min(low, top), max(low, top))
            whole = parse(text, {**known, name: one})
            if (
                whole is not None
                and Dim.of(whole).min == wanted[0]
                and Dim.of(whole).max == wanted[1]
            ):
                return one
    except ShapeError:
        return None
    return None


def _least(expression: Expr, name: str, wanted: int, corner: int) -> int:
    """The least value of a symbol for which a growing expression reaches ``wanted``."""
    others = {s: s.node[2 + corner] for s in expression.symbols if s.node[1] != name}
    own = next(s for s in expression.symbols if s.node[1] == name)
    low, high = 1, _MOST
    while low < high:
        middle = (low + high) // 2
        value = expression.subs({**others, own: middle}).interval[0]
        low, high = (low, middle) if value >= wanted else (middle + 1, high)
    return low


def read_dim(text: str) -> Dim:
    """Parse the output of ``str(dim)``: a number, a range, or an expression with its bounds.

    Raises:
        TextError: It is none of these, or the text gives no bounds for a symbol.
    """
    inner, bracket, bounds = text.rstrip("]").partition("[")
    inner = inner.strip()
    if not inner or not _NAME.search(inner):
        low, _, high = (bounds if bracket else inner).partition("..")
        return Dim(int(low), int(high or low))
    if _NAME.fullmatch(inner) and bracket:
        low, _, high = bounds.partition("..")
        return Dim.of(var(inner, int(low), int(high or low)))
    return Dim.of(_read(inner))


def _read(text: str) -> Expr:
    known = _known.get() or {}
    missing = sorted(set(_NAME.findall(text)) - known.keys())
    if missing:
        raise TextError(
            f"expression {text!r}: no bounds of {', '.join(missing)}; expected a dimension such as "
            f"{missing[0]}[1..8] somewhere"
        )
    return parse(text, known) or lit(0)


def is_symbolic(parts: Sequence[str]) -> bool:
    """Whether printed dimensions belong to a symbolic shape: only expressions and numbers."""
    return any(_NAME.search(p) for p in parts)


def read_dims(parts: Sequence[str]) -> list[Dim]:
    """Parse dimensions; if one is an expression and none a range, numbers become literals."""
    dims = [read_dim(p) for p in parts]
    loose = any(d.sym is None and not d.is_fixed for d in dims)
    if loose or not any(d.sym is not None for d in dims):
        return dims
    return [d if d.sym is not None else Dim.of(d.min) for d in dims]


def read_shape(type: DType, dims: Sequence[str], strides: Sequence[str]) -> Shape:
    """Parse a symbolic shape from its printed dimensions and strides.

    Raises:
        TextError: The text gives no bounds for a symbol.
    """
    token = _known.set(symbols(", ".join(dims), _known.get() or {}))
    try:
        return Shape.dynamic(type, read_dims(dims), [_read(s) for s in strides])
    finally:
        _known.reset(token)
