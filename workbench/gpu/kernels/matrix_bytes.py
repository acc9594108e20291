"""The kernels of products of 8-bit integers and 8-bit floats on matrix units.

Tiles of bytes are loaded as those of halves are, in chunks of 16 bytes. A warp's instruction takes 32 terms
of integers, whose sums are exact, modulo 2³². No unit adds products of 8-bit floats up in float as well as
those of halves do, so such floats become halves, which hold them exactly, when they are read from their tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.emit.index import Index
from workbench.gpu.kernels import matrix, warpgroup
from workbench.gpu.kernels.matrix import Blocking, Matrix
from workbench.gpu.kernels.matrix_tiles import LINE, LOADS, QUAD, Tile, multiply, read, swizzled
from workbench.gpu.kernels.product import Product, Store
from workbench.gpu.kernels.warpgroup import ALIGN, WORDS, Warpgroup

TERMS = 32
"""Terms of a warp's instruction."""
INTEGERS = {DType.INT8: "s8", DType.UINT8: "u8"}
"""The types of integers, as the instructions name them."""

PICK = """\
DEVICE u32 pick_bytes(u32 x, u32 y, u32 which) {
  u32 r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(which)); return r;
}
"""
"""Four of the eight bytes of two words: a hexadecimal digit for each, the lowest first."""
_HALVES = ("0x6420", "0x7531")
"""The even bytes of two words, and the odd ones."""

_MULTIPLY = """\
DEVICE void multiply_{type}(u32 *c, const u32 *a, const u32 *b) {{
  asm("mma.sync.aligned.m16n8k32.row.col.s32.{type}.{type}.s32 "
    "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""

_MULTIPLY_FLOATS = """\
DEVICE void multiply_fp8(f32 *r, const u32 *a, const u32 *b) {
  f32 c[4] = {0, 0, 0, 0};
  const u32 first[4] = {a[0], a[2], a[1], a[3]}, second[4] = {a[4], a[6], a[5], a[7]};
  multiply_f16(c, first, b);
  multiply_f16(c, second, b + 2);
  UNROLL for (i32 e = 0; e < 4; ++e) r[e] += c[e];
}
"""
"""32 terms. Which term an instruction takes as its first is free, if it is the same one of both operands: a
work item has four adjacent terms in a register, and gives the first two as its own and the others as those
that are eight further on. The units truncate, so the sum is added to the others by an ordinary addition."""

_SCALE = """\
DEVICE u32 scale_halves(u32 x, u32 by) {
  u32 r; asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(by)); return r;
}
"""

_WIDEN = """\
DEVICE void widen_fp8(u32 *r, u32 x) {{
{native}  UNROLL for (i32 e = 0; e < 2; ++e) {{
    const u32 h = pick_bytes(x, 0, e ? 0x3424 : 0x1404);
{words}  }}
{end}}}
"""
"""Four 8-bit floats as two pairs of halves; ``h`` has two in the high bytes of its halves."""

_NATIVE = """\
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r[0]) : "h"((u16)x));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r[1]) : "h"((u16)(x >> 16)));
#else
"""

_SHIFTED = """\
    const u32 m = (h & 0x7fff7fff) >> 1;
    r[e] = scale_halves(m, 0x5c005c00) | h & 0x80008000 | (m + 0x00800080) >> 1 & 0x20002000;
"""
"""Four bits of exponent, 8 too small for a half; the largest code would be 480, and is NaN."""
_SHIFTED_FNUZ = """\
    const u32 m = (h & 0x7fff7fff) >> 1, nan = h & 0x80008000 - m & 0x80008000;
    r[e] = scale_halves(m, 0x58005800) | h & 0x80008000 | nan - (nan >> 6);
"""
"""The exponent is 7 too small; what is a negative zero elsewhere is NaN."""
_AS_IT_IS = "    r[e] = h;\n"
_HALVED_FNUZ = """\
    const u32 m = h & 0x7fff7fff, large = m >> 4 & 0x04000400, nan = h & 0x80008000 - m & 0x80008000;
    r[e] = scale_halves(m - large, 0x38003800 + large) | h & 0x80008000 | nan - (nan >> 6);
