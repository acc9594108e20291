"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import axes_of, check
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

Axis: TypeAlias = int | Iterable[int] | None
Reduced: TypeAlias = Callable[[Value, tuple[int, ...]], Value | tuple[Value, ...]]


def _reduction(op_type: str, t: Tensor, axis: Axis, keepdims: bool, reduced: Reduced) -> Tensor:
    """A reduction, from a function that keeps the reduced axes with length 1."""
    check(t=t)
    axes = axes_of(t, axis)

    def meaning(x: Value) -> Value | tuple[Value, ...]:
        found = reduced(x, axes) if axes else reduced(x.apply("unsqueeze", axes=(0,)), (0,))
        several = found if isinstance(found, tuple) else (found,)
        if not axes:
            several = tuple(v.apply("squeeze", axes=(0,)) for v in several)
        elif not keepdims:
            several = tuple(v.apply("squeeze", axes=axes) for v in several)
        return several if isinstance(found, tuple) else several[0]

    attributes = {"axes": axes, "keepdims": keepdims}
    return record(op_type, [t], meaning, attributes=attributes).outputs[0]


def _sum(x: Value, axes: tuple[int, ...]) -> Value:
    return x.sum(axes, keepdims=True)


@api
def l1(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum of absolute values."""
    return _reduction("ReduceL1", t, axis, keepdims, lambda x, axes: _sum(abs(x), axes))


@api
def l2(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The square root of the sum of squares."""

    def reduced(x: Value, axes: tuple[int, ...]) -> Value:
        return _sum(x * x, axes).apply("sqrt")

    return _reduction("ReduceL2", t, axis, keepdims, reduced)


@api
def logsum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum."""
    return _reduction("ReduceLogSum", t, axis, keepdims, lambda x, axes: _sum(x, axes).apply("log"))


@api
def logsumexp(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials."""

    def reduced(x: Value, axes: tuple[int, ...]) -> Value:
        top = x.max(axes, keepdims=True)
        return _sum((x - top).apply("exp"), axes).apply("log") + top

    return _reduction("ReduceLogSumExp", t, axis, keepdims, reduced)


@api
def max(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element."""
    return _reduction("ReduceMax", t, axis, keepdims, lambda x, axes: x.max(axes, keepdims=True))


@api
def mean(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean, in the type of the elements."""

    def reduced(x: Value, axes: tuple[int, ...]) -> Value:
        return x.mean(axes, keepdims=True).astype(x.dtype)

    return _reduction("ReduceMean", t, axis, keepdims, reduced)


@api
def median(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The median: of an even number of elements the lower of the two in the middle."""
    return _reduction("ReduceMedian", t, axis, keepdims, _median)


def _median(x: Value, axes: tuple[int, ...]) -> tuple[Value, ...]:
    """The median and its index among the elements along the axes."""
    lens = tuple(int(n) for n in x.shape)  # pyright: ignore[reportArgumentType] - lengths are fixed
    kept = [a for a in range(x.ndim) if a not in axes]
    flat = x.transpose([*kept, *axes]).reshape([lens[a] for a in kept] + [-1])
    count, last = int(flat.shape[-1]), len(kept)  # pyright: ignore[reportArgumentType]
    middle = (count - 1) // 2
    found = flat.apply("topk", k=middle + 1, axis=last, largest=False)
    ones = [1 if a in axes else n for a, n in enumerate(lens)]
    both = (found.apply("get_tuple_elem", index=k) for k in (0, 1))
    values, where = (v[..., middle].reshape(ones) for v in both)
    return values, where.astype("int32")


@api
def min(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element."""
    return _reduction("ReduceMin", t, axis, keepdims, lambda x, axes: x.min(axes, keepdims=True))


@api
def prod(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product."""
    return _reduction("ReduceProd", t, axis, keepdims, lambda x, axes: x.prod(axes, keepdims=True))


@api
def sum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum."""
    return _reduction("ReduceSum", t, axis, keepdims, _sum)


@api
def sumsquare(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum of squares."""
    return _reduction("ReduceSumSquare", t, axis, keepdims, lambda x, axes: _sum(x * x, axes))


@api
def lamb_square(t: Tensor) -> Tensor:
    """The sum of the squares of all elements, in float32."""

    def meaning(x: Value) -> Value:
        wide = x.astype("float")
        return (wide * wide).sum()

    check(t=t)
    return record("LambSquare", [t], meaning).outputs[0]
