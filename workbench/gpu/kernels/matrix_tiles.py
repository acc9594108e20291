"""Tiles of operands in shared memory: loading them ahead, and reading them as matrix units take them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.compiler.ir.dtypes import FP8, DType
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import stored
from workbench.gpu.emit.tensors import Indices, Tensors, vector_type
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.product import Operand, Source

ACCESS = 16
"""Bytes of one access: a chunk."""
CHUNK = 8
"""Elements of 16 bits in a chunk."""
ROWS, COLUMNS, TERMS = 16, 8, 16
"""Rows, columns and terms of a warp's matrix instruction."""
QUAD = 4
"""Work items that share the rows of one instruction's sums."""
WARP = 32
LINE = 8
"""Chunks of a line of 128 bytes."""

TYPES = {DType.HALF: "f16", DType.BF16: "bf16"}
"""The types of operands, as the instructions name them."""
FLOATS = (DType.FLOAT, *TYPES)
"""The types of operands of products on matrix units; a float is there the sum of two numbers."""
BYTES = (DType.INT8, DType.UINT8, *FP8)
"""The types of one byte; 8-bit floats are there halves, which hold them exactly."""

COPIES = """\
DEVICE u32 shared_place(const void *p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void copy_async(u32 to, const void *from, i32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
#define COPIES_END() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
"""

LOADS = """\
DEVICE void load_matrices(u32 *r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void load_turned(u32 *r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
"""
"""``ldmatrix`` gives each work item its part of four 8 by 8 matrices, as ``mma`` takes them."""

_MULTIPLY = """\
DEVICE void multiply_{type}(f32 *c, const u32 *a, const u32 *b) {{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.{type}.{type}.f32 "
    "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""

_EXCHANGE = """\
DEVICE void exchange_pair(f32 *a, f32 *b, bool upper, u32 by) {
  UNROLL for (i32 e = 0; e < 2; ++e) {
    const f32 got = SHUFFLE_XOR(upper ? a[e] : b[e], by);
    if (upper) a[e] = got; else b[e] = got;
  }
}
DEVICE void exchange_sums(f32 *r, u32 lane) {
  UNROLL for (i32 half = 0; half < 4; half += 2) {
    exchange_pair(r + half, r + half + 4, lane & 1, 1);
    exchange_pair(r + half + 8, r + half + 12, lane & 1, 1);
    exchange_pair(r + half, r + half + 8, lane & 2, 2);
    exchange_pair(r + half + 4, r + half + 12, lane & 2, 2);
  }
}
"""
"""Before, four work items have two columns of each of four instructions; after, eight columns of one each."""


def exchange(w: Writer, sums: str, tiles: int, lane: Index, work: str = "f32") -> None:
    """Give each work item eight adjacent columns of sums; the number of tiles is a multiple of four."""
    w.need(_EXCHANGE.replace("f32", work))
    w.line(f"UNROLL for (i32 i = 0; i < {tiles // QUAD}; ++i)")
    w.line(f"  exchange_sums({sums} + i * {QUAD * 4}, {lane.text()});")


def multiply(type: DType) -> str:
    """The function for one instruction of a warp."""
    return _MULTIPLY.format(type=TYPES[type])


@dataclass(frozen=True)
class Tile:
    """A part of an operand in shared memory, in chunks that are exchanged so that reading uses all banks."""

    operand: Operand
    side: int
    """0 for the first operand, whose own axis has the rows, and 1 for the second."""
    span: int
    """Rows, or columns."""
    depth: int
    """Terms."""
    first: int
    """The place in shared memory, in bytes, from the start of a stage."""
    lines: bool = False
    """Whether the chunks are in lines of 128 bytes, as a warp group's instructions read them."""
    size: int = 2
    """Bytes of an element."""

    @property
    def bytes(self) -> int:
        """Bytes of shared memory."""
        return self.span * self.depth * self.size

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return ACCESS // self.size

    @property
    def near(self) -> int:
        """Chunks along the contiguous axis."""
        return (self.depth if self.operand.along_k else self.span) // self.chunk

    def place(self, far: Index, close: Index, w: Writer) -> str:
        """The place of a chunk in the tile, in bytes."""
        if self.size == 4 and not self.operand.along_k:
            return paired(far.text(), close.text(), self.near)
        if self.size == 1 and not self.operand.along_k:
            return swizzled(_pairs_first(far.text()), close.text(), self.near)
        if not self.lines or self.operand.along_k:
            return swizzled(far.text(), close.text(), self.near)
        high, low = close.divmod(LINE, w)
        line = high * self.depth + far
        return f"(({line.text()}) * {LINE} + (({low.text()}) ^ (({far.text()}) & 7))) * 16"


