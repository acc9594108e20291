"""Indexing of values as in NumPy: whole numbers, slices, new axes, and one array of numbers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim


def indexed(value: Value, index: Any) -> Value:
    """The elements that an index chooses.

    Raises:
        OperationError: The index has too many parts, a number out of range, more than one array, or a mask.
    """
    given = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    parts = _expanded(given, value.ndim)
    axis, dropped, added = 0, list[int](), list[int]()
    for part in parts:
        if part is None:
            added.append(axis - len(dropped) + len(added))
            continue
        if isinstance(part, slice):
            value = _sliced(value, axis, cast("slice[Any, Any, Any]", part))
        elif _is_whole(part):
            value = _sliced(value, axis, _one(value, axis, int(part)))
            dropped.append(axis)
        else:
            arrays = sum(not (p is None or isinstance(p, slice) or _is_whole(p)) for p in parts)
            value = _gathered(value, axis, part, arrays)
        axis += 1
    if dropped:
        value = value.apply("squeeze", axes=tuple(dropped))
    return value.apply("unsqueeze", axes=tuple(added)) if added else value


def _is_whole(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def _expanded(parts: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """An index without ``...``, with a slice for each axis that it leaves out."""
    taken = sum(p is not None and p is not ... for p in parts)
    if taken > rank or sum(p is ... for p in parts) > 1:
        raise OperationError(f"an index of {taken} parts; expected at most {rank}, and one ...")
    rest = (slice(None),) * (rank - taken)
    at = next((k for k, p in enumerate(parts) if p is ...), None)
    return (*parts, *rest) if at is None else (*parts[:at], *rest, *parts[at + 1 :])


def _one(value: Value, axis: int, position: int) -> slice:
    length = value.shape[axis]
    if isinstance(length, Dim):
        raise OperationError(f"axis {axis} has a length that only a run knows; use gather")
    if not -length <= position < length:
        raise OperationError(f"index {position} is out of range for axis {axis} of length {length}")
    position %= length
    return slice(position, position + 1)


def _sliced(value: Value, axis: int, part: slice) -> Value:
    if part == slice(None):
        return value
    length = value.shape[axis]
    if isinstance(length, Dim):
        raise OperationError(
            f"axis {axis} has a length that only a run knows; expected the slice :"
        )
    chosen = range(*part.indices(length))
    if not chosen:
        return value.apply("slice", axes=(axis,), starts=(0,), ends=(0,))
    low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1
    if (low, high) != (0, length):
        value = value.apply("slice", axes=(axis,), starts=(low,), ends=(high,))
    if chosen.step < 0:
        value = value.apply("reverse", axes=(axis,))
    step = abs(chosen.step)
    return (
        value if step == 1 or len(chosen) == 1 else value.apply("step", axes=(axis,), steps=(step,))
    )


def _gathered(value: Value, axis: int, part: Any, arrays: int) -> Value:
    if arrays > 1:
        raise OperationError("an index with several arrays; expected one, or gathernd")
    positions = value.builder.value(part, DType.INT64)
    if positions.ndim != 1 or positions.dtype.is_float or positions.dtype is DType.BOOL:
        raise OperationError(
            f"an index of {positions.instruction.shape}; expected whole numbers along one axis"
        )
    return value.apply("gather", positions, axis=axis)
