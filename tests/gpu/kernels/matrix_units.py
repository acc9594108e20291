"""Runs kernels for matrix units on OpenCL: their instructions are written out, as the PTX ISA has them."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.gpu.harness import Ran, quickly_built, run_plan, run_program
from tests.gpu.kernels.warps import with_kernels, with_shuffles
from workbench.compiler.ir.program import Program
from workbench.compiler.report.run_plan import TileMap
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import OPENCL, Dialect
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.lower import lower
from workbench.gpu.machine import Machine

_WORDS = """\
#undef UNROLL
#define UNROLL
#define shared_place(p) 0
#define COPIES_END()
#define COPIES_WAIT(n)
#define COPIES_SEEN()
#define FENCE()
#define COMMIT()
#define WAIT(n)
#define __syncwarp() BARRIER()
#define LOADING(warp, last) if (LOCAL(0) == 0)
#define MULTIPLYING(warp, last)
#define OWN_TURN(turn, teams, team)
#define HANDOVER() BARRIER()
#define barrier_make(at, count)
#define barriers_made()
#define barrier_expect(at, bytes)
#define barrier_wait(at, parity)
#define barrier_arrive(at)
#define map_needed(map)
#define REGISTERS(way, n)
#define HELD(r, n)
#define SOME(x) 1
#define power_of_two(x) exp2(x)
#define SHUFFLE_XOR(v, m) ({ \\
  __typeof__((v) + 0) sent = v; \\
  *(__local __typeof__((v) + 0) *)(given + LOCAL(0)) = sent; BARRIER(); \\
  sent = *(__local __typeof__((v) + 0) *)(given + (LOCAL(0) ^ (m))); BARRIER(); \\
  sent; })
#define copy_async(to, from, bytes) copy_into(s + (to), (__global const u8 *)(from), bytes)
#define load_matrices(r, from) load_4(r, from, false)
#define load_turned(r, from) load_4(r, from, true)
#define load_4(r, from, turned) { \\
  given[LOCAL(0)] = from; BARRIER(); \\
  for (int i_ = 0; i_ < 4; ++i_) (r)[i_] = part_of(s, given + LOCAL(0) / 32 * 32 + i_ * 8, turned); \\
  BARRIER(); }
#define multiply_warp(type, c, a, b) { \\
  for (int i_ = 0; i_ < 4; ++i_) given[i_ * BLOCK + LOCAL(0)] = (a)[i_]; \\
  for (int i_ = 0; i_ < 2; ++i_) given[(4 + i_) * BLOCK + LOCAL(0)] = (b)[i_]; \\
  BARRIER(); \\
  for (int i_ = 0; i_ < 4; ++i_) for (int k_ = 0; k_ < 16; ++k_) { \\
    const int pair_ = LOCAL(0) % 4, first_ = LOCAL(0) / 32 * 32, of_ = k_ % 8 / 2; \\
    const u32 x_ = given[(i_ / 2 + k_ / 8 * 2) * BLOCK + first_ + LOCAL(0) % 32 / 4 * 4 + of_]; \\
    const u32 y_ = given[(4 + k_ / 8) * BLOCK + first_ + (pair_ * 2 + i_ % 2) * 4 + of_]; \\
    (c)[i_] += type##_value((u16)(x_ >> k_ % 2 * 16)) * type##_value((u16)(y_ >> k_ % 2 * 16)); \\
  } \\
  BARRIER(); }
#define split_float(x, rest) { \\
  const f32 v_ = as_float(*(x)); \\
  *(x) = isnan(v_) ? 0x7fffffff : as_uint(v_) + 0x1000 & 0xffffe000; *(rest) = v_ - as_float(*(x)); }
#define multiply_part(c, a, b) { \\
  for (int i_ = 0; i_ < 4; ++i_) given[i_ * BLOCK + LOCAL(0)] = (a)[i_]; \\
  for (int i_ = 0; i_ < 2; ++i_) given[(4 + i_) * BLOCK + LOCAL(0)] = (b)[i_]; \\
  BARRIER(); \\
  for (int i_ = 0; i_ < 4; ++i_) for (int k_ = 0; k_ < 8; ++k_) { \\
    const int pair_ = LOCAL(0) % 4, first_ = LOCAL(0) / 32 * 32; \\
    const u32 x_ = given[(i_ / 2 + k_ / 4 * 2) * BLOCK + first_ + LOCAL(0) % 32 / 4 * 4 + k_ % 4]; \\
    const u32 y_ = given[(4 + k_ / 4) * BLOCK + first_ + (pair_ * 2 + i_ % 2) * 4 + k_ % 4]; \\
    (c)[i_] += as_float(x_ & 0xffffe000) * as_float(y_ & 0xffffe000); \\
  } \\
  BARRIER(); }
