"""Values of operations on narrow types: packed pairs of 4-bit numbers, and ONNX's Cast to narrow types."""

from __future__ import annotations

from typing import Any, cast

from workbench.compiler.ir.dtypes import HELD_FORMATS, DType, Format
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.convert import CastTo
from workbench.compiler.ops.packing import PackFp4, PackInt4, UnpackFp4, UnpackInt4
from workbench.gpu.emit.choices import axis_of
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type, number
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes

_TO_FP4 = (
    "DEVICE u32 {T}_fp4({T} x) {{ {T} a = fabs(x); u32 c = (u32)(a > ({T})0.25) + (a >= ({T})0.75)"
    " + (a > ({T})1.25) + (a >= ({T})1.75) + (a > ({T})2.5) + (a >= ({T})3.5) + (a > ({T})5.0);"
    " return x != x ? 0u : c | ({SIGN} ? 8u : 0u); }}"
)
_FROM_FP4 = (
    "DEVICE f32 fp4_f32(u32 c) { u32 e = (c >> 1) & 3u; u32 m = c & 1u; f32 a = e == 0"
    " ? 0.5f * (f32)m : BITS_F32(((e + 126u) << 23) | (m << 22)); return c & 8u ? -a : a; }"
)
_POWER = (
    "DEVICE f32 f64_e8m0(f64 x, i32 mode, f32 low, f32 high) { u64 b = F64_BITS(fabs(x));"
    " i32 e = (i32)(b >> 52) - 1023; u64 f = b & 0xfffffffffffffUL;"
    " e += mode == 1 ? f != 0 : mode == 2 ? f >= 0x8000000000000UL : 0;"
    " if (x != x) return BITS_F32(0x7fc00000u); if (isinf(x) || e > 127) return high;"
    " if (x == 0 || e < -127) return low;"
    " return BITS_F32(e == -127 ? 0x00400000u : (u32)(e + 127) << 23); }"
)
"""A number rounded to a power of two: down (0), up (1) or to the nearest (2)."""


# Pairs of codes


def _pair(t: Tensors, i: Instruction, index: Indices) -> tuple[Scalar, Scalar]:
    """The two elements that are packed into one byte."""
    axis = axis_of(i)
    first, second = (t.at(i.inputs[0], _moved(index, axis, index[axis] * 2 + k)) for k in (0, 1))
    return first, second


def _moved(index: Indices, axis: int, at: Index) -> Indices:
    return (*index[:axis], at, *index[axis + 1 :])


def _code(t: Tensors, i: Instruction, index: Indices) -> str:
    """The 4-bit code at an index, from the byte that holds it."""
    axis = axis_of(i)
    byte, half = index[axis].divmod(2, t.w)
    value = t.at(i.inputs[0], _moved(index, axis, byte)).text
    return t.w.let("u32", f"((u32)(u8){value} >> ({(half * 4).text()})) & 15u")


