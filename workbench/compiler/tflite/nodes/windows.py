"""Convolutions, poolings, matrix products and resampling; images have their channels last."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.tflite.context import Context
from workbench.compiler.tflite.registry import tflite_op

SAME = 0


def _padding(
    options: Any, lens: tuple[int, ...], size: tuple[int, ...], dilation: tuple[int, ...]
) -> Any:
    """The padding of windows: none, or as much as gives one window for each stride."""
    strides = int(options.StrideH()), int(options.StrideW())
    if options.Padding() != SAME:
        return (0, 0, 0, 0)
    begin: list[int] = []
    end: list[int] = []
    for n, k, s, d in zip(lens, size, strides, dilation, strict=True):
        whole = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        begin.append(whole // 2)
        end.append(whole - whole // 2)
    return (*begin, *end)


def _first(node: Context, x: Instruction) -> Instruction:
    """An image with the channels first."""
    return node.permuted(x, 0, 3, 1, 2)


def _last(node: Context, x: Instruction) -> Instruction:
    return node.permuted(x, 0, 2, 3, 1)


def _expect_strides(node: Context, options: Any) -> None:
    if min(options.StrideH(), options.StrideW()) < 1:
        raise node.fail("a stride of 0; expected at least 1")


@tflite_op("CONV_2D", "DEPTHWISE_CONV_2D")
def convolution(
    node: Context, x: Instruction, w: Instruction, bias: Instruction | None = None
) -> Instruction:
    """A convolution; weights are ``[out, h, w, in]``, or ``[1, h, w, out]`` for one of each channel."""
    is_deep = node.operator.name == "DEPTHWISE_CONV_2D"
    options = node.options("DepthwiseConv2DOptions" if is_deep else "Conv2DOptions")
    _expect_strides(node, options)
    dilation = max(int(options.DilationHFactor()), 1), max(int(options.DilationWFactor()), 1)
    kernel = node.permuted(w, 3, 0, 1, 2) if is_deep else _first(node, w)
    image = _first(node, x)
    size = kernel.shape.lens[2:]
    made = node.add(
        "convolution", image, kernel,
        padding=_padding(options, image.shape.lens[2:], size, dilation),
        stride=(int(options.StrideH()), int(options.StrideW())), dilation=dilation,
        group=image.shape.lens[1] // max(kernel.shape.lens[1], 1),
    )  # fmt: skip
    return _finished(node, made, bias, options.FusedActivationFunction())


def _finished(
    node: Context, image: Instruction, bias: Instruction | None, activation: int
) -> Instruction:
    """An image with a bias for each channel and after the activation, the channels last."""
    if bias is not None:
        image = node.add("add", image, node.broadcast(bias, 1, image.shape.lens))
    return _last(node, node.activated(image, activation))


@tflite_op("TRANSPOSE_CONV")
def transposed(
    node: Context,
    lens: Instruction,
    w: Instruction,
    x: Instruction,
    bias: Instruction | None = None,
) -> Instruction:
    """A transposed convolution to lens that are known, cropped as a convolution of that would pad."""
    options = node.options("TransposeConvOptions")
    _expect_strides(node, options)
    wanted = node.ints_of(lens, "the lens of the output")[1:3]
    kernel = node.permuted(w, 3, 0, 1, 2)
    stride = int(options.StrideH()), int(options.StrideW())
    size = kernel.shape.lens[2:]
    full = node.add(
        "convolution_backwards", _first(node, x), kernel, padding=(0, 0), stride=stride, dilation=(1, 1)
    )  # fmt: skip
    pads = _padding(options, (wanted[0], wanted[1]), size, (1, 1))
    behind = [
        n - have + b for n, have, b in zip(wanted, full.shape.lens[2:], pads[:2], strict=True)
    ]
    crop = (0, 0, -pads[0], -pads[1], 0, 0, *behind)
    cut = node.add("pad", full, pads=crop) if any(crop) else full
    return _finished(node, cut, bias, options.FusedActivationFunction())


@tflite_op("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(node: Context, x: Instruction) -> Instruction:
    """The mean or the largest element of each window; padding does not count."""
    options = node.options("Pool2DOptions")
    _expect_strides(node, options)
    image = _first(node, x)
    size = int(options.FilterHeight()), int(options.FilterWidth())
    is_max = node.operator.name == "MAX_POOL_2D"
    made = node.add(
        "pooling", image, mode=PoolingMode.MAX if is_max else PoolingMode.AVERAGE, lengths=size,
        padding=_padding(options, image.shape.lens[2:], size, (1, 1)),
        stride=(int(options.StrideH()), int(options.StrideW())), dilations=(1, 1),
    )  # fmt: skip
    return _last(node, node.activated(made, options.FusedActivationFunction()))


@tflite_op("FULLY_CONNECTED")
def fully_connected(
    node: Context, x: Instruction, w: Instruction, bias: Instruction | None = None
) -> Instruction:
    """A product with weights ``[out, in]``.

    Raises:
        ModelError: The weights are shuffled.
    """
    options = node.options("FullyConnectedOptions")
    if options.WeightsFormat():
        raise node.fail("shuffled weights; expected the default format")
    rows = node.reshape(x, -1, w.shape.lens[1])
    made = node.add("dot", rows, node.permuted(w, 1, 0))
    if bias is not None:
        made = node.common("add", made, node.fit(node.reshape(bias, -1), made.shape.lens))
    made = node.activated(made, options.FusedActivationFunction())
    return node.reshape(made, *node.out_lens) if made.shape.lens != node.out_lens else made


@tflite_op("BATCH_MATMUL")
def batch_matmul(node: Context, a: Instruction, b: Instruction) -> Instruction:
    """A product of matrices, whose other axes are broadcast."""
    options = node.options("BatchMatMulOptions")
    sides = [
        node.permuted(v, *range(v.shape.ndim - 2), v.shape.ndim - 1, v.shape.ndim - 2)
        if turned
        else v
        for v, turned in ((a, options.AdjX()), (b, options.AdjY()))
    ]
    return node.emitted("MatMul", *sides)[0]


@tflite_op("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(node: Context, x: Instruction, lens: Instruction) -> Instruction:
    """An image of another size, from the neighbours of each place."""
    is_linear = node.operator.name == "RESIZE_BILINEAR"
    options = node.options("ResizeBilinearOptions" if is_linear else "ResizeNearestNeighborOptions")
    coordinates = "asymmetric"
    if options.AlignCorners():
        coordinates = "align_corners"
    elif options.HalfPixelCenters():
        coordinates = "half_pixel" if is_linear else "tf_half_pixel_for_nn"
    nearest = "round_prefer_ceil" if options.AlignCorners() else "floor"
    image = node.convert(_first(node, x), DType.FLOAT) if is_linear else _first(node, x)
    sizes = [*image.shape.lens[:2], *node.ints_of(lens, "the size")]
    nothing = node.nothing(DType.FLOAT)
    target = node.module.add_literal(np.array(sizes, np.int64))
    made = node.emitted(
        "Resize", image, nothing, nothing, target, mode="linear" if is_linear else "nearest",
        coordinate_transformation_mode=coordinates, nearest_mode=None if is_linear else nearest,
    )  # fmt: skip
    return _last(node, made[0])
