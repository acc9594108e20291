"""Resampling: resize, and pooling over regions of interest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import DifferentiationError, EvaluationError
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
from workbench.compiler.ir.ranges import (
    ANY,
    UNBOUNDED,
    agree,
    dims_of,
    expect,
    expect_floats,
    expect_integers,
    expect_rank,
    expect_tensors,
    fixed,
    ranged,
)
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened
from workbench.compiler.ops.index import from_front
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.roi_adaptive_gradient import AdaptiveRoiGradient
from workbench.compiler.ops.roi_gradient import RoiGradient
from workbench.compiler.ops.sampling_gradients import wide

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_COORDINATES: dict[str, Callable[[Array, float, int, int], Array]] = {
    "half_pixel": lambda i, s, n, m: (i + 0.5) / s - 0.5,  # noqa: ARG005
    "pytorch_half_pixel": lambda i, s, n, m: (i + 0.5) / s - 0.5 if m > 1 else i * 0,  # noqa: ARG005
    "align_corners": lambda i, s, n, m: i * ((n - 1) / (m - 1)) if m > 1 else i * 0,  # noqa: ARG005
    "asymmetric": lambda i, s, n, m: i / s,  # noqa: ARG005
    "tf_half_pixel_for_nn": lambda i, s, n, m: (i + 0.5) / s,  # noqa: ARG005
}
"""The input position of an output index, from index, scale, input length and output length."""

_NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
}


@operation
class Resize(Operation):
    """The input resampled to other lens: sizes, or lens times scales, as attributes or as a second input."""

    name = "resize"
    on_host = "lengths that an input holds"
    family = Family.MOVEMENT
    dynamic = True
    scales: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    nearest_mode: str = "floor"
    mode: str = "nearest"
    coordinate_transformation_mode: str = ""
    cubic_coeff_a: float = -0.75

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The sizes, or the lens times the scales, rounded down."""
        expect_count(self, inputs, 1, 2)
        expect_tensors(self, inputs)
        known = self.mode in ("nearest", "linear", "cubic")
        expect(self, known, f"mode {self.mode!r}; expected nearest, linear or cubic")
        x = inputs[0]
        if len(inputs) == 2:
            return self._dynamic_shape(x, inputs[1])
        expect_static(self, inputs)
        expect(self, bool(self.sizes) != bool(self.scales), "expected one of sizes and scales")
        given = len(self.sizes or self.scales)
        expect(self, given == x.ndim, f"{given} sizes or scales; expected one per axis of {x}")
        lens = self.sizes or self._lens(x.lens)
        fits = all(n or not m for n, m in zip(x.lens, lens, strict=True))
        expect(self, fits, f"{x} has no elements to resample to {list(lens)}")
        return Shape(x.type, lens) if self.sizes else x.with_lens(lens)

    def _dynamic_shape(self, x: Shape, target: Shape) -> Shape:
        expect_static(self, [target])
        expect(self, target.lens == (x.ndim,), f"input 1 is {target}; expected {x.ndim} values")
        dims = [ANY] * x.ndim
        for k, (d, scale) in enumerate(zip(dims_of(x), self.scales, strict=False)):
            dims[k] = Dim(int(d.min * scale), min(int(d.max * scale), UNBOUNDED))
        return ranged(x.type, dims)

    def _lens(self, lens: Sequence[int]) -> tuple[int, ...]:
        return scaled(lens, self.scales)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """One axis after the other."""
        x: Array = inputs[0]
        lens, scales = self._target(x, inputs[1] if len(inputs) == 2 else None)
        if any(m and not n for n, m in zip(x.shape, lens, strict=True)):
            raise EvaluationError(
                f"resize: {list(x.shape)} has no elements to resample to {list(lens)}"
            )
        wide = x if self.mode == "nearest" else widened(x)
        for axis, (m, scale) in enumerate(zip(lens, scales, strict=True)):
            if m != x.shape[axis] or scale != 1:
                wide = self._along(wide, axis, m, scale)
        return rounded(wide, x.dtype)

    def _target(self, x: Array, given: Array | None) -> tuple[tuple[int, ...], list[float]]:
        if given is not None and given.dtype.kind not in "iu":
            scales = [float(s) for s in given]
            return scaled(x.shape, scales), scales
        if given is None and self.scales:
            return self._lens(x.shape), list(self.scales)
        lens = self.sizes if given is None else tuple(int(n) for n in given)
        return lens, [m / n if n else 1.0 for m, n in zip(lens, x.shape, strict=True)]

    def positions(self, n: int, m: int, scale: float) -> Array:
        """The input positions, clamped to an axis of n elements, of the m elements of the result.

        Raises:
            EvaluationError: The coordinate transformation mode is unknown.
        """
        return np.clip(self._coordinates(n, m, scale), 0, n - 1)

    def _coordinates(self, n: int, m: int, scale: float) -> Array:
        try:
            where = _COORDINATES[self.coordinate_transformation_mode]
        except KeyError:
            known = ", ".join(_COORDINATES)
            raise EvaluationError(
                f"resize: coordinate_transformation_mode {self.coordinate_transformation_mode!r}; "
                f"expected one of {known}"
            ) from None
        return where(np.arange(m, dtype=np.float64), scale, n, m)

    def _along(self, x: Array, axis: int, m: int, scale: float) -> Array:
        n = x.shape[axis]
        if self.mode == "cubic":
            return self._cubic(x, axis, self._coordinates(n, m, scale))
        at = self.positions(n, m, scale)
        if self.mode == "linear":
            low = np.floor(at).astype(np.int64)
            return _weighted(x, axis, [low, np.minimum(low + 1, n - 1)], [1 - (at - low), at - low])
        if self.nearest_mode not in _NEAREST:
            known = ", ".join(_NEAREST)
            raise EvaluationError(f"resize: nearest_mode {self.nearest_mode!r}; expected {known}")
        return np.take(x, np.clip(_NEAREST[self.nearest_mode](at), 0, n - 1).astype(np.int64), axis)

    def _cubic(self, x: Array, axis: int, at: Array) -> Array:
        a, low = self.cubic_coeff_a, np.floor(at)
        t = at - low
        near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
        far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
        taps = [low.astype(np.int64) + k for k in (-1, 0, 1, 2)]
        taps = [np.clip(k, 0, x.shape[axis] - 1) for k in taps]
        return _weighted(x, axis, taps, [far[0], near[0], near[1], far[1]])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Every mode, up and down, sizes, scales and both as an input."""
        x = noise(1, 2, 4, 5)
        half = "half_pixel"
        yield cls(scales=(1, 1, 2, 2), coordinate_transformation_mode="asymmetric"), [x]
        yield (
            cls(sizes=(1, 2, 3, 7), mode="linear", coordinate_transformation_mode=half),
            [x.astype(np.float16)],
        )
        yield (
            cls(sizes=(1, 2, 8, 3), mode="cubic", coordinate_transformation_mode="align_corners"),
            [x.transpose(0, 1, 3, 2)],
        )
        yield (
            cls(
                scales=(1, 1, 0.6, 1.5),
                nearest_mode="round_prefer_floor",
                coordinate_transformation_mode=half,
            ),
            [digits(1, 2, 5, 4, type=np.int32)],
        )
        yield cls(mode="linear", coordinate_transformation_mode=half), [x, np.array([1, 2, 6, 5])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g times the transposed weights of each axis."""
        x, *others = operands
        lens, scales = self._target(np.empty(x.shape), None)
        for axis, (m, scale) in enumerate(zip(lens, scales, strict=True)):
            if m != x.shape[axis] or scale != 1:
                weights = self._along(np.eye(x.shape[axis]), 0, m, scale)
                given = given.along(axis, weights.T)
        return [given, *[None] * len(others)]