#define multiply_float(r, a, a_rest, b, b_rest) { \\
  f32 c_[4] = {0, 0, 0, 0}; u32 x_rest_[4], y_rest_[2]; \\
  for (int e_ = 0; e_ < 4; ++e_) x_rest_[e_] = as_uint((a_rest)[e_]); \\
  for (int e_ = 0; e_ < 2; ++e_) y_rest_[e_] = as_uint((b_rest)[e_]); \\
  multiply_part(c_, x_rest_, b) multiply_part(c_, a, y_rest_) multiply_part(c_, a, b) \\
  for (int e_ = 0; e_ < 4; ++e_) (r)[e_] += c_[e_]; }
#define multiply_bytes(type, c, a, b) { \\
  for (int i_ = 0; i_ < 4; ++i_) given[i_ * BLOCK + LOCAL(0)] = (a)[i_]; \\
  for (int i_ = 0; i_ < 2; ++i_) given[(4 + i_) * BLOCK + LOCAL(0)] = (b)[i_]; \\
  BARRIER(); \\
  for (int i_ = 0; i_ < 4; ++i_) for (int k_ = 0; k_ < 32; ++k_) { \\
    const int pair_ = LOCAL(0) % 4, first_ = LOCAL(0) / 32 * 32, of_ = k_ % 16 / 4; \\
    const u32 x_ = given[(i_ / 2 + k_ / 16 * 2) * BLOCK + first_ + LOCAL(0) % 32 / 4 * 4 + of_]; \\
    const u32 y_ = given[(4 + k_ / 16) * BLOCK + first_ + (pair_ * 2 + i_ % 2) * 4 + of_]; \\
    (c)[i_] += (u32)((i32)(type)(x_ >> k_ % 4 * 8) * (i32)(type)(y_ >> k_ % 4 * 8)); \\
  } \\
  BARRIER(); }
#define multiply_s8(c, a, b) multiply_bytes(i8, c, a, b)
#define multiply_u8(c, a, b) multiply_bytes(u8, c, a, b)
#define multiply_fp8(r, a, b) { \\
  f32 sums_[4] = {0, 0, 0, 0}; \\
  const u32 one_[4] = {(a)[0], (a)[2], (a)[1], (a)[3]}, two_[4] = {(a)[4], (a)[6], (a)[5], (a)[7]}; \\
  multiply_f16(sums_, one_, b) multiply_f16(sums_, two_, (b) + 2) \\
  for (int e_ = 0; e_ < 4; ++e_) (r)[e_] += sums_[e_]; }
#define multiply_f16(c, a, b) multiply_warp(half, c, a, b)
#define multiply_bf16(c, a, b) multiply_warp(bf16, c, a, b)
#define multiply_group(type, columns, ta, tb, c, a, b) { \\
  const int row_ = LOCAL(0) % 128 / 32 * 16 + LOCAL(0) % 32 / 4; \\
  for (int i_ = 0; i_ < columns / 2; ++i_) for (int k_ = 0; k_ < 16; ++k_) { \\
    const int column_ = i_ / 4 * 8 + LOCAL(0) % 4 * 2 + i_ % 2; \\
    (c)[i_] += type##_value(*element_at(s, a, row_ + i_ % 4 / 2 * 8, k_, ta)) \\
      * type##_value(*element_at(s, b, column_, k_, tb)); \\
  } }
#define replace_group(type, columns, ta, tb, c, a, b) { \\
  for (int i_ = 0; i_ < columns / 2; ++i_) (c)[i_] = 0; \\
  multiply_group(type, columns, ta, tb, c, a, b) }
#define multiply_group_rows(type, columns, c, a, b) { \\
  for (int i_ = 0; i_ < 4; ++i_) given[i_ * BLOCK + LOCAL(0)] = (a)[i_]; \\
  BARRIER(); \\
  for (int i_ = 0; i_ < columns / 2; ++i_) for (int k_ = 0; k_ < 16; ++k_) { \\
    const int first_ = LOCAL(0) / 4 * 4, column_ = i_ / 4 * 8 + LOCAL(0) % 4 * 2 + i_ % 2; \\
    const u32 x_ = given[(i_ % 4 / 2 + k_ / 8 * 2) * BLOCK + first_ + k_ % 8 / 2]; \\
    (c)[i_] += type##_value((u16)(x_ >> k_ % 2 * 16)) \\
      * type##_value(*element_at(s, b, column_, k_, true)); \\
  } \\
  BARRIER(); }
