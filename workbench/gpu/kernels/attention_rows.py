"""Attention of few queries, as in decoding: the keys are divided among work items, and among blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.kernels.attention_parts import (
    LANES,
    LOWEST,
    Context,
    Operands,
    clamped,
    element,
    grown,
    operands,
    vector,
    vectors,
    within,
)
from workbench.gpu.kernels.attention_pattern import Attention
from workbench.gpu.kernels.kernel import BLOCK, Builder, Launch, Place, blocks_of, work_item

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

MOST_ROWS = 4
"""Most queries for which keys and values are read once for all of them."""
_ENOUGH = 264
"""Number of blocks from which keys are not split."""
_LEAST_KEYS = 256
"""Keys per block if they are split."""
_MOST_SPLITS = 32


@dataclass(frozen=True)
class Sharing:
    """The division of keys among blocks, and within a block among teams of work items."""

    items: int
    """Work items of a block."""
    lanes: int
    """Work items of a team; each handles a part of a key."""
    turns: int
    """Keys that a team handles at a time, so that several loads are in flight."""
    splits: int
    """Blocks that a set of keys is split among."""

    @property
    def teams(self) -> int:
        """Teams of a block."""
        return self.items // self.lanes

    def keys(self, a: Attention) -> int:
        """Keys of a block."""
        return -(-a.keys // self.splits)


def sharing_for(dialect: Dialect, a: Attention) -> Sharing:
    """As many lanes as a key has vectors, and split keys if there are few blocks."""
    splits = min(a.keys // _LEAST_KEYS, -(-_ENOUGH // a.count), _MOST_SPLITS)
    splits = max(splits, 1)
    if not dialect.warp:  # the work items of a team would need shuffles
        return Sharing(16, 1, 1, splits)
    lanes = 1
    while lanes < min(max(vectors(a.depth), vectors(a.width)), 32):
        lanes *= 2
    return Sharing(BLOCK, lanes, 4, splits)


@dataclass(frozen=True)
class _Partial:
    """Scratch memory for split keys: sums of values, maxima and sums of exponentials."""

    sums: Place
    tops: Place
    totals: Place

    @property
    def places(self) -> list[Place]:
        """All three."""
        return [self.sums, self.tops, self.totals]


def by_rows(lowering: Lowering, a: Attention) -> list[Launch]:
    """The kernel that computes attention, and a second one that combines the parts if keys are split."""
    sharing = sharing_for(lowering.dialect, a)
    given = operands(lowering, a)
    if sharing.splits == 1:
        return [_main(lowering, a, sharing, given, None)]
    lens = (a.count, a.rows, sharing.splits)
    shapes = [Shape(DType.FLOAT, s) for s in ((*lens, a.width), lens, lens)]
    made = [lowering.scratch(a.group, number, shape) for number, shape in enumerate(shapes)]
    partial = _Partial(*made)
    return [
        _main(lowering, a, sharing, given, partial),
        _joining(lowering, a, sharing, given, partial),
    ]


def _main(
    lowering: Lowering, a: Attention, sharing: Sharing, given: Operands, partial: _Partial | None
) -> Launch:
    outputs = lowering.outputs(a.group) if partial is None else partial.places
    places = [*(p for _, p in given.places), *outputs]
    b = Builder(lowering.dialect, "attention of rows", places, LANES)
    given.bind(b)
    targets = [b.memory(p, writes=True) for p in outputs]
    blocks = a.count * sharing.splits
    block = Index.of(Variable(b.w.define(b.w.integer_type, "GROUP(0)", "g"), 0, blocks - 1))
    batch, number = block.divmod(sharing.splits, b.w)
    context = Context(b, a, targets, split(batch, a.batch, b.w))
    work = _Rows(context, sharing, number)
    work.write(None if partial is None else block)
    return b.launch(blocks, sharing.items)


class _Rows:
    """Writes the kernel that loops over the keys.

    Args:
        context: The kernel.
        sharing: The division of the keys.
        number: The number of the block's part of the keys.
    """

    def __init__(self, context: Context, sharing: Sharing, number: Index) -> None:
        self.c, self.sharing, self.number = context, sharing, number
        self.a, self.w, self.t = context.a, context.w, context.t
        a, w = self.a, self.w
        self.unroll = not context.b.dialect.machine.is_cpu
        self.kind = vector(w)
        self.local = w.define(w.integer_type, "LOCAL(0)", "t")
        item = Index.of(Variable(self.local, 0, sharing.items - 1))
        self.team, self.lane = item.divmod(sharing.lanes, w)
        self.deep = -(-vectors(a.depth) // sharing.lanes)
        self.wide = -(-vectors(a.width) // sharing.lanes)
        self.stride = self.wide * sharing.lanes

    def write(self, block: Index | None) -> None:
        """The whole kernel.

        Args:
            block: The number of the block, if another kernel combines the parts.
        """
        self._declare()
        w, a, sharing = self.w, self.a, self.sharing
        chunk, teams = sharing.keys(a), sharing.teams
        count = teams * sharing.turns
        with w.loop(-(-chunk // count), prefix="k") as turn:
            own = [turn * count + self.team + teams * u for u in range(sharing.turns)]
            self._keys([(o, self.number * chunk + o) for o in own])
        self._join(block)

    def _declare(self) -> None:
        """Shared memory, and a work item's registers: its part of the queries, maxima, sums, results."""
        w, a, teams = self.w, self.a, self.sharing.teams
        self.all = w.array(self.kind, teams * self.stride, "o", "SHARED")
        self.all_tops = w.array("f32", teams * a.rows, "m", "SHARED")
        self.all_totals = w.array("f32", teams * a.rows, "l", "SHARED")
        self.q = w.array(self.kind, a.rows * self.deep, "q")
        self.o = w.array(self.kind, a.rows * self.wide, "o")
        self.tops = [w.variable("f32", LOWEST, "m") for _ in range(a.rows)]
        self.totals = [w.variable("f32", "0.0f", "l") for _ in range(a.rows)]
        queries = a.first.inputs[0]
        with w.loop(self.deep, unroll=self.unroll) as j:
            for row in range(a.rows):
                for lane in range(LANES):
                    index = (*self.c.first, Index.of(row), self._column(j, lane))
                    text = element(self.t, queries, index, len(index) - 1)
                    w.line(f"{self.q}[{(j + row * self.deep).text()}].v[{lane}] = {text};")
        with w.loop(self.wide, unroll=self.unroll) as j:
            for row in range(a.rows):
                for lane in range(LANES):
                    w.line(f"{self.o}[{(j + row * self.wide).text()}].v[{lane}] = 0.0f;")

    def _column(self, number: Index, lane: int) -> Index:
        return (number * self.sharing.lanes + self.lane) * LANES + lane

    def _keys(self, keys: list[tuple[Index, Index]]) -> None:
        """Process a few keys of a team, each with its number in the block and overall."""
        w, a, c = self.w, self.a, self.c
        places = [clamped(w, key, a.keys) for _, key in keys]
        valid = [self._inside(own, key) for own, key in keys]
        products = self._products(places)
        weights: list[list[str]] = []
        factors: list[str] = []
        for row in range(a.rows):
            made = [c.score(products[u][row], Index.of(row), p) for u, p in enumerate(places)]
            scores = [
                w.define("f32", f"{v} ? {s} : {LOWEST}") if v else s
                for s, v in zip(made, valid, strict=True)
            ]
            factor, base = grown(w, self.tops[row], scores)
            powers = [w.define("f32", f"exp({s} - {base})", "e") for s in scores]
            total = self.totals[row]
            w.line(f"{total} = {total} * {factor} + {' + '.join(powers)};")
            made = [c.weight(p, Index.of(row), at) for p, at in zip(powers, places, strict=True)]
            weights.append([w.let("f32", m) for m in made])
            factors.append(factor)
        self._values(places, valid, weights, factors)

    def _inside(self, own: Index, key: Index) -> str:
        """The condition that a key belongs to the block; empty if it always does."""
        parts = within(own, self.sharing.keys(self.a)), within(key, self.a.keys)
        return " && ".join(p for p in parts if p)

    def _products(self, keys: list[Index]) -> list[list[str]]:
        """The product of each key with each query, known to all lanes of the team."""
        w, a = self.w, self.a
        operand = a.first.inputs[1]
        made = [[w.variable("f32", "0.0f", "s") for _ in range(a.rows)] for _ in keys]
        with w.loop(self.deep, unroll=self.unroll) as j:
            for u, key in enumerate(keys):
                for lane in range(LANES):
                    index = (*self.c.first, self._column(j, lane), key)
                    text = element(self.t, operand, index, len(index) - 2)
                    for row, name in enumerate(made[u]):
                        place = (j + row * self.deep).text()
                        w.line(f"{name} += {self.q}[{place}].v[{lane}] * {text};")
        step = self.sharing.lanes // 2
        while step:
            for name in (n for line in made for n in line):
                w.line(f"{name} += SHUFFLE_XOR({name}, {step});")
            step //= 2
        return made

    def _values(
        self, keys: list[Index], valid: list[str], weights: list[list[str]], factors: list[str]
    ) -> None:
        """Add weighted values to the rescaled sums."""
        w, a = self.w, self.a
        operand = a.second.inputs[1]
        with w.loop(self.wide, unroll=self.unroll) as j:
            for lane in range(LANES):
                indices = [(*self.c.batch, key, self._column(j, lane)) for key in keys]
                last = len(indices[0]) - 1
                texts = [
                    element(self.t, operand, i, last, v)
                    for i, v in zip(indices, valid, strict=True)
                ]
                for row in range(a.rows):
                    name = f"{self.o}[{(j + row * self.wide).text()}].v[{lane}]"
                    terms = [f"{m} * {t}" for m, t in zip(weights[row], texts, strict=True)]
                    w.line(f"{name} = {name} * {factors[row]} + {' + '.join(terms)};")

    # Combining the teams

    def _join(self, block: Index | None) -> None:
        w, a = self.w, self.a
        with w.block(f"if ({self.lane.text()} == 0)"):
            for row in range(a.rows):
                place = f"[{(self.team * a.rows + row).text()}]"
                w.line(f"{self.all_tops}{place} = {self.tops[row]};")
                w.line(f"{self.all_totals}{place} = {self.totals[row]};")
        w.line("BARRIER();")
        for row in range(a.rows):
            with w.fresh():
                self._join_row(row, block)

    def _join_row(self, row: int, block: Index | None) -> None:
        """Combine the teams' sums for one query, and store its results or the block's partial ones."""
        w, a = self.w, self.a
        top, total, base = self._sums(row)
        factor = w.define("f32", f"exp({self.tops[row]} - {base})", "k")
        with w.loop(self.wide, unroll=self.unroll) as j:
            place = (self.team * self.stride + self.lane + j * self.sharing.lanes).text()
            for lane in range(LANES):
                name = f"{self.o}[{(j + row * self.wide).text()}].v[{lane}]"
                w.line(f"{self.all}[{place}].v[{lane}] = {name} * {factor};")
        w.line("BARRIER();")
        done = self.c.finish(top, total)
        with w.loop(a.width, start=self.local, step=str(self.sharing.items)) as column:
            sum = w.variable("f32", "0.0f", "a")
            part, lane = column.divmod(LANES, w)
            with w.loop(self.sharing.teams) as team:
                w.line(
                    f"{sum} += {self.all}[{(team * self.stride + part).text()}].v[{lane.text()}];"
                )
            if block is None:
                self.c.elements(Index.of(row), [column], [sum], done)
            else:
                self._leave(block, row, column, (sum, top, total))
        if block is None and self.c.has_row_results:
            with w.block(f"if ({self.local} == 0)"):
                self.c.rows(Index.of(row), top, done[0])
        if row < a.rows - 1:
            w.line("BARRIER();")

    def _sums(self, row: int) -> tuple[str, str, str]:
        """The maximum over all teams, the sum of exponentials, and the number subtracted from scores."""
        w, a, teams = self.w, self.a, self.sharing.teams
        top, total = w.variable("f32", LOWEST, "m"), w.variable("f32", "0.0f", "l")
        with w.loop(teams) as team:
            w.line(f"{top} = fmax({top}, {self.all_tops}[{(team * a.rows + row).text()}]);")
        base = w.define("f32", f"{top} == {LOWEST} ? 0.0f : {top}", "z")
        with w.loop(teams) as team:
            place = f"[{(team * a.rows + row).text()}]"
            w.line(f"{total} += {self.all_totals}{place} * exp({self.all_tops}{place} - {base});")
        return top, total, base

    def _leave(self, block: Index, row: int, column: Index, found: tuple[str, str, str]) -> None:
        """Store a partial result for the kernel that combines them."""
        w, a, splits = self.w, self.a, self.sharing.splits
        sums, tops, totals = (m.name for m in self.c.targets)
        batch, number = block.divmod(splits, w)
        place = (batch * a.rows + row) * splits + number
        w.line(f"{sums}[{(place * a.width + column).text()}] = {found[0]};")
        with w.block(f"if ({column.text()} == 0)"):
            w.line(f"{tops}[{place.text()}] = {found[1]};")
            w.line(f"{totals}[{place.text()}] = {found[2]};")


