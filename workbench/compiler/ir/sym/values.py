"""Symbolic lengths as plain values for files, in MIGraphX's structure; checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.sym.expression import Expr, lit, var
from workbench.compiler.ir.sym.nodes import DEPTH, INTEGER, PRODUCT, SUM, SYMBOL, Node

Value: TypeAlias = Any

_LARGEST = 1 << 63


def to_value(expression: Expr) -> dict[str, Value]:
    """The expression as nested dicts, lists, strings and integers."""
    return _value(expression.node, expression)


def _value(node: Node, whole: Expr) -> dict[str, Value]:
    kind = node[0]
    if kind == INTEGER:
        return {"type": "int", "value": node[1]}
    if kind == SYMBOL:
        best = list(whole.best.get(node, ()))
        return {"type": "sym", "name": node[1], "min": node[2], "max": node[3], "optimals": best}
    if kind == SUM:
        terms = [{"expr": _value(n, whole), "coeff": c} for n, c in node[2]]
        return {"type": "add", "constant": node[1], "terms": terms}
    if kind == PRODUCT:
        factors = [{"expr": _value(n, whole), "exp": e} for n, e in node[2]]
        return {"type": "mul", "coeff": node[1], "factors": factors}
    return {"type": "tdiv", "num": _value(node[1], whole), "den": _value(node[2], whole)}


def from_value(value: Value, depth: int = 0) -> Expr:
    """The expression that ``to_value`` stored, simplified again.

    Raises:
        ShapeError: The value is not such an expression, or is too large.
    """
    if not isinstance(value, Mapping) or depth > DEPTH:
        raise ShapeError(
            f"symbolic expression {value!r:.60}: expected a dict of at most {DEPTH} levels"
        )
    fields = cast("Mapping[str, Value]", value)
    kind = fields.get("type")
    if kind == "int":
        return lit(_integer(fields, "value"))
    if kind == "sym":
        best = [_checked(n, "optimals") for n in _listed(fields, "optimals", [])]
        low, high = _integer(fields, "min", 1), _integer(fields, "max", 1)
        return var(_named(fields), low, high, best)
    if kind == "add":
        found = lit(_integer(fields, "constant"))
        for part in _listed(fields, "terms"):
            found = found + from_value(part.get("expr"), depth + 1) * _integer(part, "coeff")
        return found
    if kind == "mul":
        return _product(fields, depth)
    if kind in ("tdiv", "fdiv"):
        above, below = fields.get("num"), fields.get("den")
        return from_value(above, depth + 1) // from_value(below, depth + 1)
    raise ShapeError(
        f"symbolic expression of type {kind!r:.60}; expected int, sym, add, mul or tdiv"
    )


def _product(fields: Mapping[str, Value], depth: int) -> Expr:
    found = lit(_integer(fields, "coeff"))
    for part in _listed(fields, "factors"):
        base, exponent = from_value(part.get("expr"), depth + 1), _integer(part, "exp")
        if not 0 < exponent <= DEPTH:
            raise ShapeError(f"symbolic expression: exponent {exponent}; expected 1 to {DEPTH}")
        for _ in range(exponent):
            found = found * base
    return found


def _integer(fields: Mapping[str, Value], key: str, default: int | None = None) -> int:
    return _checked(fields.get(key, default), key)


def _checked(value: Value, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise ShapeError(f"symbolic expression: {key} is {value!r:.60}; expected an integer")
    return value


def _named(fields: Mapping[str, Value]) -> str:
    name = fields.get("name")
    if not isinstance(name, str):
        raise ShapeError(f"symbolic expression: name is {name!r:.60}; expected a string")
    return name


def _listed(fields: Mapping[str, Value], key: str, default: list[Value] | None = None) -> list[Any]:
    found = fields.get(key, default)
    if not isinstance(found, list) or len(cast("list[Any]", found)) > DEPTH * DEPTH:
        raise ShapeError(f"symbolic expression: {key} is {found!r:.60}; expected a list")
    parts = cast("list[Any]", found)
    if key != "optimals" and not all(isinstance(p, Mapping) for p in parts):
        raise ShapeError(f"symbolic expression: an entry of {key} is not a dict; expected a dict")
    return parts
