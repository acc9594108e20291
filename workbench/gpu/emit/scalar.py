"""Scalars in C: types, conversions by ONNX's rules, and the expressions of pointwise operations."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast as typed

import numpy as np

from workbench.compiler.ir.dtypes import FP8, DType, NaN
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ops.compare import Equal, Isinf, Isnan, Where
from workbench.compiler.ops.convert import BitCast, Convert
from workbench.compiler.ops.pointwise import Div, Pow
from workbench.compiler.ops.quant import Dequantizelinear, Quantizelinear
from workbench.gpu.emit.functions import definition, kind_of, limit_text
from workbench.gpu.emit.writer import Writer


@dataclass(frozen=True)
class Scalar:
    """A value in C: a name or a constant, so that it needs no parentheses."""

    text: str
    type: DType
    """The element type: a half is held as a float, and rounded when it is stored."""


def c_type(type: DType) -> str:
    """The C type that a type is computed in: float for all narrower floats."""
    return "f32" if type.is_narrow_float else memory_type(type)


def memory_type(type: DType) -> str:
    """The C type of an element in memory."""
    wide = type.is_float and type.size >= 4
    return f"{'f' if wide else 'i' if type.format.kind == 'signed' else 'u'}{8 * type.size}"


def number(value: float | bool, type: DType) -> Scalar:
    """A constant of an element type."""
    kind = c_type(type)
    if kind.startswith("f"):
        return Scalar(_float_text(float(value), kind), type)
    return Scalar(limit_text(kind, int(value)), type)


def _float_text(value: float, kind: str) -> str:
    if math.isnan(value):
        return "BITS_F32(0x7fc00000u)" if kind == "f32" else "BITS_F64(0x7ff8000000000000)"
    if math.isinf(value):
        bits = ("0x7f800000u", "0xff800000u")[value < 0]
        wide = ("0x7ff0000000000000", "0xfff0000000000000")[value < 0]
        return f"BITS_F32({bits})" if kind == "f32" else f"BITS_F64({wide})"
    if kind == "f32":
        with np.errstate(over="ignore"):
            narrow = np.float32(value)
        if np.isinf(narrow):
            return _float_text(float(narrow), kind)
        text = repr(float(str(narrow)))
        return f"{text}f" if value >= 0 else f"({text}f)"
    return repr(value) if value >= 0 else f"({value!r})"


# Memory


def loaded(w: Writer, text: str, type: DType) -> Scalar:
    """The value of an element in memory; storing it again gives the same bits."""
    if memory_type(type) == c_type(type):
        return Scalar(w.let(c_type(type), text), type)
    bits = text if text.isidentifier() else w.let(memory_type(type), text, "e")
    value = w.let("f32", _decoded(w, bits, type))
    w.remember(("bits", value), bits)
    return Scalar(value, type)


def _decoded(w: Writer, bits: str, type: DType) -> str:
    if type is DType.HALF:
        return f"half_f32({bits})"
    if type is DType.BF16:
        w.need(definition("bf16_f32"))
        return f"bf16_f32({bits})"
    w.need(definition("fp8_f32"))
    f = type.format
    return f"fp8_f32({bits}, {f.mantissa}, {f.bias}, {f.first_nan:#x}u, {f.infinity:#x}u)"


def stored(w: Writer, value: Scalar) -> str:
    """The expression of a value for storing; floats narrower than f32 are rounded here."""
    if memory_type(value.type) == c_type(value.type):
        return value.text
    return w.recalled(("bits", value.text)) or _encoded(w, value)


def _encoded(w: Writer, value: Scalar) -> str:
    type = value.type
    if type is DType.HALF:
        return f"f32_half({value.text})"
    if type is DType.BF16:
        w.need(definition("f32_bf16"))
        return f"f32_bf16({value.text})"
    w.need(definition("f32_fp8"))
    f = type.format
    codes = f"{f.quiet_nan:#x}u, {f.infinity:#x}u"
    return f"f32_fp8({value.text}, {f.mantissa}, {f.bias}, {f.largest!r}f, {codes})"


# Conversions


def cast(w: Writer, value: Scalar, type: DType) -> Scalar:
    """A value in another element type, as ``elementwise.cast`` defines it: rounded and saturated."""
    if value.type is type:
        return value
    source, target = c_type(value.type), c_type(type)
    text = value.text
    if type is DType.BOOL:
        text = f"({text} != 0)"
    elif type.is_narrow_float:
        return _rounded(w, Scalar(text, value.type), type)
    elif kind_of(source) == "f" and kind_of(target) != "f":
        w.need(definition("whole", target, source))
        text = f"{source}_{target}({text})"
    else:
        text = f"({target}){text}"
    return Scalar(w.let(target, text), type)


def _rounded(w: Writer, value: Scalar, type: DType) -> Scalar:
    """A value rounded once to a float narrower than f32, and held in f32 again."""
    source, text = c_type(value.type), value.text
    if source != "f32" and type is DType.HALF:
        return loaded(w, f"f64_half((f64){text})", type)
    if source != "f32":
        if source in ("i64", "u64"):
            w.need(definition("sticky", source))
            text = f"sticky_{source}({text})"
        w.need(definition("odd"))
        text = f"odd_f32((f64){text})"
    return _narrowed(w, w.let("f32", text), type)


def _narrowed(w: Writer, text: str, type: DType) -> Scalar:
    """A float rounded to a narrower type; 8-bit floats saturate instead of becoming infinite."""
    if type in FP8 and type.format.infinity:
        limit = _float_text(type.format.largest, "f32")
        # Not by a comparison with 0: LLVM 14 takes rsqrt(-0), which is -inf, for a number of at least 0.
        text = w.let("f32", f"isinf({text}) ? copysign({limit}, {text}) : {text}")
    return loaded(w, _encoded(w, Scalar(text, type)), type)


def rounded(w: Writer, value: Scalar) -> Scalar:
    """The value as it would be read back from memory: fused bodies round fp8 so after each operation."""
    if value.type not in FP8 or w.recalled(("bits", value.text)) is not None:
        return value
    return _narrowed(w, value.text, value.type)


# Expressions

_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
_EXP = re.compile(r"\bexp\(")
_CONSTANT = re.compile(r"\(?(-?[\d.]+(?:e[+-]?\d+)?)f\)?")
_TINY = 2.0**-126
"""The least normal number of single precision: the reciprocals of larger ones are finite."""
_OWN = frozenset({"min", "max", "mod", "sign", "abs", "shift_left", "shift_right"})
_RENAMED = {"nearbyint": "rint"}
_WIDE = ("i32", "u32", "i64", "u64")
"""Integer types that a 32-bit float does not hold exactly."""
_WHOLE = frozenset({"ceil", "floor", "nearbyint"})
"""Functions that do not change an integer."""


def pointwise(
    w: Writer, op: Operation, operands: Sequence[Scalar], type: DType, fast: bool = False
) -> Scalar:
    """The result of a pointwise operation on one element of each operand.

    Args:
        w: The writer of the kernel's code.
        op: An operation that has an ``expression``.
        operands: One element of each operand.
        type: The element type of the result.
        fast: Whether a later rounding hides an f32's last bits.
    """
    if isinstance(op, Convert):
        return cast(w, operands[0], type)
    if isinstance(op, BitCast):
        return _bits(w, operands[0], type)
    if isinstance(op, Isnan | Isinf) and not operands[0].type.is_float:
        return number(False, type)
    if isinstance(op, Equal) and operands[0].type.format.nan is NaN.FNUZ:
        return _same_code(w, operands, type)
    if isinstance(op, Quantizelinear):
        return _quantized(w, operands, type)
    work = _work_type(op, operands, type)
    kept = op.keeps_types
    names = _as_they_are(w, op, operands) if kept else [_as_type(w, x, work) for x in operands]
    names += ["0"] * (3 - len(names))
    text = _expression(w, op, names, work if not kept else c_type(operands[0].type), type)
    if fast or _is_narrow([*operands, Scalar("", type)]):
        text = _in_fast_words(op, names, text, fast)
    if kept or isinstance(op, Dequantizelinear):
        made = Scalar(w.let(work, text), _standing_for(work))
        return rounded(w, cast(w, made, type)) if not kept else _retyped(w, text, type)
    made = w.let(work, f"({work})({text})" if kind_of(work) != "f" else text)
    if (
        work == "f64" and type.is_integral
    ):  # an error in a function's last bits must not change the integer
        w.need(definition("settled"))
        made = w.let(work, f"settled_f64({made})")
    if work == c_type(type):
        return rounded(w, Scalar(made, type))
    return cast(w, Scalar(made, _standing_for(work)), type)


def _as_they_are(w: Writer, op: Operation, operands: Sequence[Scalar]) -> list[str]:
    """Operands in their own types, but for a condition that is a float: OpenCL chooses by integers alone."""
    names = [x.text for x in operands]
    if isinstance(op, Where) and operands[0].type.is_float:
        names[0] = w.let("u8", f"{names[0]} != 0")
    return names


def _in_fast_words(op: Operation, names: Sequence[str], text: str, scaled: bool) -> str:
    """An expression with the fast functions; a reciprocal is computed once for all that it scales."""
    if not isinstance(op, Div):
        return _EXP.sub("FAST_EXP(", text)
    if (divisor := _CONSTANT.fullmatch(names[1])) and abs(float(divisor[1])) > _TINY:
        return f"{names[0]} * (1.0f / {names[1]})"
    if scaled:
        return f"{names[0]} * FAST_DIV(1.0f, {names[1]})"
    return f"FAST_DIV({names[0]}, {names[1]})"


def _is_narrow(values: Sequence[Scalar]) -> bool:
    """Whether all are halves or bfloat16, whose rounding hides the errors of the fast f32 functions."""
    return all(v.type.is_narrow_float and v.type not in FP8 for v in values)


def _quantized(w: Writer, operands: Sequence[Scalar], type: DType) -> Scalar:
    """x / scale, rounded to even for integers, plus the zero point, in a type that holds the sum."""
    x, _, *zero = operands
    work = c_type(x.type) if x.type.is_float else "f64"
    value, scale = (_as_type(w, v, work) for v in operands[:2])
    made = w.let(work, f"{value} / {scale}")
    if not type.is_float:
        made = w.let(work, f"rint({made})")
    if zero:
        kind = "f64" if c_type(zero[0].type) in _WIDE else work
        made = w.let(kind, f"({kind}){made} + ({kind}){zero[0].text}")
        work = kind
    return rounded(w, cast(w, Scalar(made, _standing_for(work)), type))


def _same_code(w: Writer, operands: Sequence[Scalar], type: DType) -> Scalar:
    """Whether two elements have the same code: of a type with a single NaN, which then equals itself."""
    a, b = (x.text for x in operands)
    return _retyped(w, f"{a} == {b} || ({a} != {a} && {b} != {b})", type)


def _retyped(w: Writer, text: str, type: DType) -> Scalar:
    return Scalar(w.let(c_type(type), text), type)


def _standing_for(kind: str) -> DType:
    """The element type that a C type holds exactly."""
    return {"f32": DType.FLOAT, "f64": DType.DOUBLE}.get(kind) or next(
        t for t in DType if t.is_integral and t is not DType.BOOL and memory_type(t) == kind
    )


def _work_type(op: Operation, operands: Sequence[Scalar], type: DType) -> str:
    """The C type that the arithmetic is done in."""
    first = operands[0].type
    if isinstance(op, Dequantizelinear):
        return "f64" if c_type(first) in _WIDE or c_type(type) != "f32" else "f32"
    if op.keeps_types:
        return c_type(type)
    if first.is_float:
        return c_type(first)
    if not getattr(op, "exact", False):
        return "f64"
    return "i8" if first is DType.BOOL else c_type(first)


def _as_type(w: Writer, value: Scalar, kind: str) -> str:
    return value.text if c_type(value.type) == kind else w.let(kind, f"({kind}){value.text}")


_FACTORS = {
    number(count, type).text: count for count in (2, 3) for type in (DType.FLOAT, DType.DOUBLE)
}
"""Squares and cubes are multiplications, as in the reference."""


def _expression(w: Writer, op: Operation, names: Sequence[str], work: str, type: DType) -> str:
    """The operation's expression, with the C names of its operands, attributes and functions."""
    assert op.expression is not None, op.name
    if isinstance(op, Div) and kind_of(work) != "f":
        w.need(definition("div", work))
        return f"div_{work}({names[0]}, {names[1]})"
    if isinstance(op, Pow) and (factors := _FACTORS.get(names[1])):
        return " * ".join([names[0]] * factors)
    result = c_type(type) if op.keeps_types else work
    attributes = {k: _attribute(v, work) for k, v in op.attributes().items()}
    return called(w, op.expression.format(*names, **attributes), work, result)


