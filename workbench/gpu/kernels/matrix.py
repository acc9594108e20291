"""The kernel of a product on matrix units: tiles in shared memory, a pipeline of loads, sums in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.kernels.kernel import NEXT, Builder
from workbench.gpu.kernels.matrix_tiles import (
    BYTES,
    CHUNK,
    COLUMNS,
    FLOATS,
    LOADS,
    QUAD,
    ROWS,
    TERMS,
    TYPES,
    WARP,
    Loader,
    Tile,
    exchange,
    multiply,
    read,
)
from workbench.gpu.kernels.product import Product, Store, split_over

_SHARED = 48 << 10

UNITS = 132
"""Multiprocessors, of an H100 or H200, as in the other numbers of the estimate."""
_START = 1.0
_LAUNCH = 3.0
"""Microseconds of a second kernel."""
_BYTES = 3e6
"""Bytes per microsecond of memory."""
_MOST_PARTS = 8
_LONG = 4.0
"""Microseconds of a kernel from which on the next one is better off to begin when its sums are there."""
_LEAST_STAGES = 4
"""The least number of stages of a block, where the terms of a sum are split among several."""


@dataclass(frozen=True)
class Blocking:
    """A block's part of a product, and a warp's part of that."""

    rows: int
    columns: int
    depth: int
    """Terms of the sums in one stage of the pipeline."""
    height: int
    """Rows of a warp."""
    width: int
    """Columns of a warp."""
    resident: int
    """Blocks that a multiprocessor runs at once."""
    time: float
    """Microseconds of a stage when every multiprocessor is full, measured on an H200; only ratios matter."""
    stages: int = 0
    """Stages of the pipeline; by default as many as fit into 48 KiB of shared memory, four at most."""
    warps: int = 1
    """Warps that multiply together: four of them issue one instruction for 64 rows."""
    size: int = 2
    """Bytes of an operand's element."""
    start: float = _START
    """Microseconds that a round of blocks takes beside its stages."""
    bulk: bool = False
    """Whether the copy engine loads the tiles."""
    teams: int = 1
    """Parts that a block works on at once, each with warps of its own: one stores as the next multiplies."""

    @property
    def threads(self) -> int:
        """Work items of a block."""
        return (
            self.rows // self.height * (self.columns // self.width) * WARP * self.warps * self.teams
        )

    @property
    def stage(self) -> int:
        """Bytes of a stage."""
        return (self.rows + self.columns) * self.depth * self.size

    @property
    def pipeline(self) -> int:
        """Stages of the pipeline."""
        return self.stages or min(4, _SHARED // self.stage)

    def blocks(self, batch: int, m: int, n: int) -> int:
        """Number of blocks of a product."""
        return batch * -(-m // self.rows) * -(-n // self.columns)


BLOCKINGS = (
    Blocking(128, 128, 32, 64, 32, 1, 0.40), Blocking(128, 64, 32, 64, 32, 2, 0.44),
    Blocking(64, 128, 32, 32, 64, 2, 0.44), Blocking(64, 64, 64, 32, 32, 4, 0.67),
    Blocking(64, 32, 64, 32, 16, 4, 0.46), Blocking(32, 64, 64, 16, 32, 4, 0.46),
    Blocking(32, 32, 64, 16, 16, 4, 0.35), Blocking(16, 64, 64, 16, 16, 4, 0.38),
    Blocking(64, 16, 64, 16, 16, 4, 0.38),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A blocking, and the number of blocks that the terms of each sum are split among."""

    blocking: Blocking
    parts: int

    def __str__(self) -> str:
        """Everything that tells it from others."""
        one = self.blocking
        unit = "warp group" if one.warps > 1 else "warp"
        text = f"{one.rows}x{one.columns}x{one.depth}, {unit} {one.height}x{one.width}, {one.pipeline} stages"
        text += ", bulk copies" if one.bulk else ""
        text += f", {one.teams} teams" if one.teams > 1 else ""
        return text if self.parts == 1 else f"{text}, {self.parts} parts"


def plans_for(product: Product, blockings: Sequence[Blocking]) -> list[Plan]:
    """A plan for each blocking, with the best number of parts; the one of least estimated time first."""

    def microseconds(plan: Plan) -> float:
        return _microseconds(product, plan)

    parts = range(1, _MOST_PARTS + 1)
    best = [min((Plan(b, count) for count in parts), key=microseconds) for b in blockings]
    return sorted(best, key=microseconds)


def _microseconds(product: Product, plan: Plan) -> float:
    """The estimated time of a plan: rounds of blocks, and what adding up partial sums takes."""
    parts, own = plan.parts, _kernel_microseconds(product, plan)
    if parts == 1:
        return own
    if _stages(product, plan) < _LEAST_STAGES:
        return inf
    return own + _LAUNCH + 2 * parts * product.batch * product.m * product.n * 4 / _BYTES


def _kernel_microseconds(product: Product, plan: Plan) -> float:
    """The estimated time of the kernel that multiplies."""
    one = plan.blocking
    blocks = one.blocks(product.batch, product.m, product.n) * plan.parts
    rounds = -(-blocks // (UNITS * one.resident))
    return rounds * (_stages(product, plan) * one.time + one.start)


def _stages(product: Product, plan: Plan) -> int:
    """The stages of a block."""
    return -(-product.k // (plan.blocking.depth * plan.parts))


def suits(product: Product) -> bool:
    """Whether matrix units can multiply the operands: both have one of their types, and no scales."""
    types = {i.shape.type for i in product.heart.inputs[:2]}
    return len(types) == 1 and types <= {*FLOATS, *BYTES} and len(product.heart.inputs) < 4


class Matrix:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        blocking: The parts of blocks and warps.
        parts: Blocks that the terms of each sum are split among.
    """

    idle = 0
    """Work items that do not multiply."""
    apart = ROWS
    """Rows from one instruction of a warp to the next one."""
    terms = TERMS
    """Terms of one instruction."""
    units = "matrix"
    """The units, in tables and plots."""

    def __init__(self, b: Builder, product: Product, blocking: Blocking, parts: int = 1) -> None:
        """Compute the block's and the warp's place, and define the instructions."""
        self.b, self.w = b, b.w
        b.units = self.units
        self.product, self.cut = product, blocking
        self.type = product.heart.inputs[0].shape.type
        self.threads, self.stages = blocking.threads + self.idle, blocking.pipeline
        rows, columns = -(-product.m // blocking.rows), -(-product.n // blocking.columns)
        plan = Plan(blocking, parts)
        self.steps = _stages(product, plan)
        """Steps along k of a block."""
        self.is_long = _kernel_microseconds(product, plan) >= _LONG
        """Whether the next kernel begins when the sums are there, not at once."""
        self.blocks = parts * product.batch * rows * columns
        w = b.w
        # Neighbouring blocks share columns: the weights, which are read by all of them.
        self.lens = (parts, *product.lens, columns, rows)
        self._place_block(w.define(w.integer_type, "GROUP(0)", "g"))
        item = w.define(w.integer_type, "LOCAL(0)", "t")
        self.local = Index.of(Variable(item, 0, self.threads - 1))
        warp, self.lane = self.local.divmod(WARP, w)
        self.high, self.wide = blocking.height // self.apart, blocking.width // COLUMNS
        self._place_warp(warp)
        self.loader = Loader(b, self.threads, self.local)
        first = blocking.rows * blocking.depth * blocking.size
        spans = ((product.a, blocking.rows, 0), (product.b, blocking.columns, first))
        self.tiles = [
            Tile(operand, side, span, blocking.depth, place, blocking.warps > 1, blocking.size)
            for side, (operand, span, place) in enumerate(spans)
        ]
        self._need()

    def _place_block(self, number: str) -> None:
        """Compute the part of the product that a block has."""
        block = Index.of(Variable(number, 0, max(self.blocks - 1, 0)))
        self.part, *batch, column, row = split_over(block, self.lens, self.w)
        self.batch = tuple(batch)
        self.row, self.column = row * self.cut.rows, column * self.cut.columns

    def _place_warp(self, warp: Index) -> None:
        """Compute the first row and column of the warp in the block."""
        cut = self.cut
        down, along = warp.divmod(cut.columns // cut.width, self.w)
        self.down, self.along = down * cut.height, along * cut.width

    def _need(self) -> None:
        """Define the instructions."""
        self.w.need(LOADS)
        self.w.need(multiply(self.type))

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w, count = self.w, self.high * self.wide * 4
        self._allocate()
        w.line(f"{self.product.work} r[{count}];")
        w.line(f"UNROLL for (i32 e = 0; e < {count}; ++e) r[e] = 0;")
        if self.steps:
            self._pipeline()
        if self.is_long:
            w.line(NEXT)
        self._store(store)
        return self.blocks

    def _allocate(self) -> None:
        """Declare the stages in shared memory, ``s``, and their address, ``p``."""
        self.w.line(f"SHARED ALIGN(128) u8 s[{self.stages * self.cut.stage}];")
        self.w.line("const u32 p = shared_place(s);")

    def _pipeline(self) -> None:
        """Load some stages ahead, and multiply one after the other."""
        w, ahead = self.w, self.stages - 1
        self._load_first(ahead)
        with w.loop(self.steps) as step:
            w.line(f"COPIES_WAIT({ahead - 1});")
            w.line("BARRIER();")
            self._load_ahead(step, ahead)
            self._multiply(self._stage(step.text()))

    def _stage(self, step: str) -> str:
        """The place of a step's stage in shared memory, in bytes."""
        return f"{step} % {self.stages} * {self.cut.stage}"

    # Loads

    def _load_first(self, ahead: int) -> None:
        """Begin to load the first stages."""
        w, count = self.w, min(ahead, self.steps)
        with w.loop(count, unroll=True) as step:
            self._fill(step, f"{step.text()} * {self.cut.stage}")
            w.line("COPIES_END();")
        for _ in range(ahead - count):
            w.line("COPIES_END();")

    def _load_ahead(self, step: Index, ahead: int) -> None:
        """Begin to load the stage that is some steps ahead, if there is one."""
        w = self.w
        if self.steps > ahead:
            later = w.define(w.integer_type, (step + ahead).text(), "n")
            with w.block(f"if ({later} < {self.steps})"):
                following = Index.of(Variable(later, ahead, self.steps - 1))
                self._fill(following, self._stage(later))
        w.line("COPIES_END();")

    def _fill(self, step: Index, place: str) -> None:
        """Load one stage.

        Args:
            step: The step along k, of this block.
            place: Its place in shared memory, in bytes.
        """
        product = self.product
        k = (self.part * self.steps + step) * self.cut.depth
        with self.w.block(""):
            self.w.line(f"const u32 q = {place};")
            self.loader.fill(self.tiles[0], self.batch, self.row, product.m, k, product.k)
            self.loader.fill(self.tiles[1], self.batch, self.column, product.n, k, product.k)

    # Products

    def _multiply(self, place: str) -> None:
        """Multiply the tiles of one stage."""
        w, high, wide = self.w, self.high, self.wide
        first = self._fragment(self.tiles[0], self.down, "a")
        second = self._fragment(self.tiles[1], self.along, "b")
        with w.block(""):
            w.line(f"const u32 q = p + {place};")
            w.line("UNROLL")
            with w.block(f"for (i32 k = 0; k < {self.cut.depth // self.terms}; ++k)"):
                w.line(f"u32 a[{high * 4}], b[{wide * 2}];")
                w.line(f"UNROLL for (i32 i = 0; i < {high}; ++i) {first};")
                w.line(f"UNROLL for (i32 i = 0; i < {wide // 2}; ++i) {second};")
                called = self._call()
                w.line(f"UNROLL for (i32 i = 0; i < {high}; ++i)")
                w.line(f"  UNROLL for (i32 j = 0; j < {wide}; ++j)")
                w.line(f"    {called.format(sums=f'r + (i * {wide} + j) * 4')};")

    def _fragment(self, tile: Tile, start: Index, registers: str) -> str:
        """The statement that reads 16 rows or columns of one instruction's terms."""
        return read(tile, start, self.lane, registers, self.w)

    def _call(self) -> str:
        """The call for one instruction's sums."""
        return f"multiply_{TYPES[self.type]}({{sums}}, a + i * 4, b + j * 2)"

    # Results

    def _store(self, store: Store) -> None:
        """Store the sums: eight adjacent columns of a work item at once, or two, or a warp's rows."""
        n = self.product.n
        if n % 2:
            self._store_rows(store)
        elif n % CHUNK == 0 and self.wide % QUAD == 0:
            exchange(self.w, "r", self.high * self.wide, self.lane, self.product.work)
            self._store_columns(store, QUAD)
        else:
            self._store_columns(store, 1)

    def _store_columns(self, store: Store, tiles: int) -> None:
        """Store the columns that a work item has of ``tiles`` instructions at once."""
        w, t, size = self.w, self.b.tensors, tiles * 2
        quad, pair = self.lane.divmod(QUAD, w)
        t.lanes = size
        with w.loop(self.high, unroll=True) as i, w.loop(2, unroll=True) as half:
            row = self.row + self.down + i * self.apart + self._line(quad, half)
            inside = t.inside([row], [self.product.m])
            with w.block(f"if ({inside})"), w.loop(self.wide // tiles, unroll=True) as j:
                column = self.column + self.along + (j * COLUMNS + pair * 2) * tiles
                first = (i * self.wide + j * tiles) * 4 + half * 2
                places = [first + self._sum_of(e) for e in range(size)]
                with w.block(f"if ({t.inside([column], [self.product.n])})"):
                    cells = [(self.batch, row, column + e) for e in range(size)]
                    store(cells, [f"r[{place.text()}]" for place in places])
        t.lanes = 1

    def _line(self, quad: Index, half: Index) -> Index:
        """The row among an instruction's 16 of the first or the second half of a work item's sums."""
        return half * 8 + quad

    def _sum_of(self, column: int) -> int:
        """The place among a work item's sums of one of its adjacent columns."""
        return column // 2 * 4 + column % 2

    def _spot(self, quad: str, pair: str) -> tuple[str, str]:
        """The row and the column, among those of four instructions, of a work item's sum ``e``."""
        return f"{quad} + e / 2 % 2 * 8", f"e / 4 * 8 + {pair} * 2 + e % 2"

    def _room(self, floats: int) -> str:
        """Shared memory of some sums for each warp: that of the stages, which nothing reads any more."""
        self.w.line("BARRIER();")
        return f"({self.product.work} *)s"

    def _store_rows(self, store: Store) -> None:
        """Store rows whose length is odd: through shared memory, so that a warp's columns are adjacent."""
        w, t = self.w, self.b.tensors
        tiles = min(QUAD, self.wide)
        wide = tiles * COLUMNS
        quad, pair = self.lane.divmod(QUAD, w)
        turn, own = self.lane.divmod(wide, w)
        warp = self.local.divmod(WARP, w)[0]
        size = ROWS * (wide + 1)
        work = self.product.work
        w.line(f"{work} *const t = {self._room(size)} + ({warp.text()}) * {size};")
        with w.loop(self.high, unroll=True) as i, w.loop(self.wide // tiles, unroll=True) as j:
            w.line(f"UNROLL for (i32 e = 0; e < {tiles * 4}; ++e)")
            at, over = self._spot(quad.text(), pair.text())
            place = f"({at}) * {wide + 1} + {over}"
            first = ((i * self.wide + j * tiles) * 4).text()
            w.line(f"  t[{place}] = r[{first} + e];")
            w.line("__syncwarp();")
            count = ROWS * wide // WARP
            with w.loop(count // QUAD) as four, w.loop(QUAD, unroll=True) as step:
                line = (four * QUAD + step) * (WARP // wide) + turn
                row = self.row + self.down + i * self.apart + line
                column = self.column + self.along + j * wide + own
                inside = t.inside([row, column], [self.product.m, self.product.n])
                with w.block(f"if ({inside})"):
                    value = f"t[{(line * (wide + 1) + own).text()}]"
                    store([(self.batch, row, column)], [w.define(work, value, "v")])
            w.line("__syncwarp();")
