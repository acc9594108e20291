"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import (
    aligned,
    any_dynamic,
    dims_of,
    expect,
    expect_rank,
    expect_same_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.structure import Contraction
from workbench.compiler.ops.accumulate import quiet, rounded, working_type
from workbench.compiler.ops.contract import expect_scale
from workbench.compiler.ops.taps import convolved
from workbench.compiler.ops.window_gradients import of_weights, spread_over_input
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


@operation
class Convolution(Operation):
    """Weights ``[K, C/group, …]`` slid over an input ``[N, C, …]`` with any number of spatial axes."""

    name = "convolution"
    contraction = Contraction("convolution")
    sliding = True
    family = Family.CONTRACTION
    dynamic = True
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    dilation: Ints = (1, 1)
    group: int = 1
    padding_mode: PaddingMode = PaddingMode.DEFAULT

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The padding as all begins, then all ends."""
        return with_both_sides(self, inputs)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[N, K, …]``; the input's order of axes in memory is kept."""
        expect_count(self, inputs, 2)
        expect_operands(self, inputs)
        x, w = inputs
        if any_dynamic(inputs):
            a, b = aligned(inputs)
            return laid_out(x, (a[0], b[0], *output_dims(self, a[2:], b[2:])))
        if x.lens[1] != w.lens[1] * self.group or w.lens[0] % self.group:
            raise ShapeError(
                f"convolution: input {x} has {x.lens[1]} channels; "
                f"expected {w.lens[1] * self.group}, as weights {w} in {self.group} groups take"
            )
        window = window_of(self, x.lens[2:], w.lens[2:])
        return x.with_lens((x.lens[0], w.lens[0], *window.output))

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Columns of taps, then one matrix product; in float32 at least, rounded once."""
        x, w = inputs
        return rounded(
            convolved(x, w, window_of(self, x.shape[2:], w.shape[2:]), self.group), x.dtype
        )

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each tap of each element."""
        return tap_flops(inputs[1], output)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One to three axes, groups, dilation, strides, uneven and automatic padding, types."""
        x, w = noise(2, 4, 7, 6), noise(6, 4, 3, 3, seed=1)
        yield cls(), [x, w]
        yield cls(padding=(1, 1), stride=(2, 2)), [x.astype(np.float16), w.astype(np.float16)]
        yield cls(padding=(0, 1, 2, 0), dilation=(2, 1)), [x.transpose(0, 1, 3, 2), w]
        yield cls(group=2), [x, noise(6, 2, 1, 1, seed=1)]
        yield cls(stride=(2, 3)), [x[:, ::2], noise(3, 2, 1, 1)]
        yield cls(padding=(1, 1), group=4), [x, noise(8, 1, 3, 2)]
        yield cls(padding_mode=PaddingMode.SAME_UPPER, stride=(2, 2)), [x, w]
        yield cls((1,), (2,), (1,)), [noise(1, 3, 9), noise(2, 3, 4)]
        yield cls((1,) * 3, (1,) * 3, (1,) * 3), [noise(1, 2, 4, 3, 5), noise(3, 2, 2, 3, 1)]
        yield (
            cls(padding=(1, 1)),
            [digits(1, 2, 4, 4, type=np.int32), digits(3, 2, 3, 3, type=np.int32)],
        )
        yield cls(), [noise(1, 4, 2, 6), w]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g spread over the input by the weights, and the input convolved with g."""
        x, w = operands
        if 0 in given.shape:
            return [None, None]
        window = window_of(self, x.shape[2:], w.shape[2:])
        return [
            spread_over_input(given, w, window, self.group),
            of_weights(x, given, window, self.group),
        ]


