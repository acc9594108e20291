"""Symbolic lengths: ``sym.var("n", 1, 8, {2, 4})``, ``sym.lit(3)`` and ``+ - * //`` on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound, translated
from workbench.compat.migraphx.shapes import dynamic_dimension
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ir.sym import Expr
from workbench.compiler.ir.sym import lit as core_lit
from workbench.compiler.ir.sym import parse as core_parse
from workbench.compiler.ir.sym import var as core_var


class expr:
    """A symbolic length; comparison is by canonical form."""

    def __init__(self, core: Expr) -> None:
        self._core = core

    @property
    def core(self) -> Expr:
        """The core's expression."""
        return self._core

    def __add__(self, other: Any) -> expr:
        """The sum."""
        return _made(self, "+", other)

    def __radd__(self, other: Any) -> expr:
        """The sum with an integer on the left."""
        return _made(other, "+", self)

    def __sub__(self, other: Any) -> expr:
        """The difference."""
        return _made(self, "-", other)

    def __rsub__(self, other: Any) -> expr:
        """The difference from an integer."""
        return _made(other, "-", self)

    def __mul__(self, other: Any) -> expr:
        """The product."""
        return _made(self, "*", other)

    def __rmul__(self, other: Any) -> expr:
        """The product with an integer on the left."""
        return _made(other, "*", self)

    def __floordiv__(self, other: Any) -> expr:
        """The quotient, truncated towards zero as in C++."""
        return _made(self, "/", other)

    def __rfloordiv__(self, other: Any) -> expr:
        """The quotient of an integer."""
        return _made(other, "/", self)

    __truediv__ = __floordiv__
    __rtruediv__ = __rfloordiv__

    def __neg__(self) -> expr:
        """The negative."""
        return expr(-self._core)

    @bound
    def subs(self, values: dict[Any, Any]) -> expr:
        """The expression with symbols replaced by expressions or integers."""
        return expr(self._core.subs({_core(k): _core(v) for k, v in values.items()}))

    @bound
    def eval(self, values: dict[Any, Any]) -> int:
        """The value for given values of the symbols."""
        found = {_core(k): _core(v) for k, v in values.items()}
        return self._core.evaluate({k: v.evaluate() for k, v in found.items()})

    @property
    def min(self) -> int:
        """The least value."""
        return self._core.interval[0]

    @property
    def max(self) -> int:
        """The largest value."""
        return self._core.interval[1]

    @property
    def optimals(self) -> set[int]:
        """The values worth compiling for, from those of the symbols."""
        return set(self._core.optimals)

    def __eq__(self, other: object) -> bool:
        """Equal in canonical form."""
        return isinstance(other, expr) and self._core == other._core

    def __hash__(self) -> int:
        """Hash of the canonical form."""
        return hash(self._core)

    def __repr__(self) -> str:
        """The text that shapes print."""
        return str(self._core)


def _core(value: Any) -> Expr:
    if isinstance(value, expr):
        return value.core
    if isinstance(value, int) and not isinstance(value, bool):
        return core_lit(value)
    raise TypeError(f"expected a symbolic expression or an int, found {type(value).__name__}")


def _made(left: Any, sign: str, right: Any) -> expr:
    if not all(isinstance(v, expr | int) and not isinstance(v, bool) for v in (left, right)):
        return NotImplemented
    a, b = _core(left), _core(right)
    with translated():
        if sign == "+":
            return expr(a + b)
        if sign == "-":
            return expr(a - b)
        return expr(a * b if sign == "*" else a // b)


@bound
def var(name: str, min: int = 1, max: int = 1, optimals: set[int] | None = None) -> expr:
    """A symbol: a length between two bounds that is the same wherever it occurs."""
    return expr(core_var(name, min, max, optimals or ()))


@bound
def lit(n: int) -> expr:
    """An integer as an expression."""
    return expr(core_lit(n))


@bound
def parse(text: str) -> expr:
    """The expression in a text; its symbols have the bounds 1 and 1."""
    found = core_parse(text)
    if found is None:
        raise Error("sym.parse(): the text is empty; expected an expression such as n + 1")
    return expr(found)


def dim_of(expression: Any) -> Dim:
    """The dimension of an expression, or of an integer as a literal.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(expression, Expr):
        return Dim.of(expression)
    return Dim.of(_core(expression))


def dim_of_text(text: str, names: Any) -> Dim:
    """The dimension of an expression's text, whose symbols have the ranges that are given by name.

    Raises:
        TypeError: The ranges are not a dict of dynamic dimensions.
        Error: The text does not parse, or a symbol has no range.
    """
    if not isinstance(names, Mapping):
        raise TypeError(f"dynamic_dimension(): expected a dict of ranges, found {names!r}")
    symbols: dict[str, Expr] = {}
    for name, given in cast("Mapping[Any, Any]", names).items():
        if not isinstance(name, str) or not isinstance(given, dynamic_dimension):
            raise TypeError(
                f"dynamic_dimension(): {name!r}: {given!r}; expected a dynamic_dimension"
            )
        core = given.core
        symbols[name] = core_var(name, core.min, core.max, core.optimals)
    try:
        found = core_parse(text, symbols)
    except WorkbenchError as error:
        raise Error(f"dynamic_dimension(): {error}") from error
    if found is None:
        raise Error("dynamic_dimension(): the expression is empty; expected one such as n + 1")
    missing = [str(s) for s in found.symbols if str(s) not in symbols]
    if missing:
        raise Error(f"dynamic_dimension(): {text!r}: no range of {', '.join(missing)}")
    return Dim.of(found)
