"""Properties of square matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import (
    dims_of,
    expect,
    expect_floats,
    expect_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Det(Operation):
    """The determinant of each matrix of the last two axes."""

    name = "det"
    family = Family.REDUCE
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens without the last two, which must be equal."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_floats(self, inputs, 0)
        expect_rank(self, inputs, 2)
        x, dims = inputs[0], dims_of(inputs[0])
        expect(self, dims[-1] == dims[-2], f"input {x}; expected square matrices")
        if x.dims is not None:
            return ranged(x.type, dims[:-2])
        return Shape(x.type, x.lens[:-2])

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``numpy.linalg.det``, in float32 at least."""
        found = np.linalg.det(widened(inputs[0]))
        return rounded(np.asarray(found).reshape(inputs[0].shape[:-2]), inputs[0].dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Two thirds of n³ for each matrix."""
        n = dims_of(inputs[0])[-1].max
        return output.elements * 2 * n**3 // 3 if output.dims is None else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One matrix, and stacks of them."""
        yield cls(), [noise(3, 3)]
        yield cls(), [noise(2, 1, 4, 4)]
        yield cls(), [noise(2, 2, 2, type=np.float16)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g times the cofactors: the determinants without a row and a column, with alternating signs."""
        (x,) = operands
        n = x.shape[-1]
        others = np.array([[k for k in range(n) if k != i] for i in range(n)], np.int64)
        others = given.builder.constant(others.reshape(n, n - 1))
        minors = x.gather(others, axis=-1).gather(
            others, axis=-3
        )  # rows, columns of each minor apart
        rank = x.ndim - 2
        order = (*range(rank), rank, rank + 2, rank + 1, rank + 3)
        found = minors.transpose(order).det()
        signs = 1 - 2 * (np.indices((n, n)).sum(0) % 2)
        slope = found * given.builder.constant(signs.astype(x.dtype.numpy))
        return [given.reshape((*given.shape, 1, 1)) * slope]
