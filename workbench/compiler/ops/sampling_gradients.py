"""Gradients of samples between the elements of images: linear in each axis, from the elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add, mul
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tap:
    """One of the two elements of an axis that a sample is between."""

    index: Any
    """Its place on the axis, int64, within the image."""
    factor: Any
    """Its share of the sample: 1 at the element and 0 at the other one, and 0 beyond the edge."""
    slope: Any
    """The derivative of the share by the sample's place."""


def taps_at(place: Any, length: int) -> tuple[Tap, Tap]:
    """The elements before and after places on an axis, beyond whose ends there are zeros."""
    low = place.floor()
    part = place - low
    found: list[Tap] = []
    for step, factor, sign in ((0.0, 1.0 - part, -1.0), (1.0, part, 1.0)):
        at = low + step
        inside = (at >= 0.0) & (at < float(length))
        slope = inside.astype(place.dtype) * sign
        found.append(Tap(at.where_true(inside).astype("int64"), factor.where_true(inside), slope))
    return found[0], found[1]


@dataclass(frozen=True)
class Corner:
    """One of the elements around each sample, a tap on each axis."""

    taps: tuple[Tap, ...]

    @property
    def weight(self) -> Any:
        """Its share of the sample."""
        return reduce(mul, (t.factor for t in self.taps))

    def slope(self, axis: int) -> Any:
        """The derivative of its share by the place on an axis."""
        parts = (t.slope if k == axis else t.factor for k, t in enumerate(self.taps))
        return reduce(mul, parts)


def corners_of(axes: Sequence[tuple[Tap, Tap]]) -> list[Corner]:
    """All elements around samples."""
    return [Corner(taps) for taps in product(*axes)]


@dataclass(frozen=True)
class Image:
    """Images with their channels last, from which samples are taken."""

    elements: Any
    """``[…, H, W, C]``."""
    outer: tuple[Any, ...]
    """For each axis before H the int64 index of each sample's image, ``[…, samples]``."""

    def _index(self, corner: Corner) -> Any:
        parts = [*self.outer, *(t.index for t in corner.taps)]
        lens = np.broadcast_shapes(*(p.shape for p in parts))
        ones = [p.broadcast_to(lens).apply("unsqueeze", axes=(len(lens),)) for p in parts]
        return ones[0].concat(*ones[1:], axis=-1)

    def at(self, corner: Corner) -> Any:
        """The elements, ``[…, samples, C]``."""
        return self.elements.gathernd(self._index(corner))

    def spread(self, corners: Sequence[Corner], given: Sequence[Any]) -> Any:
        """The gradient of the images from those of the elements at corners, ``[…, H, W, C]``."""
        made = given[0].builder.zeros(self.elements.shape, given[0].dtype)
        for corner, values in zip(corners, given, strict=True):
            made = made.scatternd_add(self._index(corner), values)
        return made


def each(value: Any) -> Any:
    """A number for each sample, for all channels."""
    return value.apply("unsqueeze", axes=(value.ndim,))


def total(values: Sequence[Any]) -> Any:
    """The sum of some values."""
    return reduce(add, values)


def wide(value: Any) -> Any:
    """A value with at least 32 bits."""
    return value if value.dtype.size > 2 else value.astype("float")
