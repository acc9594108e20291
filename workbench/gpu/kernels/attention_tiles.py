"""Attention of many queries: a block keeps a tile of queries and loops over tiles of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.kernels.attention_parts import (
    LANES,
    LOWEST,
    Context,
    clamped,
    element,
    grown,
    operands,
    vector,
    vectors,
    within,
)
from workbench.gpu.kernels.attention_pattern import Attention, lies_along
from workbench.gpu.kernels.kernel import Builder, Launch

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_ENOUGH, _ENOUGH_FOR_CPUS = 96, 8
"""Number of blocks from which smaller tiles do not pay, as each block loads all keys."""


@dataclass(frozen=True)
class Tile:
    """The work of a block of ``down`` times ``across`` work items."""

    across: int
    down: int
    rows: int
    """Queries of a work item."""
    columns: int
    """Keys of a work item."""

    def __str__(self) -> str:
        return f"{self.across}x{self.down} work items, {self.queries} queries by {self.keys} keys"

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return self.rows * self.down

    @property
    def keys(self) -> int:
        """Keys that a block handles at a time."""
        return self.columns * self.across

    @property
    def items(self) -> int:
        """Work items of a block."""
        return self.across * self.down

    def bytes(self, a: Attention, apart: bool) -> int:
        """Bytes of shared memory, with keys and values in separate arrays or in the same one."""
        deep, wide = stride(a.depth), stride(a.width)
        held = deep + wide if apart else max(deep, wide)
        count = self.queries * (deep + stride(self.keys)) + self.keys * held
        return count * LANES * 4 + self.items * 4


def stride(length: int) -> int:
    """The stride of rows in shared memory, in vectors: odd, to avoid bank conflicts."""
    return vectors(length) | 1


def tiles_for(dialect: Dialect, a: Attention) -> list[Tile]:
    """The tiles that fit: first the largest that gives enough blocks, or else the smallest."""
    machine = dialect.machine
    enough = _ENOUGH_FOR_CPUS if machine.is_cpu else _ENOUGH
    if not machine.is_cpu:
        across = 8 if max(a.depth, a.width) <= 8 * LANES else 16
        shapes = [(256, 4), (128, 4), (128, 2), (128, 1)]
    else:
        across, shapes = 4, [(16, 4), (16, 2), (16, 1)]
    tiles = [
        Tile(across, n // across, r, c) for n, r in shapes for c in (32 // across, 16 // across)
    ]
    fitting = [t for t in tiles if t.bytes(a, apart=False) <= machine.shared] or tiles[-1:]
    large = [t for t in fitting if a.count * -(-a.rows // t.queries) >= enough]
    first = large[0] if large else min(fitting, key=lambda t: (t.queries, -t.keys))
    return sorted(fitting, key=lambda t: t != first)


def tiled(lowering: Lowering, a: Attention, tile: Tile) -> Launch:
    """The kernel that computes attention with tiles of this size."""
    given, outputs = operands(lowering, a), lowering.outputs(a.group)
    places = [*(p for _, p in given.places), *outputs]
    b = Builder(lowering.dialect, "attention", places, LANES)
    given.bind(b)
    targets = [b.memory(p, writes=True) for p in outputs]
    blocks = a.count * -(-a.rows // tile.queries)
    block = Index.of(Variable(b.w.define(b.w.integer_type, "GROUP(0)", "g"), 0, blocks - 1))
    batch, number = block.divmod(-(-a.rows // tile.queries), b.w)
    context = Context(b, a, targets, split(batch, a.batch, b.w))
    _Tiled(context, tile, number * tile.queries).write()
    return b.launch(blocks, tile.items)


class _Tiled:
    """Writes the kernel.

    Args:
        context: The kernel.
        tile: The division of a block's work.
        start: The first query of the block.
    """

    def __init__(self, context: Context, tile: Tile, start: Index) -> None:
        self.c, self.tile, self.a = context, tile, context.a
        self.w, self.t = context.w, context.t
        a, w = self.a, self.w
        self.deep, self.wide = vectors(a.depth), vectors(a.width)
        self.weights = stride(tile.keys)
        self.apart = tile.bytes(a, apart=True) <= context.b.dialect.machine.shared
        self.local = w.define(w.integer_type, "LOCAL(0)", "t")
        item = Index.of(Variable(self.local, 0, tile.items - 1))
        self.down, self.across = item.divmod(tile.across, w)
        self.start = start
        self.rows = [self.down + tile.down * i for i in range(tile.rows)]
        self.places = [clamped(w, start + r, a.rows) for r in self.rows]
        parts = range(-(-self.wide // tile.across))
        self.parts = [self.across + tile.across * j for j in parts]
        self.kind = vector(w)

    def write(self) -> None:
        """The whole kernel."""
        self._declare()
        a, w, tile, c = self.a, self.w, self.tile, self.c
        queries, (keys, values) = a.first.inputs[0], (a.first.inputs[1], a.second.inputs[1])
        self._load(self.q, queries, c.first, tile.queries, self.start, self.deep, turned=False)
        with w.loop(-(-a.keys // tile.keys), prefix="k") as turn:
            key = turn * tile.keys
            columns = [key + self.across + tile.across * j for j in range(tile.columns)]
            w.line("BARRIER();")
            self._load(self.k, keys, c.first, tile.keys, key, self.deep, turned=True)
            if self.apart:
                self._load_values(values, key)
            w.line("BARRIER();")
            factors = self._softmax(self._products(), columns)
            if not self.apart:
                w.line("BARRIER();")
                self._load_values(values, key)
            w.line("BARRIER();")
            self._accumulate(factors)
        self._store()

    def _declare(self) -> None:
        """Shared memory, and a work item's registers: maxima, sums and results."""
        w, tile, kind, a = self.w, self.tile, self.kind, self.a
        deep, wide = stride(a.depth), stride(a.width)
        size = tile.keys * (deep if self.apart else max(deep, wide))
        self.q = w.array(kind, tile.queries * deep, "q", "SHARED")
        self.k = w.array(kind, size, "s", "SHARED")
        self.v = w.array(kind, tile.keys * wide, "s", "SHARED") if self.apart else self.k
        self.p = w.array(kind, tile.queries * self.weights, "p", "SHARED")
        self.shared = "" if self._shuffles else w.array("f32", tile.items, "b", "SHARED")
        self.tops = [w.variable("f32", LOWEST, "m") for _ in self.rows]
        self.totals = [w.variable("f32", "0.0f", "l") for _ in self.rows]
        self.sums = {
            (i, j, lane): w.variable("f32", "0.0f", "o")
            for i in range(len(self.rows))
            for j in range(len(self.parts))
            for lane in range(LANES)
        }

    @property
    def _shuffles(self) -> bool:
        return self.tile.across <= self.c.b.dialect.warp

    # Loads

    def _load_values(self, values: Instruction, key: Index) -> None:
        count, batch = self.tile.keys, self.c.batch
        self._load(self.v, values, batch, count, key, self.wide, turned=False, checked=True)

    def _load(
        self,
        target: str,
        operand: Instruction,
        batch: tuple[Index, ...],
        count: int,
        start: Index,
        length: int,
        *,
        turned: bool,
        checked: bool = False,
    ) -> None:
        """Load rows of an operand into shared memory.

        Args:
            target: The shared array.
            operand: The operand.
            batch: The index of its axes before the last two.
            count: The number of rows.
            start: The first row.
            length: Vectors per row.
            turned: Whether rows lie along the last axis.
            checked: Whether rows past the end are zero; otherwise they repeat the last row.
        """
        w, axes = self.w, (-2, -1) if not turned else (-1, -2)
        limit, rank = operand.shape.lens[axes[0]], operand.shape.ndim
        along = lies_along(self.a.body, operand, rank + axes[0])
        for item in self._items(count * length):
            row, part = item.divmod(length, w) if not along else item.divmod(count, w)[::-1]
            valid = within(start + row, limit) if checked else ""
            place = clamped(w, start + row, limit)
            texts: list[str] = []
            for lane in range(LANES):
                column = part * LANES + lane
                index = (*batch, column, place) if turned else (*batch, place, column)
                texts.append(element(self.t, operand, index, rank + axes[1], valid))
            self._put(f"{target}[{(row * (length | 1) + part).text()}]", texts)

    def _items(self, total: int) -> Iterator[Index]:
        """Loops that divide pieces of work among the work items."""
        items, own = self.tile.items, Index.of(Variable(self.local, 0, self.tile.items - 1))
        if total % items == 0:
            with self.w.loop(total // items, unroll=True) as turn:
                yield turn * items + own
        else:
            with self.w.loop(total, start=self.local, step=str(items)) as item:
                yield item

    def _put(self, place: str, texts: list[str]) -> None:
        name = self.w.name("u")
        self.w.line(f"{self.kind} {name};")
        for lane, text in enumerate(texts):
            self.w.line(f"{name}.v[{lane}] = {text};")
        self.w.line(f"{place} = {name};")

    # Scores

    def _products(self) -> list[list[str]]:
        """Products of the work item's queries and keys."""
        w, tile, length = self.w, self.tile, stride(self.a.depth)
        made = [[w.variable("f32", "0.0f", "s") for _ in range(tile.columns)] for _ in self.rows]
        with w.loop(self.deep, prefix="d") as d:
            queries = [self._vector(self.q, r * length + d) for r in self.rows]
            own = [self.across + tile.across * j for j in range(tile.columns)]
            keys = [self._vector(self.k, k * length + d) for k in own]
            for lane in range(LANES):
                for i, q in enumerate(queries):
                    for j, k in enumerate(keys):
                        w.line(f"{made[i][j]} += {q}.v[{lane}] * {k}.v[{lane}];")
        return made

    def _vector(self, array: str, index: Index) -> str:
        return self.w.define(self.kind, f"{array}[{index.text()}]", "u")

    def _softmax(self, products: list[list[str]], columns: list[Index]) -> list[str]:
        """Compute scores, exponentials and weights; returns the factors that rescale the sums so far."""
        w, a, c = self.w, self.a, self.c
        places = [clamped(w, k, a.keys) for k in columns]
        scores = [
            [
                self._masked(c.score(p, row, at), k)
                for p, at, k in zip(line, places, columns, strict=True)
            ]
            for line, row in zip(products, self.places, strict=True)
        ]
        found = [w.variable("f32", self._largest(line), "h") for line in scores]
        self._across(found, "fmax({}, {})")
        factors: list[str] = []
        for i, line in enumerate(scores):
            factor, base = grown(w, self.tops[i], [found[i]])
            powers = [w.define("f32", f"exp({s} - {base})", "e") for s in line]
            w.line(f"{self.totals[i]} = {self.totals[i]} * {factor} + {' + '.join(powers)};")
            for j, power in enumerate(powers):
                own = self.across + self.tile.across * j
                part, lane = own.divmod(LANES, w)
                place = (self.rows[i] * self.weights + part).text()
                text = c.weight(power, self.places[i], places[j])
                w.line(f"{self.p}[{place}].v[{lane.text()}] = {text};")
            factors.append(factor)
        return factors

    def _masked(self, score: str, key: Index) -> str:
        inside = within(key, self.a.keys)
        return self.w.define("f32", f"{inside} ? {score} : {LOWEST}") if inside else score

    def _largest(self, scores: list[str]) -> str:
        text = scores[0]
        for one in scores[1:]:
            text = f"fmax({text}, {one})"
        return text

    def _across(self, names: list[str], joined: str) -> None:
        """Combine the numbers of the work items that share rows."""
        w, across = self.w, self.tile.across
        if self._shuffles:
            step = across // 2
            while step:
                for name in names:
                    w.line(f"{name} = {joined.format(name, f'SHUFFLE_XOR({name}, {step})')};")
                step //= 2
            return
        for name in names:
            w.line(f"{self.shared}[{self.local}] = {name};")
            w.line("BARRIER();")
            first = f"{self.shared}[{(self.down * across).text()} + "
            with w.loop(across, prefix="r") as other:
                text = joined.format(name, f"{first}{other.text()}]")
                w.line(f"{name} = {other.text()} == 0 ? {first}0] : {text};")
            w.line("BARRIER();")

    # Values

    def _accumulate(self, factors: list[str]) -> None:
        """Add the weighted values of the tile to the rescaled sums."""
        w, length = self.w, stride(self.a.width)
        for (i, _, _), name in self.sums.items():
            w.line(f"{name} *= {factors[i]};")
        parts = [clamped(w, p, self.wide) for p in self.parts]
        with w.loop(vectors(self.tile.keys), prefix="d") as d:
            weights = [self._vector(self.p, r * self.weights + d) for r in self.rows]
            for step in range(LANES):
                start = (d * LANES + step) * length
                values = [self._vector(self.v, start + p) for p in parts]
                for (i, j, lane), name in self.sums.items():
                    w.line(f"{name} += {weights[i]}.v[{step}] * {values[j]}.v[{lane}];")

    def _store(self) -> None:
        w, a, c = self.w, self.a, self.c
        self._across(self.totals, "{} + {}")
        for i, place in enumerate(self.places):
            with w.block(f"if ({within(self.start + self.rows[i], a.rows) or 1})"):
                done = c.finish(self.tops[i], self.totals[i])
                if c.has_row_results:
                    with w.block(f"if ({self.across.text()} == 0)"):
                        c.rows(place, self.tops[i], done[0])
                for j, part in enumerate(self.parts):
                    with w.block(f"if ({within(part, self.wide) or 1})"):
                        self._store_vector(place, clamped(w, part, self.wide), (i, j), done)

    def _store_vector(
        self, row: Index, part: Index, at: tuple[int, int], done: tuple[str, str]
    ) -> None:
        columns = [part * LANES + lane for lane in range(LANES)]
        sums = [self.sums[*at, lane] for lane in range(LANES)]
        if self.a.width % LANES == 0:
            self.c.elements(row, columns, sums, done)
            return
        for column, sum in zip(columns, sums, strict=True):
            with self.w.block(f"if ({within(column, self.a.width) or 1})"):
                self.c.elements(row, [clamped(self.w, column, self.a.width)], [sum], done)
