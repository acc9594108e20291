"""The kernel of a product on the matrix units of Hopper GPUs: four warps multiply from shared memory."""

from __future__ import annotations

from workbench.gpu.emit.index import Index
from workbench.gpu.kernels.matrix import Blocking, Matrix
from workbench.gpu.kernels.matrix_tiles import CHUNK, LINE, TERMS, TYPES
from workbench.gpu.kernels.product import Product

CAPABILITY = 90
"""The compute capability whose instructions these are."""
_ROWS = 64
"""Rows of one instruction."""
ALIGN = 1024
"""The alignment of eight lines."""
DEPTH = 64
"""Terms of a stage: a line."""

WORDS = """\
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define COPIES_SEEN() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
DEVICE u64 tile_at(u32 place, u32 leading) {
  return (u64)((place & 0x3FFFF) >> 4) | (u64)(leading >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62;
}
"""
"""A tile's descriptor has its address, the bytes between 64 columns and between 8 lines, and the kind of
swizzle (PTX ISA, the section on the matrix descriptor of ``wgmma``)."""


def instruction(
    name: str, type: str, columns: int, turned: tuple[bool, bool], adds: bool = True
) -> str:
    """The function for one instruction: 64 rows, ``columns`` columns, 16 terms.

    Args:
        name: Its name.
        type: The type of the operands, as the instruction names it.
        columns: Its columns.
        turned: Whether the operands' own axes are contiguous, not that of the terms.
        adds: Whether it adds to the sums; otherwise it replaces them.
    """
    count = columns // 2
    a, b = map(int, turned)
    return (
        f"DEVICE void {name}(f32 *c, u64 a, u64 b) {{\n"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{type}.{type} "\n'
        f'    "{{{_sums(count)}}}, %{count}, %{count + 1}, {int(adds)}, 1, 1, {a}, {b};"\n'
        f'    : {_bound(count, "+" if adds else "=")} : "l"(a), "l"(b));\n}}\n'
    )


def of_registers(name: str, type: str, columns: int) -> str:
    """The function for an instruction that adds; its first operand is in registers, the second is turned."""
    count = columns // 2
    a = ", ".join(f"%{count + i}" for i in range(4))
    given = ", ".join(f'"r"(a[{i}])' for i in range(4))
    return (
        f"DEVICE void {name}(f32 *c, const u32 *a, u64 b) {{\n"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{type}.{type} "\n'
        f'    "{{{_sums(count)}}}, {{{a}}}, %{count + 4}, 1, 1, 1, 1;"\n'
        f'    : {_bound(count, "+")} : {given}, "l"(b));\n}}\n'
    )


def _sums(count: int) -> str:
    return ", ".join(f"%{i}" for i in range(count))


def _bound(count: int, way: str) -> str:
    return ", ".join(f'"{way}f"(c[{i}])' for i in range(count))


class Warpgroup(Matrix):
    """Writes the kernel; tiles are swizzled in lines of 128 bytes, as the instruction reads them."""

    apart = _ROWS

    def _place_warp(self, warp: Index) -> None:
        group, part = warp.divmod(4, self.w)
        self.group = group * self.cut.height
        self.down, self.along = self.group + part * 16, Index()

    def _need(self) -> None:
        self.name = f"multiply_{self.cut.columns}"
        turned = (not self.product.a.along_k, not self.product.b.along_k)
        self.w.need(WORDS)
        self.w.need(instruction(self.name, TYPES[self.type], self.cut.columns, turned))

    def _allocate(self) -> None:
        self.b.shared = self.stages * self.cut.stage + ALIGN
        self.w.line("extern __shared__ u8 whole[];")
        self.w.line(f"const u32 p = shared_place(whole) + {ALIGN - 1} & ~{ALIGN - 1};")
        self.w.line("u8 *const s = whole + (p - shared_place(whole));")

    def _pipeline(self) -> None:
        """Load stages ahead; an instruction runs while the next stage is awaited."""
        w, ahead = self.w, self.stages - 2
        self._load_first(ahead)
        with w.loop(self.steps) as step:
            w.line(f"COPIES_WAIT({ahead - 1});")
            w.line("COPIES_SEEN();")
            w.line("BARRIER();")
            self._multiply(self._stage(step.text()))
            self._load_ahead(step, ahead)
            w.line("WAIT(1);")
        w.line("WAIT(0);")

    def _multiply(self, place: str) -> None:
        w, cut = self.w, self.cut
        a, b = self.product.a, self.product.b
        steps = [TERMS // CHUNK if x.along_k else TERMS * LINE for x in (a, b)]
        with w.block(""):
            w.line(f"const u32 q = p + {place};")
            # Rows follow each other by 128 bytes either way: 64 columns of m, or 64 terms of k.
            w.line(f"const u64 a = tile_at(q + ({self.group.text()}) * 128, {DEPTH * 128});")
            w.line(f"const u64 b = tile_at(q + {cut.rows * cut.depth * 2}, {DEPTH * 128});")
            w.line("FENCE();")
            w.line("UNROLL")
            with w.block(f"for (i32 k = 0; k < {cut.depth // TERMS}; ++k)"):
                for i in range(self.high):
                    sums = f"r + {i * self.wide * 4}"
                    rows = i * _ROWS * LINE
                    w.line(f"{self.name}({sums}, a + {rows} + k * {steps[0]}, b + k * {steps[1]});")
            w.line("COMMIT();")


BLOCKINGS = (
    Blocking(128, 256, DEPTH, 64, 256, 1, 0.84, 4, 4), Blocking(256, 128, DEPTH, 128, 128, 1, 0.80, 4, 4),
    Blocking(128, 192, DEPTH, 64, 192, 1, 0.57, 4, 4), Blocking(128, 128, DEPTH, 64, 128, 1, 0.43, 6, 4),
    Blocking(64, 128, DEPTH, 64, 128, 2, 0.46, 4, 4), Blocking(64, 64, DEPTH, 64, 64, 3, 0.39, 4, 4),
    Blocking(64, 32, DEPTH, 64, 32, 2, 0.32, 6, 4),
)  # fmt: skip


def blockings_for(product: Product) -> list[Blocking]:
    """The blockings whose columns fill lines, if the second operand's columns are contiguous."""
    turned = not product.b.along_k
    return [one for one in BLOCKINGS if not turned or not one.columns % DEPTH]
