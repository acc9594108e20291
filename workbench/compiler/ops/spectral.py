"""Spectra: discrete Fourier transforms of real and complex signals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import TYPE_CHECKING, Any

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
from workbench.compiler.ir.ranges import (
    dims_of,
    expect,
    expect_floats,
    expect_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Dft(Operation):
    """The discrete Fourier transform along ``axis``; the last axis holds real and imaginary parts.

    A last axis of length 1 means real numbers. The signal is cropped or zero-padded to
    ``length``. ``onesided`` keeps the frequencies from 0 to half the sampling rate; with ``inverse`` it
    takes these and gives real numbers. The inverse is divided by the length.
    """

    name = "dft"
    family = Family.CONTRACTION
    dynamic = True
    axes_of_input = ("axis",)
    axis: int = -2
    length: int | None = None
    inverse: bool = False
    onesided: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens with the new length on the axis, and two numbers on the last."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_floats(self, inputs, 0)
        expect_rank(self, inputs, 2)
        x = inputs[0]
        axis = normalize_axis(self, self.axis, x.ndim)
        expect(self, axis != x.ndim - 1, f"axis {self.axis} of {x}; expected one before the last")
        dims = list(dims_of(x))
        parts = dims[-1].min
        fits = dims[-1].is_fixed and parts in (1, 2)
        expect(self, fits, f"input {x}; expected a last axis of length 1 or 2")
        known = self.length is not None or dims[axis].is_fixed
        expect(
            self,
            known,
            f"input {x}; expected a fixed length on the axis, or the length as an attribute",
        )
        length = self._length(dims[axis].min)
        expect(self, length > 0, f"a length of {length} for {x}; expected at least 1")
        count = length // 2 + 1 if self.onesided and not self.inverse else length
        parts = 1 if self.onesided and self.inverse else 2
        dims[axis], dims[-1] = Dim(count, count), Dim(parts, parts)
        return Shape(x.type, [d.min for d in dims]) if x.dims is None else ranged(x.type, dims)

    def _length(self, given: int) -> int:
        if self.length is not None:
            return self.length
        return 2 * (given - 1) if self.onesided and self.inverse else given

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``numpy.fft``, in float32 for narrower floats."""
        x = widened(inputs[0])
        axis = self.axis % x.ndim
        length = self._length(x.shape[axis])
        signal: Array = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
        if self.inverse and self.onesided:
            real = np.fft.irfft(signal, length, axis)
            return rounded(real[..., np.newaxis], inputs[0].dtype)
        if self.onesided and x.shape[-1] == 1:
            found = np.fft.rfft(signal, length, axis)
        else:
            found = (np.fft.ifft if self.inverse else np.fft.fft)(signal, length, axis)
            if self.onesided:
                found = found.take(np.arange(length // 2 + 1), axis)
        return rounded(np.stack((found.real, found.imag), -1), inputs[0].dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """5 n log₂ n for each transform of a length n."""
        x = inputs[0]
        if x.dims is not None:
            return 0
        n = self._length(x.lens[self.axis])
        count = x.elements // max(1, x.lens[self.axis] * x.lens[-1])
        return round(5 * count * n * log2(max(n, 2)))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Real and complex, forward and inverse, one and two sides, cropped and padded."""
        yield cls(axis=1), [noise(2, 6, 1)]
        yield cls(axis=0, onesided=True), [noise(7, 2, 1)]
        yield cls(axis=1, inverse=True), [noise(2, 6, 2)]
        yield cls(axis=1, inverse=True, onesided=True), [noise(2, 4, 2)]
        yield cls(axis=0, length=4), [noise(6, 2, type=np.float64)]
        yield cls(axis=1, length=9), [noise(2, 6, 2)]
        yield cls(axis=1, length=5, onesided=True), [noise(2, 6, 2)]
        yield cls(axis=1, length=5, inverse=True, onesided=True), [noise(2, 4, 2)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The transpose of the transform, applied to g: a transform in the other direction."""
        (x,) = operands
        axis = self.axis % x.ndim
        length = self._length(x.shape[axis])
        back = (
            self._to_half(given, axis, length)
            if self.inverse and self.onesided
            else (self._to_whole(given, axis, length))
        )
        if x.shape[-1] == 1:
            back = back.slice(axes=(x.ndim - 1,), starts=(0,), ends=(1,))
        return [_fitted(back, axis, x.shape[axis])]

    def _to_whole(self, given: Any, axis: int, length: int) -> Any:
        """For the transforms of complex signals; frequencies that were dropped have gradient 0."""
        scale = 1 / length if self.inverse else float(length)
        whole = _fitted(given, axis, length)
        return whole.dft(axis=axis, inverse=not self.inverse) * scale

    def _to_half(self, given: Any, axis: int, length: int) -> Any:
        """For the inverse that gives real numbers.

        Each frequency stands for two, but the first and, of an even length, the last.
        """
        count = length // 2 + 1
        weights = np.full(count, 2 / length)
        weights[0] = 1 / length
        if length % 2 == 0:
            weights[-1] = 1 / length
        lens = [count if a == axis else 1 for a in range(given.ndim)]
        factor = given.builder.constant(weights.reshape(lens).astype(given.dtype.numpy))
        return given.dft(axis=axis, onesided=True) * factor


def _fitted(x: Any, axis: int, length: int) -> Any:
    """Cut or filled with zeros up to a length."""
    more = length - x.shape[axis]
    ends = [more if a == axis else 0 for a in range(x.ndim)]
    return x.pad(pads=(*[0] * x.ndim, *ends)) if more else x
