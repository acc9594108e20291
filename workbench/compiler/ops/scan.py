"""Prefix scans: running sums and products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import expect_tensors
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, rounded, sum_type
from workbench.compiler.ops.elementwise import repacked
from workbench.compiler.ops.reduce import PRODUCT, SUM

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@dataclass(frozen=True)
class _PrefixScan(Operation):
    """A binary function applied along ``axis`` to each element and all before it."""

    family = Family.REDUCE
    dynamic = True
    axes_of_input = ("axis",)
    function: ClassVar[np.ufunc]
    axis: int = 0
    exclusive: bool = False
    reverse: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens, packed; standard if it is broadcast."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        normalize_axis(self, self.axis, x.ndim)
        return x.as_standard() if x.broadcasted else repacked(x)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``numpy.ufunc.accumulate``, from the far end if ``reverse``."""
        x: Array = np.flip(inputs[0], self.axis) if self.reverse else inputs[0]
        found: Array = self.function.accumulate(x, self.axis, dtype=sum_type(x.dtype))
        if self.exclusive:
            whole, found = found, np.full_like(found, self.function.identity)
            np.moveaxis(found, self.axis, 0)[1:] = np.moveaxis(whole, self.axis, 0)[:-1]
        return rounded(np.flip(found, self.axis) if self.reverse else found, x.dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One for each element."""
        return output.elements if output.dims is None else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """All combinations of exclusive and reverse."""
        yield cls(axis=0), [grid(4, 3)]
        yield cls(axis=1, exclusive=True), [grid(2, 5, type=np.int32)]
        yield cls(axis=-1, reverse=True), [grid(2, 5, type=np.float16)]
        yield cls(axis=0, exclusive=True, reverse=True), [grid(3, 4).T]


@operation
class PrefixScanSum(_PrefixScan):
    """Running sums along ``axis``; ``exclusive`` leaves out the element itself."""

    name = "prefix_scan_sum"
    scan_monoid = SUM
    function = np.add

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """Running sums of g from the other end."""
        return [
            given.prefix_scan_sum(
                axis=self.axis, exclusive=self.exclusive, reverse=not self.reverse
            )
        ]


@operation
class PrefixScanProd(_PrefixScan):
    """Running products along ``axis``; ``exclusive`` leaves out the element itself."""

    name = "prefix_scan_prod"
    scan_monoid = PRODUCT
    function = np.multiply

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """Running sums of g·y from the other end, divided by x, none of whose elements may be 0."""
        sums = (given * result).prefix_scan_sum(
            axis=self.axis, exclusive=self.exclusive, reverse=not self.reverse
        )
        return [sums / operands[0]]
