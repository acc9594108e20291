"""Declarations of the built-in functions that kernels call, which PoCL parses in place of its own header.

PoCL parses ``opencl-c.h``, 18,000 lines, anew for each program, which small kernels spend most of their
compilation on. It leaves the header out if the header's guard is defined. Types and attributes are those of
OpenCL C 1.2, section 6.
"""

from __future__ import annotations

NO_HEADER = " -D_OPENCL_H_ -w"
"""Defines the guard of PoCL's header; the rest of its headers then warns of what it declares in vain."""

_TYPES = """\
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
#define as_float(x) __builtin_astype((x), float)
#define as_uint(x) __builtin_astype((x), uint)
#define as_double(x) __builtin_astype((x), double)
#define as_ulong(x) __builtin_astype((x), ulong)
#define NAN as_float(0x7fc00000)
#define INFINITY as_float(0x7f800000)
#define BUILTIN __attribute__((overloadable))
#define PURE BUILTIN __attribute__((const))
#define CLK_LOCAL_MEM_FENCE 1
size_t PURE get_local_id(uint axis);
size_t PURE get_group_id(uint axis);
void BUILTIN __attribute__((convergent)) barrier(uint flags);
"""
_OF_ONE = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log "
    "log10 log1p log2 rint round rsqrt sin sinh sqrt tan tanh tgamma trunc"
)
_OF_TWO = "atan2 copysign fmax fmin fmod nextafter pow"
_TESTS = "isfinite isinf isnan signbit"


def _declarations() -> str:
    lines = [_TYPES]
    for type in ("float", "double"):
        lines += [f"{type} PURE {name}({type});" for name in _OF_ONE.split()]
        lines += [f"{type} PURE {name}({type}, {type});" for name in _OF_TWO.split()]
        lines += [f"int PURE {name}({type});" for name in _TESTS.split()]
        lines += [f"{type} PURE fma({type}, {type}, {type});", f"{type} PURE ldexp({type}, int);"]
    return "\n".join(lines) + "\n"


DECLARATIONS = _declarations()
"""The text that goes before a source."""
