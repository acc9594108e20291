"""Values that take their lengths from other values, which may be known only in a run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from workbench.compat.aitemplate.frontend.lengths import IntVar
from workbench.compat.aitemplate.frontend.operator import Lengths
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim


def ones_like(x: Value, dtype: DType | None = None) -> Value:
    """Ones of another value's lengths."""
    return spread_like(x.builder.value(1, dtype or x.dtype), x)


def spread_like(value: Value, x: Value) -> Value:
    """A value broadcast to another one's lengths."""
    shape = x.instruction.shape
    return value.apply("multibroadcast", x) if shape.is_dynamic else value.broadcast_to(shape.lens)


def positions(x: Value, axis: int) -> Value:
    """The index of each element along an axis, in float32."""
    ones = ones_like(x, DType.FLOAT)
    return ones.apply("prefix_scan_sum", axis=axis, exclusive=True, reverse=False)


def reshaped(at: Lengths, x: Value, shape: Sequence[IntVar | int]) -> Value:
    """The elements with other lengths; -1 is what the others leave.

    Args:
        at: The lengths of variables.
        x: The value.
        shape: The lengths, one of which may be -1.
    """
    if not shape:
        return x.apply("squeeze", axes=tuple(range(x.ndim))) if x.ndim else x
    lens = [n if isinstance(n, int) else at.number(n) for n in shape]
    own = dims_of(x.instruction.shape)
    named = [n.key if isinstance(n, IntVar) else "" for n in shape]
    dims = [
        0 if n is None and k < len(own) and own[k].name and own[k].name == named[k] else n
        for k, n in enumerate(lens)
    ]
    unknown = [k for k, n in enumerate(dims) if n is None]
    if not unknown or (len(unknown) == 1 and -1 not in dims):
        return x.apply("reshape", dims=tuple(-1 if n is None else n for n in dims))
    parts = [
        at.builder.constant([n], DType.INT64)
        if isinstance(n, int) and n != 0
        else at.value(shape[k])  # pyright: ignore[reportArgumentType] - it is a variable
        for k, n in enumerate(dims)
    ]
    return x.apply(
        "reshape_with_dims",
        parts[0].apply("concat", *parts[1:], axis=0),
        out_dyn_dims=_known(x, shape),
    )


def _known(x: Value, shape: Sequence[IntVar | int]) -> tuple[Dim, ...]:
    """The dimensions of a shape, where -1 is at most the number of elements."""
    most = prod(d.max for d in dims_of(x.instruction.shape))
    return tuple(
        n.dim if isinstance(n, IntVar) else Dim(0, most) if n == -1 else Dim(n, n) for n in shape
    )
