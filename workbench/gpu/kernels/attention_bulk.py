"""Attention on Hopper GPUs: a warp has the copy engine load tiles, groups of warps multiply them.

A group has 64 queries. The products of a tile's keys are computed while the values of the tile before it are
added. A block goes on to further queries, whose first tiles are loaded while it stores.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.emit.scalar import number
from workbench.gpu.emit.tensors import Indices
from workbench.gpu.kernels import attention_matrix
from workbench.gpu.kernels.attention_fragments import PACK, Fragments
from workbench.gpu.kernels.attention_parts import LOWEST, Context, clamped, operands, within
from workbench.gpu.kernels.attention_pattern import Attention
from workbench.gpu.kernels.attention_scores import causal, factor, is_plain, unscaled
from workbench.gpu.kernels.bulk import (
    BARRIER,
    BULK_WORDS,
    FEW_REGISTERS,
    MANY_REGISTERS,
    MOST_AXES,
    copy_function,
)
from workbench.gpu.kernels.contraction import source_of
from workbench.gpu.kernels.kernel import Builder, Launch
from workbench.gpu.kernels.matrix import UNITS
from workbench.gpu.kernels.matrix_tiles import CHUNK, COLUMNS, COPIES, LINE, TERMS, TYPES, WARP
from workbench.gpu.kernels.warpgroup import ALIGN, CAPABILITY, WORDS, instruction, of_registers

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_KEYS = 128
"""Keys of a tile."""
_GROUP = 64
"""Queries of four warps."""
_REGISTERS = {2: MANY_REGISTERS, 3: 160}
"""Registers of a work item that multiplies, by the number of groups; those that load need few."""
_TIMES = {2: 2.0, 3: 2.7}
"""Time that a part takes by the number of groups, measured on an H200; only ratios matter."""
_NARROW = 64
"""The greatest length of queries and values for three groups."""
_NEAR = 64
"""Elements of a line of 128 bytes."""
_SHARED = 224 << 10
"""Bytes of shared memory for tiles."""
_MOST_SLOTS = 8
_LOG2_E = 1 / log(2)

_FUNCTIONS = """\
#define SOME(x) __any_sync(0xffffffffu, x)
#define HELD(r, n) UNROLL for (i32 i_ = 0; i_ < n; ++i_) asm volatile("" : "+f"((r)[i_]) :: "memory")
DEVICE f32 power_of_two(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
"""
"""``HELD`` keeps the compiler from reading sums before the instruction that computes them is awaited."""


def suits(lowering: Lowering, a: Attention) -> bool:
    """Whether the GPU has a copy engine, and it can load the operands as they are."""
    if lowering.machine.matrix != CAPABILITY or not attention_matrix.suits(a):
        return False
    return _Kernel(lowering, a, 2).is_loadable()


def bulk(lowering: Lowering, a: Attention, groups: int) -> Launch:
    """The kernel that computes attention with so many groups of warps."""
    kernel = _Kernel(lowering, a, groups)
    return kernel.b.launch(kernel.write(), kernel.threads)


@dataclass(frozen=True)
class _Located:
    """A matrix of an operand in memory, whose rows are contiguous."""

    pointer: str
    offset: int
    batch: tuple[tuple[Variable, int], ...]
    """The variables that tell it from others, with their strides."""
    row: int
    """The stride of rows."""


def groups_for(a: Attention) -> list[int]:
    """Numbers of groups of a block, the one that takes the least time first; masks need registers of two."""
    if causal(a) or max(a.depth, a.width) > _NARROW:
        return [2]

    def time(groups: int) -> float:
        parts = a.count * -(-a.rows // (groups * _GROUP))
        return -(-parts // UNITS) * _TIMES[groups]

    return sorted(_TIMES, key=time)


def _located(found: tuple[str, Index] | None, row: Variable, near: Variable) -> _Located | None:
    """The place of an element, if the copy engine can load tiles around it."""
    if found is None:
        return None
    strides = dict(found[1].terms)
    across, step = strides.pop(row, 0), strides.pop(near, 0)
    one = _Located(found[0], found[1].constant, tuple(strides.items()), across)
    even = not any(k % CHUNK for k in (one.offset, across, *strides.values()))
    counted = all(v.low == 0 and k > 0 for v, k in one.batch) and 2 + len(one.batch) <= MOST_AXES
    return one if step == 1 and across > 0 and even and counted else None


class _Kernel:
    """Writes the kernel."""

    def __init__(self, lowering: Lowering, a: Attention, groups: int) -> None:
        mask, outputs = causal(a), lowering.outputs(a.group)
        given = operands(lowering, a, mask and mask.source)
        b = Builder(lowering.dialect, "attention", [*(p for _, p in given.places), *outputs])
        given.bind(b)
        if mask:
            mask.bind(b.tensors)
        b.matrix = True
        self.b, self.a, self.w, self.mask, self.groups = b, a, b.w, mask, groups
        self.targets = [b.memory(p, writes=True) for p in outputs]
        self.warps = self.groups * 4
        self.threads = (self.warps + 4) * WARP
        self.rows = self.groups * _GROUP
        self.tiles = -(-a.rows // self.rows)
        self.parts = a.count * self.tiles
        self.grid = min(self.parts, UNITS)
        self.most = -(-a.keys // _KEYS)
        """Tiles of keys."""
        self.wide = -(-a.width // 32) * 32
        (q, k), v = a.first.inputs, a.second.inputs[1]
        (q, scale), (k, other) = unscaled(q), unscaled(k)
        self.operands = (q, k, v)
        self.scale = scale * other
        found = factor(a, mask)
        self.linear = None if found is None or found * self.scale <= 0 else found * self.scale
        """The number by which products are multiplied to give scores; None if they are computed otherwise."""
        lines = [-(-n // _NEAR) for n in (a.depth, a.width)]
        self.panels = (lines[0], lines[0], lines[1])
        """Lines that a row of queries, keys and values has."""
        self.slot = _KEYS * LINE * 16 * max(lines)
        self.queries = self.rows * LINE * 16 * lines[0]
        self.slots = min(_MOST_SLOTS, (_SHARED - self.queries) // self.slot)
        self.type = TYPES[q.shape.type]
        self.plain = is_plain(a)

    # Operands

    def _place(self, side: int, context: Context) -> _Located | None:
        """The queries, keys or values of a part."""
        a, operand = self.a, self.operands[side]
        row = Variable("row_", 0, (a.rows, a.keys, a.keys)[side] - 1)
        near = Variable("near_", 0, (a.depth, a.depth, a.width)[side] - 1)
        ends = [Index.of(row), Index.of(near)]
        batch = context.batch if side == 2 else context.first
        index: Indices = (*batch, *(ends[::-1] if side == 1 else ends))
        found = source_of(self.b.tensors, operand, index)
        return _located(found and (found.pointer, found.offset), row, near)

    def is_loadable(self) -> bool:
        """Whether the copy engine can load all operands; what is written to find out is not read."""
        with self.w.fresh():
            context = self._context(Index.of(Variable("block_", 0, self.parts - 1)))[0]
            return all(self._place(side, context) for side in range(3))

    def _context(self, block: Index) -> tuple[Context, Index]:
        """The queries of a part: their batch, and the first of them."""
        batch, tile = block.divmod(self.tiles, self.w)
        context = Context(self.b, self.a, self.targets, split(batch, self.a.batch, self.w))
        return context, tile * self.rows

    def write(self) -> int:
        """Write the kernel; returns the number of blocks."""
        w = self.w
        self._need()
        self._allocate()
        local = w.define(w.integer_type, "LOCAL(0)", "t")
        warp, self.lane = Index.of(Variable(local, 0, self.threads - 1)).divmod(WARP, w)
        self.warp = Index.of(Variable(w.integer(warp.text()), 0, self.warps + 3))
        self._make_barriers(local)
        w.line(f"if ({self.warp.text()} >= {self.warps}) REGISTERS(dec, {FEW_REGISTERS});")
        with w.block(f"LOADING({self.warp.text()}, {self.warps})"):
            self._load_all()
        w.line("HANDOVER();")
        with w.block(f"MULTIPLYING({self.warp.text()}, {self.warps})"):
            w.line(f"REGISTERS(inc, {_REGISTERS[self.groups]});")
            self._attend_all()
        return self.grid

    def _need(self) -> None:
        w = self.w
        for words in (COPIES, WORDS, BULK_WORDS, _FUNCTIONS, PACK.format(type=self.type)):
            w.need(words)
        along = (False, False)
        w.need(instruction("multiply_first", self.type, _KEYS, along, adds=False))
        w.need(instruction("multiply_keys", self.type, _KEYS, along))
        w.need(of_registers("multiply_values", self.type, self.wide))

    def _allocate(self) -> None:
        """Declare shared memory: queries, slots for keys and values, barriers."""
        w = self.w
        space = self.queries + self.slots * self.slot
        self.b.shared = space + ALIGN + (2 * self.slots + 2) * BARRIER
        w.line("extern __shared__ u8 whole[];")
        w.line(f"const u32 p = shared_place(whole) + {ALIGN - 1} & ~{ALIGN - 1};")
        w.line("u8 *const s = whole + (p - shared_place(whole));")
        w.line(f"const u32 full = p + {space}, empty = full + {self.slots * BARRIER};")
        w.line(
            f"const u32 queries = empty + {self.slots * BARRIER}, answered = queries + {BARRIER};"
        )

    def _make_barriers(self, local: str) -> None:
        """Make barriers: each slot has one for being loaded and one for being free, the queries as well."""
        w = self.w
        with w.block(f"if ({local} == 0)"):
            with w.block(f"for (i32 i = 0; i < {self.slots}; ++i)"):
                w.line(f"barrier_make(full + i * {BARRIER}, 1);")
                w.line(f"barrier_make(empty + i * {BARRIER}, {self.warps});")
            w.line("barrier_make(queries, 1);")
            w.line(f"barrier_make(answered, {self.warps});")
            w.line("barriers_made();")
        w.line("BARRIER();")

    @contextmanager
    def _parts(self) -> Generator[tuple[Context, Index, str, str, str]]:
        """A loop over the block's parts.

        Every other round of parts is in reverse, as parts differ in length if there is a mask.

        Yields the context, the first query, how many parts and slots were before it, and its tiles of keys.
        """
        w, grid = self.w, self.grid
        turn, name, done = w.name("u"), w.name("n"), w.variable("u32", "0", "d")
        own = w.define("i32", "GROUP(0)", "g")
        with w.block(f"for (u32 {turn} = 0; {turn} < {-(-self.parts // grid)}; ++{turn})"):
            place = f"({turn} % 2 ? {grid - 1} - {own} : {own})"
            w.line(f"const i32 {name} = (i32){turn} * {grid} + {place};")
            w.line(f"if ({name} >= {self.parts}) break;")
            context, start = self._context(Index.of(Variable(name, 0, self.parts - 1)))
            tiles = str(self.most)
            if self.mask:
                tiles = self.mask.tiles(w, start, self.rows, _KEYS)
            yield context, start, turn, done, tiles
            w.line(f"{done} += 2 * {tiles};")

    # Loading

    def _load_all(self) -> None:
        """Load the queries of each part when the ones before are not needed any more; keys and values."""
        w = self.w
        with self._parts() as (context, start, turn, done, tiles):
            w.line(f"if ({turn}) barrier_wait(answered, {turn} - 1 & 1);")
            with w.block(""):
                w.line("const u32 ready = queries;")
                w.line(f"barrier_expect(ready, {self.queries});")
                self._copy(0, "p", start, self.rows, context)
            self._load(1, done, Index(), context)
            with w.loop(self.most, prefix="k", end=tiles) as tile:
                later = w.define("i32", f"{tile.text()} + 1", "n")
                with w.block(f"if ({later} < {tiles})"):
                    following = Index.of(Variable(later, 0, self.most - 1))
                    self._load(1, f"{done} + 2 * {later} - 1", following, context)
                self._load(2, self._values(done, tile.text(), tiles), tile, context)

    def _values(self, done: str, tile: str, tiles: str) -> str:
        """The number of the slot with a tile's values: behind the keys of the next tile."""
        return f"{done} + 2 * {tile} + ({tile} + 1 < {tiles} ? 2 : 1)"

    def _load(self, side: int, count: str, tile: Index, context: Context) -> None:
        """Load a tile of keys or values into the next slot when that is free."""
        w = self.w
        with w.block(""):
            number = w.define("u32", count, "s")
            slot = w.define("u32", f"{number} % {self.slots}", "s")
            with w.block(f"if ({number} >= {self.slots})"):
                w.line(
                    f"barrier_wait(empty + {slot} * {BARRIER}, {number} / {self.slots} + 1 & 1);"
                )
            w.line(f"const u32 ready = full + {slot} * {BARRIER};")
            w.line(f"barrier_expect(ready, {_KEYS * LINE * 16 * self.panels[side]});")
            to = f"p + {self.queries} + {slot} * {self.slot}"
            self._copy(side, to, tile * _KEYS, _KEYS, context)

    def _copy(self, side: int, to: str, row: Index, rows: int, context: Context) -> None:
        """Begin to load rows of an operand, as panels of lines of 128 bytes."""
        a, w, found = self.a, self.w, self._place(side, context)
        assert found is not None
        lens = ((a.rows, a.depth), (a.keys, a.depth), (a.keys, a.width))[side]
        axes = [(v.high + 1, stride) for v, stride in found.batch]
        axes += [(lens[0], found.row), (lens[1], 1)]
        name = self.b.tile_map(
            found.pointer, found.offset, axes, [1] * len(found.batch) + [rows, _NEAR]
        )
        w.need(copy_function(len(axes)))
        for panel in range(self.panels[side]):
            at = [str(panel * _NEAR), row.text(), *(v.name for v, _ in reversed(found.batch))]
            place = f"{to} + {panel * rows * LINE * 16}"
            w.line(f"copy_tile_{len(axes)}({place}, &{name}, ready, {', '.join(at)});")

    # Multiplying

    def _attend_all(self) -> None:
        """Compute the results of the block's parts."""
        w, sums = self.w, self.wide // 2
        w.line(f"f32 z[{_KEYS // 2}], o[{sums}];")
        w.line(f"u32 h[{_KEYS // 4}];")
        group, part = self.warp.divmod(4, w)
        self.group = group
        self.own = Fragments(self.b, self.lane, self.wide)
        with self._parts() as (context, start, turn, done, tiles):
            self.own.begin(context, start + group * _GROUP + part * 16)
            w.line(f"UNROLL for (i32 e = 0; e < {sums}; ++e) o[e] = 0;")
            w.line(f"barrier_wait(queries, {turn} & 1);")
            whole = str(self.a.keys // _KEYS)
            if self.mask:
                whole = self.mask.whole_tiles(w, start, _KEYS)
            checked = self.mask is not None or self.a.keys % _KEYS > 0
            self._first_tile(done, tiles, checked)
            with w.loop(self.most, start="1", prefix="k", end=whole) as tile:
                self._tile(done, tile, tiles, False)
            if checked:
                first = w.define("i32", f"{whole} > 1 ? {whole} : 1", "n")
                with w.loop(self.most, start=first, prefix="k", end=tiles) as tile:
                    self._tile(done, tile, tiles, True)
            with w.block(""):
                slot = self._full(f"{done} + 2 * {tiles} - 1")
                w.line("FENCE();")
                self._add_values(slot)
                w.line("WAIT(0);")
                w.line(f"HELD(o, {sums});")
                self._arrive(f"empty + {slot} * {BARRIER}")
            self.own.store(self.linear or 1.0)

    def _first_tile(self, done: str, tiles: str, checked: bool) -> None:
        """Compute the weights of the first tile's values."""
        w = self.w
        with w.block(""):
            slot = self._full(done)
            w.line("FENCE();")
            self._products(slot)
            w.line("WAIT(0);")
            w.line(f"HELD(z, {_KEYS // 2});")
            self._arrive(f"empty + {slot} * {BARRIER}")
            self._arrive("answered", f"{tiles} == 1")
            self._softmax(Index(), checked)
            self._pack()

    def _tile(self, done: str, tile: Index, tiles: str, checked: bool) -> None:
        """Compute the products of a tile's keys while the values of the one before it are added."""
        w = self.w
        number = tile.text()
        keys = self._full(f"{done} + 2 * {number} - 1")
        w.line("FENCE();")
        self._products(keys)
        values = self._full(f"{done} + 2 * {number}")
        self._add_values(values)
        w.line("WAIT(1);")
        w.line(f"HELD(z, {_KEYS // 2});")
        self._arrive(f"empty + {keys} * {BARRIER}")
        self._arrive("answered", f"{number} + 1 == {tiles}")
        factors = self._softmax(tile * _KEYS, checked)
        w.line("WAIT(0);")
        w.line(f"HELD(o, {self.wide // 2});")
        self._arrive(f"empty + {values} * {BARRIER}")
        # Branches pay where values are narrow, as measured on an H200.
        changed = " || ".join(f"{one} != 1.0f" for one in factors)
        with w.block(f"if (SOME({changed}))" if self.wide <= _NARROW else ""):
            for half, one in enumerate(factors):
                self.own.rescale(half, one)
        self._pack()

    def _full(self, count: str) -> str:
        """Wait until a slot is loaded; returns its place among the slots."""
        w = self.w
        number = w.define("u32", count, "s")
        slot = w.define("u32", f"{number} % {self.slots}", "s")
        w.line(f"barrier_wait(full + {slot} * {BARRIER}, {number} / {self.slots} & 1);")
        return slot

    def _arrive(self, barrier: str, condition: str = "") -> None:
        """Count the warp at a barrier."""
        also = f"{condition} && " if condition else ""
        self.w.line(f"if ({also}{self.lane.text()} == 0) barrier_arrive({barrier});")

    def _products(self, slot: str) -> None:
        """Begin to multiply the group's queries and a tile's keys."""
        w, line = self.w, LINE * 16
        with w.block(""):
            w.line(f"const u64 a = tile_at(p + ({self.group.text()}) * {_GROUP * line}, 0);")
            w.line(f"const u64 b = tile_at(p + {self.queries} + {slot} * {self.slot}, 0);")
            for k in range(-(-self.a.depth // TERMS)):
                panel, step = divmod(k * TERMS, _NEAR)
                at = [(panel * n * line + step * 2) >> 4 for n in (self.rows, _KEYS)]
                name = "multiply_keys" if k else "multiply_first"
                w.line(f"{name}(z, a + {at[0]}, b + {at[1]});")
            w.line("COMMIT();")

    def _add_values(self, slot: str) -> None:
        """Begin to add a tile's weighted values."""
        w, line = self.w, LINE * 16
        with w.block(""):
            w.line(
                f"const u64 b = tile_at(p + {self.queries} + {slot} * {self.slot}, {_KEYS * line});"
            )
            for k in range(_KEYS // TERMS):
                w.line(f"multiply_values(o, h + {k * 4}, b + {k * TERMS * LINE});")
            w.line("COMMIT();")

    # Softmax

    def _softmax(self, key: Index, checked: bool) -> list[str]:
        """Turn products into weights; returns what the results so far are to be multiplied by."""
        self.own.t.lanes = 2 if self.a.keys % 2 == 0 else 1
        factors = [self._row(key, half, checked) for half in range(2)]
        self.own.t.lanes = 1
        return factors

    def _row(self, key: Index, half: int, checked: bool) -> str:
        w, own = self.w, self.own
        cells = [(j, e) for j in range(_KEYS // COLUMNS) for e in range(2)]
        places = [j * 4 + half * 2 + e for j, e in cells]
        if self.linear is None:
            scores, unit = self._computed(key, half, checked), _LOG2_E
        else:
            scores, unit = self._compared(key, half, checked), self.linear * _LOG2_E
        tops = [w.variable("f32", LOWEST, "h") for _ in range(2)]
        for i, score in enumerate(scores):
            w.line(f"{tops[i % 2]} = fmax({tops[i % 2]}, {score});")
        w.line(f"{tops[0]} = fmax({tops[0]}, {tops[1]});")
        own.across(tops[0], "fmax({}, {})")
        scale = number(unit, DType.FLOAT).text
        found = w.define("f32", f"fmax({own.tops[half]}, {tops[0]})", "n")
        base = w.define("f32", f"{found} == {LOWEST} ? 0.0f : {found} * {scale}", "z")
        grown = w.define("f32", f"power_of_two(fma({own.tops[half]}, {scale}, -{base}))", "k")
        w.line(f"{own.tops[half]} = {found};")
        sums = [w.variable("f32", "0.0f", "h") for _ in range(2)]
        for i, (score, place) in enumerate(zip(scores, places, strict=True)):
            w.line(f"z[{place}] = power_of_two(fma({score}, {scale}, -{base}));")
            w.line(f"{sums[i % 2]} += z[{place}];")
        w.line(f"{own.totals[half]} = {own.totals[half]} * {grown} + ({sums[0]} + {sums[1]});")
        if not self.plain:
            for (j, e), place in zip(cells, places, strict=True):
                at = clamped(w, key + j * COLUMNS + own.pair * 2 + e, self.a.keys)
                w.line(f"z[{place}] = {own.c.weight(f'z[{place}]', own.places[half], at)};")
        return grown

    def _pack(self) -> None:
        """Make weights the first operand of the product with values."""
        w = self.w
        w.line(f"UNROLL for (i32 j = 0; j < {_KEYS // COLUMNS}; ++j)")
        w.line("  UNROLL for (i32 e = 0; e < 2; ++e)")
        place = "j * 4 + e * 2"
        w.line(f"    h[j * 2 + e] = pack_{self.type}(z[{place}], z[{place} + 1]);")

    def _compared(self, key: Index, half: int, checked: bool) -> list[str]:
        """Products, from which scores differ by a factor; hidden ones are minus infinity."""
        w, own = self.w, self.own
        places = [
            (j, e, f"z[{j * 4 + half * 2 + e}]") for j in range(_KEYS // COLUMNS) for e in range(2)
        ]
        ends = [] if not self.a.keys % _KEYS else [str(self.a.keys)]
        if self.mask:
            ends.append((own.rows[half] + self.mask.first).text())
        if not checked or not ends:
            return [text for *_, text in places]
        end = ends[0] if len(ends) == 1 else f"({ends[1]} < {ends[0]} ? {ends[1]} : {ends[0]})"
        left = w.define("i32", f"(i32)({end} - ({(key + own.pair * 2).text()}))", "e")
        return [
            w.define("f32", f"{j * COLUMNS + e} < {left} ? {text} : {LOWEST}")
            for j, e, text in places
        ]

    def _computed(self, key: Index, half: int, checked: bool) -> list[str]:
        """Scores of any form."""
        w, own, a = self.w, self.own, self.a
        scores: list[str] = []
        for j in range(_KEYS // COLUMNS):
            for e in range(2):
                product = f"z[{j * 4 + half * 2 + e}]"
                if self.scale != 1.0:
                    product += f" * {number(self.scale, DType.FLOAT).text}"
                at = key + j * COLUMNS + own.pair * 2 + e
                score = own.c.score(
                    product, own.places[half], clamped(w, at, a.keys) if checked else at
                )
                inside = within(at, a.keys) if checked else ""
                scores.append(
                    w.define("f32", f"{inside} ? {score} : {LOWEST}" if inside else score)
                )
        return scores
