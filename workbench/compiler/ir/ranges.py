"""Arithmetic on dimensions that are ranges, for the shape rules of all families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from workbench.compiler.errors import ShapeError, WorkbenchError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import STRICT

UNBOUNDED = (1 << 64) - 1
"""The largest length, for a dimension about which nothing is known."""

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

ONE = Dim(1, 1)
ANY = Dim(0, UNBOUNDED)


def dims_of(shape: Shape) -> tuple[Dim, ...]:
    """The dimensions of a tensor as ranges; a static length is a range of one length."""
    return shape.dims if shape.dims is not None else tuple(Dim(n, n) for n in shape.lens)


def ranged(type: DType, dims: Iterable[Dim]) -> Shape:
    """A shape with dynamic dimensions; static if all are fixed and not all are symbolic."""
    found = tuple(dims)
    settles = all(d.is_fixed for d in found) and not all(d.sym is not None for d in found)
    if settles:
        return Shape.settled(type, found)
    return Shape.dynamic(type, found) if found else Shape(type)


def strict_shape(
    op: Operation, inputs: Sequence[Shape], modules: Sequence[Module] = ()
) -> Shape | None:
    """The shape of an operation by MIGraphX's rules; None if they refuse the inputs."""
    try:
        return op.shape_by(STRICT, inputs, modules)
    except WorkbenchError:
        return None


def unsymbolic(dim: Dim) -> Dim:
    """A symbolic dimension as the range of its expression."""
    return dim if dim.sym is None else Dim(dim.min, dim.max, dim.optimals)


def any_symbolic(inputs: Sequence[Shape]) -> bool:
    """Whether some input is symbolic and no input is known by ranges only; then all have strides."""
    found = [s for s in inputs if s.dims is not None]
    return bool(found) and all(s.dyn_strides for s in found)


def symbolic(shape: Shape) -> Shape:
    """A static shape with literals for lens and strides; a symbolic one unchanged."""
    if shape.dims is not None:
        return shape
    return Shape.dynamic(shape.type, [Dim.of(n) for n in shape.lens], shape.strides)


def aligned(inputs: Sequence[Shape]) -> list[tuple[Dim, ...]]:
    """The dimensions of tensors in one form: expressions, unless some are known only as ranges."""
    if any_symbolic(inputs):
        return [dims_of(symbolic(s)) for s in inputs]
    return [tuple(map(unsymbolic, dims_of(s))) for s in inputs]


def joined(a: Shape, b: Shape) -> Shape:
    """The shape of a value that has one shape or the other.

    Raises:
        ShapeError: The shapes differ in element type, rank or kind.
    """
    if a == b and _names(a) == _names(b):
        return a
    if a.kind and a.kind == b.kind:
        parts = [*(a.subs or ()), *(b.subs or ())]
        element = joined(parts[0], parts[-1]) if parts else None
        return Shape.sequence_of(element, a.kind)
    if not (a.is_tensor and b.is_tensor and a.type is b.type and a.ndim == b.ndim):
        raise ShapeError(f"{a} and {b}: expected one element type and one number of dimensions")
    if a.dims is None and b.dims is None and a.lens == b.lens:
        return Shape(a.type, a.lens)
    pairs = zip(dims_of(a), dims_of(b), strict=True)
    return Shape.dynamic(a.type, [Dim(min(x.min, y.min), max(x.max, y.max)) for x, y in pairs])


def _names(shape: Shape) -> Sequence[str]:
    return [d.name for d in shape.dims or ()]


def unnamed(shape: Shape) -> Shape:
    """The shape without the names of its lengths, which have no meaning outside their origin."""
    if shape.dims is None:
        return shape
    return Shape.dynamic(shape.type, [Dim(d.min, d.max, d.optimals) for d in shape.dims])


def any_dynamic(inputs: Sequence[Shape]) -> bool:
    """Whether some input has dimensions that are ranges."""
    return any([s.dims is not None for s in inputs])  # noqa: C419 (faster)


def intersection(a: Dim, b: Dim) -> Dim | None:
    """The lengths that both allow, or None if there are none. Optimals are kept only if a equals b."""
    if a == b:
        return a if a.name else b
    if a.sym is not None and b.sym is not None and a.sym != b.sym:
        return None
    low, high = max(a.min, b.min), min(a.max, b.max)
    return Dim(low, high, (), a.name or b.name) if low <= high else None


def same_length(a: Dim, b: Dim) -> bool:
    """Whether two dimensions have the same length for certain."""
    if a.sym is not None and a.sym == b.sym:
        return True
    return (a.is_fixed and a == b) or (bool(a.name) and a.name == b.name)