#define multiply_group_bytes(type, columns, c, a, b) { \\
  const int row_ = LOCAL(0) % 128 / 32 * 16 + LOCAL(0) % 32 / 4; \\
  for (int i_ = 0; i_ < columns / 2; ++i_) for (int k_ = 0; k_ < 32; ++k_) { \\
    const int column_ = i_ / 4 * 8 + LOCAL(0) % 4 * 2 + i_ % 2; \\
    const u16 x_ = *element_at(s, a, row_ + i_ % 4 / 2 * 8, k_ / 2, false); \\
    const u16 y_ = *element_at(s, b, column_, k_ / 2, false); \\
    (c)[i_] += (u32)((i32)(type)(x_ >> k_ % 2 * 8) * (i32)(type)(y_ >> k_ % 2 * 8)); \\
  } }
#define exchange_pair(a, b, upper, by) for (int e_ = 0; e_ < 2; ++e_) { \\
  const __typeof__((a)[0] + 0) got_ = SHUFFLE_XOR((upper) ? (a)[e_] : (b)[e_], by); \\
  if (upper) (a)[e_] = got_; else (b)[e_] = got_; }
#define exchange_sums(r, lane) for (int h_ = 0; h_ < 4; h_ += 2) { \\
  exchange_pair((r) + h_, (r) + h_ + 4, (lane) & 1, 1); \\
  exchange_pair((r) + h_ + 8, (r) + h_ + 12, (lane) & 1, 1); \\
  exchange_pair((r) + h_, (r) + h_ + 8, (lane) & 2, 2); \\
  exchange_pair((r) + h_ + 4, (r) + h_ + 12, (lane) & 2, 2); }
#define half_value(x) half_f32(x)
#define bf16_value(x) as_float((u32)(x) << 16)
u32 nearest(f32 x) { return as_uint(x) + 0x7fff + (as_uint(x) >> 16 & 1) >> 16; }
void copy_into(__local u8 *to, __global const u8 *from, int bytes) {
  for (int i = 0; i < 16; ++i) to[i] = i < bytes ? from[i] : 0;
}
u32 part_of(__local u8 *s, __local const u32 *rows, bool turned) {
  const int lane = LOCAL(0) % 32;
  if (!turned) return *(__local u32 *)(s + rows[lane / 4] + lane % 4 * 4);
  const u16 low = *(__local u16 *)(s + rows[lane % 4 * 2] + lane / 4 * 2);
  return low | (u32)*(__local u16 *)(s + rows[lane % 4 * 2 + 1] + lane / 4 * 2) << 16;
}
u64 tile_at(u32 place, u32 leading) {
  return (u64)((place & 0x3FFFF) >> 4) | (u64)(leading >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62;
}
__local u16 *element_at(__local u8 *s, u64 tile, int own, int k, bool turned) {
  const u32 start = (tile & 0x3FFF) << 4, leading = (tile >> 16 & 0x3FFF) << 4;
  const u32 eight = (tile >> 32 & 0x3FFF) << 4, line = turned ? k : own;
  const u32 place = start + (turned ? own / 64 * leading : 0) + line / 8 * eight + line % 8 * 128
    + (turned ? own % 64 : k) * 2;
  return (__local u16 *)(s + (place ^ (place >> 7 & 7) << 4));
}
u32 pick_bytes(u32 x, u32 y, u32 which) {
  const u64 both = (u64)y << 32 | x;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) r |= (u32)(both >> (which >> i * 4 & 7) * 8 & 255) << i * 8;
  return r;
}
u32 scale_halves(u32 x, u32 by) {
  const u32 low = f32_half(half_f32((u16)x) * half_f32((u16)by));
  return low | (u32)f32_half(half_f32((u16)(x >> 16)) * half_f32((u16)(by >> 16))) << 16;
}
u32 pack_f16(f32 low, f32 high) { return f32_half(low) | (u32)f32_half(high) << 16; }
u32 pack_bf16(f32 low, f32 high) { return nearest(low) | nearest(high) << 16; }
"""
_HEAD = re.compile(r"(KERNEL\((\d+)\) \w+\([^)]*\) \{)")
_FUNCTIONS = (
    r"shared_place|copy_async|load_\w+|multiply_\w+|split_float|exchange_\w+|tile_at|pack_\w+|pick_bytes"
    r"|scale_halves|barriers?_\w+|map_needed|copy_tile_\d|power_of_two|elected"
)
_MACROS = r"COPIES_\w+|FENCE|COMMIT|WAIT|LOADING|MULTIPLYING|OWN_TURN|HANDOVER|TILE_MAP|REGISTERS|HELD|SOME"
_OWN = re.compile(
    rf"(?m)^DEVICE \w+ (?:{_FUNCTIONS})\((?:.*}}|[^}}]*(?:}}[^}}]+)*?^}})$|^#define (?:{_MACROS})\(.*$"
)
_GROUP = re.compile(
    r"DEVICE void (\w+)\(f32 \*c, (?:u64|const u32 \*)\s?a, u64 b\) {[^}]*"
    r"m64n(\d+)k16\.f32\.(\w+)\.\w+.*?([01]), 1, 1, (\d)(?:, (\d))?;",
    re.DOTALL,
)
"""A function for an instruction of a group: name, columns, type, whether it adds, what is turned."""

_GROUP_BYTES = re.compile(r"m64n(\d+)k32\.s32\.([su])8\.")


def with_matrix_units(capability: int) -> Dialect:
    """OpenCL with a GPU's vectors and warps, and the matrix units of a compute capability."""
    return Dialect("matrix units", OPENCL.prologue, Machine(warp=32, matrix=capability))