def called(w: Writer, text: str, work: str, result: str = "") -> str:
    """An expression with its functions named as in C for a type; the emitter's own functions are defined.

    Args:
        w: The writer, which gets the definitions.
        text: The expression.
        work: The C type that the arithmetic is done in.
        result: The type that ``T`` stands for; by default ``work``.
    """

    def named(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == "T":
            return f"({result or work})("
        if name in _OWN or (name == "fmod" and kind_of(work) != "f"):
            w.need(definition(name, work))
            return f"{name}_{work}("
        if name in _WHOLE and kind_of(work) != "f":
            return "("
        return f"{_RENAMED.get(name, name)}("

    return _CALL.sub(named, text)


def _attribute(value: object, work: str) -> str:
    if isinstance(value, float | int) and not isinstance(value, bool):
        kind = work if work.startswith("f") else "f64"
        return _float_text(float(typed("float", value)), kind)
    return str(value)


def _bits(w: Writer, value: Scalar, type: DType) -> Scalar:
    """The bits of a value in memory, reinterpreted as another type."""
    text = stored(w, value)
    words = {"f32": "F32_BITS({})", "f64": "F64_BITS({})"}
    back = {"f32": "BITS_F32((u32)({}))", "f64": "BITS_F64((u64)({}))"}
    whole = words.get(memory_type(value.type), "({})").format(text)
    target = memory_type(type)
    return loaded(w, back.get(target, f"({target})({{}})").format(whole), type)
