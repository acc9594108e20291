"""Rows by number: gather, scatter, and slices at places that only a run knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import SAME, record
from workbench.compat.popart.ir.ops.checks import axes_of, check, check_same_type
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value


@api
def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803 - PopART's name
) -> Tensor:
    """The slices along an axis that the indices choose, as ``numpy.take``.

    Args:
        t: The tensor.
        indices: Integers of any shape.
        axis: The axis that they count along.
        available_memory_proportion: Recorded; a hint for PopART's hardware.
        zero_OOR: Give zeros for indices out of range, which are the nearest one in range otherwise.
    """
    return _gathered("Gather", t, indices, axis, available_memory_proportion, zero_OOR)


@api
def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803 - PopART's name
) -> Tensor:
    """`gather` from a tensor that a product uses too; the hardware lays it out for the product."""
    return _gathered("PopartTiedGather", t, indices, axis, available_memory_proportion, zero_OOR)


def _gathered(
    op_type: str, t: Tensor, indices: Tensor, axis: int, memory: float | None, zero: bool
) -> Tensor:
    check(t=t, indices=indices)
    _check_integers(op_type, indices)
    (at,) = axes_of(t, axis)
    length = t.shape[at]

    def meaning(x: Value, where: Value) -> Value:
        where = where.astype("int64")
        if not zero:
            where = where.maximum(-length).minimum(length - 1)
            return x.apply("gather", where, axis=at)
        inside = (where >= 0) & (where < length)
        found = x.apply("gather", inside.apply("where", where, 0), axis=at)
        lens = [1] * at + list(where.shape) + [1] * (x.ndim - at - 1)
        return spread(inside, lens).apply("where", found, found.dtype.numpy.type(0).item())

    attributes = {"axis": at, "zero_OOR": zero, "available_memory_proportion": memory}
    return record(op_type, [t, indices], meaning, attributes=attributes).outputs[0]


def spread(x: Value, lens: Sequence[Any]) -> Value:
    """A value with axes of length 1 added, so that it broadcasts."""
    return x.reshape(lens) if lens else x


def _check_integers(op_type: str, indices: Tensor) -> None:
    if not indices.dtype.is_int:
        raise popart_exception(f"{op_type}: the indices are {indices!r}; expected integers")


@api
def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """The tensor with each value put at its index along an axis, as ONNX's ScatterElements.

    Args:
        t: The tensor.
        indices: Integers, one for each value.
        values: The values.
        axis: The axis that the indices count along.
        available_memory_proportion: Recorded; a hint for PopART's hardware.
    """
    check(t=t, indices=indices, values=values)
    check_same_type("Scatter", t, values)
    _check_integers("Scatter", indices)
    (at,) = axes_of(t, axis)

    def meaning(x: Value, where: Value, new: Value) -> Value:
        return x.apply("scatter_none", where.astype("int64"), new, axis=at)

    attributes = {"axis": at, "available_memory_proportion": available_memory_proportion}
    return record("Scatter", [t, indices, values], meaning, attributes=attributes).outputs[0]


@api
def dynamic_slice(
    t: Tensor, index: Tensor, axes: Sequence[int], sizes: Sequence[int], no_overlap: bool
) -> Tensor:
    """A part that begins, on each of some axes, where ``index`` says.

    Args:
        t: The tensor.
        index: The first element on each of the axes.
        axes: The axes.
        sizes: The length on each of them.
        no_overlap: Recorded; a promise that slices in a loop do not overlap.
    """
    check(t=t, index=index)
    at, attributes = _dynamic("DynamicSlice", t, index, axes, sizes, no_overlap)

    def meaning(x: Value, first: Value) -> Value:
        for k, (axis, size) in enumerate(zip(at, sizes, strict=True)):
            x = x.apply("gather", _places(first, k, size), axis=axis)
        return x

    return record("DynamicSlice", [t, index], meaning, attributes=attributes).outputs[0]


def _dynamic(
    op_type: str,
    t: Tensor,
    index: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    no_overlap: bool,
) -> tuple[tuple[int, ...], dict[str, Any]]:
    at = axes_of(t, axes)
    _check_integers(op_type, index)
    if not len(at) == len(sizes) == index.nelms:
        raise ValueError(
            f"{op_type}: index {index!r}, axes {list(axes)}, sizes {list(sizes)}; expected as many of each"
        )
    return at, {"axes": at, "sizes": tuple(sizes), "no_overlap": no_overlap}


def _places(first: Value, k: int, size: int) -> Value:
    """The indices of ``size`` elements from the ``k``-th start."""
    starts = first.reshape(-1).astype("int64")
    return starts[k : k + 1] + np.arange(size)


@api
def dynamic_update(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Sequence[int], sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:  # fmt: skip
    """The tensor with a part replaced; arguments as for `dynamic_slice`."""
    return _updated("DynamicUpdate", t, index, t_update, axes, sizes, no_overlap, False)


@api
def dynamic_update_(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Sequence[int], sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:  # fmt: skip
    """Replace a part of the tensor; arguments as for `dynamic_slice`."""
    return _updated("DynamicUpdateInplace", t, index, t_update, axes, sizes, no_overlap, True)


def _updated(
    op_type: str, t: Tensor, index: Tensor, new: Tensor, axes: Sequence[int], sizes: Sequence[int],
    no_overlap: bool, in_place: bool,
) -> Tensor:  # fmt: skip
    check(t=t, index=index, t_update=new)
    check_same_type(op_type, t, new)
    at, attributes = _dynamic(op_type, t, index, axes, sizes, no_overlap)

    def meaning(x: Value, first: Value, update: Value) -> Value:
        places = [(a, _places(first, k, n)) for k, (a, n) in enumerate(zip(at, sizes, strict=True))]
        return _replaced(x, update, places)

    memory: dict[str, Any] = {"modifies": (0,), "view": SAME} if in_place else {}
    return record(op_type, [t, index, new], meaning, attributes=attributes, **memory).outputs[0]


def _replaced(x: Value, update: Value, places: Sequence[tuple[int, Value]]) -> Value:
    if not places:
        return update.broadcast_to(*x.shape)  # pyright: ignore[reportArgumentType]
    axis, where = places[0]
    inner = _replaced(x.apply("gather", where, axis=axis), update, places[1:])
    return scattered(x, "scatter_none", where, inner, axis)


def scattered(x: Value, name: str, where: Value, new: Value, axis: int) -> Value:
    """Slices along an axis put at indices, which are in a row, by a scatter of this name."""
    lens = [1] * new.ndim
    lens[axis] = int(where.shape[0])  # pyright: ignore[reportArgumentType] - lengths are fixed
    spread_out = where.reshape(lens).broadcast_to(*new.shape)  # pyright: ignore[reportArgumentType]
    return x.apply(name, spread_out, new, axis=axis)
