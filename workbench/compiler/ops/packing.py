"""Packing of 4-bit integers and 4-bit floats, two per byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import expect
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_BYTES = (DType.INT8, DType.UINT8)

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The values of the codes 0 to 7 of a 4-bit float (E2M1); bit 3 is the sign."""


@dataclass(frozen=True)
class _Packing(Operation):
    """Base of the operations that halve or double the length of one axis."""

    family = Family.MOVEMENT
    axes_of_input = ("axis",)
    axis: int = -1

    def _halved(self, x: Shape) -> list[int]:
        axis = normalize_axis(self, self.axis, x.ndim)
        even = x.lens[axis] % 2 == 0
        expect(self, even, f"axis {axis} of {x} has length {x.lens[axis]}; expected an even number")
        return [n // 2 if i == axis else n for i, n in enumerate(x.lens)]

    def _doubled(self, x: Shape) -> list[int]:
        axis = normalize_axis(self, self.axis, x.ndim)
        return [n * 2 if i == axis else n for i, n in enumerate(x.lens)]

    def _expect_bytes(self, inputs: Sequence[Shape]) -> Shape:
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        expect(self, inputs[0].type in _BYTES, f"input 0 is {inputs[0]}; expected int8 or uint8")
        return inputs[0]

    def _joined(self, codes: Array) -> Array:
        """Pairs of 4-bit codes as bytes: the first of a pair is the low half."""
        pairs = np.moveaxis(codes, self.axis, -1)
        joined: Array = pairs[..., 0::2] | pairs[..., 1::2] << np.uint8(4)
        return np.ascontiguousarray(np.moveaxis(joined, -1, self.axis))

    def _split(self, joined: Array) -> Array:
        """The 4-bit codes in bytes."""
        at = np.moveaxis(joined, self.axis, -1)
        codes = np.stack([at & np.uint8(15), at >> np.uint8(4)], -1)
        codes = codes.reshape(*at.shape[:-1], 2 * at.shape[-1])
        return np.ascontiguousarray(np.moveaxis(codes, -1, self.axis))


@operation
class PackInt4(_Packing):
    """Pairs along ``axis`` in one byte each, the first in the low half; saturated to four bits."""

    name = "pack_int4"
    flat = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Half as many elements on the axis; standard."""
        x = self._expect_bytes(inputs)
        return Shape(x.type, self._halved(x))

    def compute(self, *inputs: Any) -> Any:
        """Clipped to the range of four bits, then packed."""
        x: Array = inputs[0]
        low, high = (-8, 7) if x.dtype.kind == "i" else (0, 15)
        codes = np.clip(x, low, high).view(np.uint8) & np.uint8(15)
        return self._joined(codes).view(x.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Both types, values out of bounds, both ends of the axes."""
        yield cls(), [digits(3, 4, low=-12, high=12)]
        yield cls(axis=0), [digits(4, 3, low=0, high=20, type=np.uint8)]
        yield cls(axis=1), [digits(2, 6, 3, low=-8, high=8).transpose(2, 1, 0)]


@operation
class UnpackInt4(_Packing):
    """The two 4-bit integers of each byte, side by side along ``axis``; the low half comes first."""

    name = "unpack_int4"
    flat = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Twice as many elements on the axis; standard."""
        x = self._expect_bytes(inputs)
        return Shape(x.type, self._doubled(x))

    def compute(self, *inputs: Any) -> Any:
        """Unpacked; the highest of four bits is the sign for int8."""
        x: Array = inputs[0]
        codes = self._split(np.ascontiguousarray(x).reshape(x.shape).view(np.uint8))
        if x.dtype.kind == "u":
            return codes
        return (codes.view(np.int8) ^ np.int8(8)) - np.int8(8)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Both types, both ends of the axes."""
        yield cls(), [digits(3, 2, low=-128, high=128)]
        yield cls(axis=0), [digits(2, 3, low=0, high=256, type=np.uint8)]


@operation
class PackFp4(_Packing):
    """Pairs along ``axis`` as two 4-bit floats in a byte: to nearest even, at most 6; NaN becomes 0."""

    name = "pack_fp4"
    not_differentiable = (
        "it packs two numbers into a byte; differentiate the program before it is quantised"
    )

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Half as many elements on the axis, packed; the order of axes in memory is kept."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        x = inputs[0]
        floats = x.type.is_float and x.type is not DType.FP4X2
        expect(self, floats, f"input 0 is {x}; expected floats of 8 bits at least")
        return x.with_lens(self._halved(x)).with_type(DType.FP4X2)

    def compute(self, *inputs: Any) -> Any:
        """The codes of the nearest values, packed."""
        x: Array = inputs[0].astype(np.float64)
        bounds = (_FP4[:-1] + _FP4[1:]) / 2
        bounds[::2] = np.nextafter(bounds[::2], np.inf)  # a tie goes to the even code
        codes = np.searchsorted(bounds, np.abs(x), "right").astype(np.uint8)
        codes |= np.signbit(x).astype(np.uint8) << np.uint8(3)
        codes[np.isnan(x)] = 0
        return self._joined(codes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Ties, values too large, infinities, NaN, signed zeros; a transposed operand."""
        ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, np.inf, np.nan, 0.0, 0.3]
        both = np.array([ties, [-v for v in ties]], np.float32)
        yield cls(), [both]
        yield cls(axis=0), [both]
        yield cls(axis=0), [(noise(3, 4) * 3).T]
        yield cls(axis=1), [noise(2, 4, 2, type=np.float16)]


@operation
class UnpackFp4(_Packing):
    """The two 4-bit floats of each byte, side by side along ``axis``; the low half comes first."""

    name = "unpack_fp4"
    not_differentiable = (
        "it packs two numbers into a byte; differentiate the program before it is quantised"
    )

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Twice as many elements on the axis, in fp8e4m3fn; the order of axes in memory is kept."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        x = inputs[0]
        expect(self, x.type is DType.FP4X2, f"input 0 is {x}; expected fp4x2, as pack_fp4 makes it")
        return x.with_lens(self._doubled(x)).with_type(DType.FP8E4M3FN)

    def widened(self) -> Operation:
        """To float64."""
        return _WideUnpackFp4(self.axis)

    def compute(self, *inputs: Any) -> Any:
        """Unpacked and looked up."""
        return np.concatenate([_FP4, -_FP4])[self._split(inputs[0])].astype(self._result)

    _result = DType.FP8E4M3FN.numpy

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Every byte; both ends of the axes."""
        every = np.arange(256, dtype=np.uint8)
        for axis, lens in ((-1, (16, 16)), (0, (8, 32))):
            yield cls(axis), [Argument(Shape(DType.FP4X2, lens), every.reshape(lens))]


class _WideUnpackFp4(UnpackFp4):
    _result = DType.DOUBLE.numpy
