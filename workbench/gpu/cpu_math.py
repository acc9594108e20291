"""Exponentials, hyperbolic tangents and error functions of floats that compilers make vectors of.

A CPU's OpenCL library computes them one at a time, and calls of it keep the loop around them from becoming
vectors. These have no branches and no calls. Polynomials were fitted to the functions here, for the least
greatest error; over all floats, ``exp`` is wrong by at most 1 unit in the last place, ``tanh`` by 2 and
``erf`` by 1.1 (``tests/gpu/devices/test_cpu_math.py``). Doubles use the library's.
"""

from __future__ import annotations

_EXP = """\
DEVICE OVERLOAD f32 cpu_exp(f32 x) {
  f32 c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  f32 shifted = c * 1.44269504f + 12582912.0f;
  i32 n = (i32)(F32_BITS(shifted) - 0x4b400000u);
  f32 whole = shifted - 12582912.0f;
  f32 r = c - whole * 0.693145752f;
  r = r - whole * 1.42860677e-6f;
  f32 p = 1.99078217e-4f * r + 1.3933823e-3f;
  p = p * r + 8.333285e-3f;
  p = p * r + 4.1666463e-2f;
  p = p * r + 0.16666667f;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  p = p + 1.0f;
  i32 low = n >> 1;
  return p * BITS_F32((u32)(low + 127) << 23) * BITS_F32((u32)(n - low + 127) << 23);
}
"""
"""exp(x) = 2ⁿ·exp(r), with x / log 2 rounded to n; 2ⁿ is two factors, as it may be denormal or infinite."""

_TANH = """\
DEVICE OVERLOAD f32 cpu_tanh(f32 x) {
  f32 a = BITS_F32(F32_BITS(x) & 0x7fffffffu), z = x * x;
  f32 p = -6.1131753e-3f * z + 2.101007e-2f;
  p = p * z - 5.3854067e-2f;
  p = p * z + 0.13332795f;
  p = p * z - 0.33333328f;
  p = p * (z * x) + x;
  f32 large = 1.0f - 2.0f / (cpu_exp(2.0f * a) + 1.0f);
  p = a < 0.625f ? p : large;
  return BITS_F32(F32_BITS(p) | (F32_BITS(x) & 0x80000000u));
}
"""
"""A polynomial near 0, elsewhere 1 - 2 / (exp(2|x|) + 1)."""

_ERF = """\
DEVICE OVERLOAD f32 cpu_erf(f32 x) {
  f32 a = BITS_F32(F32_BITS(x) & 0x7fffffffu), z = x * x;
  f32 p = -5.976886e-4f * z + 4.9909786e-3f;
  p = p * z - 2.6765566e-2f;
  p = p * z + 0.112818025f;
  p = p * z - 0.37612495f;
  p = p * z + 0.12837915f;
  p = p * x + x;
  f32 t = a > 4.0f ? 4.0f : a;
  f32 q = -1.152233e-5f * t + 3.256531e-4f;
  q = q * t - 3.6537657e-3f;
  q = q * t + 2.378535e-2f;
  q = q * t - 0.106263146f;
  q = q * t - 0.6351359f;
  q = q * t - 0.12865217f;
  f32 large = 1.0f - cpu_exp(q * t - t);
  large = BITS_F32(F32_BITS(large) | (F32_BITS(x) & 0x80000000u));
  return a < 0.9f ? p : large;
}
"""
"""A polynomial near 0, elsewhere 1 - exp(q) with a polynomial q for the logarithm of 1 - erf."""

_NAMES = ("exp", "tanh", "erf")


def _own() -> str:
    """The definitions, and macros that let kernels call them by their usual names."""
    doubles = "".join(
        f"DEVICE OVERLOAD f64 cpu_{name}(f64 x) {{ return {name}(x); }}\n" for name in _NAMES
    )
    macros = "".join(f"#define {name}(x) cpu_{name}(x)\n" for name in _NAMES)
    overload = "#define OVERLOAD __attribute__((overloadable))\n"
    return f"{overload}{_EXP}{_TANH}{_ERF}{doubles}{macros}"


CPU_MATH = _own()
"""The text that goes after a dialect's words, for CPUs."""
