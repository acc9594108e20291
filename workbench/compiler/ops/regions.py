"""Pooling over regions of interest with integer borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import expect, expect_rank
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened
from workbench.compiler.ops.elementwise import cast
from workbench.compiler.ops.index import from_front
from workbench.compiler.ops.regions_gradient import of_images

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class MaxRoiPool(Operation):
    """The maximum in each cell of a grid laid over each region, with borders rounded to integers.

    Inputs are ``[N, C, H, W]`` and regions ``[R, 5]``: batch, x1, y1, x2, y2, the last two inclusive.
    """

    name = "max_roi_pool"
    family = Family.REDUCE
    pooled_shape: tuple[int, ...] = (1, 1)
    spatial_scale: float = 1.0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[R, C, …]`` with the pooled shape, standard."""
        expect_count(self, inputs, 2)
        expect_static(self, inputs)
        expect_same_type(self, inputs)
        x, regions = inputs
        expect_rank(self, [x], 4, 4)
        fits = regions.ndim == 2 and regions.lens[1] == 5
        expect(self, fits, f"regions {regions}; expected [R, 5]")
        shape = self.pooled_shape
        expect(self, len(shape) == 2 and min(shape) > 0, f"pooled_shape {shape}; expected two")
        return Shape(x.type, (regions.lens[0], x.lens[1], *shape))

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """One region after another, rows first, then columns; an empty cell is 0."""
        x, regions = widened(inputs[0]), widened(inputs[1])
        if not np.isfinite(regions).all():
            raise EvaluationError("max_roi_pool: a region with NaN or infinity; expected numbers")
        out = np.zeros((len(regions), x.shape[1], *self.pooled_shape), x.dtype)
        batches = from_front(self, cast(regions[:, 0], np.dtype(np.int64)), len(x))
        for i, region in enumerate(regions):
            scaled = region[1:].astype(np.float64) * self.spatial_scale
            left, top, right, bottom = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
            rows = _cells(top, bottom, self.pooled_shape[0], x.shape[2])
            columns = _cells(left, right, self.pooled_shape[1], x.shape[3])
            image = x[batches[i]]
            for r, row in enumerate(rows):
                line = image[:, row]
                for c, column in enumerate(columns):
                    cell = line[:, :, column]
                    if cell.shape[1] and cell.shape[2]:
                        out[i, :, r, c] = cell.max(axis=(1, 2))
        return rounded(out, inputs[0].dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Regions inside, beyond the edge, smaller than the grid; half types; no region."""
        regions = np.array([[0, 1, 1, 5, 4], [1, 0, 2, 9, 9], [0, 2, 2, 2, 2]], np.float32)
        yield cls((2, 3)), [noise(2, 3, 6, 7), regions]
        x = noise(2, 2, 5, 5, type=np.float16)
        yield cls((2, 2), 0.5), [x, regions.astype(np.float16)]
        yield cls((2, 2)), [noise(1, 2, 4, 4), np.zeros((0, 5), np.float32)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g at the largest element of each cell; 0 for regions, as their borders are rounded."""
        return [of_images(self, given, *operands), None]


def _cells(first: float, last: float, count: int, n: int) -> list[slice]:
    """The elements of each cell along one axis."""
    size = max(last - first + 1, 1) / count
    at = np.arange(count)
    starts = np.clip(np.floor(at * size) + first, 0, n).astype(np.int64)
    ends = np.clip(np.ceil((at + 1) * size) + first, 0, n).astype(np.int64)
    return [slice(a, max(a, b)) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
