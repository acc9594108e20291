"""Norms over layers, groups and batches, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.sizes import Length
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op


def _wide(node: Context, x: Instruction) -> Instruction:
    return node.convert(x, DType.FLOAT) if x.shape.type.is_narrow_float else x


def _moments(node: Context, x: Instruction, axes: Sequence[int]) -> tuple[Instruction, Instruction]:
    """The mean and the variance along axes, which are kept with length 1."""
    mean = node.reduce("reduce_mean", x, axes, keepdim=True)
    squares = node.add("sqdiff", x, node.fit(mean, node.lens(x)))
    return mean, node.reduce("reduce_mean", squares, axes, keepdim=True)


def _normalized(
    node: Context, x: Instruction, mean: Instruction, inverse: Instruction
) -> Instruction:
    type = x.shape.type
    return node.apply("mul", node.apply("sub", x, mean, type=type), inverse, type=type)


def _inverse(node: Context, variance: Instruction, epsilon: float) -> Instruction:
    return node.add("rsqrt", node.apply("add", variance, epsilon, type=variance.shape.type))


def _affine(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None
) -> Instruction:
    """``x · weight + bias``, both aligned at the right."""
    for op, factor in (("mul", weight), ("add", bias)):
        if factor is not None:
            x = node.apply(op, x, factor, type=x.shape.type)
    return x


def _by_channel(node: Context, value: Instruction | None, rank: int) -> Instruction | None:
    """A vector of channels, aligned with axis 1 of a value of this rank."""
    if value is None or rank <= 2:
        return value
    return node.unsqueeze(value, *range(1, rank - 1))


@torch_op("aten.native_layer_norm")
def layer_norm(
    node: Context, x: Instruction, shape: Sequence[Any], weight: Instruction | None,
    bias: Instruction | None, eps: float,
) -> list[Instruction]:  # fmt: skip
    """The value normalised over its last axes, the mean, and 1 / deviation."""
    wide = _wide(node, x)
    axes = range(x.shape.ndim - len(shape), x.shape.ndim)
    mean, variance = _moments(node, wide, axes)
    inverse = _inverse(node, variance, eps)
    found = _affine(node, _normalized(node, wide, mean, inverse), weight, bias)
    return [node.convert(v, node.dtype(k)) for k, v in enumerate((found, mean, inverse))]


@torch_op("aten.native_layer_norm_backward")
def layer_norm_backward(
    node: Context, given: Instruction, x: Instruction, shape: Sequence[Any], mean: Instruction,
    inverse: Instruction, weight: Instruction | None, _: Any, mask: Sequence[bool],
) -> list[Instruction | None]:  # fmt: skip
    """The gradients of a layer norm's input, weight and bias."""
    wide, slope = _wide(node, x), _wide(node, given)
    first = x.shape.ndim - len(shape)
    centred = _normalized(node, wide, mean, inverse)
    scaled = slope if weight is None else node.apply("mul", slope, weight, type=slope.shape.type)
    dx = (
        _centred_slope(node, scaled, centred, inverse, range(first, x.shape.ndim))
        if mask[0]
        else None
    )
    outer = range(first)
    dw = node.reduce("reduce_sum", node.add("mul", slope, centred), outer) if mask[1] else None
    db = node.reduce("reduce_sum", slope, outer) if mask[2] else None
    return _typed(node, (dx, dw, db))


def _centred_slope(
    node: Context,
    slope: Instruction,
    centred: Instruction,
    inverse: Instruction,
    axes: Sequence[int],
) -> Instruction:
    """``(g - mean(g) - y · mean(g · y)) · inverse``: the gradient of a value normalised to ``y``."""
    type = slope.shape.type
    mean = node.reduce("reduce_mean", slope, axes, keepdim=True)
    along = node.reduce("reduce_mean", node.add("mul", slope, centred), axes, keepdim=True)
    rest = node.apply("sub", slope, mean, type=type)
    rest = node.apply("sub", rest, node.apply("mul", centred, along, type=type), type=type)
    return node.apply("mul", rest, inverse, type=type)


def _typed(node: Context, values: Sequence[Instruction | None]) -> list[Instruction | None]:
    return [
        None if v is None or node.result(k) is None else node.convert(v, node.dtype(k))
        for k, v in enumerate(values)
    ]


