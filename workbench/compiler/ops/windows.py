"""Sliding windows: padding, lens and taps, shared by convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from workbench.compiler.arrays import memory
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.ranges import expect, minus, over, plus, ranged
from workbench.compiler.ir.shape import Dim, Shape, from_permutation

Ints: TypeAlias = tuple[int, ...]


_SMALL = 1 << 16
"""The number of elements below which filling everything with zeros is faster than only the margins."""


class PaddingMode(IntEnum):
    """Whether padding is explicit, or computed so that there are ``ceil(input / stride)`` outputs."""

    DEFAULT = 0
    SAME_LOWER = 1
    SAME_UPPER = 2


@dataclass(frozen=True)
class Window:
    """The positions of a kernel with ``size`` taps per axis over an input, one for every output."""

    input: Ints
    size: Ints
    stride: Ints
    dilation: Ints
    begin: Ints
    end: Ints
    ceil: bool = False

    @cached_property
    def span(self) -> Ints:
        """Elements from the first to the last tap."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.size, self.dilation, strict=True))

    @cached_property
    def output(self) -> Ints:
        """Output lens; 0 where the kernel does not fit."""
        rest = zip(self.input, self.begin, self.end, self.span, self.stride, strict=True)
        up = [s - 1 if self.ceil else 0 for s in self.stride]
        return tuple(
            (n + b + e - k + more) // s + 1 if n and k <= n + b + e else 0
            for (n, b, e, k, s), more in zip(rest, up, strict=True)
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether the kernel has one tap and nothing is padded."""
        return set(self.size) <= {1} and not any(self.begin) and not any(self.end)

    def covers(self, axis: int) -> bool:
        """Whether there is a single window along an axis, and it covers the whole input."""
        whole = self.size[axis] == self.span[axis] == self.input[axis]
        return whole and self.output[axis] == 1 and not self.begin[axis]

    def padded(self, x: Array, channels_last: bool = False) -> Array:
        """``x`` with zeros around its last axes, and after them as far as the windows reach.

        With ``channels_last`` the second axis is the fastest one in memory.
        """
        axes = range(len(self.input))
        need = [(self.output[i] - 1) * self.stride[i] + self.span[i] for i in axes]
        fits = not any(self.begin) and all(need[i] <= self.input[i] for i in axes)
        if fits and (not channels_last or np.moveaxis(x, 1, -1).flags.c_contiguous):
            return x
        lens = [max(need[i], self.input[i] + self.begin[i]) for i in axes]
        lead = x.shape[: -len(lens)]
        if channels_last:
            out = np.moveaxis(memory.empty((lead[0], *lens, lead[1]), x.dtype), -1, 1)
        else:
            out = memory.empty((*lead, *lens), x.dtype)
        self._fill(out, x)
        return out

    def _fill(self, out: Array, x: Array) -> None:
        """Copy ``x`` into the middle of ``out``, and write zeros around it."""
        inner = out
        if is_small := out.size < _SMALL:
            out[...] = 0
        for axis, (begin, n) in enumerate(zip(self.begin, self.input, strict=True)):
            at = axis - len(self.input)
            lead = (slice(None),) * (out.ndim + at)
            if not is_small:
                inner[(*lead, slice(0, begin))] = 0
                inner[(*lead, slice(begin + n, None))] = 0
            inner = inner[(*lead, slice(begin, begin + n))]
        inner[...] = x

    def view(self, x: Array) -> Array:
        """The taps of each window of a padded ``x``: axes …, one per kernel axis, one per output axis."""
        rank = len(self.size)
        inner = x.strides[-rank:]
        taps = [s * d for s, d in zip(inner, self.dilation, strict=True)]
        steps = [s * d for s, d in zip(inner, self.stride, strict=True)]
        bits = x.view(f"u{x.itemsize}")  # NumPy cannot restride every small float
        seen = as_strided(
            bits,
            (*x.shape[:-rank], *self.size, *self.output),
            (*x.strides[:-rank], *taps, *steps),
            writeable=False,
        )
        return seen.view(x.dtype)

    def reach(self, axis: int, tap: int) -> tuple[slice, slice]:
        """Outputs along one axis for which a tap lies inside the input, and those input elements."""
        n, s = self.input[axis], self.stride[axis]
        offset = tap * self.dilation[axis] - self.begin[axis]
        first = max(0, -(offset // s)) if offset < 0 else 0
        last = min(self.output[axis], (n - 1 - offset) // s + 1)
        if last <= first:
            return slice(0, 0), slice(0, 0)
        start = first * s + offset
        return slice(first, last), slice(start, start + (last - first - 1) * s + 1, s)


def both_sides(op: Operation, padding: Ints, rank: int) -> tuple[Ints, Ints]:
    """Begins and ends of a padding that is given once for both sides, or as all begins, then all ends."""
    expect(
        op,
        len(padding) in (rank, 2 * rank),
        f"padding {padding}; expected {rank} or {2 * rank} numbers",
    )
    expect(
        op,
        min(padding, default=0) >= 0,
        f"padding {padding}; expected none below 0, use pad to crop",
    )
    return padding[:rank], padding[-rank:] if rank else ()


def doubled(padding: Ints, rank: int) -> Ints:
    """A padding as all begins, then all ends."""
    return padding * 2 if len(padding) == rank else padding


def same_padding(
    mode: PaddingMode, input: Sequence[int], span: Sequence[int], stride: Sequence[int]
) -> tuple[Ints, Ints]:
    """Begins and ends for which the output has ``ceil(input / stride)`` elements."""
    total = [
        max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(input, span, stride, strict=True)
    ]
    less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (less, more) if mode == PaddingMode.SAME_UPPER else (more, less)


@lru_cache(1024)
def window_of(op: Any, input: Ints, size: Ints, ceil: bool = False) -> Window:
    """The window of an operation with ``padding``, ``stride``, ``dilation`` and ``padding_mode``."""
    rank = len(input)
    dilation: Ints = op.dilation
    if op.padding_mode == PaddingMode.DEFAULT:
        begin, end = both_sides(op, op.padding, rank)
    else:
        span = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
        begin, end = same_padding(op.padding_mode, input, span, op.stride)
    return Window(input, size, op.stride, dilation, begin, end, ceil)


def output_dims(
    op: Any, input: Sequence[Dim], size: Sequence[Dim], ceil: bool = False
) -> list[Dim]:
    """Output dimensions as ranges, for input or kernel dimensions that are ranges."""
    if op.padding_mode != PaddingMode.DEFAULT:
        return [over(plus(n, s - 1), s) for n, s in zip(input, op.stride, strict=True)]
    begin, end = both_sides(op, op.padding, len(input))
    found: list[Dim] = []
    for i, (n, k) in enumerate(zip(input, size, strict=True)):
        span = k if op.dilation[i] == 1 else _span(k, op.dilation[i])
        more = op.stride[i] - 1 if ceil else 0
        room = minus(plus(n, begin[i] + end[i] + more), span)
        found.append(_fitting(plus(over(room, op.stride[i]), 1), plus(n, begin[i] + end[i]), span))
    return found


def _fitting(output: Dim, padded: Dim, span: Dim) -> Dim:
    """The output lengths, including 0 if the kernel may not fit the padded input."""
    if padded.min >= span.max or (output.sym is not None and padded.max >= span.min):
        return output
    if output.sym is not None:
        return Dim.of(0)
    return Dim(0, output.max if padded.max >= span.min else 0, output.optimals)


def laid_out(x: Shape, dims: Sequence[Dim]) -> Shape:
    """The output of windows over ``x``; a symbolic one keeps its order of axes in memory."""
    if not all(d.is_symbolic for d in dims):
        return ranged(x.type, dims)
    if all(d.is_fixed for d in dims):
        return Shape.permuted(x.type, [d.min for d in dims], x.permutation)
    return from_permutation(x.type, dims, x.permutation)


def _span(size: Dim, dilation: int) -> Dim:
    if size.sym is not None:
        return Dim.of((size.sym - 1) * dilation + 1)
    return Dim((size.min - 1) * dilation + 1, (size.max - 1) * dilation + 1)