@dataclass(frozen=True)
class _Chunk:
    """Adjacent elements of an operand, which a work item loads."""

    operand: Operand
    batch: Indices
    at: tuple[Index, Index]
    """The first one's index along the operand's own axis, and its term."""
    lens: tuple[int, int]
    """Rows or columns of the operand, and terms."""
    to: str
    """The place in shared memory, in bytes."""
    count: int
    """The number of elements."""

    def along(self, by: int) -> tuple[Index, Index]:
        """The indices of the element that follows by some along the contiguous axis."""
        own, k = self.at
        return (own, k + by) if self.operand.along_k else (own + by, k)

    def source(self, t: Tensors) -> Source | None:
        """The first element's place in memory; None if it is computed or not aligned."""
        address = self.operand.address
        found = None if address is None else address(t, self.batch, *self.at)
        if found is None or found.offset.divisor % self.count or found.offset.constant % self.count:
            return None
        return found

    def is_adjacent(self, t: Tensors) -> bool:
        """Whether all of its elements follow each other in memory, wherever along the axis it is."""
        address, first = self.operand.address, self.source(t)
        if address is None or first is None:
            return False
        others = (address(t, self.batch, *self.along(j)) for j in range(1, self.count))
        return all(o == replace(first, offset=first.offset + j) for j, o in enumerate(others, 1))

    def bytes_left(self) -> str:
        """The bytes to load if it begins inside of the operand: fewer at the end of the contiguous axis."""
        side = 1 if self.operand.along_k else 0
        if self.lens[side] % self.count == 0:
            return str(ACCESS)
        left = f"{ACCESS // self.count} * ({self.lens[side]} - ({self.at[side].text()}))"
        return f"({left} < {ACCESS} ? {left} : {ACCESS})"