@torch_op("aten.native_group_norm")
def group_norm(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None, n: Length,
    c: Length, hxw: Length, group: int, eps: float,
) -> list[Instruction]:  # fmt: skip
    """The value normalised over groups of channels, the means, and 1 / deviations."""
    wide = _wide(node, x)
    flat = node.reshape(wide, n, group, (c * hxw) // group)
    mean, variance = _moments(node, flat, (2,))
    inverse = _inverse(node, variance, eps)
    found = node.reshape(_normalized(node, flat, mean, inverse), *node.lens(x))
    rank = x.shape.ndim
    found = _affine(node, found, _by_channel(node, weight, rank), _by_channel(node, bias, rank))
    values = (found, node.squeeze(mean, 2), node.squeeze(inverse, 2))
    return [node.convert(v, node.dtype(k)) for k, v in enumerate(values)]


@torch_op("aten.native_group_norm_backward")
def group_norm_backward(
    node: Context, given: Instruction, x: Instruction, mean: Instruction, inverse: Instruction,
    weight: Instruction | None, n: Length, c: Length, hxw: Length, group: int, mask: Sequence[bool],
) -> list[Instruction | None]:  # fmt: skip
    """The gradients of a group norm's input, weight and bias."""
    wide, slope = _wide(node, x), _wide(node, given)
    lens = (n, group, (c * hxw) // group)
    kind = wide.shape.type
    stats = [node.unsqueeze(node.convert(v, kind), 2) for v in (mean, inverse)]
    centred = _normalized(node, node.reshape(wide, *lens), *stats)
    channel = _by_channel(node, weight, x.shape.ndim)
    scaled = slope if channel is None else node.apply("mul", slope, channel, type=kind)
    dx = None
    if mask[0]:
        dx = _centred_slope(node, node.reshape(scaled, *lens), centred, stats[1], (2,))
        dx = node.reshape(dx, *node.lens(x))
    outer = [a for a in range(x.shape.ndim) if a != 1]
    whole = node.reshape(centred, *node.lens(x))
    dw = node.reduce("reduce_sum", node.add("mul", slope, whole), outer) if mask[1] else None
    db = node.reduce("reduce_sum", slope, outer) if mask[2] else None
    return _typed(node, (dx, dw, db))


@torch_op("aten._native_batch_norm_legit_no_training")
def batch_norm_inference(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None,
    mean: Instruction, variance: Instruction, momentum: float, eps: float,
) -> list[Instruction]:  # fmt: skip
    """The value normalised by a known mean and variance of each channel."""
    found = _batch(node, x, mean, _inverse(node, _wide(node, variance), eps), weight, bias)
    nothing = node.filled(node.dtype(1), node.out_lens(1), 0)
    return [node.convert(found, node.dtype(0)), nothing, nothing]


def _batch(
    node: Context, x: Instruction, mean: Instruction, inverse: Instruction, weight: Instruction | None,
    bias: Instruction | None,
) -> Instruction:  # fmt: skip
    wide, rank = _wide(node, x), x.shape.ndim
    values = [_by_channel(node, v, rank) for v in (mean, inverse, weight, bias)]
    assert values[0] is not None
    assert values[1] is not None
    type = wide.shape.type
    found = node.apply("sub", wide, values[0], type=type)
    found = node.apply("mul", found, values[1], type=type)
    return _affine(node, found, values[2], values[3])


def _from_batch(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None, eps: float
) -> tuple[Instruction, Instruction, Instruction, Instruction]:
    """The value normalised by its own statistics; and the mean, 1 / deviation and variance of channels."""
    axes = [a for a in range(x.shape.ndim) if a != 1]
    wide = _wide(node, x)
    mean, variance = (node.squeeze(v, *axes) for v in _moments(node, wide, axes))
    inverse = _inverse(node, variance, eps)
    return _batch(node, x, mean, inverse, weight, bias), mean, inverse, variance


@torch_op("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None, training: bool,
    momentum: float, eps: float,
) -> list[Instruction]:  # fmt: skip
    """The value normalised by its own statistics, which are results."""
    return [
        node.convert(v, node.dtype(k))
        for k, v in enumerate(_from_batch(node, x, weight, bias, eps)[:3])
    ]


@torch_op("aten._native_batch_norm_legit_functional", "aten._native_batch_norm_legit")
def batch_norm(
    node: Context, x: Instruction, weight: Instruction | None, bias: Instruction | None,
    mean: Instruction, variance: Instruction, training: bool, momentum: float, eps: float,
) -> list[Instruction]:  # fmt: skip
    """A batch norm with the statistics that it keeps; their next values are further results.

    Raises:
        ModelError: The statistics are changed in place, which only graphs that are not functional do.
    """
    if str(node.fx.target).startswith("aten._native_batch_norm_legit.") and training:
        raise node.fail("statistics that are changed in place; expected a functional graph")
    if not training:
        return [
            *batch_norm_inference(node, x, weight, bias, mean, variance, momentum, eps),
            mean,
            variance,
        ]
    found, own, inverse, spread = _from_batch(node, x, weight, bias, eps)
    kind = spread.shape.type
    total: Length = 1
    for axis, n in enumerate(node.lens(x)):
        total = total if axis == 1 else n * total
    count = node.operand(total, kind)
    rest = node.apply("sub", count, 1, type=kind)
    unbiased = node.apply("mul", spread, node.apply("div", count, rest, type=kind), type=kind)
    following = [_mixed(node, *p, momentum) for p in ((mean, own), (variance, unbiased))]
    return [node.convert(v, node.dtype(k)) for k, v in enumerate((found, own, inverse, *following))]


def _mixed(node: Context, old: Instruction, new: Instruction, momentum: float) -> Instruction:
    type = new.shape.type
    kept = node.apply("mul", old, 1 - momentum, type=type)
    return node.apply("add", kept, node.apply("mul", new, momentum, type=type), type=type)
