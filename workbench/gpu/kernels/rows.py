"""The kernel of a product with few rows on a CPU: the large operand is read once, where it lies."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.product import Product, Store, as_work, split_over

MOST_ROWS = 4
"""Most rows for which it does not pay to copy the large operand's tiles."""

_LANES = 16
"""Sums that are computed side by side, as vectors."""
_WORK = 1 << 15
"""Multiplications of a block at least, if there are as many."""
_WIDEST = 512
"""Most columns whose sums are computed side by side."""


def suits(product: Product) -> bool:
    """Whether there are few rows, and enough adjacent elements of the large operand for vectors."""
    is_window = product.a.inner or product.b.inner
    if product.m > MOST_ROWS or is_window:
        return False
    return product.k >= _LANES if product.b.along_k else _divisor(product.n) >= _LANES


def _divisor(n: int) -> int:
    """The columns of a block: as many as possible, so that no block has fewer."""
    return max(c for c in range(1, min(n, _WIDEST) + 1) if n % c == 0)


def _columns(product: Product) -> int:
    if not product.b.along_k:
        return _divisor(product.n)
    most = min(-(-_WORK // (product.m * product.k)), _WIDEST)
    blocks = -(-product.n // most)
    return -(-product.n // blocks)


class Rows:
    """Writes the kernel: a block is one work item with some columns.

    Args:
        b: The builder, with the operands bound.
        product: The product.
    """

    threads = 1

    def __init__(self, b: Builder, product: Product) -> None:
        """Compute this block's matrix and columns."""
        self.b, self.w, self.product = b, b.w, product
        self.columns = _columns(product)
        self.part = Index()
        tiles = -(-product.n // self.columns)
        self.blocks = product.batch * tiles
        number = self.w.define(self.w.integer_type, "GROUP(0)", "g")
        block = Variable(number, 0, self.blocks - 1)
        *batch, tile = split_over(Index.of(block), (*product.lens, tiles), self.w)
        self.batch, self.first = tuple(batch), tile * self.columns

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        if self.product.b.along_k:
            self._by_column(store)
        else:
            self._by_term(store)
        return self.blocks

    def _by_column(self, store: Store) -> None:
        """One column after the other: its terms are adjacent, and added up in several sums."""
        w, p = self.w, self.product
        whole = p.k // _LANES
        w.line(f"{p.work} r[{p.m * self.columns}];")
        with self._each() as column:
            at = self.first + column
            w.line(f"{p.work} p[{p.m * _LANES}];")
            w.line(f"for (i32 e = 0; e < {p.m * _LANES}; ++e) p[e] = 0;")
            with w.loop(whole, prefix="k") as turn, w.loop(_LANES, unroll=True) as lane:
                self._terms(at, turn * _LANES + lane, "p", _LANES, lane)
            if rest := p.k - whole * _LANES:
                with w.loop(rest) as lane:
                    self._terms(at, lane + whole * _LANES, "p", _LANES, lane)
            for row in range(p.m):
                self._add_up(row * _LANES)
                w.line(f"r[{(column + row * self.columns).text()}] = p[{row * _LANES}];")
        self._store(store)

    def _add_up(self, first: int) -> None:
        """Add up the sums of all lanes in the first one's, by halves: few additions wait for others."""
        half = _LANES // 2
        while half:
            with self.w.loop(half, unroll=True) as lane:
                self.w.line(f"p[{(lane + first).text()}] += p[{(lane + (first + half)).text()}];")
            half //= 2

    def _by_term(self, store: Store) -> None:
        """One term after the other, for all columns: their elements are adjacent."""
        w, p = self.w, self.product
        w.line(f"{p.work} r[{p.m * self.columns}];")
        w.line(f"for (i32 e = 0; e < {p.m * self.columns}; ++e) r[e] = 0;")
        with w.loop(p.k, prefix="k") as k, w.loop(self.columns) as column:
            self._terms(self.first + column, k, "r", self.columns, column)
        self._store(store)

    def _store(self, store: Store) -> None:
        """Store all sums, in a loop of its own that compilers make vectors of."""
        with self._each() as column:
            for row in range(self.product.m):
                total = f"r[{(column + row * self.columns).text()}]"
                store([(self.batch, Index((), row), self.first + column)], [total])

    @contextmanager
    def _each(self) -> Generator[Index]:
        """A loop over the block's columns, of which the last block may have fewer."""
        w, n = self.w, self.product.n
        with w.loop(self.columns) as column:
            if n % self.columns:
                w.line(f"if ({(self.first + column).text()} >= {n}) break;")
            yield column

    def _terms(self, column: Index, k: Index, sums: str, stride: int, lane: Index) -> None:
        """Add the product of one term in each row to its sum."""
        w, t, p = self.w, self.b.tensors, self.product
        right = as_work(w, p.b.value(t, self.batch, column, k), p.work)
        for row in range(p.m):
            left = as_work(w, p.a.value(t, self.batch, Index((), row), k), p.work)
            w.line(f"{sums}[{(lane + row * stride).text()}] += {left} * {right};")