class Loader:
    """Loads tiles with the work items of a block.

    Args:
        b: The kernel; ``s`` is its shared memory there, and ``p`` the address of that.
        threads: Work items of a block.
        local: The number of the work item.
    """

    def __init__(self, b: Builder, threads: int, local: Index) -> None:
        """Define the instructions."""
        b.matrix = True
        self.w, self.t = b.w, b.tensors
        self.threads, self.local = threads, local
        self.w.need(COPIES)

    def fill(
        self, tile: Tile, batch: Indices, start: Index, length: int, k: Index, terms: int
    ) -> None:
        """Load a tile into the stage at ``q``; elements out of bounds are 0.

        Args:
            tile: The tile.
            batch: The index of the matrix.
            start: The first row or column.
            length: The number of rows or columns of the operand.
            k: The first term.
            terms: The number of terms of the operand.
        """
        count = tile.chunk
        chunks, adjacent = tile.span * tile.depth // count, False
        for turn in range(-(-chunks // self.threads)):
            flat = self.local + turn * self.threads
            far, close = flat.divmod(tile.near, self.w)
            to = f"q + {tile.first} + {tile.place(far, close, self.w)}"
            own, term = (far, close * count) if tile.operand.along_k else (close * count, far)
            spare = (turn + 1) * self.threads > chunks
            chunk = _Chunk(tile.operand, batch, (start + own, k + term), (length, terms), to, count)
            # Further chunks are in other rows, at the same places along the axis.
            adjacent = adjacent if turn else chunk.is_adjacent(self.t)
            with self.w.block(f"if ({flat.text()} < {chunks})" if spare else ""):
                self._load(chunk, adjacent)

    def _load(self, chunk: _Chunk, adjacent: bool) -> None:
        """Load a chunk: copied as it is, where its elements are adjacent in memory and aligned."""
        source = chunk.source(self.t) if adjacent else None
        if source is None:
            self._compute(chunk)
            return
        bounds = (self.t.inside(chunk.at, chunk.lens), source.inside)
        inside = " && ".join(c for c in bounds if c != "1")
        to, place, size = f"p + {chunk.to}", source.offset.text(), chunk.bytes_left()
        if inside:
            name = self.w.define("bool", inside, "i")
            place, size = f"({name} ? {place} : 0)", f"{name} ? {size} : 0"
        self.w.line(f"copy_async({to}, {source.pointer} + {place}, {size});")

    def _compute(self, chunk: _Chunk) -> None:
        """Compute adjacent elements, and store them in shared memory."""
        w, t, count = self.w, self.t, chunk.count
        lanes = min(count, CHUNK)
        while chunk.operand.unit % lanes:
            lanes //= 2
        size = ACCESS // count
        vector = vector_type(w, "f32" if size == 4 else f"u{8 * size}", count)
        name = w.name("h")
        w.line(f"{vector} {name};")
        t.lanes = lanes
        for first in range(0, count, lanes):
            condition = t.inside(chunk.along(first), chunk.lens)
            with w.block(f"if ({condition})" if condition != "1" else ""):
                for j in range(first, first + lanes):
                    value = chunk.operand.value(t, chunk.batch, *chunk.along(j))
                    w.line(f"{name}.v[{j}] = {stored(w, value)};")
            if condition != "1":
                zeros = " ".join(f"{name}.v[{j}] = 0;" for j in range(first, first + lanes))
                w.line(f"else {{ {zeros} }}")
        t.lanes = 1
        w.line(f"*({vector} *)(s + ({chunk.to})) = {name};")


def read(tile: Tile, start: Index, lane: Index, registers: str, w: Writer) -> str:
    """The statement that reads 16 terms of 16 rows or columns into four registers.

    Args:
        tile: The tile, in the stage at ``q``.
        start: The warp's first row or column.
        lane: The number of the work item in the warp.
        registers: The array. The statement reads ``i`` and ``k``, the number of 16 rows and of 16 terms.
        w: The writer of the kernel's code.
    """
    text = lane.text()
    # The matrices of the first operand follow each other along the rows first, the second's along the terms.
    low, middle, high = f"({text} & 7)", f"({text} >> 3 & 1)", f"({text} >> 4)"
    along_first = (tile.side == 0) == tile.operand.along_k
    far = f"({text} & 15)" if along_first else f"{low} + {high} * 8"
    close = high if along_first else middle
    if tile.operand.along_k:
        place = swizzled(f"({start.text()} + i * 16 + {far})", f"k * 2 + {close}", tile.near)
    else:
        base = start.divmod(CHUNK, w)[0].text()
        place = swizzled(f"(k * 16 + {far})", f"{base} + i * 2 + {close}", tile.near)
    load = "load_matrices" if tile.operand.along_k else "load_turned"
    return f"{load}({registers} + i * 4, q + {tile.first} + {place})"


def paired(far: str, close: str, near: int) -> str:
    """The place of a chunk of floats in bytes: exchanged so that two chunks of 4 rows use all banks."""
    return f"(({far}) * {near} + (({close}) ^ ({far} & 3) * 2)) * {ACCESS}"


def _pairs_first(term: str) -> str:
    """The row of a term of bytes: of 16 terms, pairs 0, 2, 4 and 6 come first.

    So a work item finds the four terms that it multiplies in two matrices, as pairs.
    """
    return f"({term} & ~15 | {term} >> 1 & 6 | {term} & 1 | ({term} & 2) << 2)"


def swizzled(far: str, close: str, near: int) -> str:
    """The place of a chunk in bytes: rows of ``near`` chunks, exchanged so that 8 rows use all banks."""
    shift = {2: 2, 4: 1}.get(near, 0)
    mask = min(near, LINE) - 1
    turned = f"({far} >> {shift} & {mask})" if shift else f"({far} & {mask})"
    return f"(({far}) * {near} + (({close}) ^ {turned})) * {ACCESS}"
