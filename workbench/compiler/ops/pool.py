"""Pooling over windows, and normalisation over neighbouring channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.arrays.parallel import SHARED, is_divided, spread
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import ONE, expect, expect_floats, expect_rank, expect_tensors
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import lowest, quiet, rounded, widened
from workbench.compiler.ops.window_gradients import as_one_channel, spread_over_input
from workbench.compiler.ops.windows import (
    PaddingMode,
    Window,
    both_sides,
    doubled,
    laid_out,
    output_dims,
    window_of,
)

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


class PoolingMode(StrEnum):
    """The function applied to a window: mean, maximum or p-norm."""

    AVERAGE = "average"
    MAX = "max"
    LPNORM = "lpnorm"


@operation
class Pooling(Operation):
    """The mean, maximum or p-norm of windows that slide over ``[N, C, …]``.

    Means count padding only with ``count_include_pad``, and never elements beyond the padding.
    With ``dyn_global`` the window is the whole input.
    """

    name = "pooling"
    sliding = True
    family = Family.REDUCE
    dynamic = True
    mode: PoolingMode = PoolingMode.AVERAGE
    padding: Ints = (0, 0)
    padding_mode: PaddingMode = PaddingMode.DEFAULT
    stride: Ints = (1, 1)
    lengths: Ints = (1, 1)
    dilations: Ints = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    lp_order: int = 2
    dyn_global: bool = False

    @property
    def dilation(self) -> Ints:
        """The dilations, under the name that convolutions use."""
        return self.dilations

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The padding as all begins, then all ends."""
        padding = doubled(self.padding, inputs[0].ndim - 2)
        if self.dyn_global or self.padding_mode != PaddingMode.DEFAULT or padding == self.padding:
            return self
        return replace(self, padding=padding)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[N, C, …]``; the input's order of axes in memory is kept."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_rank(self, inputs, 3)
        x = inputs[0]
        rank = x.ndim - 2
        if not self.dyn_global:
            self._check_attributes(rank)
        if x.dims is not None:
            return self._dynamic_shape(x, x.dims)
        if self.dyn_global:
            expect(self, 0 not in x.lens[2:], f"{x} has no elements to pool")
            return x.with_lens((*x.lens[:2], *[1] * rank))
        window = self._window(x.lens[2:])
        expect(
            self,
            all(n + b + e >= k for n, b, e, k in _sizes(window)),
            f"a window of {window.span} elements does not fit {x} with padding {self.padding}",
        )
        return x.with_lens((*x.lens[:2], *window.output))

    def _check_attributes(self, rank: int) -> None:
        sizes = {len(self.stride), len(self.lengths), len(self.dilations)}
        expect(
            self,
            sizes == {rank},
            f"stride, lengths, dilations of {sizes}; expected {rank} spatial axes",
        )
        least = min(self.stride + self.lengths + self.dilations)
        expect(self, least > 0, "stride, lengths and dilations must be positive")
        both_sides(self, self.padding, rank)

    def _dynamic_shape(self, x: Shape, dims: Sequence[Dim]) -> Shape:
        if self.dyn_global:
            one = Dim.of(1) if x.is_symbolic else ONE
            return laid_out(x, (*dims[:2], *[one] * (len(dims) - 2)))
        size = [Dim.of(n) if x.is_symbolic else Dim(n, n) for n in self.lengths]
        return laid_out(x, (*dims[:2], *output_dims(self, dims[2:], size, self.ceil_mode)))

    def _window(self, lens: Ints) -> Window:
        if self.dyn_global:
            ones, none = (1,) * len(lens), (0,) * len(lens)
            return Window(lens, lens, ones, ones, none, none)
        return window_of(self, lens, self.lengths, self.ceil_mode)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Reduced one spatial axis after the other; in float32 at least, rounded once."""
        x: Array = inputs[0]
        window = self._window(x.shape[2:])
        if self.mode == PoolingMode.MAX:
            wide = widened(x)
            return rounded(_pooled(wide, window, np.maximum, lowest(wide.dtype)), x.dtype)
        wide = widened(x) if x.dtype.kind not in "biu" else x.astype(np.float64)
        if self.mode == PoolingMode.AVERAGE:
            total = _pooled(wide, window, np.add, 0)
            total /= self._counts(window).astype(total.dtype)
            return rounded(total, x.dtype)
        return rounded(self._norm(wide, window, x.dtype.kind in "biu"), x.dtype)

    def _norm(self, x: Array, window: Window, whole: bool) -> Array:
        """The norm of each window; of whole numbers, one that is whole is exact, for it is truncated."""
        if self.lp_order == 0:
            return np.ones((*x.shape[:2], *window.output), x.dtype)
        power = x.dtype.type(self.lp_order)
        total: Array = _pooled(np.abs(x) ** power, window, np.add, 0)
        norm: Array = total ** (1 / power)
        near = np.rint(norm)
        return np.where(near**power == total, near, norm) if whole else norm

    def _counts(self, window: Window) -> Array:
        """The number of elements in each mean; 1 for an empty window, as its sum is 0."""
        counts = [self._count(window, axis) for axis in range(len(window.size))]
        return np.maximum(reduce(np.multiply.outer, counts), 1)

    def _count(self, window: Window, axis: int) -> Array:
        begin, end = window.begin[axis], window.end[axis]
        low, high = (-begin, end) if self.count_include_pad else (0, 0)
        starts = np.arange(window.output[axis]) * window.stride[axis] - begin
        at = starts[:, None] + np.arange(window.size[axis]) * window.dilation[axis]
        return np.sum((at >= low) & (at < window.input[axis] + high), axis=1)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One for each tap of each element."""
        if output.dims is not None or inputs[0].dims is not None:
            return 0
        return output.elements * prod(self._window(inputs[0].lens[2:]).size)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """All modes, paddings, rounding up, dilation, global windows, one to three axes."""
        x = noise(2, 3, 7, 6)
        three: dict[str, Any] = {"lengths": (3, 3), "stride": (2, 2)}
        yield cls(mode=PoolingMode.MAX, padding=(1, 1), **three), [x]
        yield cls(padding=(1, 1), **three), [x.astype(np.float16)]
        yield cls(padding=(0, 0, 1, 1), count_include_pad=True, ceil_mode=True, **three), [x]
        yield cls(mode=PoolingMode.MAX, ceil_mode=True, **three), [x.transpose(0, 1, 3, 2)[:, ::2]]
        yield cls(mode=PoolingMode.LPNORM, lp_order=3, **three), [x]
        yield cls(mode=PoolingMode.MAX, dilations=(2, 1), **three), [x]
        yield cls(mode=PoolingMode.MAX, padding_mode=PaddingMode.SAME_UPPER, **three), [x]
        yield cls(dyn_global=True), [x]
        yield cls(lengths=(7, 6)), [x]
        one: dict[str, Any] = {"padding": (1,), "stride": (1,), "lengths": (2,), "dilations": (1,)}
        yield cls(mode=PoolingMode.MAX, **one), [digits(1, 2, 5)]
        cube: dict[str, Any] = {
            "padding": (0,) * 3,
            "stride": (1,) * 3,
            "lengths": (2,) * 3,
            "dilations": (1,) * 3,
        }
        yield cls(**cube), [noise(1, 2, 3, 4, 2)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g to the first maximum of each window, in equal shares, or by the derivative of the norm."""
        (x,) = operands
        window = self._window(x.shape[2:])
        if self.mode == PoolingMode.MAX:
            return [self._to_maxima(given, x, window)]
        if self.mode == PoolingMode.AVERAGE:
            counts = self._counts(window).astype(x.dtype.numpy)
            return [_spread(given / given.builder.constant(counts), x, window)]
        if self.lp_order == 0:
            return [None]
        power = self.lp_order - 1
        share = (given * result.pow(float(-power))).where_true(result != 0.0)
        slope = x.sign() * abs(x).pow(float(power)) if power else x.sign()
        return [slope * _spread(share, x, window)]

    def _to_maxima(self, given: Any, x: Any, window: Window) -> Any:
        places = x.max_pool_indices(
            padding=(*window.begin, *window.end),
            stride=window.stride,
            lengths=window.size,
            dilations=window.dilation,
            ceil_mode=self.ceil_mode,
        )
        inside = replace(self, count_include_pad=False)
        counts = [inside._count(window, axis) for axis in range(len(window.size))]
        if not all(c.all() for c in counts):  # windows of padding alone have no maximum
            some = reduce(np.multiply.outer, counts) > 0
            given = given * given.builder.constant(some.astype(x.dtype.numpy))
        zeros = x.builder.zeros((prod(x.shape),), x.dtype)
        found = zeros.scatter_add(places.reshape((-1,)), given.reshape((-1,)), axis=0)
        return found.reshape(x.shape)


def _spread(given: Any, x: Any, window: Window) -> Any:
    """Each element added to all elements of its window."""
    if all(window.covers(axis) for axis in range(len(window.size))):
        return given.broadcast_to(x.shape)
    ones = given.builder.constant(np.ones((1, 1, *window.size), x.dtype.numpy))
    return spread_over_input(as_one_channel(given), ones, window).reshape(x.shape)


def _sizes(window: Window) -> Iterable[tuple[int, int, int, int]]:
    return zip(window.input, window.begin, window.end, window.span, strict=True)


def _pooled(x: Array, window: Window, combine: np.ufunc, initial: float) -> Array:
    """The reduction of each window's elements; threads share the channels."""
    shares = min(x.shape[1], x.size // SHARED)
    if shares < 2 or not is_divided(x.size):
        return _combined(x, window, combine, initial)
    out = memory.empty((*x.shape[:2], *window.output), x.dtype)
    bounds = [x.shape[1] * i // shares for i in range(shares + 1)]

    def share(i: int) -> None:
        part = slice(bounds[i], bounds[i + 1])
        out[:, part] = _combined(x[:, part], window, combine, initial)

    spread(share, shares, x.size)
    return out


def _combined(x: Array, window: Window, combine: np.ufunc, initial: float) -> Array:
    """Reduce one spatial axis after the other: far fewer steps than there are taps in a window."""
    for axis in range(len(window.size)):
        x = _combined_along(x, window, axis, combine, initial)
    return x


def _combined_along(
    x: Array, window: Window, axis: int, combine: np.ufunc, initial: float
) -> Array:
    at = 2 + axis
    if window.covers(axis):
        return combine.reduce(x, at, keepdims=True)
    lens = (*x.shape[:at], window.output[axis], *x.shape[at + 1 :])
    lead = (slice(None),) * at
    out: Array | None = None
    for tap in range(window.size[axis]):
        into, source = window.reach(axis, tap)
        part = x[(*lead, source)]
        if out is None and part.shape == lens:
            out = part.copy()
            continue
        if out is None:
            out = np.full(lens, initial, x.dtype)
        target = out[(*lead, into)]
        combine(target, part, out=target)
    return out if out is not None else np.full(lens, initial, x.dtype)


@operation
class Lrn(Operation):
    """Each element divided by a power of the sum of squares of its ``size`` neighbours among the channels."""

    name = "lrn"
    family = Family.REDUCE
    dynamic = True
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0
    size: int = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's shape."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_rank(self, inputs, 2)
        expect_floats(self, inputs, 0)
        return inputs[0]

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """``x * (bias + alpha / size * sum of squares) ** -beta``."""
        x = widened(inputs[0])
        squares, channels = x * x, x.shape[1]
        total = np.zeros_like(squares)
        for offset in range(-((self.size - 1) // 2), self.size // 2 + 1):
            low, high = max(0, -offset), min(channels, channels - offset)
            if low < high:
                total[:, low:high] += squares[:, low + offset : high + offset]
        total *= x.dtype.type(self.alpha / self.size)
        total += x.dtype.type(self.bias)
        np.power(total, x.dtype.type(-self.beta), out=total)
        return rounded(np.multiply(x, total, out=total), inputs[0].dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A square and a sum for each neighbour, and the arithmetic on the sum."""
        return output.elements * (self.size + 5)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Odd and even size, more neighbours than channels."""
        yield cls(size=5), [noise(2, 8, 3, 3)]
        yield cls(size=2, alpha=0.1, beta=0.5, bias=2.0), [noise(1, 4, 5, type=np.float16)]
        yield cls(size=9), [noise(1, 3, 2, 2).transpose(0, 1, 3, 2)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g / sᵝ - 2·alpha·beta / size · x · Σ g·y / s, over the elements that x is a neighbour of."""
        (x,) = operands
        scale = _neighbours(x * x, self.size, after=True) * (self.alpha / self.size) + self.bias
        sums = _neighbours(given * result / scale, self.size, after=False)
        slope = x * sums * (2.0 * self.alpha * self.beta / self.size)
        return [given * scale.pow(-self.beta) - slope]


def _neighbours(x: Any, size: int, after: bool) -> Any:
    """The sum over ``size`` channels around each; of an even number, one more follows or comes before."""
    less, more = (size - 1) // 2, size // 2
    begin, end = (less, more) if after else (more, less)
    around = [0] * x.ndim
    pads = (0, begin, *around[2:], 0, end, *around[2:])
    padded, channels = x.pad(pads=pads), x.shape[1]
    parts = [padded.slice(axes=(1,), starts=(k,), ends=(k + channels,)) for k in range(size)]
    return reduce(lambda a, b: a + b, parts)
