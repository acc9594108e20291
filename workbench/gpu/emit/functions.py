"""C functions that kernels call besides the language's own; a source contains only those that it uses."""

from __future__ import annotations

_BODIES = {
    "min": "{T} min_{T}({T} a, {T} b) {{ return a < b ? a : b; }}",
    "max": "{T} max_{T}({T} a, {T} b) {{ return a > b ? a : b; }}",
    "min_f": "{T} min_{T}({T} a, {T} b) {{ return a < b || a != a ? a : b; }}",
    "max_f": "{T} max_{T}({T} a, {T} b) {{ return a > b || a != a ? a : b; }}",
    "min_f32": "f32 min_f32(f32 a, f32 b) {{ return MIN_F32(a, b); }}",
    "max_f32": "f32 max_f32(f32 a, f32 b) {{ return MAX_F32(a, b); }}",
    "sign": "{T} sign_{T}({T} a) {{ return ({T})((a > 0) - (a < 0)); }}",
    "sign_f": "{T} sign_{T}({T} a) {{ return a != a ? a : ({T})((a > 0) - (a < 0)); }}",
    "sign_u": "{T} sign_{T}({T} a) {{ return a > 0; }}",
    "abs_f": "{T} abs_{T}({T} a) {{ return fabs(a); }}",
    "abs_i": "{T} abs_{T}({T} a) {{ return ({T})(a < 0 ? -a : a); }}",
    "abs_u": "{T} abs_{T}({T} a) {{ return a; }}",
    "div_i": "{T} div_{T}({T} a, {T} b) {{ return b == 0 ? 0"
    " : b == ({T})-1 ? ({T})(0 - a) : ({T})(a / b); }}",
    "div_u": "{T} div_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a / b; }}",
    "fmod_i": "{T} fmod_{T}({T} a, {T} b) {{ return b == 0 || b == ({T})-1 ? 0 : ({T})(a % b); }}",
    "fmod_u": "{T} fmod_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a % b; }}",
    "mod_f": "{T} mod_{T}({T} a, {T} b) {{ {T} r = fmod(a, b);"
    " return r != 0 && (r < 0) != (b < 0) ? r + b : r; }}",
    "mod_i": "{T} mod_{T}({T} a, {T} b) {{ {T} r = b == 0 || b == ({T})-1 ? 0 : ({T})(a % b);"
    " return r != 0 && (r < 0) != (b < 0) ? ({T})(r + b) : r; }}",
    "mod_u": "{T} mod_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a % b; }}",
    "shift_left": "{T} shift_left_{T}({T} a, {T} b) {{ return b < 0 || b >= (i32)sizeof({T}) * 8 ? 0"
    " : ({T})((u64)a << b); }}",
    "shift_left_u": "{T} shift_left_{T}({T} a, {T} b) {{"
    " return b >= sizeof({T}) * 8 ? 0 : ({T})((u64)a << b); }}",
    "shift_right": "{T} shift_right_{T}({T} a, {T} b) {{ return b < 0 || b >= (i32)sizeof({T}) * 8"
    " ? ({T})(a < 0 ? -1 : 0) : ({T})(a >> b); }}",
    "shift_right_u": "{T} shift_right_{T}({T} a, {T} b) {{"
    " return b >= sizeof({T}) * 8 ? 0 : ({T})(a >> b); }}",
    # Float to integer saturates, and NaN gives 0. The limits are exact in the float's type, or one past it.
    "whole": "{T} {F}_{T}({F} x) {{"
    " return x != x ? 0 : x >= {HIGH} ? {MAX} : x <= {LOW} ? {MIN} : ({T})x; }}",
    # A double rounded to odd: the last bit of an inexact float is set, so a second rounding sees no tie.
    "odd": "f32 odd_f32(f64 x) {{ f32 r = (f32)x; if ((f64)r != x && x == x && !isinf(r)) {{"
    " u32 b = F32_BITS(r); if (fabs((f64)r) > fabs(x)) b -= 1; r = BITS_F32(b | 1u); }} return r; }}",
    # An integer as a double; if bits are lost, the lowest bit kept is set as a sticky bit.
    "sticky": "f64 sticky_{T}({T} x) {{ f64 d = (f64)x; if (fabs(d) < 9007199254740992.0) return d;"
    " return (f64)((x & ~({T})0xfff) | (({T})((x & 0xfff) != 0) << 11)); }}",
    "settled": "f64 settled_f64(f64 x) {{ f64 r = rint(x); return fabs(x - r) <= 1e-12 * fabs(r) ? r : x; }}",
    # Cosine and sine of n / d turns, at most half a turn, by an angle of at most an eighth: whole and half
    # turns are exact, and so are quarters.
    "cos_turn": "{T} cos_turn_{T}(i64 n, i64 d) {{ i64 p = n < 0 ? -2 * n : 2 * n; {T} s = 1;"
    " if (2 * p > d) {{ p = d - p; s = -1; }} const {T} pi = ({T})3.14159265358979323846;"
    " return s * (4 * p > d ? sin(pi * (({T})(d - 2 * p) / ({T})(2 * d))) : cos(pi * (({T})p / ({T})d))); }}",
    "sin_turn": "{T} sin_turn_{T}(i64 n, i64 d) {{ i64 p = n < 0 ? -2 * n : 2 * n; {T} s = n < 0 ? -1 : 1;"
    " if (2 * p > d) p = d - p; const {T} pi = ({T})3.14159265358979323846;"
    " return s * (4 * p > d ? cos(pi * (({T})(d - 2 * p) / ({T})(2 * d))) : sin(pi * (({T})p / ({T})d))); }}",
    "bf16_f32": "f32 bf16_f32(u16 x) {{ return BITS_F32((u32)x << 16); }}",
    "f32_bf16": "u16 f32_bf16(f32 x) {{ u32 b = F32_BITS(x); if (x != x) return (u16)((b >> 16) | 0x40);"
    " return (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16); }}",
    # fp8 with m bits of mantissa: the code of a magnitude counts the steps of its exponent's spacing.
    # A format whose NaN is 0x80 has no other NaN and no negative zero; inf is 0 for a format without one.
    "f32_fp8": "u8 f32_fp8(f32 x, i32 m, i32 bias, f32 limit, u32 nan, u32 inf) {{"
    " u32 s = (F32_BITS(x) >> 24) & 0x80u; if (x != x) return (u8)(s | nan);"
    " if (inf != 0 && isinf(x)) return (u8)(s | inf); f32 a = fabs(x) < limit ? fabs(x) : limit;"
    " i32 e = (i32)(F32_BITS(a) >> 23) - 127; if (e < 1 - bias) e = 1 - bias;"
    " u32 q = (u32)rint(ldexp(a, m - e)); u32 c = ((u32)(e + bias) << m) + q - (1u << m);"
    " return (u8)(nan == 0x80u && c == 0 ? 0 : s | c); }}",
    "fp8_f32": "f32 fp8_f32(u8 x, i32 m, i32 bias, u32 nan, u32 inf) {{"
    " u32 c = x & 0x7fu; f32 s = x & 0x80u ? -1.0f : 1.0f;"
    " if (nan == 0x80u ? x == nan : c >= nan) return BITS_F32(0x7fc00000u);"
    " if (inf != 0 && c == inf) return s * BITS_F32(0x7f800000u);"
    " i32 e = (i32)(c >> m); i32 q = (i32)(c & ((1u << m) - 1u));"
    " return s * (e == 0 ? ldexp((f32)q, 1 - bias - m) : ldexp((f32)(q + (1 << m)), e - bias - m)); }}",
}  # fmt: skip