def agree(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes can have the same lens."""
    same = len(a) == len(b)
    return same and all(intersection(x, y) is not None for x, y in zip(a, b, strict=True))


def fixed(*lens: int) -> tuple[Dim, ...]:
    """Lengths as dimensions."""
    return tuple(Dim(n, n) for n in lens)


def plus(dim: Dim, n: int) -> Dim:
    """``dim + n``; optimals are shifted too."""
    if not n:
        return dim
    if dim.sym is not None:
        return Dim.of(dim.sym + n)
    best = tuple(o + n for o in dim.optimals)
    name = dim.name and f"({_inner(dim.name)}{n:+})"
    return Dim(max(0, dim.min + n), _top(dim.max, dim.max + n), best, name)


def over(dim: Dim, n: int) -> Dim:
    """``dim / n``, truncating; optimals are divided too."""
    if n == 1:
        return dim
    if dim.sym is not None:
        return Dim.of(dim.sym // n)
    best = tuple(o // n for o in dim.optimals)
    name = dim.name and f"({_inner(dim.name)}//{n})"
    return Dim(dim.min // n, _top(dim.max, dim.max // n), best, name)


def _inner(name: str) -> str:
    """The name of a product within a larger name."""
    return name.replace("*", "·")


def minus(a: Dim, b: Dim) -> Dim:
    """``a - b``, at least 0; optimals are kept where one side is fixed."""
    if a.sym is not None and b.sym is not None:
        return Dim.of(a.sym - b.sym)
    if b.is_fixed:
        if a.min >= b.min:
            return plus(a, -b.min)
        return Dim(0, max(0, a.max - b.min), (), a.name and f"({_inner(a.name)}{-b.min:+})")
    return Dim(max(0, a.min - b.max), max(0, a.max - b.min))


def total(dims: Sequence[Dim]) -> Dim:
    """The sum of dimensions, as a range without optimals."""
    loose = [d for d in dims if not d.is_fixed]
    fixed = sum(d.min for d in dims if d.is_fixed)
    if len(loose) == 1:
        one = plus(unsymbolic(loose[0]), fixed)
        return Dim(one.min, one.max, (), one.name)
    names = sorted(_inner(d.name) for d in loose)
    more = f"{fixed:+}" if fixed else ""
    low, high = sum(d.min for d in dims), min(sum(d.max for d in dims), UNBOUNDED)
    return Dim(low, high, (), f"({'+'.join(names)}{more})" if all(names) else "")


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions, without optimals."""
    found = tuple(dims)
    low, high = prod(d.min for d in found), min(prod(d.max for d in found), UNBOUNDED)
    return Dim(low, high, (), _named(*_factors(found)))


def quotient(whole: Sequence[Dim], part: Sequence[Dim]) -> Dim:
    """The product of ``whole`` divided by the product of ``part``, which divides it."""
    a, b = product(whole), product(part)
    low = a.min // b.max if b.max else 0
    high = a.max // b.min if b.min else UNBOUNDED
    (count, names), (divisor, gone) = _factors(whole), _factors(part)
    left = list(names)
    cancels = b.min > 0 and count % divisor == 0 and not any(_removed(left, n) for n in gone)
    if not cancels:
        return Dim(low, high)
    if not left:
        return Dim(count // divisor, count // divisor)
    return Dim(low, high, (), _named(count // divisor, left))


def _removed(names: list[str], name: str) -> bool:
    """Whether a name cannot be taken out of a list; an unnamed length is never found."""
    if not name or name not in names:
        return True
    names.remove(name)
    return False


def _factors(dims: Iterable[Dim]) -> tuple[int, list[str]]:
    """The factors of a product of dimensions: a number and names, ``""`` for a range without a name."""
    count, names = 1, list[str]()
    for dim in dims:
        for part in dim.name.split("*") if not dim.is_fixed else [str(dim.min)]:
            if part.isdecimal():
                count *= int(part)
            else:
                names.append(part)
    return count, names


def _named(count: int, names: Sequence[str]) -> str:
    if not all(names):
        return ""
    return "*".join([*([str(count)] if count != 1 else []), *sorted(names)])


def _top(old: int, new: int) -> int:
    return UNBOUNDED if old == UNBOUNDED else min(new, UNBOUNDED)


def broadcast_dims(
    op: Operation, a: Sequence[Dim], b: Sequence[Dim], strict: bool = False
) -> tuple[Dim, ...]:
    """The common dimensions of two shapes under broadcasting, aligned at the right.

    Raises:
        ShapeError: Some pair of dimensions can be neither equal nor 1.
    """
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    skip = len(longer) - len(shorter)
    found = list(longer)
    for i, other in enumerate(shorter, skip):
        one = broadcast_dim(longer[i], other, strict)
        if one is None:
            raise ShapeError(f"{op.name}: dimensions {longer[i]} and {other} do not broadcast")
        found[i] = one
    return tuple(found)


def broadcast_dim(a: Dim, b: Dim, strict: bool = False) -> Dim | None:
    """The lengths that two dimensions may broadcast to; None if there are none.

    Two ranges that both allow 1 give every length of either, as one of the two may be 1 in a run.
    Strict rules broadcast only a dimension that is always 1.
    """
    if _is_one(a) or _is_one(b):
        return a if _is_one(b) else b
    if strict or (a.sym is not None and b.sym is not None):
        return intersection(a, b)
    if (same_length(a, b) and a == b) or (a.min > 1 and b.min > 1):
        return intersection(a, b)
    if a.min > 1 or b.min > 1:
        wide, narrow = (a, b) if a.min > 1 else (b, a)
        return wide if narrow.min <= 1 <= narrow.max else intersection(a, b)
    name = a.name if same_length(a, b) else ""
    return Dim(min(a.min, b.min), max(a.max, b.max), a.optimals if a == b else (), name)


def _is_one(dim: Dim) -> bool:
    return dim.min == dim.max == 1


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
    """Raise a ShapeError unless all inputs have the same number of dimensions."""
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


def expect_integers(op: Operation, inputs: Sequence[Shape], *which: int) -> None:
    """Raise a ShapeError unless these inputs have an integer type; bool does not count."""
    for i in which:
        shape = inputs[i]
        if not shape.type.is_integral or shape.type is DType.BOOL:
            raise ShapeError(f"{op.name}: input {i} is {shape}; expected integers")


def expect_floats(op: Operation, inputs: Sequence[Shape], *which: int) -> None:
    """Raise a ShapeError unless these inputs have a floating-point type of at least 8 bits."""
    for i in which:
        shape = inputs[i]
        if not shape.type.is_float or shape.type is DType.FP4X2:
            raise ShapeError(f"{op.name}: input {i} is {shape}; expected floats")


def expect(op: Operation, holds: bool, found: str) -> None:
    """Raise a ShapeError with the text ``found``, unless the condition holds."""
    if not holds:
        raise ShapeError(f"{op.name}: {found}")
