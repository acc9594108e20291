"""PyTorch's symbolic integers as lengths: a range, an expression, and the instructions that compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from workbench.compiler.errors import ModelError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ir.sym import Expr, lit, var
from workbench.compiler.onnx.sizes import Length, Size, vector
from workbench.compiler.torch.installed import torch

OPEN = 1 << 16
"""The greatest length of a dimension that has no upper bound."""


class Symbols:
    """The symbolic integers of one graph."""

    def __init__(self, module: Module) -> None:
        """No symbol is known yet; ``bind`` says where the values of symbols are."""
        self.module = module
        self._ranges: dict[str, tuple[int, int]] = {}
        self._sizes: dict[Any, Length] = {}

    def inner(self, module: Module) -> Symbols:
        """The same lengths for a graph inside of this one; those that it adds are its own."""
        made = Symbols(module)
        made._ranges, made._sizes = self._ranges, dict(self._sizes)
        return made

    def given(self, known: Any, value: Any) -> Any:
        """A value for what PyTorch knows of it; the symbols in that are known from then on.

        Args:
            known: PyTorch's description: a tensor, an integer that may be symbolic, or None.
            value: An instruction, a length, a number or None.

        Returns:
            The value; a length if it is an integer.
        """
        if hasattr(known, "shape") and isinstance(value, Instruction):
            for axis, n in enumerate(known.shape):
                if not isinstance(n, int):
                    self._forget(n, is_open=True)
                    self.bind(n, value, axis)
        if type(known).__name__ != "SymInt":
            return value
        if known.node.expr.is_symbol and self._sizes.get(known.node.expr) is not value:
            self._forget(known)
            if isinstance(value, Instruction):
                self.hold(known, value)
            else:
                self._sizes[known.node.expr] = value
        return self.length(known)

    def _forget(self, symbol: Any, is_open: bool = False) -> None:
        """Drop what is known by a symbol: the graphs of a loop have one symbol for several values.

        Args:
            symbol: The symbolic integer.
            is_open: Whether to do so only if the symbol is one that a run computes.
        """
        expr = symbol.node.expr
        if expr.is_symbol and (not is_open or not _least(expr)):
            for known in [e for e in self._sizes if expr in e.free_symbols]:
                del self._sizes[known]

    def restrict(self, ranges: Mapping[Any, Any]) -> None:
        """Take the ranges of symbols that an exported program declares."""
        for symbol, given in ranges.items():
            self._ranges[str(symbol)] = _bounds(given, _least(symbol))

    def bind(self, symbol: Any, value: Instruction, axis: int) -> None:
        """A symbolic integer is the length of an axis of a value."""
        expr = symbol.node.expr
        if not expr.is_symbol or expr in self._sizes:
            return

        def read() -> Instruction:
            return self.module.add("dimensions_of", value, start=axis, end=axis + 1)

        made = Size(self.module, self.dim(symbol), read)
        made.source = value, axis
        self._sizes[expr] = made

    def knows(self, symbol: Any) -> bool:
        """Whether the value of a symbolic integer can be computed."""
        expr = symbol.node.expr
        return expr.is_number or all(s in self._sizes for s in expr.free_symbols)

    def hold(self, symbol: Any, value: Instruction) -> None:
        """A symbolic integer is the one element of a value."""
        expr = symbol.node.expr

        def read() -> Instruction:
            wide = value
            if value.shape.type is not DType.INT64:
                wide = self.module.add("convert", value, target_type=DType.INT64)
            return self.module.add("reshape", wide, dims=(1,))

        self._sizes[expr] = Size(self.module, self.dim(symbol), read)

    def length(self, value: Any) -> Length:
        """The length for an integer or a symbolic one.

        Raises:
            ModelError: It depends on a symbol whose value no input gives.
        """
        if isinstance(value, int):
            return value
        expr = value.node.expr
        if expr.is_number:
            return int(expr)
        if expr not in self._sizes:
            dim = self.dim(value)
            made: Length = Size(self.module, dim, lambda: self._vector(expr))
            # A range is cut off at 0, which a counter of a loop may go below.
            self._sizes[expr] = dim.min if dim.is_fixed and dim.min else made
        return self._sizes[expr]

    def lens(self, values: Sequence[Any]) -> tuple[Length, ...]:
        """The lengths for integers, some of them symbolic."""
        return tuple(self.length(v) for v in values)

    def dim(self, value: Any) -> Dim:
        """The range and the expression of a symbolic integer."""
        if isinstance(value, int):
            return Dim(value, value)
        expr = value.node.expr
        if expr.is_number:
            return Dim(int(expr), int(expr))
        low, high = self._range(value)
        try:
            made = self._expression(expr)
        except (ModelError, ShapeError):
            made = None
        name = _name(expr)
        if made is None:
            return Dim(low, high, (), name)
        found = Dim.of(made)
        return Dim(found.min, found.max, found.optimals, name, made)

    def symbolic(self, value: Any) -> Dim:
        """The expression of an integer; one that is known is a literal."""
        return Dim.of(value) if isinstance(value, int) else self.dim(value)

    def _range(self, value: Any) -> tuple[int, int]:
        expr, env = value.node.expr, value.node.shape_env
        if expr.is_symbol:
            return self._of_symbol(expr, env)
        bounds = torch("torch.utils._sympy.value_ranges")
        ranges = {s: bounds.ValueRanges(*self._of_symbol(s, env)) for s in expr.free_symbols}
        return _bounds(bounds.bound_sympy(expr, ranges), 0)

    def _of_symbol(self, symbol: Any, env: Any) -> tuple[int, int]:
        if str(symbol) not in self._ranges:
            known = env.var_to_range.get(symbol) if env is not None else None
            least = _least(symbol)
            self._ranges[str(symbol)] = (least, OPEN) if known is None else _bounds(known, least)
        return self._ranges[str(symbol)]

    def _expression(self, expr: Any) -> Expr:
        """The expression of our own.

        Raises:
            ModelError: It has more than sums, products and quotients of symbols and integers.
        """
        if expr.is_Integer:
            return lit(int(expr))
        if expr.is_symbol:
            low, high = self._of_symbol(expr, None)
            return var(str(expr), low, high)
        parts = [self._expression(a) for a in expr.args]
        return _folded(expr, parts)

    def _vector(self, expr: Any) -> Instruction:
        """The instructions that compute an expression: a vector of one int64."""
        if expr.is_Integer:
            return vector(self.module, [int(expr)])
        if expr in self._sizes and isinstance(found := self._sizes[expr], Size) and expr.is_symbol:
            return found.value
        if expr.is_symbol:
            raise ModelError(
                f"the integer {expr} is not the length of an input; expected one that is"
            )
        if expr.is_Pow and expr.exp.is_Integer and int(expr.exp) > 0:
            return self._chained("mul", [self._vector(expr.base)] * int(expr.exp))
        op = _OPERATIONS.get(expr.func.__name__)
        if op is None:
            raise ModelError(f"the length {expr}; expected sums, products and quotients of lengths")
        return self._chained(op, [self._vector(a) for a in expr.args])

    def _chained(self, op: str, values: Sequence[Instruction]) -> Instruction:
        return reduce(lambda a, b: self.module.add(op, a, b), values)


_OPERATIONS = {
    "Add": "add", "Mul": "mul", "FloorDiv": "div", "CleanDiv": "div", "Mod": "mod", "PythonMod": "mod",
    "Max": "max", "Min": "min",
}  # fmt: skip
"""Operations on lengths by SymPy's functions."""

