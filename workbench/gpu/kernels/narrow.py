"""The kernel of a product with few rows: the large operand is read once, with coalesced loads."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.kernels.kernel import BLOCK, Builder
from workbench.gpu.kernels.product import Product, Store, as_work, split_over

MOST_ROWS = 8
"""Most rows for which the time goes into reading the large operand."""

_ACCESS = 16
_LANES = 4
_UNROLLED = 4
_PLENTY = 256
"""Number of blocks that saturate a device's memory bandwidth."""


@dataclass(frozen=True)
class Cut:
    """The division of columns and terms among a block's work items."""

    columns: int
    """Work items along the columns."""
    wide: int
    """Columns of one work item."""
    slices: int
    """Work items that a sum's terms are divided among."""
    deep: int
    """Adjacent terms that a work item reads at once."""

    @property
    def span(self) -> int:
        """Columns of a block."""
        return self.columns * self.wide

    @property
    def stride(self) -> int:
        """Terms that a block handles at a time."""
        return self.slices * self.deep


def cut_for(product: Product) -> Cut:
    """The division: adjacent work items read adjacent elements, and each as many as one access loads."""
    operand = product.b
    lanes = min(_LANES, _ACCESS // max(operand.size, product.bytes))
    while operand.unit % lanes:
        lanes //= 2
    return Cut(8, 1, 32, lanes) if operand.along_k else Cut(32, lanes, 8, 1)


def parts_for(product: Product, cut: Cut) -> int:
    """The number of blocks that the terms of each sum are split among."""
    blocks = product.batch * -(-product.n // cut.span)
    most = product.k // (cut.stride * 2 * _UNROLLED)
    return max(1, min(-(-_PLENTY // blocks), most))


class Narrow:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        cut: The division among a block's work items.
        parts: Blocks that the terms of each sum are split among.
    """

    threads = BLOCK

    def __init__(self, b: Builder, product: Product, cut: Cut, parts: int) -> None:
        """Compute this block's columns and this work item's position among them."""
        self.b, self.w, self.product, self.cut = b, b.w, product, cut
        w = b.w
        tiles = -(-product.n // cut.span)
        self.blocks = parts * product.batch * tiles
        block = Variable(w.define(w.integer_type, "GROUP(0)", "g"), 0, self.blocks - 1)
        lens = (parts, *product.lens, tiles)
        self.part, *batch, tile = split_over(Index.of(block), lens, w)
        self.batch, self.first = tuple(batch), tile * cut.span
        item = Variable(w.define(w.integer_type, "LOCAL(0)", "t"), 0, BLOCK - 1)
        self.item = Index.of(item)
        if product.b.along_k:
            self.place, self.slice = self.item.divmod(cut.slices, w)
        else:
            self.slice, self.place = self.item.divmod(cut.columns, w)
        turns = -(-product.k // (cut.stride * parts))
        self.unrolled = min(_UNROLLED, max(turns, 1))
        self.turns = -(-turns // self.unrolled)

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w, p, cut = self.w, self.product, self.cut
        cells = p.m * cut.span
        w.line(f"SHARED ALIGN({_ACCESS}) {p.work} s[{cells * cut.slices}];")
        w.line(f"{p.work} r[{p.m * cut.wide}];")
        w.line(f"UNROLL for (i32 e = 0; e < {p.m * cut.wide}; ++e) r[e] = 0;")
        with w.loop(self.turns) as turn:
            for u in range(self.unrolled):
                step = (self.part * self.turns + turn) * self.unrolled + u
                self._terms((step * cut.slices + self.slice) * cut.deep)
        for row in range(p.m):
            for lane in range(cut.wide):
                place = (self.slice * p.m + row) * cut.span + self.place * cut.wide + lane
                w.line(f"s[{place.text()}] = r[{row * cut.wide + lane}];")
        w.line("BARRIER();")
        for start in range(0, cells, BLOCK):
            self._finish(store, self.item + start, cells)
        return self.blocks

    def _terms(self, k: Index) -> None:
        """Add the products of a few adjacent terms."""
        w, t, p, cut = self.w, self.b.tensors, self.product, self.cut
        column = self.first + self.place * cut.wide
        with w.block(f"if ({t.inside((column, k), (p.n, p.k))})"):
            for j in range(cut.deep):
                t.lanes = cut.wide * cut.deep
                found = [p.b.value(t, self.batch, column + e, k + j) for e in range(cut.wide)]
                right = [as_work(w, value, p.work) for value in found]
                t.lanes = cut.deep
                for row in range(p.m):
                    value = p.a.value(t, self.batch, Index((), row), k + j)
                    left = as_work(w, value, p.work)
                    for e, text in enumerate(right):
                        w.line(f"r[{row * cut.wide + e}] += {left} * {text};")

    def _finish(self, store: Store, cell: Index, cells: int) -> None:
        """Add up the slices' partial sums for one cell, and store the total."""
        w, t, p, cut = self.w, self.b.tensors, self.product, self.cut
        t.lanes = 1
        row, column = cell.divmod(cut.span, w)
        column = self.first + column
        with w.block(f"if ({t.inside((cell, column), (cells, p.n))})"):
            total = w.variable(p.work, "0")
            with w.loop(cut.slices) as part:
                w.line(f"{total} += s[{(part * cells + cell).text()}];")
            store([(self.batch, row, column)], [total])
