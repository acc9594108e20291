"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import FP8, Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    operation,
)
from workbench.compiler.ir.ranges import (
    aligned,
    any_dynamic,
    expect,
    expect_rank,
    expect_same_rank,
    expect_tensors,
    intersection,
    ranged,
)
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Contraction
from workbench.compiler.ops.accumulate import quiet, rounded, working_type

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Dot(Operation):
    """The matrix product over the last two axes, for each index of the others."""

    name = "dot"
    contraction = Contraction("dot")
    family = Family.CONTRACTION
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The outer lens, the rows of the first input and the columns of the second; standard."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs)
        return product_shape(self, inputs[0], inputs[1], inputs[0].type)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``numpy.matmul`` in float32 at least, rounded once."""
        a, b = inputs
        return rounded(matrix_product(a, b), a.dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each term of each element."""
        return product_flops(inputs[0], output)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Matrices, batches, transposed and broadcast operands, a row, all kinds of types."""
        yield cls(), [noise(3, 4), noise(4, 5, seed=1)]
        yield cls(), [noise(2, 3, 4, 5), noise(2, 3, 6, 5, seed=1).transpose(0, 1, 3, 2)]
        yield cls(), [noise(2, 3, 4), np.broadcast_to(noise(4, 5), (2, 4, 5))]
        yield cls(), [noise(1, 40, type=np.float16), noise(40, 3, seed=1, type=np.float16)]
        yield cls(), [digits(3, 4), digits(4, 2, seed=1)]
        yield cls(), [digits(3, 4, type=np.int64) << 40, digits(4, 2, type=np.int64)]
        yield cls(), [noise(4, 6)[:, ::2], noise(6, 4).T[1:, ::2].T[:3]]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·Bᵀ and Aᵀ·g."""
        a, b = operands
        return [given.dot(b.mT), a.mT.dot(given)]


@operation
class QuantDot(Operation):
    """A matrix product of 8-bit integers in int32, or of scaled operands in float."""

    name = "quant_dot"
    not_differentiable = (
        "it is exact on rounded numbers; differentiate the program before it is quantised"
    )
    contraction = Contraction("dot", general="dot")
    family = Family.CONTRACTION
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """As ``dot``; float if operands are scaled or fp8, else int32."""
        expect_count(self, inputs, 2, 4)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs[:2])
        expect_same_type(self, inputs[2:])
        expect_rank(self, inputs, 2)
        a, b = inputs[:2]
        kinds = (DType.INT8, DType.UINT8, DType.FLOAT, *FP8)
        expect(
            self,
            a.type in kinds,
            f"operands of {a.type.type_name}; expected int8, uint8, float or fp8",
        )
        for i, scale in enumerate(inputs[2:]):
            expect_scale(self, scale, inputs[i])
        scaled = len(inputs) == 4 or a.type in FP8
        return product_shape(self, a, b, DType.FLOAT if scaled else DType.INT32)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """An exact product of integers, or the product of the scaled operands."""
        a, b = inputs[:2]
        if len(inputs) == 4:
            kind = np.result_type(inputs[2].dtype, np.float32)
            a, b = a.astype(kind) * inputs[2].astype(kind), b.astype(kind) * inputs[3].astype(kind)
            return matrix_product(a, b)
        made = matrix_product(a, b)
        if a.dtype.kind in "iu":
            return rounded(made, np.dtype(np.int32))
        return made.astype(np.int32) if a.dtype == np.float32 else made

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each term of each element."""
        return product_flops(inputs[0], output)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """int8, uint8, scaled int8, fp8."""
        yield cls(), [digits(3, 4), digits(4, 2, seed=1)]
        yield cls(), [digits(2, 3, 4, low=0, type=np.uint8), digits(2, 4, 2, low=0, type=np.uint8)]
        yield cls(), [digits(3, 4), digits(4, 2), noise(3, 4), noise(4, 2)]
        fp8 = DType.FP8E4M3FN.numpy
        yield cls(), [noise(3, 4).astype(fp8), noise(4, 2).astype(fp8)]


def expect_scale(op: Operation, scale: Shape, of: Shape) -> None:
    """Raise a ShapeError unless a scale has its operand's lens and a type no wider than float."""
    fits = scale.type.is_float and scale.type not in (DType.DOUBLE, DType.FP4X2)
    fits = fits and (scale.lens, scale.dims) == (of.lens, of.dims)
    expect(op, fits, f"scale {scale} of {of}; expected the same lens, in float or a narrower type")


def product_shape(op: Operation, a: Shape, b: Shape, type: DType) -> Shape:
    """The shape of a matrix product; outer dimensions must be equal, as nothing is broadcast.

    Raises:
        ShapeError: Ranks, outer dimensions or inner dimensions differ.
    """
    expect_same_rank(op, [a, b])
    expect_rank(op, [a, b], 2)
    if not any_dynamic([a, b]):
        if a.lens[:-2] != b.lens[:-2] or a.lens[-1] != b.lens[-2]:
            raise ShapeError(f"{op.name}: {a} times {b}: {_mismatch(a.lens, b.lens)}")
        return Shape(type, (*a.lens[:-1], b.lens[-1]))
    x, y = aligned([a, b])
    outer = [intersection(p, q) for p, q in zip(x[:-2], y[:-2], strict=True)]
    found = [d for d in outer if d is not None]
    if len(found) < len(outer) or intersection(x[-1], y[-2]) is None:
        raise ShapeError(
            f"{op.name}: {a} times {b}: outer or inner dimensions differ; expected them equal"
        )
    return ranged(type, (*found, x[-2], y[-1]))


def _mismatch(a: Sequence[int], b: Sequence[int]) -> str:
    if a[-1] != b[-2]:
        return f"inner dimensions are {a[-1]} and {b[-2]}; expected them equal"
    return f"outer dimensions are {list(a[:-2])} and {list(b[:-2])}; expected them equal"


def product_flops(a: Shape, output: Shape) -> int:
    """Two operations for each term of each element; 0 if the lens are unknown."""
    return 2 * output.elements * a.lens[-1] if output.dims is None and a.dims is None else 0


def matrix_product(a: Array, b: Array) -> Array:
    """``a @ b`` in the accumulation type."""
    kind = working_type(a, b, a.shape[-1])
    a, b = a.astype(kind, copy=False), b.astype(kind, copy=False)
    if kind.kind != "f":
        return np.matmul(a, b)
    if b.ndim > 2 and not any(_steps(b)):
        # One matrix for the whole batch: a single product of all rows is several times faster.
        rows = a.reshape(-1, a.shape[-1])
        return _product(rows, b[(0,) * (b.ndim - 2)]).reshape(*a.shape[:-1], b.shape[-1])
    return _product(a, b)


def _product(a: Array, b: Array) -> Array:
    if a.shape[:-2] != b.shape[:-2] or a.ndim < 2:
        return np.matmul(_fast(a), _fast(b))
    out = memory.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    return np.matmul(_fast(a), _fast(b), out=out)


def _steps(x: Array) -> list[int]:
    """Strides of the outer axes with more than one element; all 0 for one repeated matrix."""
    if not x.size:
        return [1]
    return [s for s, n in zip(x.strides[:-2], x.shape[:-2], strict=True) if n > 1]


def _fast(x: Array) -> Array:
    """``x`` with matrices that BLAS accepts without a copy: one axis contiguous, the other outside it."""
    (m, n), (row, column), size = x.shape[-2:], x.strides[-2:], x.itemsize
    by_rows = column == size and row >= n * size
    by_columns = row == size and column >= m * size
    return x if by_rows or by_columns else np.ascontiguousarray(x)
