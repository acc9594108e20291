"""Symbolic lengths: symbols, integers, sums, products and quotients, kept in one canonical form."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import product as combinations
from math import prod
from typing import cast

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.sym.nodes import (
    DEPTH,
    INTEGER,
    SYMBOL,
    TERMS,
    Node,
    add,
    bindings,
    divide,
    multiply,
    replaced,
    spanned,
    subtract,
    symbols_of,
    text_of,
    value_of,
)

_CORNERS = 12
"""Up to this many symbols, intervals try all bounds; beyond it they are estimated."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_]*)|(.))", re.DOTALL)


class Expr:
    """An integer expression of symbols, expanded and sorted: equal expressions compare equal.

    A symbol is identified by its name and bounds; its optimal values are carried along but not compared.
    """

    __slots__ = ("__dict__", "best", "node")

    node: Node
    best: Mapping[Node, tuple[int, ...]]
    """The optimal values of the symbols that have any."""

    def __init__(self, node: Node, best: Mapping[Node, tuple[int, ...]] | None = None) -> None:
        """Wrap a canonical node; ``var``, ``lit`` and ``parse`` make expressions."""
        self.node = node
        self.best = best or {}

    @cached_property
    def symbols(self) -> tuple[Expr, ...]:
        """The symbols in it, by name."""
        return tuple(Expr(n, _kept(self.best, n)) for n in sorted(symbols_of(self.node)))

    @cached_property
    def interval(self) -> tuple[int, int]:
        """The least and the largest value, over all combinations of the symbols' bounds."""
        found = sorted(symbols_of(self.node))
        if len(found) > _CORNERS:
            return spanned(self.node)
        corners = combinations(*[sorted({n[2], n[3]}) for n in found])
        values = [value_of(self.node, dict(zip(found, c, strict=True))) for c in corners]
        return min(values), max(values)

    @cached_property
    def optimals(self) -> tuple[int, ...]:
        """Its values for all combinations of the symbols' optimals; none if a symbol has none."""
        found = sorted(symbols_of(self.node))
        choices = [self.best.get(n, ()) for n in found]
        if not found or not 0 < prod(map(len, choices)) <= TERMS:
            return ()
        values = (
            value_of(self.node, dict(zip(found, c, strict=True))) for c in combinations(*choices)
        )
        return tuple(sorted({v for v in values if v >= 0}))

    def evaluate(self, values: Mapping[Expr, int] | None = None) -> int:
        """The value for these values of the symbols.

        Raises:
            ShapeError: A key is not a symbol, a symbol that is not fixed has no value, the result is
                negative, or a divisor is 0.
        """
        given = {_key(k): v for k, v in (values or {}).items()}
        for node in symbols_of(self.node):
            if node not in given and node[2] == node[3]:
                given[node] = node[2]
        found = value_of(self.node, given)
        if found < 0:
            raise ShapeError(
                f"{self} is {found} for {bindings(given)}; expected no negative length"
            )
        return found

    def subs(self, values: Mapping[Expr, Expr | int]) -> Expr:
        """The expression with symbols replaced.

        Raises:
            ShapeError: A key is not a symbol.
        """
        given = {_key(k): expression(v) for k, v in values.items()}
        best = {n: b for n, b in self.best.items() if n not in given}
        for one in given.values():
            best |= one.best
        return Expr(replaced(self.node, {k: v.node for k, v in given.items()}), best)

    def less(self, other: Expr | int) -> bool:
        """Whether this is less than another expression for all values of the symbols.

        Raises:
            ShapeError: The answer depends on the symbols.
        """
        low, high = (expression(other) - self).interval
        if low < 0 < high:
            raise ShapeError(f"{self} < {other}: undetermined, the difference is {low} to {high}")
        return high > 0

    def _with(self, other: Expr | int, make: Callable[[Node, Node], Node], turned: bool) -> Expr:
        one = expression(other)
        a, b = (one, self) if turned else (self, one)
        return Expr(make(a.node, b.node), {**a.best, **b.best})

    def __add__(self, other: Expr | int) -> Expr:
        """The sum."""
        return self._with(other, add, turned=False)

    def __radd__(self, other: int) -> Expr:
        """The sum with an integer in front."""
        return self._with(other, add, turned=True)

    def __sub__(self, other: Expr | int) -> Expr:
        """The difference."""
        return self._with(other, subtract, turned=False)

    def __rsub__(self, other: int) -> Expr:
        """The difference from an integer."""
        return self._with(other, subtract, turned=True)

    def __mul__(self, other: Expr | int) -> Expr:
        """The product, expanded."""
        return self._with(other, multiply, turned=False)

    def __rmul__(self, other: int) -> Expr:
        """The product with an integer in front."""
        return self._with(other, multiply, turned=True)

    def __floordiv__(self, other: Expr | int) -> Expr:
        """The quotient, truncated towards zero.

        Raises:
            ShapeError: The divisor is 0.
        """
        return self._with(other, divide, turned=False)

    def __rfloordiv__(self, other: int) -> Expr:
        """The quotient of an integer, truncated towards zero."""
        return self._with(other, divide, turned=True)

    __truediv__ = __floordiv__
    __rtruediv__ = __rfloordiv__

    def __neg__(self) -> Expr:
        """The negative."""
        return self * -1

    def __eq__(self, other: object) -> bool:
        """Equal in canonical form."""
        return isinstance(other, Expr) and self.node == other.node

    def __hash__(self) -> int:
        """Hash of the canonical form."""
        return hash(self.node)

    def __str__(self) -> str:
        """MIGraphX's text: ``(h - 3)/2 + 1``."""
        return text_of(self.node, 0)

    __repr__ = __str__


