"""The gradient of roialign, where the number of samples in a cell is fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.sampling_gradients import (
    Image,
    Tap,
    corners_of,
    each,
    total,
)

if TYPE_CHECKING:
    from workbench.compiler.ops.resize import RoiAlign


@dataclass(frozen=True)
class _Axis:
    """The samples of one axis, ``[R, samples]``, and how they move with the ends of their region."""

    taps: tuple[Tap, Tap]
    by_start: Any
    by_end: Any


class RoiGradient:
    """The gradients of images and regions; samples are ``[R, rows, columns, C]``."""

    def __init__(self, op: RoiAlign, x: Any, regions: Any, batch: Any) -> None:
        """The samples of regions; all values of at least 32 bits."""
        self.op, self.x, self.regions = op, x, regions
        ends = regions * op.spatial_scale - (0.5 if op.shifted else 0.0)
        self.rows = self._axis(ends[:, 1], ends[:, 3], op.output_height, x.shape[2])
        self.columns = self._axis(ends[:, 0], ends[:, 2], op.output_width, x.shape[3])
        rows = tuple(_reshaped(t, (*t.index.shape, 1)) for t in self.rows.taps)
        columns = self.columns.taps
        columns = tuple(_reshaped(t, (t.index.shape[0], 1, -1)) for t in columns)
        self.corners = corners_of([(rows[0], rows[1]), (columns[0], columns[1])])
        index = batch.astype("int64")
        index = index + (index < 0).astype("int64") * int(x.shape[0])
        self.image = Image(x.transpose(0, 2, 3, 1), (index.reshape((-1, 1, 1)),))
        self.elements = [self.image.at(c) for c in self.corners]

    def _axis(self, start: Any, end: Any, cells: int, length: int) -> _Axis:
        count = cells * self.op.sampling_ratio
        share = ((np.arange(count) + 0.5) / count).astype(start.dtype.numpy)
        extent, moves = end - start, start.builder.value(1.0, start.dtype)
        if not self.op.shifted:
            moves = (extent > 1.0).astype(start.dtype)
            extent = extent.maximum(1.0)
        place = each(start) + each(extent) * share
        ends = each(moves.broadcast_to(extent.shape)) * share
        return _Axis(_clipped(place, length), 1.0 - ends, ends)

    def all(self, given: Any) -> list[Any]:
        """The gradients of the images and of the regions."""
        parts = self._of_corners(given.transpose(0, 2, 3, 1))
        weighted = [p * each(c.weight) for p, c in zip(parts, self.corners, strict=True)]
        of_x = self.image.spread(self.corners, weighted).transpose(0, 3, 1, 2)
        sums = [(p * e).sum(-1) for p, e in zip(parts, self.elements, strict=True)]
        y1, y2 = self._of_ends(self.rows, sums, 0)
        x1, x2 = self._of_ends(self.columns, sums, 1)
        return [of_x, each(x1).concat(each(y1), each(x2), each(y2), axis=1) * self.op.spatial_scale]

    def _of_ends(self, axis: _Axis, sums: list[Any], number: int) -> tuple[Any, Any]:
        """The gradients of the first and the last place of each region on an axis."""
        pairs = zip(sums, self.corners, strict=True)
        places = total([s * c.slope(number) for s, c in pairs]).sum(2 - number)
        return (places * axis.by_start).sum(1), (places * axis.by_end).sum(1)

    def _of_corners(self, given: Any) -> list[Any]:
        """The gradient of the share of each corner in each sample, from that of cells ``[R, h, w, C]``."""
        op, (count, high, wide, channels) = self.op, given.shape
        cells = given.reshape((count, high, 1, wide, 1, channels))
        lens = (count, high, op.sampling_ratio, wide, op.sampling_ratio, channels)
        samples = (count, high * op.sampling_ratio, wide * op.sampling_ratio, channels)
        if op.mode == PoolingMode.AVERAGE:
            same = (cells * (1.0 / op.sampling_ratio**2)).broadcast_to(lens).reshape(samples)
            return [same] * len(self.corners)
        values = [
            (e * each(c.weight)).reshape(lens)
            for e, c in zip(self.elements, self.corners, strict=True)
        ]
        largest = values[0]
        for value in values[1:]:
            largest = largest.maximum(value)
        largest = largest.max((2, 4), keepdims=True)
        hits = [(v == largest).astype(given.dtype) for v in values]
        share = cells / total(hits).sum((2, 4), keepdims=True)
        return [(hit * share).reshape(samples) for hit in hits]


def _reshaped(tap: Tap, lens: tuple[int, ...]) -> Tap:
    return Tap(tap.index.reshape(lens), tap.factor.reshape(lens), tap.slope.reshape(lens))


def _clipped(place: Any, length: int) -> tuple[Tap, Tap]:
    """The elements around places, of which those up to 1 beyond the edge are at the edge."""
    last = float(length - 1)
    inside = (place >= -1.0) & (place <= float(length))
    at = place.maximum(0.0).minimum(last).where_true(inside)
    low = at.floor()
    moves = ((place > 0.0) & (place < last)).astype(place.dtype)
    index, share = low.astype("int64"), (at - low).where_true(inside)
    after = (low + 1.0).minimum(last).astype("int64")
    before = Tap(index, (1.0 - (at - low)).where_true(inside), -moves)
    return before, Tap(after, share, moves)
