"""Expand and DepthToSpace as MIGraphX composes them for dynamic lengths."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of, product
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes import movement
from workbench.compiler.onnx.registry import strict_op


@strict_op("Expand")
def expand(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value and given lens broadcast to each other; the lens may be computed at run time."""
    node.expect(inputs, 2)
    x = inputs[0]
    if node.constant(inputs[1]) is None:
        return node.add("broadcast_with_dims", x, inputs[1])
    if x.shape.is_dynamic:
        raise node.fail(f"input {x.shape} and a constant shape; expected fixed dimensions")
    return movement.expand(node, inputs)


@strict_op("DepthToSpace")
def depth_to_space(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Channels as blocks of pixels, by reshapes to buffers whose lens are computed at run time."""
    if not inputs or not inputs[0].shape.is_dynamic:
        return movement.depth_to_space(node, inputs)
    x, block, mode = inputs[0], node.integer("blocksize"), node.text("mode", "DCR")
    if mode not in {"DCR", "CRD"} or x.shape.ndim != 4:
        raise node.fail(f"mode={mode!r} of input {x.shape}; expected DCR or CRD and rank 4")
    n, c, h, w = dims_of(x.shape)
    if not c.is_fixed or block < 1 or c.min % block**2:
        raise node.fail(f"blocksize={block} with {c} channels; expected its square to divide these")
    side, deep = Dim(block, block), Dim(c.min // block**2, c.min // block**2)
    blocks = node.scalar(DType.INT64, block)
    count, *sides = (node.add("dimensions_of", x, start=i, end=i + 1) for i in (0, 2, 3))
    channels = node.scalar(DType.INT64, deep.min)
    if mode == "DCR":
        lens, dims, permutation = [blocks, blocks, channels], [side, side, deep], (0, 3, 4, 1, 5, 2)
    else:
        lens, dims, permutation = [channels, blocks, blocks], [deep, side, side], (0, 1, 4, 2, 5, 3)
    split = _reshaped(node, x, [count, *lens, *sides], [n, *dims, h, w])
    moved = node.transpose(split, *permutation)
    sides = [node.add("mul", v, blocks) for v in sides]
    wide = [product([d, side]) for d in (h, w)]
    return _reshaped(node, moved, [count, channels, *sides], [n, deep, *wide])


def _reshaped(
    node: NodeContext, value: Instruction, lens: list[Instruction], dims: list[Dim]
) -> Instruction:
    shape = Shape.dynamic(value.shape.type, dims)
    buffer = node.add("allocate", node.add("concat", *lens, axis=0), shape=shape)
    return node.add("reshape", value, buffer)
