"""The dialects of C that kernels are printed in: one body, and a prologue per dialect that defines its words.

A kernel's source uses only these words: ``KERNEL(threads)`` before its name, ``GLOBAL`` before what a
pointer points to, ``SHARED`` before an array that a block shares, ``DEVICE`` before a function, ``APART``
before one that is not compiled into its callers, for CPUs, ``BARRIER()``, ``GROUP(a)`` and ``LOCAL(a)``
for a = 0, 1, 2, ``UNROLL`` before a loop, ``RESTRICT`` after a pointer's ``*``, ``ALIGN(n)``,
``SHUFFLE_XOR(v, m)`` where ``warp`` is not 0, ``AFTER_OTHERS()`` before it reads what other kernels
write, or writes itself, ``NEXT_MAY_BEGIN()`` where the next kernel's blocks may take what is free, the types
``f32 f64 i8 u8 i16 u16 i32 u32 i64 u64``, and functions that C's library has, of which those for
``f32`` and ``f64`` have one name. ``FAST_EXP`` and ``FAST_DIV`` of ``f32`` may be wrong in their last
bits, and ``FAST_EXP`` may be 0 where the power is no normal number; ``MIN_F32`` and ``MAX_F32`` give NaN
if an operand is NaN. A half or a bfloat16 in memory is a ``u16``, a bool a ``u8``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.gpu.cpu_math import CPU_MATH
from workbench.gpu.machine import CPU, Machine


@dataclass(frozen=True)
class Dialect:
    """The text of kernels for one kind of device."""

    name: str
    """``hip``, ``cuda`` or ``opencl``."""
    prologue: str
    """The text before every kernel."""
    machine: Machine = field(default_factory=Machine)
    """The machine that schedules choose tilings for."""
    shuffles: bool = True
    """Whether it has ``SHUFFLE_XOR``."""

    @property
    def warp(self) -> int:
        """Work items that can exchange values by shuffles; 0 if there are no shuffles."""
        return self.machine.warp if self.shuffles else 0


_TYPES = """\
typedef float f32;
typedef double f64;
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef {long} i64;
typedef unsigned {long} u64;
"""

_CUDA_ORDER = """\
#if __CUDA_ARCH__ >= 900
#define NEXT_MAY_BEGIN() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define AFTER_OTHERS() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define NEXT_MAY_BEGIN()
#define AFTER_OTHERS()
#endif
"""
"""A kernel begins when every block of the one before it has ended or said that it may; it waits for it to
end before it reads (PTX ISA, ``griddepcontrol``)."""

_IN_ORDER = """\
#define NEXT_MAY_BEGIN()
#define AFTER_OTHERS()
"""
"""A kernel begins when the one before it has ended."""

_CPP_WORDS = """\
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define GLOBAL
#define SHARED __shared__
#define DEVICE static __device__ __forceinline__
#define RESTRICT __restrict__
#define ALIGN(n) __attribute__((aligned(n)))
#define UNROLL _Pragma("unroll")
#define BARRIER() __syncthreads()
#define LOCAL(a) ((i32)((a) == 0 ? threadIdx.x : (a) == 1 ? threadIdx.y : threadIdx.z))
#define GROUP(a) ((i32)((a) == 0 ? blockIdx.x : (a) == 1 ? blockIdx.y : blockIdx.z))
#define BITS_F32(x) __uint_as_float(x)
#define F32_BITS(x) __float_as_uint(x)
#define BITS_F64(x) __longlong_as_double((long long)(x))
#define F64_BITS(x) ((u64)__double_as_longlong(x))
"""

_NAN_WORDS = """\
#define MIN_F32(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX_F32(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
"""

_FAST_WORDS = """\
#define FAST_DIV(a, b) __fdividef(a, b)
"""

_CUDA_HALVES = (
    """\
#if __CUDA_ARCH__ >= 800
DEVICE f32 MIN_F32(f32 a, f32 b) {
  f32 r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
DEVICE f32 MAX_F32(f32 a, f32 b) {
  f32 r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
#else
"""
    + _NAN_WORDS
    + """\
#endif
#define SHUFFLE_XOR(v, m) __shfl_xor_sync(0xffffffffu, v, m)
DEVICE f32 FAST_EXP(f32 x) {
  f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * 1.4426950408889634f)); return r;
}
DEVICE f32 half_f32(u16 x) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
DEVICE u16 f32_half(f32 x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
DEVICE u16 f64_half(f64 x) { u16 r; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(x)); return r; }
"""
)

_AMD_HALVES = (
    _NAN_WORDS
    + """\