def scaled(lens: Sequence[int], scales: Sequence[float]) -> tuple[int, ...]:
    """Lens times scales, multiplied in float32 and rounded down."""
    return tuple(int(np.float32(n) * np.float32(s)) for n, s in zip(lens, scales, strict=True))


def _weighted(x: Array, axis: int, taps: Sequence[Array], weights: Sequence[Array]) -> Array:
    """A weighted sum of slices along one axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    parts = [
        np.take(x, tap, axis) * weight.reshape(shape).astype(kind)
        for tap, weight in zip(taps, weights, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


MOST_SAMPLES = 1 << 16
"""The most samples of a cell along an axis, so that a region with NaN does not take for ever."""


@operation
class RoiAlign(Operation):
    """The mean or maximum of bilinear samples in each cell of a grid laid over each region.

    Inputs are ``[N, C, H, W]``, regions ``[R, 4]`` as x1, y1, x2, y2, and the batch of each region.
    """

    name = "roialign"
    family = Family.REDUCE
    dynamic = True
    coordinate_transformation_mode: str = "half_pixel"
    mode: PoolingMode = PoolingMode.AVERAGE
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[R, C, output_height, output_width]``, standard."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        x, regions, batch = inputs
        expect_rank(self, [x], 4, 4)
        expect_same_type(self, [x, regions])
        expect_floats(self, inputs, 0)
        expect_integers(self, inputs, 2)
        dims, count = dims_of(x), dims_of(batch)
        some = all(d.max for d in dims[2:])
        expect(self, some, f"input 0 is {x}; expected elements to sample")
        fits = len(count) == 1 and agree(dims_of(regions), (*count, *fixed(4)))
        expect(self, fits, f"regions {regions} and batches {batch}; expected [R, 4] and [R]")
        size = fixed(self.output_height, self.output_width)
        return ranged(x.type, (dims_of(regions)[0], dims[1], *size))

    @property
    def shifted(self) -> bool:
        """Whether elements are at the middle of their pixels, and regions may be smaller than one."""
        return self.coordinate_transformation_mode == "half_pixel"

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """One region after another; each axis gives indices and weights for all its samples at once."""
        x, regions = widened(inputs[0]), widened(inputs[1])
        size = (self.output_height, self.output_width)
        out = np.empty((len(regions), x.shape[1], *size), x.dtype)
        batches = from_front(self, inputs[2], len(x))
        for i, (region, batch) in enumerate(zip(regions, batches, strict=True)):
            out[i] = self._region(x[batch], region.astype(np.float64) * self.spatial_scale)
        return rounded(out, inputs[0].dtype)

    def _region(self, x: Array, region: Array) -> Array:
        shift = 0.5 if self.shifted else 0.0
        least = None if shift else 1.0
        rows = self._axis(
            region[1] - shift, region[3] - shift, least, self.output_height, x.shape[1]
        )
        columns = self._axis(
            region[0] - shift, region[2] - shift, least, self.output_width, x.shape[2]
        )
        corners = [
            x[:, a[:, None], b] * (p[:, None] * q).astype(x.dtype)
            for a, p in rows
            for b, q in columns
        ]
        high, wide = self.output_height, self.output_width
        cells = [
            c.reshape(len(c), high, c.shape[1] // high, wide, c.shape[2] // wide) for c in corners
        ]
        if self.mode == PoolingMode.AVERAGE:
            return np.mean(sum(cells[1:], cells[0]), axis=(2, 4))
        return np.max(np.stack([c.max(axis=(2, 4)) for c in cells]), axis=0)

    def _axis(
        self, start: float, end: float, least: float | None, cells: int, n: int
    ) -> list[tuple[Array, Array]]:
        """The two neighbours of each sample along one axis, and their weights; an axis may run backwards."""
        extent = end - start if least is None else max(end - start, least)
        if not self.sampling_ratio and not abs(extent) <= MOST_SAMPLES * cells:
            raise EvaluationError(
                f"roialign: a region from {start:g} to {end:g}; expected {MOST_SAMPLES} samples in a "
                "cell at most: give sampling_ratio, or smaller regions"
            )
        grid = self.sampling_ratio or max(int(np.ceil(extent / cells)), 1)
        at = start + (np.arange(cells * grid) + 0.5) * (extent / (cells * grid))
        inside = (at >= -1) & (at <= n)
        at = np.where(np.isnan(at), 0, np.clip(at, 0, n - 1))
        low = np.floor(at).astype(np.int64)
        part = at - low
        return [(low, (1 - part) * inside), (np.minimum(low + 1, n - 1), part * inside)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Both modes and both placements of samples."""
        x, batch = noise(2, 3, 6, 7), np.array([0, 1])
        regions = np.array([[0, 0, 4, 3], [1.5, 2, 6.5, 5]], np.float32)
        yield cls(output_height=2, output_width=3, sampling_ratio=2), [x, regions, batch]
        old = "output_half_pixel"
        yield (
            cls(old, PoolingMode.MAX, 2, 2, 0, 0.5),
            [x.astype(np.float16), regions.astype(np.float16), batch],
        )
        beyond = np.array(
            [[-3, -0.4, 2, 9], [1.3, 2.2, 1.8, 2.6], [5.5, 4.5, 6.4, 5.2]], np.float32
        )
        for mode in (PoolingMode.AVERAGE, PoolingMode.MAX):
            yield cls(old, mode, 2, 3, 2), [x, beyond, np.array([1, -2, 0], np.int32)]
        for way in (old, "half_pixel"):
            yield cls(way, output_height=2, output_width=3), [x, beyond, np.array([1, -2, 0])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g spread over the elements around each sample, or the largest of them; regions move the samples."""
        x, regions, batch = operands
        if self.sampling_ratio:
            made = RoiGradient(self, wide(x), wide(regions), batch).all(wide(given))
        elif self.mode == PoolingMode.AVERAGE:
            made = AdaptiveRoiGradient(self, wide(x), wide(regions), batch).all(wide(given))
        else:
            raise DifferentiationError(
                "roialign: with sampling_ratio=0 and mode=max the number of samples to compare depends on "
                "the regions; give a sampling_ratio"
            )
        return [made[0].astype(x.dtype), made[1].astype(regions.dtype), None]
