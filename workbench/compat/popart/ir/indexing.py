"""Indexing of tensors: slices, rows by number, masks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.factories import constant
from workbench.compat.popart.ir.tensors import Tensor


def indexed(tensor: Tensor, key: Any) -> Tensor:
    """The elements that a key chooses.

    Raises:
        TypeError: The key is neither integers and slices nor an integer or bool tensor.
    """
    parts = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
    if parts and all(_is_plain(p) for p in parts):
        return _sliced(tensor, parts)
    chosen = _tensor(key)
    if chosen is None:
        raise TypeError(f"Cannot index a tensor with {key!r}.")
    from workbench.compat.popart.ir import ops  # noqa: PLC0415 - operations make tensors

    if chosen.dtype is dtypes.bool:
        return ops.where(chosen, tensor, constant(0, tensor.dtype))
    return ops.gather(tensor, chosen, axis=0)


def _is_plain(part: Any) -> bool:
    return isinstance(part, slice | int | np.integer) and not isinstance(part, bool)


def _tensor(key: Any) -> Tensor | None:
    """An integer or bool tensor, from an array or a list if need be."""
    if isinstance(key, Tensor):
        return key if key.dtype.is_int or key.dtype is dtypes.bool else None
    if isinstance(key, str | bool | float | int) or not isinstance(key, Iterable):
        return None
    array = np.asarray(cast("Any", key))
    return constant(array) if array.size and array.dtype.kind in "biu" else None


def _sliced(tensor: Tensor, parts: tuple[Any, ...]) -> Tensor:
    from workbench.compat.popart.ir import ops  # noqa: PLC0415 - operations make tensors

    if len(parts) > tensor.rank:
        raise TypeError(f"{len(parts)} indices for a tensor of {tensor.rank} axes.")
    starts, stops, steps = list[int | None](), list[int | None](), list[int | None]()
    dropped = list[int]()
    for axis, part in enumerate(parts):
        if isinstance(part, slice):
            given = cast("slice[Any, Any, Any]", part)
            starts.append(given.start)
            stops.append(given.stop)
            steps.append(1 if given.step is None else given.step)
        else:
            at = int(part)
            starts.append(at)
            stops.append(at + 1 if at != -1 else tensor.shape[axis])
            steps.append(1)
            dropped.append(axis)
    found = ops.slice(tensor, starts, stops, steps, list(range(len(parts))))
    return ops.squeeze(found, dropped) if dropped else found
