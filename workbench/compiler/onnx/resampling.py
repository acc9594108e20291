"""Positions of a finer or coarser grid on an axis, and the elements that each value is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.dtypes import Array

COORDINATES = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "align_corners", "asymmetric", "tf_crop_and_resize",
}  # fmt: skip
NEAREST = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}


@dataclass(frozen=True)
class Axis:
    """An axis that is resized from one length to another."""

    before: int
    after: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)
    """The region that is kept, from 0 to 1."""

    @property
    def length(self) -> float:
        """The new length before it was rounded."""
        return self.before * self.scale

    def places(self, coordinates: str) -> Array:
        """The position of each element of the new grid on the old one."""
        at = np.arange(self.after, dtype=np.float64)
        wide, gaps = self.length, self.length - 1
        match coordinates:
            case "asymmetric":
                return at / self.scale
            case "tf_half_pixel_for_nn":
                return (at + 0.5) / self.scale
            case "align_corners":
                return at * (self.before - 1) / gaps if gaps else at * 0
            case "tf_crop_and_resize":
                return self._cropped(at, gaps)
            case "half_pixel_symmetric":
                shift = self.before / 2 * (1 - self.after / wide) if wide else 0.0
                return shift + (at + 0.5) / self.scale - 0.5
            case "pytorch_half_pixel" if self.after <= 1:
                return at * 0
            case _:
                return (at + 0.5) / self.scale - 0.5

    def _cropped(self, at: Array, gaps: float) -> Array:
        (start, end), last = self.roi, self.before - 1
        if not gaps:
            return at * 0 + (start + end) * last / 2
        return start * last + at * (end - start) * last / gaps

    def outside(self, coordinates: str) -> Array:
        """The elements of the new grid that lie beyond the old one."""
        at = self.places(coordinates)
        return (at < 0) | (at > self.before - 1)


@dataclass(frozen=True)
class Interpolation:
    """The interpolation between elements."""

    mode: str = "linear"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    def nearest_of(self, axis: Axis) -> Array:
        """The element nearest to each position."""
        at = axis.places(self.coordinates)
        match self.nearest:
            case "floor":
                found = np.floor(at)
            case "ceil":
                found = np.ceil(at)
            case "round_prefer_ceil":
                found = np.floor(at + 0.5)
            case _:
                found = np.ceil(at - 0.5)
        return np.clip(found, 0, axis.before - 1).astype(np.int64)

    def size(self, axis: Axis) -> tuple[int, int]:
        """The number of positions, and the number of elements around each."""
        return axis.after, 1 if self.mode == "nearest" else 2 - 2 * self._first(axis)

    def _shrink(self, axis: Axis) -> float:
        return min(axis.scale, 1.0) if self.antialias else 1.0

    def _first(self, axis: Axis) -> int:
        reach = 2 if self.mode == "cubic" else 1
        return int(np.floor(-reach / self._shrink(axis))) + 1

    def taps(self, axis: Axis) -> tuple[Array, Array]:
        """The elements around each position, a row per position, and their weights."""
        first, shrink = self._first(axis), self._shrink(axis)
        offsets = np.arange(first, 2 - first)
        at = axis.places(self.coordinates)
        base = np.ceil(at) - 1
        taps = base[:, None].astype(np.int64) + offsets
        weights = self._kernel((offsets - (at - base)[:, None]) * shrink)
        if self.exclude_outside:
            weights = np.where((taps < 0) | (taps >= axis.before), 0, weights)
        if self.exclude_outside or self.antialias:
            weights = weights / weights.sum(axis=1, keepdims=True)
        return np.clip(taps, 0, axis.before - 1), weights

    def _kernel(self, distance: Array) -> Array:
        """The weight of an element at a distance: a tent, or Keys' cubic."""
        d = np.abs(distance)
        if self.mode == "linear":
            return np.maximum(1 - d, 0)
        a = self.cubic
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))