_SUMS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
}


def _folded(expr: Any, parts: Sequence[Expr]) -> Expr:
    if expr.is_Pow and expr.exp.is_Integer and 0 < int(expr.exp) <= 4:
        return reduce(lambda a, b: a * b, [parts[0]] * int(expr.exp))
    if expr.func.__name__ not in _SUMS:
        raise ModelError(f"the length {expr} has no symbolic form")
    return reduce(_SUMS[expr.func.__name__], parts)


def _least(symbol: Any) -> int:
    """The least value of a symbol: 1 for the length of an input, 0 for one that a run computes."""
    return 0 if str(symbol).startswith("u") else 1


def _bounds(given: Any, least: int) -> tuple[int, int]:
    """A range of lengths from a range of SymPy's."""
    low = int(given.lower) if given.lower.is_Integer else least
    high = int(given.upper) if given.upper.is_Integer else OPEN
    low = max(low, least)
    return low, max(low, min(high, 1 << 62))


def _name(expr: Any) -> str:
    """The name of a length, as rules for lengths name sums and products."""
    text = str(expr).replace(" ", "")
    if expr.is_symbol:
        return text
    if expr.is_Mul and all(a.is_symbol or a.is_Integer for a in expr.args):
        return "*".join(sorted(text.split("*"), key=lambda t: (not t.isdecimal(), t)))
    return f"({text.replace('*', '·')})"
