"""Positions of the maxima of pooling windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import dims_of, expect_tensors, ranged
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, widened
from workbench.compiler.ops.pool import Pooling, PoolingMode
from workbench.compiler.ops.windows import Window, both_sides

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


@operation
class MaxPoolIndices(Operation):
    """The index in the flattened input of the first maximum of each window of ``pooling``.

    With ``column_major`` the first spatial axis counts as the fastest one of its image. A window
    that covers only padding gives 0.
    """

    name = "max_pool_indices"
    flat = True
    family = Family.REDUCE
    dynamic = True
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    lengths: Ints = (1, 1)
    dilations: Ints = (1, 1)
    ceil_mode: bool = False
    column_major: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """int64, standard, with the lens of the pooling."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        values = Pooling(
            PoolingMode.MAX,
            padding=self.padding,
            stride=self.stride,
            lengths=self.lengths,
            dilations=self.dilations,
            ceil_mode=self.ceil_mode,
        )
        try:
            return ranged(DType.INT64, dims_of(values.compute_shape(inputs)))
        except ShapeError as error:
            raise ShapeError(f"{self.name}: {error}") from None

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """One tap of all windows after another; a later one wins only if it is greater."""
        x = widened(inputs[0])
        lens: Ints = x.shape[2:]
        begin, end = both_sides(self, self.padding, len(lens))
        window = Window(lens, self.lengths, self.stride, self.dilations, begin, end, self.ceil_mode)
        count: Array = np.arange(prod(lens))
        places = count.reshape(lens[::-1]).T if self.column_major else count.reshape(lens)
        shape = (*x.shape[:2], *window.output)
        best, found = np.zeros(shape, x.dtype), np.full(shape, -1, np.int64)
        for tap in product(*map(range, self.lengths)):
            reach = [window.reach(axis, t) for axis, t in enumerate(tap)]
            into, source = ((..., *part) for part in zip(*reach, strict=True))
            old, new = best[into], x[source]
            wins = (found[into] < 0) | (new > old) | (np.isnan(new) & ~np.isnan(old))
            best[into] = np.where(wins, new, old)
            found[into] = np.where(wins, places[source], found[into])
        images = np.arange(prod(shape[:2])).reshape(*shape[:2], *[1] * len(lens))
        return np.maximum(found, 0) + images * prod(lens)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A comparison for each tap of each element."""
        return output.elements * prod(self.lengths)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Ties, padding, strides, dilation, rounding up, both orders, one and three axes."""
        x = noise(2, 3, 7, 6)
        yield cls(lengths=(3, 3), stride=(2, 2), padding=(1, 1)), [x]
        yield cls(lengths=(2, 3), column_major=True), [x.astype(np.float16)]
        yield cls(lengths=(2, 2), dilations=(2, 3)), [x.transpose(0, 1, 3, 2)]
        yield cls((0, 1, 1, 0), (2, 2), (2, 2), ceil_mode=True), [digits(1, 2, 5, 5, high=-5)]
        yield cls((1, 1), (1,), (2,), (1,)), [digits(1, 2, 5, low=0, high=2, type=np.uint8)]
        yield cls((0,) * 6, (1,) * 3, (2,) * 3, (1,) * 3, column_major=True), [noise(1, 2, 3, 4, 2)]
