"""Poolings, adaptive ones included, their gradients, and columns of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.choices import choice
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op

Ints = Sequence[int] | int


def _list(given: Any, rank: int, default: Sequence[int] = ()) -> tuple[int, ...]:
    found = (given,) if isinstance(given, int) else tuple(given or default)
    return found * rank if len(found) == 1 else found


def _batched(node: Context, x: Instruction, rank: int) -> tuple[Instruction, bool]:
    single = x.shape.ndim == rank + 1
    return (node.unsqueeze(x, 0) if single else x), single


def _single(node: Context, found: Instruction, single: bool) -> Instruction:
    return node.squeeze(found, 0) if single else found


@torch_op("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(
    node: Context, x: Instruction, kernel: Ints, stride: Ints = (), padding: Ints = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Instruction:  # fmt: skip
    """The mean of windows; with a divisor, their sum over it."""
    rank = int(str(node.fx.target).partition("pool")[2][0])
    lengths = _list(kernel, rank)
    strides, pads = _list(stride, rank, lengths), _list(padding, rank)
    value, single = _batched(node, x, rank)
    type = x.shape.type
    wide = value if type.is_float else node.convert(value, DType.DOUBLE)
    if divisor is None:
        (found,) = node.operator(
            "AveragePool", wide, kernel_shape=lengths, strides=strides, pads=pads * 2,
            ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
        )  # fmt: skip
    else:
        found = _summed(node, wide, (lengths, strides, pads), divisor)
    found = found if type.is_float else node.convert(found, type)
    return _single(node, found, single)


def _summed(
    node: Context, x: Instruction, window: tuple[tuple[int, ...], ...], divisor: int
) -> Instruction:
    """The sums of windows over a divisor: those of a value padded so that all windows are whole."""
    lengths, strides, pads = window
    rank = len(lengths)
    wanted = node.fixed(node.out_lens()[-rank:], "the result")
    own = node.fixed(node.lens(x)[-rank:], "the input")
    sides = zip(wanted, own, lengths, strides, pads, strict=True)
    ends = [max(p, (m - 1) * s + k - n - p) for m, n, k, s, p in sides]
    padded = node.add("pad", x, pads=(0, 0, *pads, 0, 0, *ends)) if any(ends) or any(pads) else x
    (found,) = node.operator("AveragePool", padded, kernel_shape=lengths, strides=strides)
    scale = float(np.prod(lengths)) / divisor
    return node.apply("mul", found, scale, type=found.shape.type)


@torch_op("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
def max_pool(
    node: Context, x: Instruction, kernel: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False,
) -> list[Instruction]:  # fmt: skip
    """The maximum of each window, and its index in the plane or the volume."""
    rank = int(str(node.fx.target).partition("pool")[2][0])
    lengths = _list(kernel, rank)
    value, single = _batched(node, x, rank)
    attributes: dict[str, Any] = {
        "padding": _list(padding, rank) * 2,
        "stride": _list(stride, rank, lengths),
        "lengths": lengths,
        "dilations": _list(dilation, rank),
        "ceil_mode": ceil_mode,
    }
    found = node.add("pooling", value, mode=choice("pooling", "mode", "max"), **attributes)
    values = _cut(node, found, single, 0)
    if not any(u.args[1] == 1 for u in node.fx.users):  # nobody reads the indices
        return [values]
    flat = node.add("max_pool_indices", value, **attributes)
    plane = reduce(lambda a, b: b * a, node.lens(value)[2:])
    places = node.apply("mod", flat, plane, type=DType.INT64)
    return [values, _cut(node, places, single, 1)]


def _cut(node: Context, pooled: Instruction, single: bool, index: int) -> Instruction:
    """A pooling without trailing windows that begin in the padding, which PyTorch leaves out."""
    wanted = node.out_lens(index)
    rank = len(wanted) - (1 if single else 2)
    lens, tail = node.lens(pooled)[2:], wanted[len(wanted) - rank :]
    over = [k for k in range(rank) if isinstance(lens[k], int) and lens[k] != tail[k]]
    if over:
        pooled = node.slice(pooled, [2 + k for k in over], [0] * len(over), [tail[k] for k in over])
    return _single(node, pooled, single)


@torch_op("aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d", "aten.adaptive_avg_pool1d")
def adaptive_avg_pool(node: Context, x: Instruction, size: Sequence[Any]) -> Instruction:
    """The means of as many parts of each axis as the result has elements."""
    wanted, rank = node.ints(size, "a length"), len(size)
    first = x.shape.ndim - rank
    lens = node.lens(x)[first:]
    found = x
    if all(n == 1 for n in wanted):
        return node.add("reduce_mean", x, axes=tuple(range(first, x.shape.ndim)))
    for k, (n, m) in enumerate(zip(node.fixed(lens, "pooled axes"), wanted, strict=True)):
        if n != m:
            found = _averaged(node, found, first + k, parts_of(n, m))
    return node.add("identity", x) if found is x else found


def parts_of(length: int, parts: int) -> Array:
    """The share of each element of an axis in each of several parts: a row per part."""
    shares = np.zeros((parts, length))
    for k in range(parts):
        start, end = k * length // parts, -(-(k + 1) * length // parts)
        shares[k, start:end] = 1 / (end - start)
    return shares


def _averaged(node: Context, x: Instruction, axis: int, shares: Array) -> Instruction:
    """The product of shares with each line along an axis."""
    parts, length = shares.shape
    if length % parts == 0:
        lens = node.lens(x)
        split = node.reshape(x, *lens[:axis], parts, length // parts, *lens[axis + 1 :])
        return node.reduce("reduce_mean", split, (axis + 1,))
    return _times(node, x, axis, shares)


def _times(node: Context, x: Instruction, axis: int, matrix: Array) -> Instruction:
    return node.value(x).along(axis, matrix).instruction


@torch_op("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(node: Context, given: Instruction, x: Instruction) -> Instruction:
    """The gradient of each part's mean, in equal shares to its elements."""
    rank = int(str(node.fx.target).partition("pool")[2][0])
    first, found = x.shape.ndim - rank, given
    lens = node.fixed(node.lens(x)[first:], "pooled axes")
    parts = node.fixed(node.lens(given)[first:], "parts")
    for k, (n, m) in enumerate(zip(lens, parts, strict=True)):
        if n != m:
            found = _times(node, found, first + k, parts_of(n, m).T)
    return node.add("identity", given) if found is given else found


