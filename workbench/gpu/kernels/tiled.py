"""The tiled kernel of a product: tiles of both operands in shared memory, sums in registers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.product import Operand, Product, Store, as_work, split_over
from workbench.gpu.kernels.tiles import Tile

_GAP = 4
"""Padding between rows of a tile in shared memory, in elements, against bank conflicts."""
_ACCESS = 16
_ZERO = Index()


class Tiled:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        tile: The tile of a block.
        parts: Blocks that the terms of each sum are split among.
        lanes: Adjacent columns that are stored at once.
    """

    def __init__(
        self, b: Builder, product: Product, tile: Tile, parts: int = 1, lanes: int = 1
    ) -> None:
        """Compute the block's tile, and allocate shared memory."""
        self.b, self.w = b, b.w
        self.product, self.tile, self.lanes = product, tile, lanes
        self.threads = tile.threads
        self.rows, self.columns = -(-product.m // tile.rows), -(-product.n // tile.columns)
        depths = -(-product.k // tile.depth)
        self.depths = -(-depths // parts)
        """Tiles along k per block."""
        self.blocks = parts * product.batch * self.rows * self.columns
        w = b.w
        block = w.define(w.integer_type, "GROUP(0)", "g")
        item = Variable(block, 0, self.blocks - 1)
        lens = (parts, *product.lens, self.rows, self.columns)
        self.part, *batch, row, column = split_over(Index.of(item), lens, w)
        self.batch = tuple(batch)
        self.row, self.column = row * tile.rows, column * tile.columns
        self.local = _ZERO
        if not tile.alone:
            name = w.define(w.integer_type, "LOCAL(0)", "t")
            self.local = Index.of(Variable(name, 0, tile.threads - 1))
        gap = 0 if tile.alone else _GAP
        self.pitch = (tile.rows + gap, tile.columns + gap)
        self.shared = tuple(self._shared(tile.depth * p) for p in self.pitch)
        self.sums = "r"

    def _shared(self, count: int) -> str:
        name = self.w.name("s")
        self.w.line(f"SHARED ALIGN({_ACCESS}) {self.product.work} {name}[{count}];")
        return name

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w, tile = self.w, self.tile
        count = tile.rows * tile.columns if tile.alone else tile.height * tile.width
        w.line(f"{self.product.work} {self.sums}[{count}];")
        w.line(
            f"{'' if tile.alone else 'UNROLL '}for (i32 e = 0; e < {count}; ++e) {self.sums}[e] = 0;"
        )
        if self.depths:
            self._prime()
            with w.loop(self.depths) as step:
                self._step((self.part * self.depths + step) * tile.depth)
        if tile.alone:
            self._store_all(store)
        else:
            self._store_own(store)
        return self.blocks

    def _step(self, k: Index) -> None:
        """Load one tile along k into shared memory, and add its products to the sums."""
        sides = (
            (self.product.a, self.row, self.product.m),
            (self.product.b, self.column, self.product.n),
        )
        for side, (operand, start, count) in enumerate(sides):
            if self.tile.alone:
                _Alone(self, side, operand, start, count).fill(k)
            else:
                self._fill(side, operand, start, count, k)
        if self.tile.alone:
            self._multiply_all(k)
        else:
            self.w.line("BARRIER();")
            self._multiply()
            self.w.line("BARRIER();")

    # Many work items: each loads a part of a tile

    def _cut(self, side: int, operand: Operand) -> tuple[int, int]:
        """Adjacent elements per access, and the tile's length along the contiguous axis."""
        near = self.tile.depth if operand.along_k else (self.tile.rows, self.tile.columns)[side]
        lanes = _ACCESS // operand.size if self.b.dialect.machine.access else 1
        whole = self.span_of(side) * self.tile.depth
        while lanes > 1 and (operand.unit % lanes or whole // lanes % self.tile.threads):
            lanes //= 2
        return max(lanes, 1), near

    def span_of(self, side: int) -> int:
        """The number of rows of the tile, or of columns."""
        return self.tile.columns if side else self.tile.rows

    def _prime(self) -> None:
        """Hoist the divisions of indices that the loop does not change."""
        if self.tile.alone:
            return
        sides = ((self.product.a, self.row), (self.product.b, self.column))
        for side, (operand, start) in enumerate(sides):
            for across, _ in self._own(side, operand):
                split_over(start + across, operand.own, self.w)

    def _own(self, side: int, operand: Operand) -> list[tuple[Index, Index]]:
        """The first element of each access of this work item: positions along the own axis and along k."""
        lanes, near = self._cut(side, operand)
        count = -(-self.span_of(side) * self.tile.depth // lanes // self.tile.threads)
        found: list[tuple[Index, Index]] = []
        for turn in range(count):
            flat = self.local + turn * self.tile.threads
            far, close = flat.divmod(near // lanes, self.w)
            pair = (far, close * lanes) if operand.along_k else (close * lanes, far)
            found.append(pair)
        return found

    def _fill(self, side: int, operand: Operand, start: Index, count: int, k: Index) -> None:
        """Load a tile of an operand; elements out of bounds are 0."""
        lanes, _ = self._cut(side, operand)
        self.b.tensors.lanes = lanes
        for across, inner in self._own(side, operand):
            spare = self.tile.threads > self.span_of(side) * self.tile.depth // lanes
            with self._inside_tile(spare, side, across, inner):
                self._load(side, operand, (start + across, across), (k + inner, inner), count)

    @contextmanager
    def _inside_tile(self, spare: bool, side: int, across: Index, inner: Index) -> Generator[None]:
        if not spare:
            yield
            return
        with self.w.block(
            f"if ({across.text()} < {self.span_of(side)} && {inner.text()} < {self.tile.depth})"
        ):
            yield

    def _load(
        self,
        side: int,
        operand: Operand,
        own: tuple[Index, Index],
        inner: tuple[Index, Index],
        count: int,
    ) -> None:
        """One access: adjacent elements from memory into shared memory."""
        w, t, work = self.w, self.b.tensors, self.product.work
        condition = t.inside((own[0], inner[0]), (count, self.product.k))
        names = [w.name("q") for _ in range(t.lanes)]
        steps = [(0, j) if operand.along_k else (j, 0) for j in range(t.lanes)]
        w.line(f"{work} {', '.join(names)};")
        with w.block(f"if ({condition})" if condition != "1" else ""):
            for name, (i, j) in zip(names, steps, strict=True):
                value = operand.value(t, self.batch, own[0] + i, inner[0] + j)
                w.line(f"{name} = {as_work(w, value, work)};")
        if condition != "1":
            w.line(f"else {{ {' '.join(f'{name} = 0;' for name in names)} }}")
        for name, (i, j) in zip(names, steps, strict=True):
            place = (inner[1] + j) * self.pitch[side] + (own[1] + i)
            w.line(f"{self.shared[side]}[{place.text()}] = {name};")

    def _multiply(self) -> None:
        """Add the product of each row and column of this work item, for each k of the tile."""
        w, tile, work = self.w, self.tile, self.product.work
        down, along = self.local.divmod(tile.columns // tile.width, w)
        w.line("UNROLL")
        with w.block(f"for (i32 k = 0; k < {tile.depth}; ++k)"):
            for name, side, mine, at in (("u", 0, tile.height, down), ("v", 1, tile.width, along)):
                w.line(f"{work} {name}[{mine}];")
                for e in range(mine):
                    place = self._at(side, at, e).text()
                    w.line(f"{name}[{e}] = {self.shared[side]}[k * {self.pitch[side]} + {place}];")
            w.line("UNROLL")
            with w.block(f"for (i32 i = 0; i < {tile.height}; ++i)"):
                w.line("UNROLL")
                w.line(f"for (i32 j = 0; j < {tile.width}; ++j)")
                w.line(f"  {self.sums}[i * {tile.width} + j] += u[i] * v[j];")

    def _at(self, side: int, item: Index, element: int) -> Index:
        """The position in the tile of a work item's element: interleaved, against bank conflicts."""
        mine = self.tile.width if side else self.tile.height
        group = min(mine, _GAP)
        return (
            item * group
            + element // group * (self.span_of(side) // (mine // group))
            + element % group
        )

    def _store_own(self, store: Store) -> None:
        """Store the work item's sums, those of adjacent columns at once."""
        w, tile, t = self.w, self.tile, self.b.tensors
        t.lanes = self.lanes
        down, along = self.local.divmod(tile.columns // tile.width, w)
        group = min(tile.height, _GAP)
        with w.loop(tile.height // group, unroll=True) as h, w.loop(group, unroll=True) as i:
            row = self.row + down * group + h * (tile.rows // (tile.height // group)) + i
            with w.block(f"if ({t.inside([row], [self.product.m])})"):
                self._store_row(store, row, (h * group + i) * tile.width, along)

    def _store_row(self, store: Store, row: Index, first: Index, along: Index) -> None:
        w, tile, n = self.w, self.tile, self.product.n
        group = min(tile.width, _GAP)
        lanes = min(self.lanes, group)
        with w.loop(tile.width // group, unroll=True) as h:
            start = self.column + along * group + h * (tile.columns // (tile.width // group))
            for j in range(0, group, lanes):
                with w.block(f"if ({self.b.tensors.inside([start + j], [n])})"):
                    cells = [(self.batch, row, start + (j + e)) for e in range(lanes)]
                    sums = [first + h * group + (j + e) for e in range(lanes)]
                    store(cells, [f"{self.sums}[{s.text()}]" for s in sums])

    # A single work item: one core of a CPU

    def _multiply_all(self, k: Index) -> None:
        """Multiply the tile part by part, with the part's sums in registers."""
        w, tile, work = self.w, self.tile, self.product.work
        height, width, columns = tile.height, tile.width, tile.columns
        depth = _least(tile.depth, self.product.k, k)
        a, b = self.shared
        w.line(f"for (i32 i0 = 0; i0 < {tile.rows}; i0 += {height})")
        with w.block(f"for (i32 j0 = 0; j0 < {columns}; j0 += {width})"):
            w.line(f"{work} p[{height * width}];")
            each = f"UNROLL for (i32 i = 0; i < {height}; ++i) UNROLL for (i32 j = 0; j < {width}; ++j)"
            whole = f"{self.sums}[(i0 + i) * {columns} + j0 + j]"
            w.line(f"{each} p[i * {width} + j] = {whole};")
            with w.block(f"for (i32 k = 0; k < {depth}; ++k)"):
                w.line(
                    f"{each} p[i * {width} + j] += {a}[k * {tile.rows} + i0 + i]"
                    f" * {b}[j0 * {tile.depth} + k * {width} + j];"
                )
            w.line(f"{each} {whole} = p[i * {width} + j];")

    def _store_all(self, store: Store) -> None:
        w, tile, p = self.w, self.tile, self.product
        with (
            _counted(w, tile.rows, p.m, self.row) as i,
            _counted(w, tile.columns, p.n, self.column) as j,
        ):
            cell = (self.batch, self.row + i, self.column + j)
            store([cell], [f"{self.sums}[{(i * tile.columns + j).text()}]"])


class _Alone:
    """Loads one operand's tile with a single work item."""

    def __init__(
        self, kernel: Tiled, side: int, operand: Operand, start: Index, count: int
    ) -> None:
        self.kernel, self.side, self.operand = kernel, side, operand
        self.start, self.count = start, count

    def fill(self, k: Index) -> None:
        """Load the elements in bounds; the others are not used."""
        tile, w = self.kernel.tile, self.kernel.w
        span = self.kernel.span_of(self.side)
        own = (span, self.count, self.start, self.operand.own)
        inner = (tile.depth, self.kernel.product.k, k, self.operand.inner)
        far, near = (own, inner) if self.operand.along_k else (inner, own)
        with _counted(w, *far[:3]) as i:
            split_over(far[2] + i, far[3], w)
            with _counted(w, *near[:3]) as j:
                across, depth = (i, j) if self.operand.along_k else (j, i)
                self._move(across, depth, k)

    def _move(self, across: Index, depth: Index, k: Index) -> None:
        kernel, w = self.kernel, self.kernel.w
        value = self.operand.value(kernel.b.tensors, kernel.batch, self.start + across, k + depth)
        text = as_work(w, value, kernel.product.work)
        w.line(f"{kernel.shared[self.side]}[{self._place(across, depth)}] = {text};")

    def _place(self, across: Index, depth: Index) -> str:
        tile = self.kernel.tile
        if not self.side:
            return (depth * tile.rows + across).text()
        panel, column = across.divmod(tile.width, self.kernel.w)
        return (panel * (tile.depth * tile.width) + depth * tile.width + column).text()


@contextmanager
def _counted(w: Writer, most: int, whole: int, start: Index) -> Generator[Index]:
    """A loop over the part of a tile's axis that is in bounds."""
    name = w.name("l")
    with w.block(f"for (i32 {name} = 0; {name} < {_least(most, whole, start)}; ++{name})"):
        yield Index.of(Variable(name, 0, most - 1))


def _least(most: int, whole: int, start: Index) -> str:
    """The lesser of a tile's length and the rest of the whole."""
    if start.range[1] + most <= whole:
        return str(most)
    left = (Index((), whole) - start).text()
    return f"({left} < {most} ? {left} : {most})"
