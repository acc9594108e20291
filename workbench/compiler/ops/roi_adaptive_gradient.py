"""The gradient of roialign's means, where the number of samples in a cell depends on its region.

Samples are linear on each axis, so the mean of a cell is a product: the weights of its rows, the image, the
weights of its columns. Gradients are products of matrices then, and only weights depend on the regions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ops.sampling_gradients import each

if TYPE_CHECKING:
    from workbench.compiler.ops.resize import RoiAlign

_MARGIN = 6
"""Samples that are looked at beside those that can lie within the image, as places are rounded."""


class AdaptiveRoiGradient:
    """The gradients of images and regions; all values of at least 32 bits, places in double precision."""

    def __init__(self, op: RoiAlign, x: Any, regions: Any, batch: Any) -> None:
        """The weights of elements in cells."""
        self.op, self.x = op, x
        ends = regions.astype("double") * op.spatial_scale - (0.5 if op.shifted else 0.0)
        high, wide = x.shape[2:]
        self.rows = _Axis(ends[:, 1], ends[:, 3], op.output_height, high, op.shifted)
        self.columns = _Axis(ends[:, 0], ends[:, 2], op.output_width, wide, op.shifted)
        index = batch.astype("int64")
        index = index + (index < 0).astype("int64") * int(x.shape[0])
        images = np.arange(int(x.shape[0]), dtype=np.int64)
        self.hot = (each(index) == images).astype(x.dtype)
        """Whether a region is in an image, ``[R, N]``, as 0 or 1."""

    def all(self, given: Any) -> list[Any]:
        """The gradients of the images and of the regions."""
        x, rows, columns = self.x, self.rows.weights, self.columns.weights
        rows, columns = rows.astype(x.dtype), columns.astype(x.dtype)
        by_row = _spread(given, columns)
        by_column = _spread(given.transpose(0, 1, 3, 2), rows)
        y1, y2 = self.rows.ends(self._weights(by_row, x))
        x1, x2 = self.columns.ends(self._weights(by_column, x.transpose(0, 1, 3, 2)))
        of_regions = each(x1).concat(each(y1), each(x2), each(y2), axis=1) * self.op.spatial_scale
        return [self._images(by_row, rows), of_regions]

    def _images(self, by_row: Any, rows: Any) -> Any:
        """The gradient of the images: each row of cells, spread over its rows of elements."""
        (count, channels, high, wide), regions = self.x.shape, by_row.shape[0]
        shares = rows.transpose(2, 0, 1).reshape((1, high, regions, -1))
        of_image = self.hot.transpose(1, 0).reshape((count, 1, regions, 1))
        shares = (shares * of_image).reshape((count * high, -1))
        found = shares @ by_row.reshape((-1, channels * wide))
        return found.reshape((count, high, channels, wide)).transpose(0, 2, 1, 3)

    def _weights(self, spread: Any, x: Any) -> Any:
        """The gradient of the weights on an axis, ``[R, cells, n]``, from cells spread over the other one."""
        (count, channels, high, wide), (regions, cells) = x.shape, spread.shape[:2]
        columns = x.transpose(1, 3, 0, 2).reshape((channels * wide, count * high))
        found = (spread.reshape((regions * cells, -1)) @ columns).reshape(
            (regions, cells, count, high)
        )
        of_region = self.hot.reshape((regions, 1, count, 1))
        return (found * of_region).sum(2).astype("double")


def _spread(given: Any, weights: Any) -> Any:
    """Cells ``[R, C, a, b]`` spread over the elements of the last axis, ``[R, a, C, n]``."""
    (regions, channels, _, _), (_, cells, n) = given.shape, weights.shape
    of_channels = weights.reshape((regions, 1, cells, n)).broadcast_to(
        (regions, channels, cells, n)
    )
    return (given @ of_channels).transpose(0, 2, 1, 3)


class _Axis:
    """The samples of regions on one axis, ``[R, cells, samples]``, of which those outside count nothing.

    Two samples of one cell are more than half an element apart, so that few lie within the image.
    """

    def __init__(self, start: Any, end: Any, cells: int, n: int, shifted: bool) -> None:
        self.n = n
        extent, self.follows = end - start, start.builder.value(1.0, start.dtype)
        if not shifted:
            self.follows = (extent > 1.0).astype(start.dtype)
            extent = extent.maximum(1.0)
        count = (extent * (1.0 / cells)).ceil().maximum(1.0)
        step = extent / (count * float(cells))
        self.count, several = each(each(count)), each(each(count > 1.0))
        cell, step = np.arange(cells, dtype=np.float64).reshape(1, -1, 1), each(each(step))
        first = each(each(start)) + step * self.count * cell
        skipped = ((-1.0 - first) / step.maximum(0.5)).floor() - 2.0
        skipped = skipped.maximum(0.0).where_true(several)
        number = skipped + np.arange(2 * n + _MARGIN, dtype=np.float64)
        self.share = (self.count * cell + number + 0.5) / (self.count * float(cells))
        at = each(each(start)) + self.share * each(each(extent))
        inside = (number < self.count) & (at >= -1.0) & (at <= float(n))
        self.inside = inside.astype("double") / self.count
        self.moves = ((at > 0.0) & (at < float(n - 1))).astype("double") * self.inside
        at = at.maximum(0.0).minimum(float(n - 1)).where_true(inside)
        self.low, self.part = at.floor(), at - at.floor()

    @property
    def _elements(self) -> tuple[Any, Any]:
        """The elements beside each sample."""
        after = (self.low + 1.0).minimum(float(self.n - 1))
        return self.low.astype("int64"), after.astype("int64")

    @property
    def weights(self) -> Any:
        """The weight of each element in each cell, ``[R, cells, n]``, in double precision."""
        before, after = self._elements
        regions, cells, _ = before.shape
        zeros = self.part.builder.zeros((regions, cells, self.n), "double")
        found = zeros.scatter_add(before, (1.0 - self.part) * self.inside, axis=2)
        return found.scatter_add(after, self.part * self.inside, axis=2)

    def ends(self, given: Any) -> tuple[Any, Any]:
        """The gradients of both ends of each region, from that of the weights."""
        before, after = (given.gather_elements(i, axis=2) for i in self._elements)
        places = (after - before) * self.moves
        by_end = places * self.share * each(each(self.follows.broadcast_to((places.shape[0],))))
        return (places - by_end).sum((1, 2)), by_end.sum((1, 2))
