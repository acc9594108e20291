"""Images: regions of interest, box suppression, deformable convolution, columns to images."""

from __future__ import annotations

from math import prod

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext, is_absent
from workbench.compiler.onnx.nodes.convolution import with_bias
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.windows import window


@onnx_op("RoiAlign")
def roi_align(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Regions of a feature map, sampled to one size."""
    node.expect(inputs, 3)
    old = "output_half_pixel" if node.version < 16 else "half_pixel"
    coordinates = node.text("coordinate_transformation_mode", old)
    if coordinates not in {"half_pixel", "output_half_pixel"}:
        raise node.fail(f"coordinate_transformation_mode={coordinates!r}; expected half_pixel")
    mode = {"avg": "average", "max": "max"}.get(node.text("mode", "avg"))
    if mode is None:
        raise node.fail(f"mode={node.text('mode')!r}; expected 'avg' or 'max'")
    return node.add(
        "roialign",
        *inputs,
        coordinate_transformation_mode=coordinates,
        mode=choice("roialign", "mode", mode),
        output_height=node.integer("output_height", 1),
        output_width=node.integer("output_width", 1),
        sampling_ratio=node.integer("sampling_ratio", 0),
        spatial_scale=node.number("spatial_scale", 1.0),
    )


@onnx_op("MaxRoiPool")
def max_roi_pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The maximum in each cell of a grid over each region."""
    node.expect(inputs, 2)
    shape, scale = node.integers("pooled_shape"), node.number("spatial_scale", 1.0)
    return node.add("max_roi_pool", *inputs, pooled_shape=shape, spatial_scale=scale)


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The best boxes that do not overlap."""
    node.expect(inputs, 2, 5)
    while is_absent(inputs[-1]):
        inputs = inputs[:-1]
    for index, (type, value) in enumerate(((DType.INT64, 0), (DType.FLOAT, 0.0)), 2):
        if index < len(inputs) and is_absent(inputs[index]):
            inputs = [*inputs[:index], node.scalar(type, value), *inputs[index + 1 :]]
    return node.add(
        "nonmaxsuppression",
        *inputs,
        center_point_box=node.flag("center_point_box"),
        use_dyn_output=node.importer.options.use_dyn_output,
    )


@onnx_op("DeformConv")
def deform_conv(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution whose taps are moved by offsets."""
    node.expect(inputs, 3, 5)
    x, weights, offset = inputs[:3]
    made = window(node, x, node.fixed(node.lens(weights)[2:], "weights"))
    mask = node.optional(inputs, 4)
    result = node.add(
        "deform_convolution",
        x,
        weights,
        offset,
        *([] if mask is None else [mask]),
        padding=made.padding,
        stride=made.stride,
        dilation=made.dilation,
        group=node.integer("group", 1),
        offset_group=node.integer("offset_group", 1),
    )
    return with_bias(node, result, node.optional(inputs, 3))


@onnx_op("Col2Im")
def col_to_im(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Columns of blocks summed into an image; overlapping elements are added."""
    node.expect(inputs, 3)
    x = inputs[0]
    image = node.constant_ints(inputs[1], "the image's lens")
    block = node.constant_ints(inputs[2], "the blocks' lens")
    rank = len(image)
    dilation = node.integers("dilations", (1,) * rank)
    stride = node.integers("strides", (1,) * rank)
    pads = node.integers("pads", (0,) * (2 * rank))
    if {len(block), len(dilation), len(stride), len(pads) // 2} != {rank}:
        raise node.fail(
            f"block {list(block)}, strides {list(stride)}, dilations {list(dilation)} and pads "
            f"{list(pads)} for an image {list(image)}; expected {rank} of each, and twice as many pads"
        )
    begins, ends = pads[:rank], pads[rank:]
    lens = [n + b + e for n, b, e in zip(image, begins, ends, strict=True)]
    places = _block_places(node, lens, block, stride, dilation)
    batch, rows, count = node.lens(x)
    if places.size != prod(block) * count or rows % max(prod(block), 1):
        raise node.fail(
            f"{rows} × {count} columns for blocks {list(block)} of an image {list(image)}; "
            f"expected {places.size // max(prod(block), 1)} columns"
        )
    channels = rows // prod(block)
    flat = node.reshape(x, batch, channels, places.size)
    index = node.multibroadcast(node.literal(places.reshape(-1)), node.lens(flat))
    zeros = node.filled(x.shape.type, (batch, channels, prod(lens)), 0)
    summed = node.add("scatter_add", zeros, index, flat, axis=2)
    whole = node.reshape(summed, batch, channels, *lens)
    stops = [b + n for b, n in zip(begins, image, strict=True)]
    return node.slice(whole, range(2, 2 + rank), begins, stops) if any(pads) else whole


def _block_places(
    node: NodeContext,
    lens: list[int],
    block: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The flat index in the padded image of each tap of each block."""
    starts = [
        node.counting(range(0, n - (k - 1) * d, s))
        for n, k, s, d in zip(lens, block, stride, dilation, strict=True)
    ]
    taps = [node.counting(range(k)) * d for k, d in zip(block, dilation, strict=True)]
    check_size(Shape(DType.INT64, [*block, *map(len, starts)]), node.op_type)
    found = np.zeros([1] * (2 * len(lens)), np.int64)
    for axis, n in enumerate(lens):
        grid = [1] * (2 * len(lens))
        grid[axis], grid[len(lens) + axis] = len(taps[axis]), len(starts[axis])
        found = found * n + np.add.outer(taps[axis], starts[axis]).reshape(grid)
    return found


@onnx_op("ImageDecoder")
def image_decoder(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The pixels of an image, from the bytes of its file."""
    node.expect(inputs, 1)
    return node.add("image_decode", inputs[0], pixel_format=node.text("pixel_format", "RGB"))
