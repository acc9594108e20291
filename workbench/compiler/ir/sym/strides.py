"""Strides that are expressions: whether they leave gaps, in what order they lie, those of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.sym.expression import Expr, lit

if TYPE_CHECKING:
    from workbench.compiler.ir.shape import Dim

ZERO, ONE = lit(0), lit(1)


def descending(values: Sequence[int]) -> bool:
    """Whether no number is larger than the one before it."""
    return all(a >= b for a, b in pairwise(values))


def is_packed(dims: Sequence[Dim], strides: Sequence[Expr]) -> bool:
    """Whether the elements fill their space, whatever the symbols are; not known without strides."""
    if not strides:
        return False
    elements, space = ONE, ONE
    for dim, stride in zip(dims, strides, strict=True):
        length = dim.sym or lit(dim.min)
        elements, space = elements * length, space + (length - 1) * stride
    return (elements == ONE or ONE in strides) and elements == space


def symbolic_order(dims: Sequence[Dim], strides: Sequence[Expr]) -> tuple[int, ...]:
    """Axes by their largest strides, descending, if their least strides are in no other order.

    Raises:
        ShapeError: They are, or there are no strides.
    """
    if not strides:
        raise ShapeError(f"dims {listed(dims)}: dimensions that are ranges have no order in memory")
    order = sorted(range(len(dims)), key=lambda i: (-strides[i].interval[1], -dims[i].max))
    for a, b in pairwise(order):
        high = strides[a].interval[1] > strides[b].interval[1]
        if high and strides[a].interval[0] < strides[b].interval[0]:
            shown = f"dims {listed(dims)}, strides {listed(strides)}"
            raise ShapeError(f"{shown}: which of axes {a} and {b} is slower depends on the symbols")
    return tuple(order)


def symbolic_strides(
    dims: Sequence[Expr], given: Sequence[Expr | int] | None = None
) -> tuple[Expr, ...]:
    """Strides as expressions: those given, or else row-major ones.

    Raises:
        ShapeError: There are not as many strides as dimensions.
    """
    if given is not None and len(given) != len(dims):
        raise ShapeError(f"dims {listed(dims)} and strides {listed(given)}: expected equal counts")
    if given is not None:
        return tuple(s if isinstance(s, Expr) else lit(s) for s in given)
    found = [ONE]
    for dim in reversed(dims[1:]):
        found.append(found[-1] * dim)
    return tuple(reversed(found))


def listed(values: Iterable[object]) -> str:
    """Values in braces, as shapes print them."""
    return "{" + ", ".join(map(str, values)) + "}"
