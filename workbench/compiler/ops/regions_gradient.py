"""The gradient of max_roi_pool: of each cell to its largest elements, whose places are data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from workbench.compiler.ops.regions import MaxRoiPool


def of_images(op: MaxRoiPool, given: Any, x: Any, regions: Any) -> Any:
    """The gradient of the images; equal largest elements share that of their cell.

    Memory is as for one image per region: the rows of cells are taken one after another.
    """
    ends = regions[:, 1:].astype("double") * op.spatial_scale
    ends = ends.sign() * (ends.abs() + 0.5).floor()
    high, wide = op.pooled_shape
    rows = _cells(ends[:, 1], ends[:, 3], high, x.shape[2])
    columns = _cells(ends[:, 0], ends[:, 2], wide, x.shape[3]).apply("unsqueeze", axes=(1,))
    batch = regions[:, 0].astype("int64")
    batch = batch + (batch < 0).astype("int64") * int(x.shape[0])
    images, found = x.gather(batch, axis=0), None
    for r in range(high):
        inside = rows[:, r].apply("unsqueeze", axes=(1, 3))
        largest, share = _largest(images, inside, 2)
        _, of_columns = _largest(largest, columns, 3)
        each = (of_columns * given[:, :, r].apply("unsqueeze", axes=(3,))).sum(2, keepdims=True)
        part = share * each
        found = part if found is None else found + part
    zeros = given.builder.zeros(x.shape, given.dtype)
    return zeros.scatternd_add(batch.apply("unsqueeze", axes=(1,)), found)


def _largest(x: Any, inside: Any, axis: int) -> tuple[Any, Any]:
    """The largest elements inside along an axis, and the share that each element has in them."""
    lens = np.broadcast_shapes(x.shape, inside.shape)
    inside = inside.broadcast_to(lens)
    least = x.builder.value(-np.inf, x.dtype)
    shown = x.builder.apply("where", inside, x.broadcast_to(lens), least)
    largest = shown.max(axis, keepdims=True)
    hit = ((shown == largest) & inside).astype(x.dtype)
    return largest, hit / hit.sum(axis, keepdims=True).maximum(1.0)


def _cells(first: Any, last: Any, count: int, n: int) -> Any:
    """Whether each element of an axis is in each cell of each region, ``[R, cells, n]``, as bool."""
    size = ((last - first + 1.0).maximum(1.0) / count).apply("unsqueeze", axes=(1,))
    at, first = np.arange(count, dtype=np.float64), first.apply("unsqueeze", axes=(1,))
    starts = (size * at).floor() + first
    ends = (size * (at + 1)).ceil() + first
    elements = np.arange(n, dtype=np.float64)
    starts, ends = (e.apply("unsqueeze", axes=(2,)) for e in (starts, ends))
    return (starts <= elements) & (ends > elements)
