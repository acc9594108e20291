"""Blocks of 4-bit floats that share a scale, a power of two (MX)."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.quantization import paired_floats
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length

_BLOCK = 32


@onnx_op("MXFixNeuron", "MXQuantizeDequantize")
def mx_quantize_dequantize(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The values rounded to blocks of 4-bit floats, each block times its scale."""
    node.expect(inputs, 1)
    x = inputs[0]
    _expect(node, block_size=_BLOCK, element_dtype="fp4_e2m1", rounding_mode=2)
    axis = node.axis(node.integer("axis"), x.shape.ndim)
    scales = _spread(node, _scales(node, x, axis), node.lens(x), axis)
    wide = node.add("quantizelinear", x, scales, out_type=DType.FLOAT)
    return node.add("dequantizelinear", paired_floats(node, wide), scales)


@onnx_op("DynamicScale")
def dynamic_scale(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The scale of each block of values along an axis."""
    node.expect(inputs, 1)
    x = inputs[0]
    _expect(
        node,
        group_size=_BLOCK,
        output_dtype=onnx.TensorProto.FLOAT4E2M1,
        scale_selection_method="floor",
        zero_point_selection_method="None",
    )
    axis = node.axis(node.integer("group_dim"), x.shape.ndim)
    return node.squeeze(_scales(node, x, axis), axis + 1)


def _expect(node: NodeContext, **wanted: int | str) -> None:
    """Refuse a node whose attributes have values other than these, which are the defaults."""
    for name, value in wanted.items():
        found = node.integer(name, value) if isinstance(value, int) else node.text(name, value)
        if found != value:
            raise node.fail(f"{name}={found!r} is not supported; expected {value!r}")


def _scales(node: NodeContext, x: Instruction, axis: int) -> Instruction:
    """The scale of each block of 32 elements along an axis; the last block may be incomplete.

    Returns:
        Scales with the axis split into blocks and one element each.
    """
    lens, rank = node.lens(x), x.shape.ndim
    length = lens[axis]
    if not isinstance(length, int):
        raise node.fail(f"axis {axis} of {x.shape}; expected a length that is known at import")
    missing = -length % _BLOCK
    if missing:
        pads = tuple(missing if i == rank + axis else 0 for i in range(2 * rank))
        x = node.add("pad", x, pads=pads)
    count = (length + missing) // _BLOCK
    blocks = node.reshape(x, *lens[:axis], count, _BLOCK, *lens[axis + 1 :])
    largest = node.add("reduce_max", node.add("abs", blocks), axes=(axis + 1,))
    exponent = node.add("floor", node.add("log2", largest))
    two, four = (node.scalar(x.shape.type, v) for v in (2, 4))
    return node.common("div", node.common("pow", two, exponent), four)


def _spread(
    node: NodeContext, scales: Instruction, lens: Sequence[Length], axis: int
) -> Instruction:
    """The scale of each element."""
    own = node.lens(scales)
    blocks = node.multibroadcast(scales, (*own[: axis + 1], _BLOCK, *own[axis + 2 :]))
    length = own[axis] * _BLOCK
    flat = node.reshape(blocks, *lens[:axis], length, *lens[axis + 1 :])
    return flat if length == lens[axis] else node.slice(flat, [axis], [0], [lens[axis]])
