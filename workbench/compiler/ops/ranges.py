"""Arithmetic on dimensions that are known as ranges, for the shape rules of all families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from workbench.compiler.dtypes import DType
from workbench.compiler.errors import ShapeError
from workbench.compiler.operation import Operation
from workbench.compiler.shape import Dim, Shape

UNBOUNDED = (1 << 64) - 1
"""The largest length: what a dimension may be when nothing is known about it."""

ONE = Dim(1, 1)
ANY = Dim(0, UNBOUNDED)


def dims_of(shape: Shape) -> tuple[Dim, ...]:
    """The dimensions of a tensor as ranges; a static length is a range of one."""
    return shape.dims if shape.dims is not None else tuple(Dim(n, n) for n in shape.lens)


def ranged(type: DType, dims: Iterable[Dim]) -> Shape:
    """A shape with range-based dimensions, even where every one is fixed."""
    return Shape.dynamic(type, tuple(dims))


def any_dynamic(inputs: Sequence[Shape]) -> bool:
    """Whether some input has dimensions that are ranges."""
    return any(s.dims is not None for s in inputs)


def intersection(a: Dim, b: Dim) -> Dim | None:
    """The lengths that both allow; None if there is none. Optimals survive only where a equals b."""
    if a == b:
        return a
    low, high = max(a.min, b.min), min(a.max, b.max)
    return Dim(low, high) if low <= high else None


def plus(dim: Dim, n: int) -> Dim:
    """``dim + n``; optimals move along."""
    return Dim(max(0, dim.min + n), _top(dim.max, dim.max + n), tuple(o + n for o in dim.optimals))


def over(dim: Dim, n: int) -> Dim:
    """``dim / n``, truncating; optimals are divided too."""
    return Dim(dim.min // n, _top(dim.max, dim.max // n), tuple(o // n for o in dim.optimals))


def minus(a: Dim, b: Dim) -> Dim:
    """``a - b``, at least 0; optimals survive where one side is fixed."""
    if b.is_fixed:
        return plus(a, -b.min) if a.min >= b.min else Dim(0, max(0, a.max - b.min))
    return Dim(max(0, a.min - b.max), max(0, a.max - b.min))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions, without optimals."""
    found = tuple(dims)
    return Dim(prod(d.min for d in found), min(prod(d.max for d in found), UNBOUNDED))


def _top(old: int, new: int) -> int:
    return UNBOUNDED if old == UNBOUNDED else min(new, UNBOUNDED)


def broadcast_dims(op: Operation, a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    """The common dimensions of two shapes under broadcasting, aligned at the right.

    Raises:
        ShapeError: Some pair of dimensions can be neither equal nor 1.
    """
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    skip = len(longer) - len(shorter)
    found = list(longer)
    for i, other in enumerate(shorter, skip):
        one = _broadcast_dim(longer[i], other)
        if one is None:
            raise ShapeError(f"{op.name}: dimensions {longer[i]} and {other} do not broadcast")
        found[i] = one
    return tuple(found)


def _broadcast_dim(a: Dim, b: Dim) -> Dim | None:
    if b == ONE:
        return a
    return b if a == ONE else intersection(a, b)


def expect_rank(
    op: Operation, inputs: Sequence[Shape], least: int, most: int | None = None
) -> None:
    """Raise a ShapeError unless every input has from ``least`` to ``most`` dimensions."""
    for i, shape in enumerate(inputs):
        if shape.ndim < least or (most is not None and shape.ndim > most):
            wanted = f"at least {least}" if most is None else f"{least} to {most}"
            wanted = str(least) if most == least else wanted
            raise ShapeError(f"{op.name}: input {i} is {shape}; expected {wanted} dimensions")


def expect_same_rank(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError unless all inputs have equally many dimensions."""
    for i, shape in enumerate(inputs[1:], 1):
        if shape.ndim != inputs[0].ndim:
            raise ShapeError(
                f"{op.name}: input {i} is {shape}; "
                f"expected {inputs[0].ndim} dimensions, as input 0 has: {inputs[0]}"
            )


def expect_tensors(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if an input is a tuple."""
    for i, shape in enumerate(inputs):
        if shape.subs is not None:
            raise ShapeError(f"{op.name}: input {i} is a tuple {shape}; expected a tensor")


def expect(op: Operation, holds: bool, found: str) -> None:
    """Raise a ShapeError that says what was found, unless the condition holds."""
    if not holds:
        raise ShapeError(f"{op.name}: {found}")
