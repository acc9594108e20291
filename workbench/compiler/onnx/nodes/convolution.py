"""Convolutions."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.windows import DEFAULT, Window, window


def _kernel(weights: Instruction) -> tuple[int, ...] | None:
    dims = dims_of(weights.shape)[2:]
    return tuple(d.max for d in dims) if all(d.is_fixed for d in dims) else None


def convolve(
    node: NodeContext, x: Instruction, weights: Instruction, op: str = "convolution"
) -> Instruction:
    """A convolution with the attributes of a node."""
    made = window(node, x, _kernel(weights))
    padding = made.padding if made.is_padded else made.begins
    return node.add(
        op,
        x,
        weights,
        stride=made.stride,
        dilation=made.dilation,
        padding=padding,
        group=node.integer("group", 1),
        padding_mode=made.mode,
    )


def with_bias(node: NodeContext, result: Instruction, bias: Instruction | None) -> Instruction:
    """A result plus an optional bias per channel."""
    if bias is None:
        return result
    return node.add("add", result, node.broadcast(bias, 1, node.lens(result)))


@onnx_op("Conv")
def conv(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution with an optional bias."""
    node.expect(inputs, 2, 3)
    result = convolve(node, inputs[0], inputs[1])
    return with_bias(node, result, node.optional(inputs, 2))