@torch_op("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def avg_pool_backward(
    node: Context, given: Instruction, x: Instruction, kernel: Ints, stride: Ints, padding: Ints,
    ceil_mode: bool, count_include_pad: bool, divisor: int | None,
) -> Instruction:  # fmt: skip
    """The gradient of a mean of windows: each window's, over what it was divided by, on its elements."""
    rank = int(str(node.fx.target).partition("pool")[2][0])
    lengths, pads = _list(kernel, rank), _list(padding, rank)
    window = lengths, _list(stride, rank, lengths), pads
    value, single = _batched(node, x, rank)
    own, _ = _batched(node, given, rank)
    type = own.shape.type
    before = node.fixed(node.lens(value)[2:], "the pooled axes")
    after = node.fixed(node.lens(own)[2:], "the windows")
    divisors = _divisors(before, after, window, count_include_pad) if divisor is None else divisor
    shares = node.apply("div", own, node.literal(np.asarray(divisors, type.numpy)), type=type)
    batch, channels = node.lens(own)[:2]
    flat = node.reshape(shares, batch * channels, 1, *after)
    ones = node.literal(np.ones((1, 1, *lengths), type.numpy))
    zeros, single_steps = (0,) * rank, (1,) * rank
    whole = node.add(
        "convolution_backwards", flat, ones, stride=window[1], padding=zeros, dilation=single_steps
    )
    found = _cropped(node, whole, pads, before)
    return _single(node, node.reshape(found, batch, channels, *before), single)


def _divisors(
    before: Sequence[int], after: Sequence[int], window: tuple[tuple[int, ...], ...], padded: bool
) -> Array:
    """The number of elements that each window's sum is divided by, the padding counted or not."""
    lengths, strides, pads = window
    found: Array = np.ones(())
    for axis, n in enumerate(before):
        starts: Array = np.arange(after[axis]) * strides[axis] - pads[axis]
        ends: Array = np.minimum(starts + lengths[axis], n + pads[axis])
        inside: Array = np.minimum(ends, n) - np.maximum(starts, 0)
        found = found[..., None] * (ends - starts if padded else inside)
    return found


def _cropped(
    node: Context, x: Instruction, begins: Sequence[int], lens: Sequence[int]
) -> Instruction:
    """The spatial axes from an element on, with these lengths; zeros where the value is shorter."""
    have = node.fixed(node.lens(x)[2:], "the spatial axes")
    missing = [max(0, b + n - h) for b, n, h in zip(begins, lens, have, strict=True)]
    if any(missing):
        x = node.add("pad", x, pads=(*[0] * (x.shape.ndim + 2), *missing))
    axes = range(2, x.shape.ndim)
    return node.slice(x, axes, begins, [b + n for b, n in zip(begins, lens, strict=True)])


@torch_op("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(node: Context, given: Instruction, x: Instruction, *rest: Any) -> Instruction:
    """The gradient of each maximum, added at its index."""
    indices: Instruction = rest[-1]
    rank = int(str(node.fx.target).partition("pool")[2][0])
    first = x.shape.ndim - rank
    lead = node.lens(x)[:first]
    plane = reduce(lambda a, b: b * a, node.lens(x)[first:])
    zeros = node.fit(node.scalar(x.shape.type, 0), (*lead, plane))
    flat = [
        node.reshape(v, *lead, reduce(lambda a, b: b * a, node.lens(v)[first:]))
        for v in (indices, given)
    ]
    return node.reshape(node.add("scatter_add", zeros, *flat, axis=first), *node.lens(x))


@torch_op("aten.col2im")
def col2im(
    node: Context, x: Instruction, size: Sequence[Any], kernel: Ints, dilation: Ints, padding: Ints,
    stride: Ints,
) -> Instruction:  # fmt: skip
    """Columns of blocks summed into an image."""
    value, single = _batched(node, x, 1)
    image, block = (node.vector(DType.INT64, node.ints(v, "a length")) for v in (size, kernel))  # pyright: ignore[reportArgumentType]
    (found,) = node.operator(
        "Col2Im", value, image, block, dilations=_list(dilation, 2), pads=_list(padding, 2) * 2,
        strides=_list(stride, 2),
    )  # fmt: skip
    return _single(node, found, single)