_LIMITS = {
    "i8": (-128, 127), "u8": (0, 255), "i16": (-(1 << 15), (1 << 15) - 1), "u16": (0, (1 << 16) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1), "u64": (0, (1 << 64) - 1),
}  # fmt: skip


def kind_of(type: str) -> str:
    """``f``, ``i`` or ``u``: float, signed, unsigned."""
    return type[0]


def definition(name: str, type: str = "", source: str = "") -> str:
    """The definition of a function for a type; the variant for the type's kind, if there is one.

    Args:
        name: The function's name without its type.
        type: The C type of its operands, or of its result.
        source: The type that ``whole`` takes.
    """
    kinds = (f"{name}_{type}", f"{name}_{kind_of(type)}") if type else ()
    body = next((_BODIES[k] for k in kinds if k in _BODIES), "") or _BODIES[name]
    if name != "whole":
        return "DEVICE " + body.format(T=type)
    low, high = _LIMITS[type]
    return "DEVICE " + body.format(
        T=type,
        F=source,
        HIGH=f"({source}){float(high + 1)!r}",
        LOW=f"({source}){float(low)!r}" if low else f"({source})0",
        MAX=limit_text(type, high),
        MIN=limit_text(type, low),
    )


def limit_text(type: str, value: int) -> str:
    """An integer as a constant of a type."""
    if value == -(1 << 63):
        return "((i64)(-9223372036854775807 - 1))"
    suffix = "u" if type.startswith("u") else ""
    return f"(({type}){value}{suffix})"


def integer_limits(type: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    return _LIMITS[type]
