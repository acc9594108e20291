"""Macros of quantisation: scales and zero points per tensor, per axis or per block."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros.emit import Emit, common_type
from workbench.compiler.macros.table import macro


@macro("dequantizelinear", least=2, most=3)
def dequantizelinear(
    emit: Emit, inputs: list[Instruction], *, axis: int = 1, block_size: int = 0
) -> Instruction:
    """``(x - zero) * scale``."""
    return emit.add("dequantizelinear", *_prepared(emit, inputs, axis, block_size))


@macro("quantizelinear", least=2, most=3)
def quantizelinear(
    emit: Emit,
    inputs: list[Instruction],
    *,
    axis: int = 1,
    block_size: int = 0,
    output_type: DType | None = None,
) -> Instruction:
    """``x / scale + zero``, rounded and saturated."""
    given = _prepared(emit, inputs, axis, block_size)
    if output_type is DType.FP4X2:
        return _four_bits(emit, given)
    meet = common_type([given[0].shape.type, given[1].shape.type])
    given[:2] = [emit.convert(v, meet) for v in given[:2]]
    if output_type is None:
        return emit.add("quantizelinear", *given)
    return emit.add("quantizelinear", *given, out_type=output_type)


def _four_bits(emit: Emit, given: list[Instruction]) -> Instruction:
    """Floats rounded to 4 bits, packed in pairs along the fastest axis and unpacked again."""
    value = emit.add("quantizelinear", *given, out_type=DType.FLOAT)
    lens, strides = emit.static(value, "the value to pack"), value.shape.strides
    axis, rank = strides.index(min(strides)), len(lens)
    if lens[axis] % 2:
        value = emit.add("pad", value, pads=tuple(int(i == rank + axis) for i in range(2 * rank)))
    value = emit.add("unpack_fp4", emit.add("pack_fp4", value, axis=axis), axis=axis)
    return emit.slice(value, axis, 0, lens[axis]) if lens[axis] % 2 else value


def _prepared(
    emit: Emit, inputs: list[Instruction], axis: int, block_size: int
) -> list[Instruction]:
    """The inputs, with the scale and the zero point broadcast to the value's lens."""
    x, scale = inputs[:2]
    lens, own = emit.static(x, "the value"), emit.static(scale, "the scale")
    if scale.shape.elements == 1:
        return [x, *(emit.multibroadcast(v, lens) for v in inputs[1:])]
    if not -len(lens) <= axis < len(lens):
        raise emit.fail(f"axis {axis} is out of range for {x.shape}")
    axis %= len(lens)
    if len(own) != 1:
        return [x, *_blocks(emit, inputs, axis, block_size)]
    if own[0] != lens[axis]:
        raise emit.fail(f"{own[0]} scales for axis {axis}; expected {lens[axis]}, its length")
    others = [i for i in range(len(lens)) if i != axis]
    return [x, *(emit.multibroadcast(emit.unsqueeze(v, *others), lens) for v in inputs[1:])]


def _blocks(emit: Emit, inputs: list[Instruction], axis: int, size: int) -> list[Instruction]:
    lens, own = inputs[0].shape.lens, inputs[1].shape.lens
    if len(own) != len(lens):
        raise emit.fail(f"scales {list(own)} for {list(lens)}; expected as many dimensions")
    if any(n != m for i, (n, m) in enumerate(zip(lens, own, strict=True)) if i != axis):
        raise emit.fail(
            f"scales {list(own)} for {list(lens)}; expected a difference in axis {axis} alone"
        )
    length, count = lens[axis], own[axis]
    if count < 2:
        raise emit.fail(f"scales {list(own)}; expected more than one along axis {axis}")
    low, high = -(-length // count), -(-length // (count - 1)) - 1
    size = size or low
    if not low <= size <= high:
        raise emit.fail(f"block_size={size}; expected {low} to {high} for {count} scales")
    return [_block(emit, v, lens, axis, size) for v in inputs[1:]]


def _block(
    emit: Emit, value: Instruction, lens: tuple[int, ...], axis: int, size: int
) -> Instruction:
    if size == 1:
        return value
    own = value.shape.lens
    split = emit.unsqueeze(value, axis + 1)
    spread = emit.multibroadcast(split, (*own[: axis + 1], size, *own[axis + 1 :]))
    total = own[axis] * size
    result = emit.reshape(spread, *lens[:axis], total, *lens[axis + 1 :])
    return emit.slice(result, axis, 0, lens[axis]) if total > lens[axis] else result