def run_on_matrix_units(
    program: Program, inputs: dict[str, Any], device: Device, capability: int
) -> Ran:
    """The results of a program whose kernels were made for matrix units; a GPU that has them runs its own."""
    if device.kind == "hip":
        pytest.skip("kernels for matrix units are CUDA's")
    if device.kind != "opencl":
        return run_program(program, inputs, device)
    plan = with_kernels(lower(program, with_matrix_units(capability)), _emulated)
    return run_plan(plan, inputs, device, quickly_built(plan, device))


def _emulated(kernel: Kernel) -> Kernel:
    if not kernel.matrix:
        return with_shuffles(kernel)
    source, words = kernel.source, _WORDS
    for name, columns, type, adds, a, b in _GROUP.findall(source):
        value = {"f16": "half"}.get(type, type)
        way = "multiply_group" if adds == "1" else "replace_group"
        how = (
            f"{way}({value}, {columns}, {a}, {b}"
            if b
            else f"multiply_group_rows({value}, {columns}"
        )
        words += f"#define {name}(c, a, b) {how}, c, a, b)\n"
    if group := _GROUP_BYTES.search(source):
        columns, sign = group.groups()
        type = {"s": "i8", "u": "u8"}[sign]
        words += f"#define multiply_{columns}(c, a, b) multiply_group_bytes({type}, {columns}, c, a, b)\n"
    source, threads = _OWN.sub("", source), kernel.block[0]
    if kernel.maps:
        # Without those that load: here the first work item does, before all multiply.
        threads = 32 * int(re.findall(r"LOADING\([^;]*?(\d+)\) {", source)[-1])
        source = re.sub(r"struct __align__\(64\) TileMap.*\n|, TILE_MAP\(\w+\)", "", source)
        source = re.sub(
            r"copy_tile_\d\((.*?), &(\w+), ready, ", r"copy_\2(s, COPIED_\2, \1, ", source
        )
        source = source.replace(f"KERNEL({kernel.block[0]})", f"KERNEL({threads})")
        pointers = re.findall(r"\*(?:RESTRICT )?(\w+)[,)]", source[source.index("KERNEL(") :])
        for number, map in enumerate(kernel.maps):
            words += _copier(f"map{number}", map, pointers[map.argument])
    whole = rf"SHARED ALIGN(1024) u8 \1[{kernel.shared}];"
    source = re.sub(r"extern __shared__.*? (\w+)\[\];", whole, source)
    for text in ("u8 *const s =", "f32 *const t =", "u32 *const t ="):
        source = source.replace(text, f"__local {text}")
    vectors = (f"{vector} *)(s" for vector in ("u8x16", "u16x8", "f32x4"))
    for pointer in (*vectors, "const u32 *)(s", "u32 *)s", "f32 *)s", "f32 *)(s"):
        source = source.replace(f"({pointer}", f"(__local {pointer}")
    source = _HEAD.sub(r"\1 SHARED u32 given[6 * \2];", source)
    words += f"#define BLOCK {threads}\n"
    return replace(kernel, source=words + source, shared=0, block=(threads, 1, 1), maps=())


def _copier(name: str, map: TileMap, pointer: str) -> str:
    """The copy engine's work on a map: lines of 128 bytes, in which eight chunks are exchanged."""
    axes = list(zip(map.lens, map.strides, map.box, strict=True))[::-1]
    numbers = ", ".join(f"int c{a}" for a in range(len(axes)))
    loops = "".join(
        f"for (int i{a} = 0; i{a} < {axes[a][2]}; ++i{a}) " for a in reversed(range(len(axes)))
    )
    inside = " && ".join(f"(u32)(c{a} + i{a}) < {n}" for a, (n, _, _) in enumerate(axes))
    offset = " + ".join(f"(c{a} + i{a}) * {stride}" for a, (_, stride, _) in enumerate(axes))
    return (
        f"#define COPIED_{name} (__global const u16 *){pointer} + {map.offset}\n"
        f"void copy_{name}(__local u8 *s, __global const u16 *from, u32 to, {numbers}) {{\n"
        f"  {loops}{{\n"
        f"    *(__local u16 *)(s + (to ^ (to >> 7 & 7) << 4)) = {inside} ? from[{offset}] : 0; to += 2;\n"
        f"  }}\n}}\n"
    )
