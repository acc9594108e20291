"""Changes of element type: by value, by bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.dtypes import Array, DType
from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.operation import Operation, Sample, expect_count, operation
from workbench.compiler.ops.elementwise import (
    EDGES,
    FLOATS,
    NUMBERS,
    Pointwise,
    cast,
    divisible,
    draw,
    expect_tensors,
    in_blocks,
)
from workbench.compiler.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir import Module


class _Retyped(Pointwise):
    """An operation whose result has the input's lens and strides, and the type ``target_type``."""

    cost: ClassVar[int] = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens and strides in the target type."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return inputs[0].with_type(self.target)

    @property
    def target(self) -> DType:
        """The type of the result."""
        raise NotImplementedError


@operation
class Convert(_Retyped):
    """Another element type; see ``cast`` for what becomes of values that it cannot hold."""

    name: ClassVar[str] = "convert"
    expression: ClassVar[str | None] = "T({0})"
    target_type: DType = DType.HALF

    @property
    def target(self) -> DType:
        """The type of the result."""
        return self.target_type

    def compute(self, *inputs: Any) -> Array:
        """The values, rounded or cut where they must be."""
        x, dtype = inputs[0], self.target_type.numpy
        if x.itemsize + dtype.itemsize < 8 and divisible(inputs):
            return in_blocks(partial(cast, dtype=dtype), inputs)
        return cast(x, dtype)

    def widened(self) -> Operation:
        """To float64 instead of any float type."""
        return Convert(DType.DOUBLE) if self.target_type.is_float else self

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """From every type to float and back, and values that some types cannot hold."""
        for type in NUMBERS:
            yield cls(DType.FLOAT), [draw(type, (2, 3), -4, 4)]
            yield cls(type), [draw(DType.FLOAT, (2, 3), -4, 4)]
        for type in FLOATS:
            yield cls(type), [np.array([*EDGES, 1e-8, 1e5, -1e5], np.float32)]
        for type in (DType.INT8, DType.UINT8, DType.INT64):
            yield cls(type), [np.array([1e30, -1e30, np.inf, -np.inf, np.nan, -1.9], np.float32)]
        yield cls(DType.INT8), [np.array([200, -200, 7], np.int32)]
        yield cls(DType.HALF), [draw(DType.FLOAT, (3, 4), -4, 4).T]


@operation
class BitCast(_Retyped):
    """The same bits read as another type of the same size."""

    name: ClassVar[str] = "bit_cast"
    expression: ClassVar[str | None] = "bit_cast({0})"
    target_type: DType = DType.HALF

    @property
    def target(self) -> DType:
        """The type of the result."""
        return self.target_type

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens and strides in the target type, which must have the same size."""
        result = super().compute_shape(inputs, modules)
        if inputs[0].type.size != self.target_type.size:
            raise ShapeError(
                f"bit_cast: input 0 is {inputs[0]}; expected a type of {self.target_type.size} "
                f"bytes, the size of {self.target_type.type_name}"
            )
        return result

    def compute(self, *inputs: Any) -> Array:
        """The bits, reinterpreted. A float widened to float64 is narrowed to float32 before."""
        x = inputs[0]
        if x.dtype == np.float64 and self.target_type.size == 4:
            x = x.astype(np.float32)
        if x.itemsize != self.target_type.size:
            raise EvaluationError(
                f"bit_cast: the bits of {x.dtype} do not make {self.target_type.type_name}; "
                "in float64 mode, the bits of narrow floats are not known"
            )
        return x.view(self.target_type.numpy)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Between types of one, two and four bytes."""
        yield cls(DType.INT32), [draw(DType.FLOAT, (2, 3), -4, 4)]
        yield cls(DType.FLOAT), [draw(DType.FLOAT, (3, 4), -4, 4).T.view(np.int32)]
        yield cls(DType.BF16), [draw(DType.HALF, (2, 3), -4, 4)]
        yield cls(DType.UINT8), [draw(DType.FP8E4M3FN, (2, 3), -4, 4)]
