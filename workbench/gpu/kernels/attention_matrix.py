"""Attention on matrix units: a warp keeps 16 queries, and a block loops over tiles of keys, loaded ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.emit.scalar import Scalar, number
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.kernels.attention_fragments import PACK, Fragments
from workbench.gpu.kernels.attention_parts import (
    LOWEST,
    Context,
    clamped,
    grown,
    operands,
    within,
)
from workbench.gpu.kernels.attention_pattern import Attention, lies_along
from workbench.gpu.kernels.attention_scores import Causal, causal, is_plain, unscaled
from workbench.gpu.kernels.contraction import source_of
from workbench.gpu.kernels.kernel import Builder, Launch
from workbench.gpu.kernels.matrix_tiles import (
    COLUMNS,
    LOADS,
    ROWS,
    TERMS,
    TYPES,
    WARP,
    Loader,
    Tile,
    multiply,
    read,
)
from workbench.gpu.kernels.product import Operand, Source

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_DEEPEST = 128
"""The greatest length of queries, keys and values."""
_KEYS = 64
"""Keys that a block handles at a time."""
_WARPS = (8, 4)
_ENOUGH = 528
"""Number of blocks from which smaller ones do not pay."""


def suits(a: Attention) -> bool:
    """Whether the operands are all half, or all bfloat16, and short enough."""
    types = {i.shape.type for i in (*a.first.inputs, *a.second.inputs)}
    return len(types) == 1 and types <= set(TYPES) and max(a.depth, a.width) <= _DEEPEST


def warps_for(a: Attention) -> list[int]:
    """Numbers of warps of a block, the one that is likely to be the fastest first."""
    first = next((n for n in _WARPS if _blocks(a, n) >= _ENOUGH), _WARPS[-1])
    return sorted(_WARPS, key=lambda n: n != first)


def on_matrix_units(lowering: Lowering, a: Attention, warps: int) -> Launch:
    """The kernel that computes attention with so many warps in a block."""
    mask, outputs = causal(a), lowering.outputs(a.group)
    given = operands(lowering, a, mask and mask.source)
    b = Builder(lowering.dialect, "attention", [*(p for _, p in given.places), *outputs])
    given.bind(b)
    if mask:
        mask.bind(b.tensors)
    targets = [b.memory(p, writes=True) for p in outputs]
    blocks = _blocks(a, warps)
    block = Index.of(Variable(b.w.define(b.w.integer_type, "GROUP(0)", "g"), 0, blocks - 1))
    batch, number = block.divmod(-(-a.rows // (warps * ROWS)), b.w)
    context = Context(b, a, targets, split(batch, a.batch, b.w))
    _Kernel(context, warps, number * (warps * ROWS), mask).write()
    return b.launch(blocks, warps * WARP)


def _blocks(a: Attention, warps: int) -> int:
    return a.count * -(-a.rows // (warps * ROWS))


def _padded(length: int) -> int:
    """The least power of two from 16 on that is not less than a length."""
    return max(TERMS, 1 << (length - 1).bit_length())


class _Kernel:
    """Writes the kernel.

    Args:
        context: The kernel.
        warps: Warps of a block.
        start: The first query of the block.
        mask: The causal mask, if there is one: tiles of keys that it hides from all queries are skipped.
    """

    def __init__(self, context: Context, warps: int, start: Index, mask: Causal | None) -> None:
        self.mask, self.across = mask, warps * ROWS
        self.c, self.a, self.w, self.t = context, context.a, context.w, context.t
        a, w = self.a, self.w
        self.type = TYPES[a.first.inputs[0].shape.type]
        self.start = start
        local = w.define(w.integer_type, "LOCAL(0)", "t")
        item = Index.of(Variable(local, 0, warps * WARP - 1))
        warp, self.lane = item.divmod(WARP, w)
        self.down = warp * ROWS
        self.deep, self.wide = _padded(a.depth), max(_padded(a.width), 32)
        self.own = Fragments(context.b, self.lane, self.wide)
        self.loader = Loader(context.b, warps * WARP, item)
        (q, k), v = a.first.inputs, a.second.inputs[1]
        (q, scale), (k, other) = unscaled(q), unscaled(k)
        self.scale = scale * other
        self.plain = is_plain(a)
        queries = self._operand(q, 0, context.first, a.rows, a.depth)
        keys = self._operand(k, 1, context.first, a.keys, a.depth)
        values = self._operand(v, 1, context.batch, a.width, a.keys)
        self.q = Tile(queries, 0, warps * ROWS, self.deep, 0)
        self.k = Tile(keys, 1, _KEYS, self.deep, self.q.bytes)
        self.v = Tile(values, 1, self.wide, _KEYS, self.q.bytes + self.k.bytes)
        self.stage = self.k.bytes + self.v.bytes
        for words in (LOADS, multiply(q.shape.type), PACK.format(type=self.type)):
            w.need(words)

    def _operand(
        self, instruction: Instruction, side: int, batch: Indices, own: int, terms: int
    ) -> Operand:
        """An operand of a product: its batch's index, its rows or columns, and its terms."""
        rank = instruction.shape.ndim

        def index(across: Index, k: Index) -> Indices:
            return (*batch, k, across) if side else (*batch, across, k)

        def value(t: Tensors, _: Indices, across: Index, k: Index) -> Scalar:
            return t.at(instruction, index(across, k))

        def address(t: Tensors, _: Indices, across: Index, k: Index) -> Source | None:
            return source_of(t, instruction, index(across, k))

        along_k = lies_along(self.a.body, instruction, rank - 2) == bool(side)
        return Operand(value, along_k, terms if along_k else own, 2, address=address)

    def write(self) -> None:
        """The whole kernel."""
        a, w, most = self.a, self.w, -(-self.a.keys // _KEYS)
        stages = min(most, 2)
        self.c.b.shared = self.q.bytes + stages * self.stage
        w.line("extern __shared__ ALIGN(128) u8 s[];")
        w.line("const u32 p = shared_place(s);")
        sums = self.wide // COLUMNS * 4
        w.line(f"f32 o[{sums}];")
        w.line(f"UNROLL for (i32 e = 0; e < {sums}; ++e) o[e] = 0;")
        self.own.begin(self.c, self.start + self.down)
        with w.block(""):
            w.line("const u32 q = 0;")
            self.loader.fill(self.q, self.c.first, self.start, a.rows, Index(), a.depth)
        self._load(Index(), "0")
        turns = (
            str(most) if self.mask is None else self.mask.tiles(w, self.start, self.across, _KEYS)
        )
        with w.loop(most, prefix="k", end=turns) as turn:
            w.line("COPIES_WAIT(0);")
            w.line("BARRIER();")
            if most > 1:
                self._load_next(turn, most, turns)
            w.line(f"const u32 q = p + {turn.text()} % {stages} * {self.stage};")
            self._products()
            self._softmax(turn * _KEYS)
            self._add_values()
        self.own.store()

    def _load(self, turn: Index, place: str) -> None:
        """Load a tile of keys and values into a stage."""
        a, w, key = self.a, self.w, turn * _KEYS
        with w.block(""):
            w.line(f"const u32 q = {place};")
            self.loader.fill(self.k, self.c.first, key, a.keys, Index(), a.depth)
            self.loader.fill(self.v, self.c.batch, Index(), a.width, key, a.keys)
        w.line("COPIES_END();")

    def _load_next(self, turn: Index, most: int, turns: str) -> None:
        w = self.w
        later = w.define(w.integer_type, (turn + 1).text(), "n")
        with w.block(f"if ({later} < {turns})"):
            self._load(Index.of(Variable(later, 1, most - 1)), f"{later} % 2 * {self.stage}")

    def _products(self) -> None:
        """The products of the warp's queries and the tile's keys."""
        w, tiles = self.w, _KEYS // COLUMNS
        w.line(f"f32 z[{tiles * 4}];")
        w.line(f"UNROLL for (i32 e = 0; e < {tiles * 4}; ++e) z[e] = 0;")
        # The queries are at the start of shared memory, not in a stage.
        queries = read(self.q, self.down, self.lane, "a", w).replace("q + ", "p + ", 1)
        w.line("UNROLL")
        with w.block(f"for (i32 k = 0; k < {self.deep // TERMS}; ++k)"):
            w.line(f"u32 a[4], b[{tiles * 2}];")
            w.line(f"{{ const i32 i = 0; {queries}; }}")
            keys = read(self.k, Index(), self.lane, "b", w)
            w.line(f"UNROLL for (i32 i = 0; i < {tiles // 2}; ++i) {keys};")
            w.line(f"UNROLL for (i32 j = 0; j < {tiles}; ++j)")
            w.line(f"  multiply_{self.type}(z + j * 4, a, b + j * 2);")

    def _softmax(self, key: Index) -> None:
        """Turn products into weights, as operands of the second product; rescale the sums so far."""
        w = self.w
        w.line(f"u32 h[{_KEYS // COLUMNS * 2}];")
        self.t.lanes = 2 if self.a.keys % 2 == 0 else 1
        for half in range(2):
            self._row(key, half)
        self.t.lanes = 1

    def _row(self, key: Index, half: int) -> None:
        a, w, c, row = self.a, self.w, self.c, self.own.places[half]
        cells = [(j, e) for j in range(_KEYS // COLUMNS) for e in range(2)]
        keys = {(j, e): key + j * COLUMNS + self.own.pair * 2 + e for j, e in cells}
        places = {cell: clamped(w, k, a.keys) for cell, k in keys.items()}
        scores: dict[tuple[int, int], str] = {}
        for j, e in cells:
            product = f"z[{j * 4 + half * 2 + e}]"
            if self.scale != 1.0:
                product += f" * {number(self.scale, DType.FLOAT).text}"
            score = c.score(product, row, places[j, e])
            inside = within(keys[j, e], a.keys)
            scores[j, e] = w.define("f32", f"{inside} ? {score} : {LOWEST}" if inside else score)
        top = w.variable("f32", LOWEST, "h")
        for score in scores.values():
            w.line(f"{top} = fmax({top}, {score});")
        self.own.across(top, "fmax({}, {})")
        factor, base = grown(w, self.own.tops[half], [top])
        w.line(f"{self.own.totals[half]} *= {factor};")
        self.own.rescale(half, factor)
        for j in range(_KEYS // COLUMNS):
            powers = [w.define("f32", f"FAST_EXP({scores[j, e]} - {base})", "e") for e in range(2)]
            w.line(f"{self.own.totals[half]} += {powers[0]} + {powers[1]};")
            pair = powers
            if not self.plain:
                pair = [c.weight(power, row, places[j, e]) for e, power in enumerate(powers)]
            w.line(f"h[{j * 2 + half}] = pack_{self.type}({pair[0]}, {pair[1]});")

    def _add_values(self) -> None:
        """Add the weighted values of the tile."""
        w, tiles = self.w, self.wide // COLUMNS
        w.line("UNROLL")
        with w.block(f"for (i32 k = 0; k < {_KEYS // TERMS}; ++k)"):
            w.line(f"u32 b[{tiles * 2}];")
            values = read(self.v, Index(), self.lane, "b", w)
            w.line(f"UNROLL for (i32 i = 0; i < {tiles // 2}; ++i) {values};")
            w.line(f"UNROLL for (i32 j = 0; j < {tiles}; ++j)")
            w.line(f"  multiply_{self.type}(o + j * 4, h + k * 4, b + j * 2);")
