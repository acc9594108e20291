"""The kernel of a product of floats on a CPU: sums in vector registers, operands in panels.

A block is one work item. It computes some rows of one panel, which is a few vectors of columns, and keeps the
sums of a tile in registers from the first term to the last. A term costs a load for each vector of columns
and a broadcast for each row. An operand is read where it lies if that takes no more; another one is copied
into panels first: a constant when the program is lowered, anything else by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.emit.index import Index, Variable, joined
from workbench.gpu.emit.tensors import Indices
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.operands import Packed
from workbench.gpu.kernels.product import Product, Store, split_over, start_of
from workbench.gpu.machine import Machine

if TYPE_CHECKING:
    from workbench.gpu.kernels.operands import Side

_SPARE = {32: 8, 16: 4}
"""Registers that do not hold sums, by the number of all: for operands, and constants of the epilogue."""
_MANY_REGISTERS = 32
"""Registers that hold the constants of two vectors of a function."""
_HIGHEST = 12
"""Most rows of a tile; each has a pointer."""
_CHAINS = 16
"""Sums that keep the multipliers busy."""
_BLOCKS = 16
"""Blocks that keep a few cores evenly busy."""
_TILES = 32
"""Most tiles of a block, whose sums are in its own memory."""
_LEAST = 1 << 18
"""Multiplications of a block at least, if rows are divided among blocks."""


@dataclass(frozen=True)
class Cut:
    """A tile of the sums in registers."""

    height: int
    """Rows."""
    vectors: int
    """Vectors of columns."""
    lanes: int
    """Columns of a vector."""

    def __str__(self) -> str:
        """Everything that tells it from others."""
        return f"{self.height}x{self.width} in registers"

    @property
    def width(self) -> int:
        """Columns."""
        return self.vectors * self.lanes


def suits(product: Product) -> bool:
    """Whether both operands are floats, with columns to fill vectors with."""
    types = {i.shape.type for i in product.heart.inputs}
    return types == {DType.FLOAT} and product.n > 1 and product.k > 0


def cuts_for(machine: Machine, product: Product) -> list[Cut]:
    """The tiles for a product, the one with the least estimated time first."""
    lanes, registers = machine.vector // 4, machine.registers
    room = registers - _SPARE[registers]
    most = -(-product.n // lanes)
    found: list[tuple[float, Cut]] = []
    for vectors in range(1, min(4, most) + 1):
        whole = min(room // vectors, product.m, _HIGHEST)
        even = -(-product.m // -(-product.m // whole))
        for height in dict.fromkeys((whole, even, -(-whole // 2), -(-whole // 3))):
            cut = Cut(height, vectors, lanes)
            found.append((_estimate(product, cut), cut))
    return [cut for _, cut in sorted(found, key=lambda pair: pair[0])]


def _estimate(product: Product, cut: Cut) -> float:
    """Time of all tiles: a term costs its multiplications, and loads of columns, which come from afar."""
    tiles = -(-product.m // cut.height) * -(-product.n // cut.width)
    sums = cut.height * cut.vectors
    return tiles * (max(sums, _CHAINS) + 2 * cut.vectors)


class Panels:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        cut: The tile.
        sides: How each operand is read.
    """

    threads = 1

    def __init__(self, b: Builder, product: Product, cut: Cut, sides: Sequence[Side]) -> None:
        """Compute this block's panel and rows."""
        self.b, self.w, self.product, self.cut = b, b.w, product, cut
        self.a, self.columns = sides
        self.part = Index()
        panels, groups = -(-product.n // cut.width), -(-product.m // cut.height)
        split = _parts(product, panels, groups)
        self.each = -(-groups // split)
        """Tiles of a block, one below the other."""
        chunks = -(-groups // self.each)
        self.spare = chunks * self.each - groups
        self.groups = groups
        self.blocks = product.batch * panels * chunks
        w = b.w
        number = w.define(w.integer_type, "GROUP(0)", "g")
        lens = (*product.lens, panels, chunks)
        block = Index.of(Variable(number, 0, self.blocks - 1))
        *batch, self.panel, self.chunk = split_over(block, lens, w)
        self.batch: Indices = tuple(batch)
        self.column = start_of(w, self.panel, cut.width, product.n)

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w, size = self.w, self.cut.height * self.cut.width
        self.vector = vector_of(self.b, self.cut.lanes)
        w.line(f"ALIGN(64) {self.product.work} p[{self.each * size}];")
        with self._tiles() as (turn, number, row):
            self._sums(number, row, turn * size)
        # In a loop of its own, so that no register holds its constants while terms are added up.
        with self._tiles() as (turn, _, row):
            self._finish(store, row, turn * size)
        return self.blocks

    @contextmanager
    def _tiles(self) -> Generator[tuple[Index, Index, Index]]:
        """A loop over the block's tiles: the turn, the tile's number, its first row."""
        w = self.w
        with w.loop(self.each) as turn:
            group = self.chunk * self.each + turn
            if self.spare:
                w.line(f"if ({group.text()} >= {self.groups}) break;")
            number = Index.of(Variable(w.integer(group.text()), 0, self.groups - 1))
            yield turn, number, start_of(w, number, self.cut.height, self.product.m)

    def _sums(self, group: Index, row: Index, first: Index) -> None:
        """Add up all terms of a tile, and put the sums into an array."""
        w, cut = self.w, self.cut
        names = [[f"s{r}_{v}" for v in range(cut.vectors)] for r in range(cut.height)]
        for line in names:
            w.line(f"{self.vector} {', '.join(f'{name} = 0' for name in line)};")
        with self._segments() as (start, length):
            rows = [self._row(group, row, r, start) for r in range(cut.height)]
            columns, below = self.columns.panel(self.b, self.batch, self.panel, self.column, start)
            w.line(f"GLOBAL const f32 *c = {columns};")
            with w.loop(length, prefix="k") as k:
                at = k.text()
                for v in range(cut.vectors):
                    place = f"c + {below} * {at} + {v * cut.lanes}"
                    w.line(f"const {self.vector} b{v} = *(GLOBAL const {self.vector} *)({place});")
                for (pointer, ahead), line in zip(rows, names, strict=True):
                    w.line(f"{{ const f32 u = {pointer}[{ahead} * {at}];")
                    w.line(f"  {' '.join(f'{s} += u * b{v};' for v, s in enumerate(line))} }}")
        for r, line in enumerate(names):
            for v, name in enumerate(line):
                place = (first + (r * cut.width + v * cut.lanes)).text()
                w.line(f"*({self.vector} *)(p + {place}) = {name};")

    @contextmanager
    def _segments(self) -> Generator[tuple[Index, int]]:
        """Loops over the stretches of terms along which both operands advance evenly."""
        inner = () if isinstance(self.a, Packed) else self.product.a.inner
        lens = [n for n in inner if n > 1] or [self.product.k]
        with ExitStack() as stack:
            at = [stack.enter_context(self.w.loop(n)) for n in lens[:-1]]
            yield joined([*at, Index()], lens), lens[-1]

    def _row(self, group: Index, row: Index, number: int, start: Index) -> tuple[str, int]:
        """A pointer to the row's first term of a segment, and the distance to the next one."""
        text, ahead = self.a.row(self.b, self.batch, group, row, number, start)
        name = self.w.name("a")
        self.w.line(f"GLOBAL const f32 *{name} = {text};")
        return name, ahead

    def _finish(self, store: Store, row: Index, first: Index) -> None:
        """Store the sums, in loops that compilers make vectors of."""
        w, cut = self.w, self.cut
        count = min(cut.width, self.product.n)
        with w.loop(cut.height) as i:
            if (hint := whole_vectors(self.b.dialect.machine, count)) is not None:
                w.line(hint)
            with w.loop(count) as j:
                cell = (self.batch, row + i, self.column + j)
                store([cell], [f"p[{(first + i * cut.width + j).text()}]"])


def whole_vectors(machine: Machine, count: int) -> str | None:
    """Ask for whole vectors in a loop, two at a time if they are even; None to leave the loop alone.

    LLVM makes vectors of half a register where registers have 64 bytes, and functions such as ``erf`` take
    twice as long then.
    """
    lanes = machine.vector // 4
    if machine.registers < _MANY_REGISTERS or count % lanes:
        return None
    pairs = "" if count % (2 * lanes) else " interleave_count(2)"
    return f'_Pragma("clang loop vectorize_width({lanes}){pairs}")'


def _parts(product: Product, panels: int, groups: int) -> int:
    """The number of parts that the rows are divided into, to have blocks for all cores."""
    wanted = -(-_BLOCKS // (panels * product.batch))
    work = product.m * product.n * product.k // panels
    return max(1, -(-groups // _TILES), min(wanted, groups, work // _LEAST))


def vector_of(b: Builder, lanes: int) -> str:
    """The name of a vector type of floats, which may lie at any float's address."""
    name = f"V{lanes}"
    kind = f"__attribute__((ext_vector_type({lanes}), aligned(4)))"
    b.w.need(f"typedef f32 {name} {kind};")
    return name
