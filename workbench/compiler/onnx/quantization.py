"""Scales and zero points as large as what they scale: per tensor, per axis or per block."""

from __future__ import annotations

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.broadcast import common_type
from workbench.compiler.onnx.context import NodeContext


def _spread(
    node: NodeContext,
    x: Instruction,
    given: list[Instruction],
    axis: int,
    block_size: int,
) -> list[Instruction]:
    """The scale, and the zero point if there is one, with the lens of ``x``."""
    scale, lens = given[0].shape, x.shape.lens
    if scale.elements == 1:
        return [node.multibroadcast(v, lens) for v in given]
    axis = node.axis(axis, len(lens))
    if scale.ndim == 1:
        if scale.lens[0] != lens[axis]:
            raise node.fail(f"{scale.lens[0]} scales for axis {axis} of length {lens[axis]}")
        axes = [i for i in range(len(lens)) if i != axis]
        return [node.multibroadcast(node.unsqueeze(v, *axes), lens) for v in given]
    return [_blocked(node, x, v, axis, block_size) for v in given]


def _blocked(
    node: NodeContext, x: Instruction, value: Instruction, axis: int, block: int
) -> Instruction:
    lens, own = x.shape.lens, value.shape.lens
    differs = [i for i, (n, m) in enumerate(zip(lens, own, strict=True)) if n != m]
    if differs not in ([], [axis]):
        raise node.fail(
            f"scales {list(own)} for {list(lens)}; expected a difference in axis {axis}"
        )
    length, count = lens[axis], own[axis]
    block = block or -(-length // count)
    if -(-length // block) != count:
        raise node.fail(f"block_size={block} with {count} scales for a length of {length}")
    if block == 1:
        return value
    wide = (*own[: axis + 1], block, *own[axis + 1 :])
    spread = node.multibroadcast(node.unsqueeze(value, axis + 1), wide)
    result = node.reshape(spread, *own[:axis], count * block, *own[axis + 1 :])
    return result if count * block == length else node.slice(result, [axis], [0], [length])


def unpacked(node: NodeContext, value: Instruction) -> Instruction:
    """The 4-bit elements of bytes, the low half first; those of a constant are unpacked at once."""
    known = node.constant(value)
    if known is None:
        return node.add("unpack_int4", value)
    halves = np.stack([known & 15, known >> 4], axis=-1)
    if known.dtype == np.int8:
        halves = np.stack([np.left_shift(known, 4) >> 4, known >> 4], axis=-1)
    return node.literal(halves.reshape(*known.shape[:-1], -1))


def dequantized(
    node: NodeContext,
    x: Instruction,
    scale: Instruction,
    zero: Instruction | None,
    axis: int,
    block_size: int = 0,
) -> Instruction:
    """``(x - zero) * scale``."""
    given = [scale] if zero is None else [scale, zero]
    return node.add("dequantizelinear", x, *_spread(node, x, given, axis, block_size))


def quantized(
    node: NodeContext,
    x: Instruction,
    scale: Instruction,
    zero: Instruction | None,
    axis: int,
    block_size: int = 0,
    type: DType | None = None,
) -> Instruction:
    """``x / scale + zero``, rounded and saturated."""
    given = [scale] if zero is None else [scale, zero]
    spread = _spread(node, x, given, axis, block_size)
    meet = common_type([x.shape.type, scale.shape.type])
    x, spread[0] = node.convert(x, meet), node.convert(spread[0], meet)
    if type is None:
        return node.add("quantizelinear", x, *spread)
    return node.add("quantizelinear", x, *spread, out_type=type)
