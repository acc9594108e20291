"""Values of symbols in a run, derived from the lengths of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from workbench.compiler.errors import InputError, ShapeError
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym.expression import Expr

bound: ContextVar[Mapping[Expr, int]] = ContextVar("bound", default={})  # noqa: B039 (read only)
"""The values of symbols in the current run."""


def bindings(inputs: Iterable[tuple[str, Shape, Any]]) -> dict[Expr, int]:
    """The values of the symbols in the shapes of named inputs.

    Raises:
        InputError: A symbol would have two values, or a length is not a value of its expression.
    """
    dims = [found for name, shape, value in inputs for found in _symbolic(name, shape, value)]
    values: dict[Expr, int] = {}
    by_count = sorted(dims, key=lambda found: len(found[1].symbols))
    for _, sym, length in by_count:
        missing = [s for s in sym.symbols if s not in values]
        if len(missing) == 1 and (value := _solved(sym, missing[0], length, values)) is not None:
            values[missing[0]] = value
    for name, sym, length in dims:
        if any(s not in values for s in sym.symbols):
            continue
        if (expected := sym.evaluate(values)) != length:
            shown = ", ".join(f"{s} = {values[s]}" for s in sym.symbols)
            raise InputError(
                f"input {name!r}: a length of {length}; expected {sym}, which is {expected} "
                f"where {shown or 'there are no symbols'}"
            )
    return values


def specialised(op: Operation, values: Mapping[Expr, int]) -> Operation:
    """An operation with lengths for the symbols in its attributes: lens for dimensions, static shapes."""
    changes: dict[str, Any] = {}
    attributes = op.attributes() if values else {}
    for key, value in attributes.items():
        if isinstance(value, Shape) and value.is_symbolic:
            changes[key] = value.to_static(values)
    dims: tuple[Dim, ...] = attributes.get("out_dyn_dims", ())
    if dims and "out_lens" in attributes and all(d.sym is not None for d in dims):
        lens = [d.min if d.sym is None else d.sym.evaluate(values) for d in dims]
        changes |= {"out_lens": tuple(lens), "out_dyn_dims": ()}
    return type(op)(**(attributes | changes)) if changes else op


def _symbolic(name: str, shape: Shape, value: Any) -> Iterable[tuple[str, Expr, int]]:
    if shape.subs is not None and not shape.kind:
        for i, (part, one) in enumerate(zip(shape.subs, value, strict=True)):
            yield from _symbolic(f"{name}[{i}]", part, one)
    elif shape.dims is not None and shape.subs is None:
        for dim, length in zip(shape.dims, value.shape, strict=True):
            if dim.sym is not None:
                yield name, dim.sym, length


def _solved(sym: Expr, symbol: Expr, length: int, values: Mapping[Expr, int]) -> int | None:
    """The value of a symbol at which a growing expression equals a length; None if there is none."""
    low, high = symbol.interval
    while low < high:
        middle = (low + high) // 2
        try:
            found = sym.subs({**values, symbol: middle}).interval[0]
        except ShapeError:
            return None
        low, high = (low, middle) if found >= length else (middle + 1, high)
    return low if sym.subs({**values, symbol: low}).interval == (length, length) else None