@onnx_op("NhwcConv")
def nhwc_conv(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution with the channels last."""
    node.expect(inputs, 2, 3)
    rank = inputs[0].shape.ndim
    first = (0, rank - 1, *range(1, rank - 1))
    x, weights = (node.transpose(i, *first) for i in inputs[:2])
    result = with_bias(node, convolve(node, x, weights), node.optional(inputs, 2))
    return node.transpose(result, 0, *range(2, rank), 1)


@onnx_op("ConvTranspose")
def conv_transpose(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The transpose of a convolution."""
    node.expect(inputs, 2, 3)
    x, weights = inputs[:2]
    extra = _output_padding(node, x.shape.ndim - 2)
    counted = () if node.strict else extra
    made = window(node, x, _kernel(weights), transposed=True, extra=counted)
    if made.mode != DEFAULT:
        raise node.fail(f"auto_pad with weights {weights.shape}; expected fixed spatial axes")
    if node.strict and x.shape.is_dynamic:
        _expect_fixed_margins(node, made)
    _set_output_shape(node, x, weights, made, extra)
    ends = tuple(e - p for e, p in zip(made.ends, extra, strict=True))
    plain = made.begins == ends
    zeros = (0,) * len(ends)
    result = node.add(
        "convolution_backwards",
        x,
        weights,
        padding=made.begins if plain else zeros,
        stride=made.stride,
        dilation=made.dilation,
        padding_mode=DEFAULT,
        group=node.integer("group", 1),
    )
    if not plain:
        result = _trimmed(node, result, made.begins, ends)
    return with_bias(node, result, node.optional(inputs, 2))


def _expect_fixed_margins(node: NodeContext, made: Window) -> None:
    """Refuse margins that MIGraphX's importer does not cut off where lengths are ranges."""
    automatic = node.text("auto_pad", "NOTSET").upper() not in {"NOTSET", ""}
    if automatic or node.has("output_shape") or not made.is_symmetric:
        raise node.fail(
            "auto_pad, output_shape, and pads that differ between the sides, are not supported by "
            "strict import where lengths are ranges"
        )


def _output_padding(node: NodeContext, rank: int) -> tuple[int, ...]:
    """The padding to add at the end of each axis."""
    extra = node.integers("output_padding", ()) or (0,) * rank
    if len(extra) != rank:
        raise node.fail(f"{len(extra)} values in output_padding; expected {rank}")
    return extra


def _set_output_shape(
    node: NodeContext, x: Instruction, weights: Instruction, made: Window, extra: tuple[int, ...]
) -> None:
    """Set the padding of ``made`` to what gives ``output_shape``, where a node has it."""
    rank, wanted = x.shape.ndim - 2, node.integers("output_shape", ())
    if not wanted:
        return
    lens = node.fixed(node.lens(x)[2:], "spatial axes, with output_shape,")
    kernel = node.fixed(node.lens(weights)[2:], "weights, with output_shape,")
    upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER"
    begins, ends = list(made.begins), list(made.ends)
    for i, want in enumerate(wanted[-rank:]):
        wide = (kernel[i] - 1) * made.dilation[i] + 1
        full = (lens[i] - 1) * made.stride[i] + wide + extra[i]
        total = max(0, full - want)
        half, rest = total // 2, total - total // 2
        begins[i], ends[i] = (half, rest) if upper else (rest, half)
        ends[i] += min(0, full - want)
    made.begins, made.ends = tuple(begins), tuple(ends)


def _trimmed(
    node: NodeContext, result: Instruction, begins: tuple[int, ...], ends: tuple[int, ...]
) -> Instruction:
    """``result`` with its margins cut off; a negative end appends zeros instead."""
    lens = node.lens(result)[2:]
    axes = range(2, 2 + len(lens))
    if any(e < 0 for e in ends):
        grown = [max(0, -e) for e in ends]
        result = node.add("pad", result, pads=(*[0] * (2 * result.shape.ndim - len(lens)), *grown))
    stops = [n - max(0, e) if e >= 0 else n - e for n, e in zip(lens, ends, strict=True)]
    if any(begins) or any(e > 0 for e in ends):
        result = node.slice(result, axes, begins, stops)
    return result


@onnx_op("ConvInteger")
def conv_integer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution of integers minus their zero points."""
    node.expect(inputs, 2, 4)
    x, weights = inputs[:2]
    x_zero = _zero_point(node, x, node.optional(inputs, 2))
    w_zero = _zero_point(node, weights, node.optional(inputs, 3))
    if DType.UINT8 in (x.shape.type, weights.shape.type):
        shift = node.scalar(DType.HALF, -128)
        x, x_zero = (_shifted(node, v, shift) for v in (x, x_zero))
        weights, w_zero = (_shifted(node, v, shift) for v in (weights, w_zero))
    assert x is not None and weights is not None  # noqa: PT018  # a value stays one
    result = _convolved(node, x, weights)
    if x_zero is not None:
        lowered = _convolved(node, _spread(node, x_zero, x), weights)
        result = node.common("sub", result, lowered)
    if w_zero is not None:
        lowered = _convolved(node, x, _spread(node, w_zero, weights))
        result = node.common("sub", result, lowered)
    if x_zero is not None and w_zero is not None:
        both = _spread(node, x_zero, x), _spread(node, w_zero, weights)
        result = node.common("add", result, _convolved(node, *both))
    return result


def _convolved(node: NodeContext, x: Instruction, weights: Instruction) -> Instruction:
    return convolve(node, x, weights, "quant_convolution")


def _spread(node: NodeContext, zero: Instruction, value: Instruction) -> Instruction:
    """A zero point broadcast to the lens of its value."""
    if zero.shape.elements == 1:
        return node.multibroadcast(zero, node.lens(value))
    return node.broadcast(zero, 0, node.lens(value))


def _zero_point(
    node: NodeContext, value: Instruction, zero: Instruction | None
) -> Instruction | None:
    """The zero point, or None if the shift to int8 makes it 0."""
    type = value.shape.type
    if type not in {DType.INT8, DType.UINT8}:
        raise node.fail(f"element type {type.type_name}; expected int8 or uint8")
    middle = 128 if type is DType.UINT8 else 0
    if zero is None:
        absent = node.scalar(type, middle if node.strict else 0)
        return absent if middle and not node.strict else None
    if zero.shape.type is not type:
        raise node.fail(f"a zero point of {zero.shape.type.type_name}; expected {type.type_name}")
    known = node.constant(zero)
    if known is None or not bool(np.all(known == middle)):
        return zero
    node.scalar(type, middle)  # MIGraphX emits this unused literal
    return None


def _shifted(
    node: NodeContext, value: Instruction | None, shift: Instruction
) -> Instruction | None:
    """A uint8 value minus 128, as int8."""
    if value is None or value.shape.type is not DType.UINT8:
        return value
    half = node.convert(value, DType.HALF)
    return node.convert(node.common("add", half, shift), DType.INT8)
