"""Canonical nodes of symbolic lengths: simplified sums, products and quotients, and their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

from workbench.compiler.errors import ShapeError

Node: TypeAlias = tuple[Any, ...]
Terms: TypeAlias = dict[Node, int]

INTEGER, SYMBOL, SUM, PRODUCT, QUOTIENT = range(5)
"""The kinds of nodes, in their canonical order; a kind is the first entry of a node, a nested tuple.

An integer holds its value; a symbol its name, least and largest value; a sum its constant and pairs
of term and coefficient; a product its coefficient and pairs of base and exponent; a quotient its
numerator and denominator. Python's order of tuples is therefore the canonical order.
"""

DEPTH = 100
"""The limit on the nesting of expressions and on the factors of a product."""

TERMS = 512
"""The limit on the terms of a sum."""


def _integer(value: int) -> Node:
    return (INTEGER, value)


def bindings(values: Mapping[Node, int]) -> str:
    """Values of symbols, formatted for an error message."""
    return ", ".join(f"{n[1]}={v}" for n, v in sorted(values.items())) or "no symbols"


def _terms(node: Node) -> tuple[int, Terms]:
    """A sum's constant and the coefficients of its terms."""
    kind = node[0]
    if kind == INTEGER:
        return node[1], {}
    if kind == SUM:
        return node[1], dict(node[2])
    if kind == PRODUCT:
        return 0, {_from_factors(1, dict(node[2])): node[1]}
    return 0, {node: 1}


def _factors(node: Node) -> tuple[int, Terms]:
    """A product's coefficient and the exponents of its bases."""
    if node[0] == INTEGER:
        return node[1], {}
    return (node[1], dict(node[2])) if node[0] == PRODUCT else (1, {node: 1})


def _from_terms(constant: int, terms: Terms) -> Node:
    kept = sorted((t, c) for t, c in terms.items() if c)
    if len(kept) > TERMS:
        raise ShapeError(f"an expression of {len(kept)} terms; expected {TERMS} at most")
    if not kept:
        return _integer(constant)
    if constant == 0 and len(kept) == 1:
        term, coefficient = kept[0]
        return term if coefficient == 1 else _scaled(term, coefficient)
    return (SUM, constant, tuple(kept))


def _from_factors(coefficient: int, factors: Terms) -> Node:
    kept = sorted((b, e) for b, e in factors.items() if e)
    if coefficient == 0 or not kept:
        return _integer(coefficient)
    if coefficient == 1 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    if sum(map(itemgetter(1), kept)) > DEPTH:
        raise ShapeError(f"a product of too many factors; expected {DEPTH} at most")
    return (PRODUCT, coefficient, tuple(kept))


def _scaled(node: Node, by: int) -> Node:
    if node[0] == SUM:
        return _from_terms(node[1] * by, {t: c * by for t, c in node[2]})
    coefficient, factors = _factors(node)
    return _from_factors(coefficient * by, factors)


def add(a: Node, b: Node) -> Node:
    """The sum."""
    constant, terms = _terms(a)
    more, others = _terms(b)
    for term, coefficient in others.items():
        terms[term] = terms.get(term, 0) + coefficient
    return _from_terms(constant + more, terms)


def subtract(a: Node, b: Node) -> Node:
    """The difference."""
    return add(a, _scaled(b, -1))


def multiply(a: Node, b: Node) -> Node:
    """The product, expanded over sums.

    Raises:
        ShapeError: It has too many terms.
    """
    if SUM not in (a[0], b[0]):
        coefficient, factors = _factors(a)
        more, others = _factors(b)
        for base, exponent in others.items():
            factors[base] = factors.get(base, 0) + exponent
        return _from_factors(coefficient * more, factors)
    left, right = _addends(a), _addends(b)
    if len(left) * len(right) > TERMS:
        raise ShapeError(f"a product of sums of {len(left)} and {len(right)} terms is too large")
    found = _integer(0)
    for x in left:
        for y in right:
            found = add(found, multiply(x, y))
    return found


def _addends(node: Node) -> list[Node]:
    """The terms of a sum; any other node is its own only term."""
    constant, terms = _terms(node)
    first = [_integer(constant)] if constant else []
    return [*first, *(_scaled(t, c) for t, c in terms.items())] or [_integer(0)]


def divide(a: Node, b: Node) -> Node:
    """The quotient, truncated towards zero; common factors cancel.

    Raises:
        ShapeError: The divisor is 0.
    """
    if b == _integer(0):
        raise ShapeError(f"{text_of(a, 0)} / 0: a symbolic division by zero")
    if a == _integer(0) or b == _integer(1):
        return a
    if a == b:
        return _integer(1)
    if b[0] == INTEGER:
        return _divided(a, b[1])
    shared = _cancelled(a, b) if SUM not in (a[0], b[0]) and a[0] != INTEGER else None
    return _quotient(a, b) if shared is None else divide(*shared)


def _divided(a: Node, by: int) -> Node:
    """The quotient by an integer, simplified if nothing is truncated or all of it is known."""
    if a[0] == INTEGER:
        return _integer(truncated(a[1], by))
    if a[0] == PRODUCT and a[1] % by == 0:
        return _from_factors(truncated(a[1], by), dict(a[2]))
    if a[0] == SUM and not any(n % by for n in (a[1], *(c for _, c in a[2]))):
        return _from_terms(truncated(a[1], by), {t: truncated(c, by) for t, c in a[2]})
    return _quotient(a, _integer(by))


