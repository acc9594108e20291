"""Convolutions as products of weights and the elements under each window (implicit im2col)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.convolve import Convolution, QuantConvolution
from workbench.compiler.ops.windows import Window, window_of
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels import adjacent
from workbench.gpu.kernels.contraction import product_of, scaled, source_of
from workbench.gpu.kernels.product import (
    Address,
    Ints,
    Operand,
    Product,
    Source,
    Value,
    split_over,
    work_type,
)
from workbench.gpu.kernels.sources import nearer, strides_of

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_FEWEST = 4
"""Number of a group's output channels below which a tile would be mostly empty."""


@product_of(Convolution, QuantConvolution)
def convolution(lowering: Lowering, heart: Instruction) -> Product | None:
    """A convolution as a product: sums over the channels of a group and the taps of the window.

    Its columns are contiguous in memory: positions if channels come first, otherwise channels. None
    if groups have few channels, as in depthwise convolutions, unless a CPU's vectors hold those of many.
    """
    x, w = heart.inputs[:2]
    group = cast("Any", heart.op).group
    if x.shape.type is DType.FP4X2:
        return None
    product = _Convolution(heart).product(strides_of(lowering, x), strides_of(lowering, w))
    is_wide = w.shape.lens[0] // group >= _FEWEST
    return product if is_wide or adjacent.suits(lowering, product) else None


class _Convolution:
    """Maps the elements of a product to those of a convolution's operands."""

    def __init__(self, heart: Instruction) -> None:
        self.heart = heart
        x, w = (i.shape for i in heart.inputs[:2])
        op = cast("Any", heart.op.normalized([i.shape for i in heart.inputs]))
        self.window: Window = window_of(op, x.lens[2:], w.lens[2:])
        self.groups: int = op.group
        self.filters, self.channels = w.lens[0] // op.group, w.lens[1]
        self.places = (x.lens[0], *self.window.output)
        self.work = work_type(heart)
        self.last = False
        """Whether channels are the innermost axis in memory."""

    def product(self, x: Sequence[int], w: Sequence[int]) -> Product:
        """The product, for the strides of input and weights."""
        self.last = _channels_last(x, self.heart.inputs[0].shape.lens)
        taps = self.window.size
        inner: Ints = (*taps, self.channels) if self.last else (self.channels, *taps)
        places, filters = self._image(inner), self._weights(w, inner)
        n, k = prod(self.places), prod(inner)
        lens = (self.groups,) if self.groups > 1 else ()
        if self.last:
            return Product(self.heart, lens, n, self.filters, k, places, filters, self._by_place)
        return Product(self.heart, lens, self.filters, n, k, filters, places, self._by_filter)

    def _image(self, inner: Ints) -> Operand:
        """The input's elements under the windows, 0 in the padding."""
        plain = self.window.is_pointwise and set(self.window.stride) <= {1}
        unit = self.channels if self.last else prod(self.places[1:]) if plain else self.places[-1]
        size = self.heart.inputs[0].shape.type.size
        return Operand(
            self._gathered(inner),
            self.last,
            unit,
            size,
            self.places,
            inner,
            self._image_place(inner),
        )

    def _weights(self, strides: Sequence[int], inner: Ints) -> Operand:
        order = [*range(2, len(strides)), 1] if self.last else range(1, len(strides))
        near = next((a for a in reversed(order) if self.heart.inputs[1].shape.lens[a] > 1), 1)
        along_k = nearer(strides, near, 0)
        piece = prod(inner) if not self.last else self.channels
        unit = piece if along_k else self.filters
        size = self.heart.inputs[1].shape.type.size

        def index(t: Tensors, batch: Indices, filter_: Index, k: Index) -> Indices:
            channel, taps = self._terms(k, inner, t.w)
            return (filter_ + batch[0] * self.filters if batch else filter_, channel, *taps)

        def value(t: Tensors, batch: Indices, filter_: Index, k: Index) -> Scalar:
            return scaled(t, self.heart, 1, index(t, batch, filter_, k), self.work)

        def address(t: Tensors, batch: Indices, filter_: Index, k: Index) -> Source | None:
            return source_of(t, self.heart.inputs[1], index(t, batch, filter_, k))

        return Operand(value, along_k, unit, size, (), inner, address)

    def _terms(self, k: Index, inner: Ints, w: Writer) -> tuple[Index, Indices]:
        """The channel and the tap of a term."""
        index = split_over(k, inner, w)
        return (index[-1], index[:-1]) if self.last else (index[0], index[1:])

    def _gathered(self, inner: Ints) -> Value:
        type = DType.DOUBLE if self.work == "f64" else self.heart.inputs[0].shape.type
        if len(self.heart.inputs) == 4:
            type = DType.FLOAT

        def value(t: Tensors, batch: Indices, place: Index, k: Index) -> Scalar:
            index, condition = self._under_window(t, batch, place, k, inner)

            def element() -> Scalar:
                return scaled(t, self.heart, 0, index, self.work)

            if condition == "1":
                return element()
            return t.choose(condition, type, element, lambda: Scalar(f"(({c_type(type)})0)", type))

        return value

    def _image_place(self, inner: Ints) -> Address:
        def address(t: Tensors, batch: Indices, place: Index, k: Index) -> Source | None:
            index, condition = self._under_window(t, batch, place, k, inner)
            return source_of(t, self.heart.inputs[0], index, condition)

        return address

    def _under_window(
        self, t: Tensors, batch: Indices, place: Index, k: Index, inner: Ints
    ) -> tuple[Indices, str]:
        """The index of the input's element for a place and a term, and the condition that it exists."""
        window, lens = self.window, self.heart.inputs[0].shape.lens[2:]
        image, *spots = split_over(place, self.places, t.w)
        channel, taps = self._terms(k, inner, t.w)
        if batch:
            channel += batch[0] * self.channels
        at = [
            spot * window.stride[a] + tap * window.dilation[a] - window.begin[a]
            for a, (spot, tap) in enumerate(zip(spots, taps, strict=True))
        ]
        unsure = [a for a in range(len(lens)) if not _stays_inside(window, a)]
        return (image, channel, *at), t.inside([at[a] for a in unsure], [lens[a] for a in unsure])

    def _by_filter(self, w: Writer, batch: Indices, row: Index, column: Index) -> Indices:
        """The index in the result of an element of a product whose rows are filters."""
        image, *spots = split_over(column, self.places, w)
        return (image, row + batch[0] * self.filters if batch else row, *spots)

    def _by_place(self, w: Writer, batch: Indices, row: Index, column: Index) -> Indices:
        """The index in the result of an element of a product whose columns are filters."""
        return self._by_filter(w, batch, column, row)


def _channels_last(strides: Sequence[int], lens: Sequence[int]) -> bool:
    """Whether an input's channels have a smaller stride than its spatial positions."""
    places = [s for s, n in zip(strides[2:], lens[2:], strict=True) if n > 1]
    return lens[1] > 1 and bool(places) and 0 < strides[1] < min(places)


def _stays_inside(window: Window, axis: int) -> bool:
    """Whether no window extends beyond the input along an axis."""
    reach = (window.output[axis] - 1) * window.stride[axis] + window.span[axis]
    return window.begin[axis] == 0 and reach <= window.input[axis]
