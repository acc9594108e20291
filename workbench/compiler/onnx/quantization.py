"""Scales and zero points broadcast to their values: per tensor, per axis or per block."""

from __future__ import annotations

from typing import Any

import ml_dtypes

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import ONE, agree, broadcast_dim, dims_of
from workbench.compiler.onnx.broadcast import common_type
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.sizes import dim_of
from workbench.compiler.onnx.tensors import NARROW, TYPES


def _spread(
    node: NodeContext,
    x: Instruction,
    given: list[Instruction],
    axis: int,
    block_size: int,
) -> list[Instruction]:
    """The scale, and the zero point if there is one, broadcast to the lens of ``x``."""
    scale, lens = dims_of(given[0].shape), node.lens(x)
    if all(d == ONE for d in scale):
        given = given if lens else [node.reshape(v) if v.shape.ndim else v for v in given]
        return [node.multibroadcast(v, lens) for v in given]
    axis = node.axis(axis, len(lens))
    if len(scale) == 1 and (len(lens) > 1 or agree(scale, [dim_of(n) for n in lens])):
        if broadcast_dim(scale[0], dim_of(lens[axis])) is None:
            raise node.fail(
                f"{scale[0]} scales; expected {dim_of(lens[axis])}, one along axis {axis}"
            )
        axes = [i for i in range(len(lens)) if i != axis]
        return [node.multibroadcast(node.unsqueeze(v, *axes), lens) for v in given]
    return [_blocked(node, x, v, axis, block_size) for v in given]


def _blocked(
    node: NodeContext, x: Instruction, value: Instruction, axis: int, block: int
) -> Instruction:
    lens, own = node.lens(x), node.lens(value)
    if own == lens and not lens[axis]:
        return value
    if len(own) != len(lens) or not own[axis]:
        raise node.fail(f"scales {list(own)} for {list(lens)}; expected one or more per axis")
    differs = [i for i, (n, m) in enumerate(zip(lens, own, strict=True)) if n != m]
    if differs not in ([], [axis]):
        raise node.fail(
            f"scales {list(own)} for {list(lens)}; expected them to differ only in axis {axis}"
        )
    length, count = lens[axis], own[axis]
    if node.strict and count == 1:
        raise node.fail(f"scales {list(own)}; expected more than one along axis {axis}")
    size = block or (length + count - 1) // count
    if (length + size - 1) // size != count:
        raise node.fail(
            f"block_size={size} with {count} scales for a length of {length}; expected "
            f"{(length + size - 1) // size} scales"
        )
    if size == 1:
        return value
    wide = (*own[: axis + 1], size, *own[axis + 1 :])
    spread = node.multibroadcast(node.unsqueeze(value, axis + 1), wide)
    result = node.reshape(spread, *own[:axis], count * size, *own[axis + 1 :])
    return result if count * size == length else node.slice(result, [axis], [0], [length])


def paired_floats(node: NodeContext, x: Instruction) -> Instruction:
    """Floats rounded to 4 bits, packed in pairs along the fastest axis and unpacked again."""
    lens, strides = node.fixed(node.lens(x), "a value to pack in pairs"), x.shape.strides
    rank, axis = len(lens), strides.index(min(strides))
    if lens[axis] % 2:
        x = node.add("pad", x, pads=tuple(int(i == rank + axis) for i in range(2 * rank)))
    x = node.add("unpack_fp4", node.add("pack_fp4", x, axis=axis), axis=axis)
    return x if node.lens(x) == lens else node.slice(x, [axis], [0], [lens[axis]])


def narrowed(
    node: NodeContext, x: Instruction, code: int, saturate: bool = True, round_mode: str = "up"
) -> Instruction:
    """The values rounded to the type of this code, held in a type that programs have."""
    element = str(NARROW[code] if code in NARROW else TYPES[code].numpy)
    made = node.add("cast_to", x, element=element, saturate=saturate, round_mode=round_mode)
    return node.declared(made, code)


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


def within(node: NodeContext, x: Instruction, code: int) -> Instruction:
    """Integers clipped to the bounds of the type of this code, which has few bits."""
    info: Any = ml_dtypes.iinfo(NARROW[code])
    low, high = (node.scalar(x.shape.type, v) for v in (int(info.min), int(info.max)))
    return node.declared(node.common("clip", x, low, high), code)