"""
"""Half of the half with these bits; large ones have an exponent less instead: the largest is no number's."""
_BODIES = {
    DType.FP8E4M3FN: _SHIFTED, DType.FP8E4M3FNUZ: _SHIFTED_FNUZ,
    DType.FP8E5M2: _AS_IT_IS, DType.FP8E5M2FNUZ: _HALVED_FNUZ,
}  # fmt: skip


def widen(type: DType) -> str:
    """The function that gives four 8-bit floats of a type as two pairs of halves, exactly."""
    native = _NATIVE if type is DType.FP8E4M3FN else ""
    return _WIDEN.format(native=native, words=_BODIES[type], end="#endif\n" if native else "")


class ByteMatrix(Matrix):
    """Writes the kernel, for operands in any layout.

    In a tile whose rows or columns are contiguous, ``ldmatrix`` turns pairs of bytes: a work item gets four
    terms of two adjacent rows or columns, of which the first counts as one of an instruction's first eight
    and the second as one of its others, or as a column of the next instruction. Sums lie accordingly.
    """

    terms = TERMS

    def _need(self) -> None:
        for words in (LOADS, PICK):
            self.w.need(words)

    def _fragment(self, tile: Tile, start: Index, registers: str) -> str:
        if tile.operand.along_k:
            return read(tile, start, self.lane, registers, self.w)
        base = start.divmod(tile.chunk, self.w)[0].text()
        place = swizzled(f"(k * {TERMS} + {self.lane.text()})", f"{base} + i", tile.near)
        order = (
            ((0, 0), (0, 1), (2, 0), (2, 1)) if tile.side == 0 else ((0, 0), (2, 0), (0, 1), (2, 1))
        )
        picked = " ".join(
            f"{registers}[i * 4 + {e}] = pick_bytes(t[{pair}], t[{pair + 1}], {_HALVES[odd]});"
            for e, (pair, odd) in enumerate(order)
        )
        return f"{{ u32 t[4]; load_turned(t, q + {tile.first} + {place}); {picked} }}"

    def _store(self, store: Store) -> None:
        if self.product.b.along_k:
            super()._store(store)
        elif self.product.n % QUAD:
            self._store_rows(store)
        else:
            self._store_columns(store, 2)

    def _line(self, quad: Index, half: Index) -> Index:
        return super()._line(quad, half) if self.product.a.along_k else quad * 2 + half

    def _sum_of(self, column: int) -> int:
        along_k = self.product.b.along_k
        return super()._sum_of(column) if along_k else column % 2 * 4 + column // 2

    def _spot(self, quad: str, pair: str) -> tuple[str, str]:
        row, column = super()._spot(quad, pair)
        if not self.product.a.along_k:
            row = f"{quad} * 2 + e / 2 % 2"
        if not self.product.b.along_k:
            column = f"e / 8 * 16 + {pair} * 4 + e % 2 * 2 + e / 4 % 2"
        return row, column


class IntegerMatrix(ByteMatrix):
    """Writes the kernel of a product of integers."""

    units = "matrix i8"

    def _need(self) -> None:
        super()._need()
        self.w.need(multiply_integers(self.type))

    def _call(self) -> str:
        return f"multiply_{INTEGERS[self.type]}({{sums}}, a + i * 4, b + j * 2)"


class Float8Matrix(ByteMatrix):
    """Writes the kernel of a product of 8-bit floats."""

    def _need(self) -> None:
        super()._need()
        for words in (multiply(DType.HALF), _MULTIPLY_FLOATS, _SCALE, widen(self.type)):
            self.w.need(words)

    def _call(self) -> str:
        w = self.w
        for name, given, count in (("x", "a", self.high * 4), ("y", "b", self.wide * 2)):
            w.line(f"u32 {name}[{count * 2}];")
            w.line(
                f"UNROLL for (i32 e = 0; e < {count}; ++e) widen_fp8({name} + e * 2, {given}[e]);"
            )
        return "multiply_fp8({sums}, x + i * 8, y + j * 4)"