#define SHUFFLE_XOR(v, m) __shfl_xor(v, m)
#define FAST_EXP(x) __expf(x)
DEVICE f32 half_f32(u16 x) { return (f32)__builtin_bit_cast(_Float16, x); }
DEVICE u16 f32_half(f32 x) { return __builtin_bit_cast(u16, (_Float16)x); }
DEVICE u16 f64_half(f64 x) { return __builtin_bit_cast(u16, (_Float16)x); }
"""
)

# Halves are converted by their bits: vstore_half into a variable of an inlined function gave wrong
# results on PoCL 3.0 in kernels that have a barrier.
_OPENCL_WORDS = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT ON
#define KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define GLOBAL __global
#define SHARED __local
#define DEVICE static inline
#define RESTRICT restrict
#define ALIGN(n) __attribute__((aligned(n)))
#define UNROLL _Pragma("unroll")
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define FAST_EXP(x) exp(x)
#define FAST_DIV(a, b) ((a) / (b))
#define LOCAL(a) ((i32)get_local_id(a))
#define GROUP(a) ((i32)get_group_id(a))
#define BITS_F32(x) as_float((u32)(x))
#define F32_BITS(x) as_uint(x)
#define BITS_F64(x) as_double((u64)(x))
#define F64_BITS(x) as_ulong(x)
DEVICE f32 half_f32(u16 x) {
  u32 s = (u32)(x & 0x8000u) << 16, b = (u32)(x & 0x7fffu) << 13;
  f32 small = as_float(b | 0x38800000u) - as_float(0x38800000u);
  u32 large = b + (b >= 0x0f800000u ? 0x70000000u : 0x38000000u);
  return as_float(s | (b < 0x00800000u ? as_uint(small) : large));
}
DEVICE u16 f32_half(f32 x) {
  u32 b = as_uint(x) & 0x7fffffffu, s = as_uint(x) >> 16 & 0x8000u;
  u32 special = b > 0x7f800000u ? 0x7e00u : 0x7c00u;
  u32 small = as_uint(as_float(b) + 0.5f) - 0x3f000000u;
  u32 normal = (b - 0x37fff001u + (b >> 13 & 1u)) >> 13;
  return (u16)(s | (b >= 0x47800000u ? special : b < 0x38800000u ? small : normal));
}
DEVICE u16 f64_half(f64 x) {
  f32 r = (f32)x;
  u32 b = as_uint(r) - (fabs((f64)r) > fabs(x) ? 1u : 0u);
  return f32_half((f64)r == x || x != x || isinf(r) ? r : as_float(b | 1u));
}
"""

_APART = """\
#define APART static __attribute__((noinline, min_vector_width(512)))
"""
"""LLVM uses registers of 64 bytes, where there are any, in a function that asks for them; PoCL's own do."""

_CPP = _TYPES.format(long="long long") + _CPP_WORDS + _FAST_WORDS
CUDA = Dialect("cuda", _CPP + _CUDA_ORDER + _CUDA_HALVES, Machine(warp=32))


def cuda_dialect(capability: int) -> Dialect:
    """CUDA C++ for a compute capability, such as 90, which alone has a warp group's matrix instructions."""
    matrix = 90 if capability == 90 else 80 if capability >= 80 else 0
    return replace(CUDA, machine=replace(CUDA.machine, matrix=matrix))


_OPENCL = _TYPES.format(long="long") + _IN_ORDER + _OPENCL_WORDS + _NAN_WORDS


def opencl_dialect(machine: Machine) -> Dialect:
    """OpenCL C for a device; without shuffles, which OpenCL C 1.2 lacks."""
    prologue = _OPENCL + _APART + CPU_MATH if machine.is_cpu else _OPENCL
    return Dialect("opencl", prologue, machine, shuffles=False)


OPENCL = opencl_dialect(CPU)
"""For CPUs."""


def hip_dialect(warp: int) -> Dialect:
    """HIP C++ for AMD devices of this wave size; HIP on NVIDIA devices compiles it too.

    Args:
        warp: Work items of a wave: 64 on gfx9, 32 on gfx10 and later.
    """
    halves = f"#if defined(__CUDACC_RTC__)\n{_CUDA_HALVES}#else\n{_AMD_HALVES}#endif\n"
    return Dialect("hip", _CPP + _IN_ORDER + halves, Machine(warp=warp))