@operation
class QuantConvolution(Operation):
    """A convolution of int8 in int32, or of scaled or fp8 operands in float."""

    name = "quant_convolution"
    not_differentiable = (
        "it is exact on rounded numbers; differentiate the program before it is quantised"
    )
    contraction = Contraction("convolution", general="convolution")
    sliding = True
    family = Family.CONTRACTION
    dynamic = True
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding_mode: PaddingMode = PaddingMode.DEFAULT
    group: int = 1

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The padding as all begins, then all ends."""
        return with_both_sides(self, inputs)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """As ``convolution``; int32 for int8 without scales, else float."""
        expect_count(self, inputs, 2, 4)
        expect_operands(self, inputs[:2])
        expect_same_type(self, inputs[2:])
        x, w = inputs[:2]
        kinds = (DType.INT8, DType.UINT8, DType.FLOAT, *FP8)
        expect(
            self, x.type in kinds, f"operands of {x.type.type_name}; expected int8, float or fp8"
        )
        exact = len(inputs) == 2 and x.type.is_integral
        if any_dynamic(inputs):
            a, b = aligned([x, w])
            type = DType.INT32 if exact else DType.FLOAT
            return laid_out(x, (a[0], b[0], *output_dims(self, a[2:], b[2:]))).with_type(type)
        fits = x.lens[1] == w.lens[1] * self.group and w.lens[0] % self.group == 0
        expect(self, fits, f"input {x} does not fit weights {w} in {self.group} groups")
        for i, scale in enumerate(inputs[2:]):
            expect_scale(self, scale, inputs[i])
        window = window_of(self, x.lens[2:], w.lens[2:])
        out = x.with_lens((x.lens[0], w.lens[0], *window.output))
        return out.with_type(DType.INT32 if exact else DType.FLOAT)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """The convolution of the operands, times their scales if there are any."""
        x, w = inputs[:2]
        window = window_of(self, x.shape[2:], w.shape[2:])
        if len(inputs) == 4:
            kind = np.result_type(inputs[2].dtype, np.float32)
            scales = [s.astype(kind) for s in inputs[2:]]
            return convolved(
                x.astype(kind) * scales[0], w.astype(kind) * scales[1], window, self.group
            )
        out = convolved(x, w, window, self.group)
        return rounded(out, np.dtype(np.int32)) if x.dtype.kind in "iu" else out

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each tap of each element."""
        return tap_flops(inputs[1], output)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """int8 with padding and groups; float; scaled."""
        x, w = digits(2, 4, 5, 5), digits(6, 4, 3, 3, seed=1)
        yield cls(padding=(1, 1)), [x, w]
        yield cls(stride=(2, 2), group=2), [x, digits(6, 2, 3, 3)]
        yield cls(), [noise(1, 2, 4, 4), noise(3, 2, 2, 2)]
        yield cls(), [x, w, noise(2, 4, 5, 5), noise(6, 4, 3, 3)]


