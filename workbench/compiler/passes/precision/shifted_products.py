"""Matrix products of 8-bit integers minus zero points, rewritten as products of the integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.pointwise import Sub
from workbench.compiler.passes.tidy.propagate_constant import value_of
from workbench.compiler.rewrite import Decline, Rewriter, op, rule
from workbench.compiler.run.constants import is_large

_BYTES = (DType.INT8, DType.UINT8)
_LEAST, _COUNT = -128, 256
"""The least int8, and how many there are."""


@dataclass(frozen=True)
class _Operand:
    """An operand of int32 as 8-bit integers plus a shift, which does not vary along the terms."""

    value: Instruction
    """The integers as they are: of 8 bits, or a constant of int32."""
    zero: Instruction | None = None
    """What is subtracted, in int32, as long as the operand."""

    @property
    def is_constant(self) -> bool:
        """Whether the integers are a constant of int32."""
        return self.value.shape.type is DType.INT32


@dataclass(frozen=True)
class _Part:
    """The 8-bit integers of an operand, and what each is to be increased by: one number for each sum."""

    bytes: Instruction
    shift: Instruction | None


def _operand(value: Instruction, terms: int) -> _Operand | None:
    """An operand of bytes; None if it is something else."""
    if value.is_constant and not is_large(value):
        return _Operand(value)
    if isinstance(value.op, Convert) and value.inputs[0].shape.type in _BYTES:
        return _Operand(value.inputs[0])
    if not isinstance(value.op, Sub):
        return None
    first, zero = value.inputs
    is_fixed = zero.shape.strides[terms] == 0 or zero.shape.lens[terms] == 1
    found = _operand(first, terms) if is_fixed and not first.is_constant else None
    return None if found is None or found.zero is not None else _Operand(found.value, zero)


def _operands(dot: Instruction) -> tuple[_Operand, _Operand] | None:
    """The operands of a product of bytes in int32, not both constant; None if it is another one."""
    shapes = [dot.shape, *(i.shape for i in dot.inputs)]
    if dot.shape.type is not DType.INT32 or any(s.is_dynamic or not s.elements for s in shapes):
        return None
    first, second = (_operand(x, axis) for x, axis in zip(dot.inputs, (-1, -2), strict=True))
    if first is None or second is None or (first.is_constant and second.is_constant):
        return None
    return first, second


@rule(op("dot").when(lambda i: _operands(i) is not None))
def find_shifted_product(b: Rewriter) -> Instruction | Decline:
    """dot(sub(a, z), c) → add(quant_dot(a, c), mul(neg(z), sum(c))), for a and c of 8 bits"""
    pair = _operands(b.root)
    assert pair is not None
    types = {one.value.shape.type for one in pair}
    parts: list[_Part] = []
    for one, axis in zip(pair, (-1, -2), strict=True):
        made = _constant(b, one, axis) if one.is_constant else _bytes(b, one, axis, types)
        if isinstance(made, Decline):
            return made
        parts.append(made)
    return _corrected(b, *parts)


def _constant(b: Rewriter, one: _Operand, axis: int) -> _Part | Decline:
    """A constant as int8; the shift moves the numbers of each sum into its range."""
    given = one.value
    source = given.inputs[0] if isinstance(given.op, Multibroadcast) else given
    known = value_of(source)
    if known is None or source.shape.ndim < 2:
        return Decline(f"the constant #{given.id} has no rows, or is not known")
    array = known.numpy()
    low, high = (f(array, axis=axis, keepdims=True).astype(np.int64) for f in (np.min, np.max))
    if np.any(high - low >= _COUNT):
        return Decline(f"the numbers of a sum in #{given.id} are more than 255 apart")
    fits = bool(np.all(low >= _LEAST) and np.all(high < _LEAST + _COUNT))
    shift = np.zeros_like(low) if fits else low - _LEAST
    made = _repeated(b, (array - shift).astype(np.int8), given)
    return _Part(made, None if fits else _repeated(b, shift.astype(np.int32), given, axis))


def _repeated(
    b: Rewriter, array: Array, given: Instruction, axis: int | None = None
) -> Instruction:
    """A literal, repeated as a constant is; with a single element along an axis."""
    lens = list(given.shape.lens)
    if axis is not None:
        lens[axis] = 1
    made = b.literal(array)
    return made if list(array.shape) == lens else b("multibroadcast", made, out_lens=tuple(lens))


def _bytes(b: Rewriter, one: _Operand, axis: int, types: set[DType]) -> _Part:
    """The bytes as they are, or uint8 minus 128 beside another type; in half, which is exact here."""
    value, shift = one.value, None
    if one.zero is not None:
        end = axis % value.shape.ndim
        first = b("slice", one.zero, axes=(end,), starts=(0,), ends=(1,))
        shift = b("neg", first)
    if value.shape.type is DType.UINT8 and len(types) > 1:
        half = b("convert", value, target_type=DType.HALF)
        moved = b("add", half, _filled(b, _LEAST, half))
        value = b("convert", moved, target_type=DType.INT8)
        lens = list(value.shape.lens)
        lens[axis] = 1
        number = b("multibroadcast", b.scalar(-_LEAST, DType.INT32), out_lens=tuple(lens))
        shift = number if shift is None else b("add", shift, number)
    return _Part(value, shift)


def _filled(b: Rewriter, number: int, like: Instruction) -> Instruction:
    return b("multibroadcast", b.scalar(number, like.shape.type), out_lens=like.shape.lens)


def _corrected(b: Rewriter, first: _Part, second: _Part) -> Instruction:
    """The product of the bytes, and what the shifts add to it."""
    total, lens = b("quant_dot", first.bytes, second.bytes), b.root.shape.lens

    def wide(x: Instruction) -> Instruction:
        return x if x.shape.lens == lens else b("multibroadcast", x, out_lens=lens)

    def summed(part: _Part, axis: int) -> Instruction:
        numbers = b("convert", part.bytes, target_type=DType.INT32)
        return b("reduce_sum", numbers, axes=(axis % len(lens),))

    if second.shift is not None:
        total = b("add", total, b("mul", wide(summed(first, -1)), wide(second.shift)))
    if first.shift is not None:
        sums = summed(second, -2)
        if second.shift is not None:
            terms = _filled(b, first.bytes.shape.lens[-1], second.shift)
            sums = b("add", sums, b("mul", second.shift, terms))
        total = b("add", total, b("mul", wide(first.shift), wide(sums)))
    return total