def _quotient(a: Node, b: Node) -> Node:
    if _nesting(a) > DEPTH or _nesting(b) > DEPTH:
        raise ShapeError(f"too many nested divisions; expected {DEPTH} at most")
    return (QUOTIENT, a, b)


def _nesting(node: Node) -> int:
    depth = 0
    while node[0] != INTEGER and node[0] != SYMBOL:
        inner = node[1:] if node[0] == QUOTIENT else [n for n, _ in node[2]]
        node = max(inner, key=lambda n: n[0])
        depth += 1
    return depth


def _cancelled(a: Node, b: Node) -> tuple[Node, Node] | None:
    """Two products without their common factors; None if they have none."""
    (m, above), (n, below) = _factors(a), _factors(b)
    shared = {base: min(e, below[base]) for base, e in above.items() if base in below}
    if not shared:
        return None
    left = {base: e - shared.get(base, 0) for base, e in above.items()}
    right = {base: e - shared.get(base, 0) for base, e in below.items()}
    return _from_factors(m, left), _from_factors(n, right)


def truncated(a: int, b: int) -> int:
    """``a / b`` truncated towards zero, as C divides."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def symbols_of(node: Node) -> set[Node]:
    """The symbols in a node."""
    if node[0] == INTEGER:
        return set()
    if node[0] == SYMBOL:
        return {node}
    inner = node[1:] if node[0] == QUOTIENT else [n for n, _ in node[2]]
    return {symbol for one in inner for symbol in symbols_of(one)}


def value_of(node: Node, values: Mapping[Node, int]) -> int:
    """The value for these values of the symbols.

    Raises:
        ShapeError: A symbol has no value, or a divisor is 0.
    """
    kind = node[0]
    if kind == INTEGER:
        return node[1]
    if kind == SYMBOL:
        if node not in values:
            raise ShapeError(f"symbol {node[1]} has no value; found values for {bindings(values)}")
        return values[node]
    if kind == SUM:
        return node[1] + sum(c * value_of(t, values) for t, c in node[2])
    if kind == PRODUCT:
        return node[1] * prod(value_of(b, values) ** e for b, e in node[2])
    below = value_of(node[2], values)
    if not below:
        raise ShapeError(f"{text_of(node, 0)}: division by zero for {bindings(values)}")
    return truncated(value_of(node[1], values), below)


def spanned(node: Node) -> tuple[int, int]:
    """Bounds by interval arithmetic, for expressions with many symbols."""
    kind = node[0]
    if kind == INTEGER:
        return node[1], node[1]
    if kind == SYMBOL:
        return node[2], node[3]
    if kind == SUM:
        spans = [sorted((c * low, c * high)) for t, c in node[2] for low, high in [spanned(t)]]
        return node[1] + sum(s[0] for s in spans), node[1] + sum(s[1] for s in spans)
    if kind == PRODUCT:
        found = (node[1], node[1])
        for base, exponent in node[2]:
            for _ in range(exponent):
                found = _crossed(found, spanned(base), lambda a, b: a * b)
        return found
    return _crossed(spanned(node[1]), spanned(node[2]), truncated)


def _crossed(
    a: tuple[int, int], b: tuple[int, int], f: Callable[[int, int], int]
) -> tuple[int, int]:
    values = [f(x, y) for x in a for y in b]
    return min(values), max(values)


def replaced(node: Node, values: Mapping[Node, Node]) -> Node:
    """A node with symbols replaced by others."""
    kind = node[0]
    if kind == INTEGER:
        return node
    if kind == SYMBOL:
        return values.get(node, node)
    if kind == QUOTIENT:
        return divide(replaced(node[1], values), replaced(node[2], values))
    found = _integer(node[1])
    for inner, n in node[2]:
        part = replaced(inner, values)
        if kind == SUM:
            found = add(found, _scaled(part, n))
        else:
            for _ in range(n):
                found = multiply(found, part)
    return found


# Text

_ADD, _MULTIPLY = 1, 2


def text_of(node: Node, within: int) -> str:
    """A node's text, in parentheses where the surrounding operator binds more strongly."""
    kind = node[0]
    if kind == INTEGER:
        return str(node[1])
    if kind == SYMBOL:
        return node[1]
    if kind == SUM:
        text, binds = _sum_text(node), _ADD
    elif kind == PRODUCT:
        text, binds = _product_text(node), _MULTIPLY
    else:
        text, binds = f"{text_of(node[1], 3)}/{text_of(node[2], 3)}", _MULTIPLY
    return f"({text})" if within > binds else text


def _sum_text(node: Node) -> str:
    text = ""
    for term, coefficient in node[2]:
        sign = ("-" if coefficient < 0 else "") if not text else " - " if coefficient < 0 else " + "
        size = abs(coefficient)
        text += sign + (text_of(term, _ADD) if size == 1 else f"{size}*{text_of(term, 3)}")
    if node[1]:
        text += f" {'-' if node[1] < 0 else '+'} {abs(node[1])}"
    return text


def _product_text(node: Node) -> str:
    parts = [text_of(base, 3) for base, exponent in node[2] for _ in range(exponent)]
    if node[1] == -1:
        return "-" + "*".join(parts)
    return "*".join(parts if node[1] == 1 else [str(node[1]), *parts])