@operation
class ConvolutionBackwards(Operation):
    """A transposed convolution: each element of ``[N, C, …]`` adds weights ``[C, M/group, …]``."""

    name = "convolution_backwards"
    family = Family.CONTRACTION
    dynamic = True
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding_mode: PaddingMode = PaddingMode.DEFAULT
    group: int = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[N, M, …]``; the input's order of axes in memory is kept."""
        expect_count(self, inputs, 2)
        expect_operands(self, inputs)
        x, w = inputs
        sizes = {len(self.padding), len(self.stride), len(self.dilation)}
        expect(self, sizes == {x.ndim - 2}, f"padding, stride and dilation of {sizes} axes for {x}")
        if any_dynamic(inputs):
            return self._dynamic_shape(dims_of(x), dims_of(w), x.type)
        expect(self, 0 not in x.lens + w.lens, f"input {x} and weights {w}; expected no empty ones")
        if x.lens[1] != w.lens[0] or w.lens[0] % self.group:
            raise ShapeError(
                f"convolution_backwards: input {x} has {x.lens[1]} channels; "
                f"expected {w.lens[0]}, as weights {w} in {self.group} groups take"
            )
        return x.with_lens(
            (x.lens[0], w.lens[1] * self.group, *self._spatial(x.lens[2:], w.lens[2:]))
        )

    def _dynamic_shape(self, x: Sequence[Dim], w: Sequence[Dim], type: DType) -> Shape:
        low = self._spatial([d.min for d in x[2:]], [d.min for d in w[2:]])
        high = self._spatial([d.max for d in x[2:]], [d.max for d in w[2:]])
        channels = Dim(w[1].min * self.group, w[1].max * self.group)
        return ranged(type, (x[0], channels, *map(Dim, low, high)))

    def _spatial(self, lens: Sequence[int], size: Sequence[int]) -> Ints:
        sides = zip(lens, size, self.padding, self.stride, self.dilation, strict=True)
        return tuple(max(1, s * (n - 1) + (k - 1) * d + 1 - 2 * p) for n, k, p, s, d in sides)

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """One matrix product computes what each tap adds; then taps are summed at their outputs."""
        x, w = inputs
        kind = working_type(x, w, x.shape[1] // self.group * prod(w.shape[2:]))
        n, g, size = x.shape[0], self.group, w.shape[2:]
        grouped = w.reshape(g, w.shape[0] // g, -1).astype(kind, copy=False)
        columns = np.matmul(
            grouped.transpose(0, 2, 1),
            x.reshape(n, g, x.shape[1] // g, -1).astype(kind, copy=False),
        ).reshape(n, g * w.shape[1], *size, *x.shape[2:])
        lens = self._spatial(x.shape[2:], size)
        window = Window(lens, size, self.stride, self.dilation, self.padding, self.padding)
        # Compute the full result first, then crop the padding.
        reach = [
            (a - 1) * s + k for a, s, k in zip(x.shape[2:], self.stride, window.span, strict=True)
        ]
        full = [max(r, a + 2 * p) for r, a, p in zip(reach, lens, self.padding, strict=True)]
        out = np.zeros((n, g * w.shape[1], *full), kind)
        for tap in np.ndindex(*size):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            at = tuple(
                slice(b, b + (a - 1) * s + 1, s)
                for b, a, s in zip(starts, x.shape[2:], self.stride, strict=True)
            )
            out[(..., *at)] += columns[(slice(None), slice(None), *tap)]
        cut = tuple(slice(p, p + a) for p, a in zip(self.padding, lens, strict=True))
        return rounded(np.ascontiguousarray(out[(..., *cut)]), x.dtype)

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """A multiplication and an addition for each tap of each input element."""
        x, w = inputs
        if any_dynamic(inputs):
            return 0
        return 2 * x.elements * w.lens[1] * prod(w.lens[2:])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Strides, padding, dilation, groups, one axis and two."""
        x = noise(2, 4, 5, 4)
        yield cls(), [x, noise(4, 3, 3, 3)]
        yield cls(padding=(1, 1), stride=(2, 3)), [x, noise(4, 3, 3, 2, type=np.float32)]
        yield (
            cls(dilation=(2, 1), group=2),
            [x.astype(np.float16), noise(4, 3, 2, 2, type=np.float16)],
        )
        yield cls((1,), (2,), (1,)), [noise(1, 3, 6), noise(3, 2, 4)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The convolution of g, and g convolved with the input."""
        x, w = operands
        window = Window(
            given.shape[2:], w.shape[2:], self.stride, self.dilation, self.padding, self.padding
        )
        back = given.convolution(
            w,
            paddings=self.padding,
            strides=self.stride,
            dilations=self.dilation,
            group=self.group,
        )
        return [back, of_weights(given, x, window, self.group)]


@operation
class Im2col(Operation):
    """The taps of each window of one input ``[1, C, H, W]`` as a row; the weights give the window's size."""

    name = "im2col"
    sliding = True
    family = Family.MOVEMENT
    padding: Ints = (0, 0)
    stride: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding_mode: PaddingMode = PaddingMode.DEFAULT

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The padding as all begins, then all ends."""
        return with_both_sides(self, inputs)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[outputs, taps]``, standard."""
        expect_count(self, inputs, 2)
        expect_static(self, inputs)
        expect_operands(self, inputs)
        x, w = inputs
        expect(self, x.lens[0] == 1, f"a batch of {x.lens[0]}; expected 1")
        expect(self, x.lens[1] == w.lens[1], f"input {x} and weights {w}; expected equal channels")
        window = window_of(self, x.lens[2:], w.lens[2:])
        return Shape(x.type, (prod(window.output), prod(w.lens[1:])))

    def compute(self, *inputs: Any) -> Any:
        """The windows of the padded input, copied."""
        x, w = inputs
        window = window_of(self, x.shape[2:], w.shape[2:])
        taps = window.view(window.padded(x[0]))
        rank = len(window.size)
        columns = taps.reshape(prod(w.shape[1:]), prod(window.output))
        return np.ascontiguousarray(columns.T) if rank else columns

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """With and without padding."""
        yield cls(), [noise(1, 2, 4, 5), noise(3, 2, 3, 2)]
        yield (
            cls(padding=(1, 1), stride=(2, 2)),
            [noise(1, 3, 5, 5, type=np.float16), noise(1, 3, 3, 3, type=np.float16)],
        )

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g added up at the elements of which it holds copies; none for the weights, which give a size."""
        x, w = operands
        window, channels = window_of(self, x.shape[2:], w.shape[2:]), w.shape[1]
        taps = prod(window.size)
        rows = given.transpose(1, 0).reshape((1, channels * taps, *window.output))
        weights = np.tile(np.eye(taps), (channels, 1)).reshape(channels * taps, 1, *window.size)
        one = given.builder.constant(weights.astype(x.dtype.numpy))
        return [spread_over_input(rows, one, window, channels), None]


def expect_operands(op: Any, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError unless input, weights and attributes have the same number of axes."""
    expect_tensors(op, inputs)
    expect_same_type(op, inputs)
    expect_same_rank(op, inputs)
    expect_rank(op, inputs, 3)
    rank = inputs[0].ndim - 2
    expect(
        op,
        len(op.stride) == len(op.dilation) == rank,
        f"stride {op.stride} and dilation {op.dilation} for {rank} spatial axes",
    )
    expect(
        op,
        min(op.stride + op.dilation) > 0,
        f"stride {op.stride}, dilation {op.dilation}; expected positive numbers",
    )
    both_sides(op, op.padding, rank)


def with_both_sides(op: Any, inputs: Sequence[Shape]) -> Operation:
    """``op`` with its padding as all begins, then all ends."""
    padding = doubled(op.padding, inputs[0].ndim - 2)
    if op.padding_mode != PaddingMode.DEFAULT or padding == op.padding:
        return op
    return type(op)(**(op.attributes() | {"padding": padding}))


def tap_flops(w: Shape, output: Shape) -> int:
    """Two operations for each tap of each element; 0 if the lens are unknown."""
    if output.dims is not None or w.dims is not None:
        return 0
    return 2 * output.elements * prod(w.lens[1:])