def var(name: str, low: int = 1, high: int = 1, optimals: Iterable[int] = ()) -> Expr:
    """A symbol: a length between two bounds that is the same wherever it occurs.

    Raises:
        ShapeError: The name is not an identifier, the bounds are not 1 <= low <= high, or an optimal
            value lies outside of them.
    """
    if not _NAME.fullmatch(name):
        raise ShapeError(f"symbol {name!r}: expected a name of letters, digits and underscores")
    if not 1 <= low <= high:
        raise ShapeError(f"symbol {name}: bounds {low} and {high}; expected 1 <= min <= max")
    best = tuple(sorted(set(optimals)))
    if best and not low <= best[0] <= best[-1] <= high:
        raise ShapeError(f"symbol {name}: optimals {best}; expected them within {low} and {high}")
    node: Node = (SYMBOL, name, low, high)
    return Expr(node, {node: best} if best else None)


def lit(value: int) -> Expr:
    """An integer as an expression."""
    return Expr((INTEGER, int(value)))


def expression(value: Expr | int) -> Expr:
    """The expression itself, or an integer as one."""
    return value if isinstance(value, Expr) else lit(operator.index(value))


def parse(text: str, symbols: Mapping[str, Expr] | None = None) -> Expr | None:
    """Parse an expression; None for blank text.

    Args:
        text: ``+ - * /``, parentheses, names and decimal integers.
        symbols: Known symbols by name; any other name is a symbol with the bounds 1 and 1.

    Raises:
        ShapeError: The text is not an expression.
    """
    return _Parser(text, symbols or {}).read() if text.strip() else None


class _Parser:
    """Recursive descent over sums, products, signs and atoms."""

    def __init__(self, text: str, symbols: Mapping[str, Expr]) -> None:
        self.text, self.symbols = text, symbols
        found = cast("list[tuple[str, str, str]]", _TOKEN.findall(text.rstrip()))
        self.tokens = [number or name or sign for number, name, sign in found] + [""]
        self.at = self.depth = 0

    def read(self) -> Expr:
        found = self._sum()
        if self.tokens[self.at]:
            self._fail("the end")
        return found

    def _taken(self, *wanted: str) -> str:
        token = self.tokens[self.at]
        if token not in wanted:
            return ""
        self.at += 1
        return token

    def _sum(self) -> Expr:
        left = self._product()
        while sign := self._taken("+", "-"):
            right = self._product()
            left = left + right if sign == "+" else left - right
        return left

    def _product(self) -> Expr:
        left = self._signed()
        while sign := self._taken("*", "/"):
            right = self._signed()
            left = left * right if sign == "*" else left // right
        return left

    def _signed(self) -> Expr:
        negative = False
        while self._taken("-"):
            negative = not negative
        found = self._atom()
        return -found if negative else found

    def _atom(self) -> Expr:
        token = self.tokens[self.at]
        if token == "(" and self.depth < DEPTH:
            self.at, self.depth = self.at + 1, self.depth + 1
            inner = self._sum()
            self.depth -= 1
            return inner if self._taken(")") else self._fail(")")
        self.at += 1
        if token.isdecimal() and len(token) <= 20:
            return lit(int(token))
        if _NAME.fullmatch(token):
            return self.symbols.get(token) or var(token)
        self.at -= 1
        return self._fail("a name, a number or a parenthesis")

    def _fail(self, wanted: str) -> Expr:
        found = repr(self.tokens[self.at]) if self.tokens[self.at] else "the end"
        raise ShapeError(f"expression {self.text!r}: found {found}; expected {wanted}")


def _kept(best: Mapping[Node, tuple[int, ...]], node: Node) -> Mapping[Node, tuple[int, ...]]:
    return {node: best[node]} if node in best else {}


def _key(symbol: Expr) -> Node:
    if symbol.node[0] != SYMBOL:
        raise ShapeError(f"{symbol} is not a symbol; only symbols have values")
    return symbol.node