def multiply_integers(type: DType) -> str:
    """The function for one instruction of a warp."""
    return _MULTIPLY.format(type=INTEGERS[type])


def group_instruction(name: str, type: DType, columns: int) -> str:
    """The function for one instruction of four warps: 64 rows, ``columns`` columns, 32 terms."""
    count, kind = columns // 2, INTEGERS[type]
    sums = ", ".join(f"%{i}" for i in range(count))
    bound = ", ".join(f'"+r"(c[{i}])' for i in range(count))
    return (
        f"DEVICE void {name}(u32 *c, u64 a, u64 b) {{\n"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k{TERMS}.s32.{kind}.{kind} "\n'
        f'    "{{{sums}}}, %{count}, %{count + 1}, 1;"\n'
        f'    : {bound} : "l"(a), "l"(b));\n}}\n'
    )


class IntegerWarpgroup(Warpgroup):
    """Writes the kernel of a product of integers for Hopper GPUs; terms of both operands are contiguous."""

    units = "matrix i8"

    def _need(self) -> None:
        self.name = f"multiply_{self.cut.columns}"
        self.w.need(WORDS)
        self.w.need(group_instruction(self.name, self.type, self.cut.columns))

    def _multiply(self, place: str) -> None:
        w, cut, rows = self.w, self.cut, self.apart
        lines = rows * LINE
        with w.block(""):
            w.line(f"const u32 q = p + {place};")
            w.line(f"const u64 a = tile_at(q + ({self.group.text()}) * {cut.depth}, {ALIGN});")
            w.line(f"const u64 b = tile_at(q + {cut.rows * cut.depth}, {ALIGN});")
            w.line("FENCE();")
            w.line("UNROLL")
            with w.block(f"for (i32 k = 0; k < {cut.depth // TERMS}; ++k)"):
                for i in range(self.high):
                    sums = f"r + {i * self.wide * 4}"
                    w.line(f"{self.name}({sums}, a + {i * lines} + k * 2, b + k * 2);")
            w.line("COMMIT();")


def _of_bytes(blockings: Sequence[Blocking], slower: float = 1.0) -> tuple[Blocking, ...]:
    """The blockings of halves, for twice as many terms in the same bytes."""
    return tuple(replace(b, depth=2 * b.depth, size=1, time=slower * b.time) for b in blockings)


BLOCKINGS = _of_bytes(matrix.BLOCKINGS)
GROUP_BLOCKINGS = _of_bytes(warpgroup.BLOCKINGS)
"""An instruction takes the time of that for halves, by NVIDIA's tables; not measured."""
_MOST_RESIDENT = 3
"""Blocks of 128 work items for whose halves there are registers."""
FLOAT_BLOCKINGS = tuple(
    replace(b, resident=count, time=b.time * count / b.resident)
    for b in _of_bytes(matrix.BLOCKINGS, 2.4)
    for count in [min(b.resident, _MOST_RESIDENT)]
)
"""Two instructions of halves, and what it takes to make halves: an estimate, not measured."""


def offers_for(product: Product, capability: int) -> tuple[Blocking, ...]:
    """The blockings of a product of bytes on a device of a compute capability."""
    if product.heart.inputs[0].shape.type not in INTEGERS:
        return FLOAT_BLOCKINGS
    is_along_k = product.a.along_k and product.b.along_k
    is_grouped = capability == warpgroup.CAPABILITY and is_along_k
    return (*BLOCKINGS, *GROUP_BLOCKINGS) if is_grouped else BLOCKINGS


def writer_of(product: Product, blocking: Blocking) -> type[Matrix]:
    """The class that writes the kernel of a product of bytes."""
    if product.heart.inputs[0].shape.type not in INTEGERS:
        return Float8Matrix
    return IntegerWarpgroup if blocking.warps > 1 else IntegerMatrix
