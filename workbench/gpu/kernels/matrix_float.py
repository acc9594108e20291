"""The kernel of a product of floats on matrix units, which take 11 of a float's 24 bits at once.

A float is the sum of two such numbers, so a product of floats is the sum of three products, those of the
second numbers left out; each step's sum is added to the others by an ordinary addition, since the units
truncate (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores", 2022).
"""

from __future__ import annotations

from workbench.gpu.emit.index import Index
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.matrix import Blocking, Matrix
from workbench.gpu.kernels.matrix_tiles import COLUMNS, LOADS, QUAD, ROWS, Tile, paired, read
from workbench.gpu.kernels.product import Store, as_work

TERMS = 8
"""Terms of a warp's instruction."""
SIZE = 4

WORDS = """\
DEVICE void split_float(u32 *x, f32 *rest) {
  const f32 v = *(const f32 *)x;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(*x) : "f"(v));
  *rest = v - *(const f32 *)x;
}
DEVICE void multiply_part(f32 *c, const u32 *a, const u32 *b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void multiply_float(f32 *r, const u32 *a, const f32 *a_rest, const u32 *b, const f32 *b_rest) {
  f32 c[4] = {0, 0, 0, 0};
  multiply_part(c, (const u32 *)a_rest, b);
  multiply_part(c, a, (const u32 *)b_rest);
  multiply_part(c, a, b);
  UNROLL for (i32 e = 0; e < 4; ++e) r[e] += c[e];
}
"""

BLOCKINGS = (
    Blocking(128, 128, 16, 64, 64, 2, 2.2, size=SIZE), Blocking(64, 128, 16, 64, 32, 2, 1.25, size=SIZE),
    Blocking(64, 64, 32, 32, 32, 3, 2.0, size=SIZE), Blocking(64, 64, 16, 64, 32, 6, 1.75, size=SIZE),
    Blocking(64, 32, 32, 32, 16, 4, 1.55, size=SIZE), Blocking(32, 64, 32, 16, 32, 4, 1.5, size=SIZE),
    Blocking(32, 32, 32, 16, 16, 4, 1.0, size=SIZE),
)  # fmt: skip


class FloatMatrix(Matrix):
    """Writes the kernel."""

    units = "matrix f32"

    def _need(self) -> None:
        self.w.need(LOADS)
        self.w.need(WORDS)

    def _multiply(self, place: str) -> None:
        w, high, wide = self.w, self.high, self.wide
        with w.block(""):
            w.line(f"const u32 q = p + {place};")
            w.line("UNROLL")
            with w.block(f"for (i32 k = 0; k < {self.cut.depth // TERMS}; ++k)"):
                for name, count in (("a", high * 4), ("b", wide * 2)):
                    w.line(f"u32 {name}[{count}]; f32 {name}_rest[{count}];")
                self._read(self.tiles[0], self.down, "a", high)
                self._read(self.tiles[1], self.along, "b", wide // 2)
                w.line(f"UNROLL for (i32 i = 0; i < {high}; ++i)")
                w.line(f"  UNROLL for (i32 j = 0; j < {wide}; ++j)")
                operands = "a + i * 4, a_rest + i * 4, b + j * 2, b_rest + j * 2"
                w.line(f"    multiply_float(r + (i * {wide} + j) * 4, {operands});")

    def _read(self, tile: Tile, start: Index, registers: str, count: int) -> None:
        """Read terms of a multiple of 16 rows or columns, and split each into two numbers."""
        w = self.w
        with w.block(f"UNROLL for (i32 i = 0; i < {count}; ++i)"):
            if tile.operand.along_k:
                w.line(f"{read(tile, start, self.lane, registers, w)};")
            else:
                for e in range(QUAD):
                    w.line(f"{registers}[i * 4 + {e}] = {_element(tile, start, self.lane, e, w)};")
            w.line("UNROLL for (i32 e = i * 4; e < i * 4 + 4; ++e)")
            w.line(f"  split_float({registers} + e, {registers}_rest + e);")

    def _store(self, store: Store) -> None:
        """Compute sums again that are no numbers, or infinite: a part of an infinite number is none."""
        w = self.w
        count = self.high * self.wide * 4
        w.line("bool again = false;")
        w.line(f"UNROLL for (i32 e = 0; e < {count}; ++e) again |= !(r[e] - r[e] == 0);")
        with w.block("if (again)"):
            self._compute_again()
        super()._store(store)

    def _compute_again(self) -> None:
        """Add up the products of each sum one after the other, as kernels without matrix units do."""
        w, product, count = self.w, self.product, self.high * self.wide * QUAD
        quad, pair = self.lane.divmod(QUAD, w)
        with w.loop(count) as number:
            tile, e = number.divmod(QUAD, w)
            i, j = tile.divmod(self.wide, w)
            half, odd = e.divmod(2, w)
            row = self.row + self.down + i * ROWS + half * 8 + quad
            column = self.column + self.along + j * COLUMNS + pair * 2 + odd
            inside = self.b.tensors.inside([row, column], [product.m, product.n])
            with w.block(f"if ({inside})"):
                total = self._sum(row, column)
                # Registers have no addresses: all are asked whether they are meant.
                w.line(f"UNROLL for (i32 e = 0; e < {count}; ++e)")
                w.line(f"  if (e == {number.text()}) r[e] = {total};")

    def _sum(self, row: Index, column: Index) -> str:
        """The sum of this block's terms."""
        w, t, product = self.w, self.b.tensors, self.product
        total, deep = w.variable("f32", "0"), self.cut.depth * self.steps
        with w.loop(deep) as step:
            k = self.part * deep + step
            with w.block(f"if ({t.inside([k], [product.k])})"):
                a = product.a.value(t, self.batch, row, k)
                b = product.b.value(t, self.batch, column, k)
                w.line(f"{total} += {as_work(w, a, 'f32')} * {as_work(w, b, 'f32')};")
        return total


def _element(tile: Tile, start: Index, lane: Index, e: int, w: Writer) -> str:
    """The float of a register, of a tile whose rows or columns are contiguous; in the order of ``read``."""
    quad, pair = lane.divmod(QUAD, w)
    later = ((e % 2) * 8, e // 2 * 4) if tile.side == 0 else (e // 2 * 8, e % 2 * 4)
    across = start + quad + later[0]
    far = f"(k * {TERMS} + {(pair + later[1]).text()})"
    base, rest = across.divmod(QUAD, w)
    place = paired(far, f"({base.text()}) + i * {ROWS // QUAD}", tile.near)
    return f"*(const u32 *)(s + (q - p) + {tile.first} + {place} + ({rest.text()}) * {SIZE})"