@value_of(PackInt4)
def packed_integers(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """Two integers, clamped to four bits and packed."""
    type = i.shape.type
    low, high = (-8, 7) if type is DType.INT8 else (0, 15)
    codes = [
        t.w.let("i32", f"{x.text} < {low} ? {low} : {x.text} > {high} ? {high} : (i32){x.text}")
        for x in _pair(t, i, index)
    ]
    joined = f"({c_type(type)})(u8)(({codes[0]} & 15) | (({codes[1]} & 15) << 4))"
    return Scalar(t.w.let(c_type(type), joined), type)


@value_of(UnpackInt4)
def unpacked_integer(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The 4-bit integer; for int8 its highest bit is the sign."""
    type, code = i.shape.type, _code(t, i, index)
    text = f"(i8)((i32)({code} ^ 8u) - 8)" if type is DType.INT8 else f"(u8){code}"
    return Scalar(t.w.let(c_type(type), text), type)


@value_of(PackFp4)
def packed_floats(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The codes of the nearest 4-bit floats, packed."""
    first, second = (_fp4(t, x) for x in _pair(t, i, index))
    return Scalar(t.w.let("u8", f"(u8)({first} | ({second} << 4))"), i.shape.type)


@value_of(UnpackFp4)
def unpacked_float(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The float that a 4-bit code stands for."""
    return _of_fp4(t, _code(t, i, index), i.shape.type)


def _fp4(t: Tensors, value: Scalar) -> str:
    """The code of the nearest 4-bit float: to nearest even, 6 at most; NaN is 0."""
    kind = c_type(value.type)
    sign = "F32_BITS(x) >> 31" if kind == "f32" else "F64_BITS(x) >> 63"
    t.w.need(_TO_FP4.format(T=kind, SIGN=sign))
    return t.w.let("u32", f"{kind}_fp4({value.text})")


def _of_fp4(t: Tensors, code: str, type: DType) -> Scalar:
    t.w.need(_FROM_FP4)
    return Scalar(t.w.let("f32", f"fp4_f32({code})"), type)


# ONNX's Cast

_INTEGERS = {str(f.numpy): f for f in HELD_FORMATS if f.kind in ("signed", "unsigned")}


def _can_hold(i: Instruction) -> bool:
    """Whether a kernel can hold the result: an fp8 infinity is lost, because stores saturate."""
    op = cast("Any", i.op)
    return op.saturate or str(i.shape.type.numpy) != op.element or not i.shape.type.format.infinity


@value_of(CastTo, when=_can_hold)
def cast_to(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The value rounded to the narrow type, in the element type that holds it."""
    op, type, x = attributes(t, i), i.shape.type, t.at(i.inputs[0], index)
    if (held := _INTEGERS.get(op.element)) is not None:
        return _low_bits(t, x, held, type)
    wide = x if x.type is DType.DOUBLE else converted(t.w, x, DType.FLOAT)
    if op.element == "float8_e8m0fnu":
        return _power_of_two(t, wide, op, type)
    if op.element == "float4_e2m1fn":
        narrow = converted(t.w, wide, DType.FLOAT)
        return _of_fp4(t, _fp4(t, narrow), type)
    rounded = converted(t.w, wide, type)
    if op.saturate:
        return rounded
    nan = number(float("nan"), type).text
    text = f"fabs({wide.text}) {_overflow(type.format)} ? {nan} : {rounded.text}"
    return Scalar(t.w.let("f32", text), type)


def _overflow(format: Format) -> str:
    """The test whether a magnitude rounds past the largest value.

    It does beyond halfway to the next value; exactly at halfway the tie goes to the even code.
    """
    step = format.largest - format.value(format.last - 1)
    comparison = ">=" if format.last % 2 else ">"
    return f"{comparison} {number(format.largest + step / 2, DType.FLOAT).text}"


def _low_bits(t: Tensors, x: Scalar, held: Format, type: DType) -> Scalar:
    sign, kind = 1 << (held.bits - 1), c_type(type)
    low = f"((u32){converted(t.w, x, DType.INT64).text} & {2 * sign - 1}u)"
    text = low if held.kind == "unsigned" else f"((i32)({low} ^ {sign}u) - {sign})"
    return Scalar(t.w.let(kind, f"({kind}){text}"), type)


def _power_of_two(t: Tensors, x: Scalar, op: Any, type: DType) -> Scalar:
    t.w.need(_POWER)
    mode = {"up": 1, "nearest": 2, "down": 0}[op.round_mode]
    nan = float("nan")
    ends = (2.0**-127, 2.0**127) if op.saturate else (nan, nan)
    low, high = (number(v, DType.FLOAT).text for v in ends)
    wide = converted(t.w, x, DType.DOUBLE)
    return Scalar(t.w.let("f32", f"f64_e8m0({wide.text}, {mode}, {low}, {high})"), type)