def _joining(
    lowering: Lowering, a: Attention, sharing: Sharing, given: Operands, partial: _Partial
) -> Launch:
    """The kernel that combines the parts of split keys, with a work item per element."""
    outputs = lowering.outputs(a.group)
    places = [*(p for _, p in given.places), *outputs, *partial.places]
    b = Builder(lowering.dialect, "attention joined", places, 1)
    given.bind(b)
    sums, tops, totals = (b.memory(p).name for p in partial.places)
    targets = [b.memory(p, writes=True) for p in outputs]
    w, splits = b.w, sharing.splits
    count = a.count * a.rows * a.width
    line, column = work_item(b, count).divmod(a.width, w)
    batch, row = line.divmod(a.rows, w)
    context = Context(b, a, targets, split(batch, a.batch, w))
    top, total = w.variable("f32", LOWEST, "m"), w.variable("f32", "0.0f", "l")
    sum = w.variable("f32", "0.0f", "a")
    with w.loop(splits) as part:
        w.line(f"{top} = fmax({top}, {tops}[{(line * splits + part).text()}]);")
    base = w.define("f32", f"{top} == {LOWEST} ? 0.0f : {top}", "z")
    with w.loop(splits) as part:
        place = line * splits + part
        factor = w.define("f32", f"exp({tops}[{place.text()}] - {base})", "k")
        w.line(f"{total} += {totals}[{place.text()}] * {factor};")
        w.line(f"{sum} += {sums}[{(place * a.width + column).text()}] * {factor};")
    done = context.finish(top, total)
    context.elements(row, [column], [sum], done)
    if context.has_row_results:
        with w.block(f"if ({column.text()} == 0)"):
            context.rows(row, top, done[0])
    return b.launch(blocks_of(count))
