"""The gradient of a deformable convolution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ops.sampling_gradients import (
    Corner,
    Image,
    corners_of,
    each,
    taps_at,
    total,
)
from workbench.compiler.ops.windows import Window


class DeformGradient:
    """The gradients of the operands, by way of the columns of samples that the weights multiply.

    Samples are ``[N, offset_group, taps · outputs, channels of the group]``.
    """

    def __init__(
        self, window: Window, group: int, offset_group: int, given: Any, operands: Sequence[Any]
    ) -> None:
        """The gradients for a gradient of the result; all values of at least 32 bits."""
        self.window, self.group = window, group
        self.x, self.w, self.offset, *self.mask = operands
        self.batch, self.groups = self.x.shape[0], offset_group
        self.flat = (self.batch, offset_group, prod(window.size) * prod(window.output))
        self.given = given.reshape((self.batch, group, -1, prod(window.output)))

    def all(self, grid: Sequence[Array]) -> list[Any]:
        """The gradient of each operand.

        Args:
            grid: For each axis the positions of the taps without their offsets.
        """
        corners = self._corners(grid)
        elements = [self._image.at(c) for c in corners]
        raw = total([each(c.weight) * e for c, e in zip(corners, elements, strict=True)])
        factors = [each(m.reshape(self.flat)) for m in self.mask]
        of_columns = self._of_columns
        inner = total([of_columns * f for f in factors]) if factors else of_columns
        columns = total([raw * f for f in factors]) if factors else raw
        of_mask = [(of_columns * raw).sum(-1).reshape(m.shape) for m in self.mask]
        sums = [(inner * e).sum(-1) for e in elements]
        of_x = self._of_x(corners, inner)
        return [of_x, self._of_weights(columns), self._of_offset(corners, sums), *of_mask]

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """The lens of the offsets, with an axis for the axes."""
        rank = len(self.window.size)
        return (self.batch, self.groups, *self.window.size, rank, *self.window.output)

    def _corners(self, grid: Sequence[Array]) -> list[Corner]:
        rank, offset = len(self.window.size), self.offset.reshape(self._offsets)
        before = (slice(None),) * (2 + rank)
        axes: list[Any] = []
        for axis, n in enumerate(self.window.input):
            place = offset[(*before, axis)] + grid[axis].astype(offset.dtype.numpy)
            axes.append(taps_at(place.reshape(self.flat), n))
        return corners_of(axes)

    @cached_property
    def _image(self) -> Image:
        """The input with an axis for groups of offsets, and the channels of a group last."""
        rank = len(self.window.input)
        split = self.x.reshape((self.batch, self.groups, -1, *self.window.input))
        batches: Array = np.arange(self.batch, dtype=np.int64).reshape(-1, 1, 1)
        groups: Array = np.arange(self.groups, dtype=np.int64).reshape(-1, 1)
        outer = (self.x.builder.constant(batches), self.x.builder.constant(groups))
        return Image(split.transpose(0, 1, *range(3, 3 + rank), 2), outer)

    @cached_property
    def _of_columns(self) -> Any:
        """The gradient of the samples times their factors."""
        weights = self.w.reshape((self.group, -1, prod(self.w.shape[1:])))
        rows = (weights.mT @ self.given).reshape((*self.flat[:2], -1, self.flat[2]))
        return rows.transpose(0, 1, 3, 2)

    def _of_weights(self, columns: Any) -> Any:
        rows = columns.transpose(0, 1, 3, 2)
        rows = rows.reshape((self.batch, self.group, -1, prod(self.window.output)))
        return (self.given @ rows.mT).sum(0).reshape(self.w.shape)

    def _of_x(self, corners: Sequence[Corner], inner: Any) -> Any:
        found = self._image.spread(corners, [inner * each(c.weight) for c in corners])
        rank = len(self.window.input)
        return found.transpose(0, 1, 2 + rank, *range(2, 2 + rank)).reshape(self.x.shape)

    def _of_offset(self, corners: Sequence[Corner], sums: Sequence[Any]) -> Any:
        """The gradient of places: of each corner the sum over channels times the slope of its share."""
        rank = len(self.window.size)
        lens = (*self._offsets[: 2 + rank], 1, *self._offsets[3 + rank :])
        parts = [
            total([s * c.slope(axis) for s, c in zip(sums, corners, strict=True)]).reshape(lens)
            for axis in range(rank)
        ]
        whole = parts[0].concat(*parts[1:], axis=2 + rank) if rank > 1 else parts[0]
        return whole.reshape(self.offset.shape)
