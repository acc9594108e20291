"""Quantization: floats to scaled integers or fp8, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import ranged
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import (
    Pointwise,
    cast,
    divisible,
    draw,
    expect_same_dims,
    expect_tensors,
    in_blocks,
    working_type,
)

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class _Quantization(Pointwise):
    """An operation on a tensor, its scales and, unless they are 0, its zero points, all of one lens."""

    arity = 3
    cost = 2

    def check(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of x, packed; a ShapeError unless there are two or three inputs with equal lens."""
        expect_count(self, inputs, 2, 3)
        expect_tensors(self, inputs)
        dims, x = expect_same_dims(self, inputs), inputs[0]
        return x.with_lens(x.lens) if dims is None else ranged(x.type, dims)

    def compute(self, *inputs: Any) -> Array:
        """The definition, in blocks if the arrays are large."""
        if not inputs[0].ndim:  # NumPy's functions turn rank 0 into numbers, which hold nothing
            return self.compute(*[x.reshape(1) for x in inputs]).reshape(())
        with np.errstate(all="ignore"):
            if divisible(inputs):
                return in_blocks(self.value, inputs)
            return self.value(*inputs)


def _sum_type(dtype: np.dtype[Any], work: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which integers of ``dtype`` are added: double if float is not exact for them."""
    return np.dtype(np.float64) if dtype.kind in "iu" and dtype.itemsize > 2 else work


@operation
class Quantizelinear(_Quantization):
    """x / scale, rounded to nearest even for integers, plus the zero point, saturated to the type."""

    name = "quantizelinear"
    flat = True
    expression = "quantized({0} / {1}, {2})"
    out_type: DType | None = None

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens and layout of x; the zero point's type, else ``out_type``, else uint8."""
        like = self.check(inputs)
        if inputs[0].type is not inputs[1].type:
            message = f"input 1 is {inputs[1]}; expected the type of input 0, {inputs[0]}"
            raise ShapeError(f"quantizelinear: {message}")
        type = inputs[2].type if len(inputs) == 3 else self.out_type or DType.UINT8
        return like.with_type(type)

    def value(self, *inputs: Array) -> Array:
        """The quantized elements."""
        x, scale, *zero = inputs
        dtype = zero[0].dtype if zero else (self.out_type or DType.UINT8).numpy
        work = working_type(x.dtype, exact=False)
        result = np.divide(x.astype(work, copy=False), scale.astype(work, copy=False))
        if not DType.of(dtype).is_float:
            np.rint(result, out=result)
        if zero:
            result = result + zero[0].astype(_sum_type(zero[0].dtype, work))
        return cast(result, dtype)

    def widened(self) -> Operation:
        """A quantization to float64 instead of any float type."""
        floats = self.out_type is not None and self.out_type.is_float
        return Quantizelinear(DType.DOUBLE) if floats else self

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """With and without a zero point, ties, values out of bounds, half and strided operands."""
        x, scale = draw(DType.FLOAT, (3, 4), -9, 9), np.full((3, 4), 0.05, np.float32)
        yield cls(), [x, scale]
        yield cls(DType.INT8), [x, scale]
        yield cls(DType.FP8E4M3FN), [x, scale]
        for type in (DType.UINT8, DType.INT8, DType.INT32):
            yield cls(), [x, scale, draw(type, (3, 4), 0, 9)]
        ties = np.array([0.5, 1.5, 2.5, 300.0, -300.0], np.float32)
        yield cls(), [ties, np.ones(5, np.float32)]
        yield cls(DType.INT8), [x.astype(np.float16), scale.astype(np.float16)]
        yield cls(), [x.T, np.broadcast_to(scale[:1, :1], (4, 3)), np.zeros((4, 3), np.int8)]


@operation
class Dequantizelinear(_Quantization):
    """(x - zero point) · scale, in the scale's type."""

    name = "dequantizelinear"
    expression = "(T({0}) - T({2})) * {1}"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens and layout of x in the scale's type."""
        like = self.check(inputs)
        if len(inputs) == 3 and inputs[2].type is not inputs[0].type:
            message = f"input 2 is {inputs[2]}; expected the type of input 0, {inputs[0]}"
            raise ShapeError(f"dequantizelinear: {message}")
        return like.with_type(inputs[1].type)

    def value(self, *inputs: Array) -> Array:
        """The scaled elements."""
        x, scale, *zero = inputs
        work = _sum_type(x.dtype, working_type(scale.dtype, exact=False))
        result = x.astype(work)
        if zero:
            result = result - zero[0].astype(work)
        return cast(result * scale.astype(work, copy=False), scale.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """With and without a zero point, of integers and fp8, in half and with strided operands."""
        scale = np.full((3, 4), 0.05, np.float32)
        for type in (DType.UINT8, DType.INT8, DType.INT32, DType.FP8E4M3FN):
            x = draw(type, (3, 4), -9, 99)
            yield cls(), [x, scale]
            yield cls(), [x, scale, draw(type, (3, 4), 0, 9, seed=1)]
            yield cls(), [x.T, np.broadcast_to(scale[:1, :1].astype(np.float16), (4, 3))]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g·scale, g·(x - zero point) and -g·scale."""
        x, scale, *zero = (operand.astype(result.dtype) for operand in operands)
        slope = given * scale
        return [
            slope.astype(operands[0].dtype),
            given * (x - zero[0] if zero else x),
            *[-slope.astype(z.dtype) for z in operands[2:]],
        ]
