"""Deformable convolution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import expect, expect_floats, expect_rank, expect_same_rank
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened
from workbench.compiler.ops.deform_gradient import DeformGradient
from workbench.compiler.ops.sampling_gradients import wide
from workbench.compiler.ops.windows import Window, both_sides

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


@operation
class DeformConvolution(Operation):
    """A convolution whose taps are displaced from the grid by offsets, and interpolated there.

    Inputs are ``[N, C, …]``, weights ``[K, C/group, …]``, offsets ``[N, offset_group · taps · axes, …]``
    (one for each tap of each output), and factors of the taps ``[N, offset_group · taps, …]``.
    """

    name = "deform_convolution"
    family = Family.CONTRACTION
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    dilation: Ints = (1, 1)
    group: int = 1
    offset_group: int = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[N, K, …]``, standard."""
        expect_count(self, inputs, 3, 4)
        expect_static(self, inputs)
        expect_same_type(self, inputs)
        expect_same_rank(self, inputs)
        expect_rank(self, inputs[:1], 3)
        x, w, offset = inputs[:3]
        expect_floats(self, inputs, 0)
        expect(self, 0 not in x.lens + w.lens, f"input {x} and weights {w}; expected no empty ones")
        channels = w.lens[1] * self.group
        fits = x.lens[1] == channels and not w.lens[0] % self.group
        expect(self, fits, f"weights {w} in {self.group} groups do not fit input {x}")
        fits = not x.lens[1] % self.offset_group
        expect(self, fits, f"offset_group {self.offset_group} does not fit input {x}")
        lens = self._window(x.lens, w.lens).output
        taps = self.offset_group * prod(w.lens[2:])
        wanted = (x.lens[0], taps * len(lens), *lens)
        expect(self, offset.lens == wanted, f"offsets {offset}; expected lens {wanted}")
        wanted = (x.lens[0], taps, *lens)
        expect(self, all(m.lens == wanted for m in inputs[3:]), f"factors; expected lens {wanted}")
        return Shape(x.type, (x.lens[0], w.lens[0], *lens))

    def _window(self, x: Ints, w: Ints) -> Window:
        begin, end = both_sides(self, self.padding, len(x) - 2)
        return Window(x[2:], w[2:], self.stride, self.dilation, begin, end)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Columns of interpolated taps, then one matrix product."""
        x, w, offset, *mask = map(widened, inputs)
        window = self._window(x.shape, w.shape)
        batch, groups = len(x), self.offset_group
        images = x.reshape(batch, groups, -1, prod(window.input))
        places = self._places(window, offset)
        columns = _interpolated(images, places, window.input)
        if mask:
            columns = columns * mask[0].reshape(batch, groups, 1, -1)
        taps = prod(window.size)
        columns = columns.reshape(batch, self.group, -1, prod(window.output))
        weights = w.reshape(self.group, w.shape[0] // self.group, w.shape[1] * taps)
        out = np.matmul(weights, columns).reshape(batch, w.shape[0], *window.output)
        return rounded(out, inputs[0].dtype)

    def _places(self, window: Window, offset: Array) -> list[Array]:
        """For each axis, the position of each tap of each output: ``[N, groups, 1, taps · outputs]``."""
        rank, batch = len(window.size), len(offset)
        lens = (batch, self.offset_group, *window.size, rank, *window.output)
        moved = np.moveaxis(offset.reshape(lens), 2 + rank, 0)
        pairs = zip(moved, _grid(window), strict=True)
        moved = [m + whole.astype(offset.dtype) for m, whole in pairs]
        return [m.reshape(batch, self.offset_group, 1, -1) for m in moved]

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each tap of each element, and the interpolation."""
        x, w = inputs[:2]
        taps = prod(w.lens[2:])
        corners = 2 * 2 ** (x.ndim - 2)
        sampled = x.lens[0] * x.lens[1] * taps * prod(output.lens[2:])
        return 2 * output.elements * w.lens[1] * taps + corners * sampled

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One and two axes, padding, strides, dilation, both kinds of groups, factors, half types."""
        x, w = noise(2, 4, 5, 6), noise(4, 4, 3, 2, seed=1)
        yield cls(), [x, w, noise(2, 12, 3, 5, seed=2)]
        wide = noise(2, 12, 3, 3, seed=2), noise(2, 6, 3, 3, seed=3)
        yield cls((1, 0, 1, 1), (2, 2), (1, 2)), [x, w, *wide]
        offset, mask = noise(2, 16, 4, 5, seed=2) * 2, noise(2, 8, 4, 5, seed=3)
        small = [x, noise(6, 2, 2, 2, seed=1), offset, mask]
        yield cls(group=2, offset_group=2), [v.astype(np.float16) for v in small]
        yield cls((0,), (1,), (1,)), [noise(1, 2, 6), noise(3, 2, 3), noise(1, 3, 4)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The product's gradients, then those of each sample by its image, its place and its factor."""
        values = [wide(o) for o in operands]
        window = self._window(values[0].shape, values[1].shape)
        made = DeformGradient(window, self.group, self.offset_group, wide(given), values)
        pairs = zip(made.all(_grid(window)), operands, strict=True)
        return [g.astype(o.dtype) for g, o in pairs]


def _grid(window: Window) -> list[Array]:
    """For each axis the position of each tap of each output, ``[size…, output…]`` with lengths of 1."""
    rank = len(window.size)
    found: list[Array] = []
    for axis in range(rank):
        taps = np.arange(window.size[axis]) * window.dilation[axis] - window.begin[axis]
        starts = np.arange(window.output[axis]) * window.stride[axis]
        lens = [1] * (2 * rank)
        lens[axis], lens[rank + axis] = len(taps), len(starts)
        found.append(np.add.outer(taps, starts).reshape(lens))
    return found


def _interpolated(images: Array, places: list[Array], lens: Ints) -> Array:
    """Values of images at fractional positions, from the elements around them; zero beyond the edge."""
    low = [np.floor(p) for p in places]
    total = np.zeros((*images.shape[:3], places[0].shape[-1]), images.dtype)
    for corner in product((0, 1), repeat=len(lens)):
        index = np.zeros(places[0].shape, np.int64)
        weight = np.ones(places[0].shape, images.dtype)
        for n, place, start, step in zip(lens, places, low, corner, strict=True):
            at = start + step
            inside = (at >= 0) & (at < n)
            weight = np.where(inside, weight * (1 - np.abs(place - at)), 0)
            index = index * n + np.where(inside, at, 0).astype(np.int64)
        total += np.take_along_axis(images, index, -1) * weight
    return total
