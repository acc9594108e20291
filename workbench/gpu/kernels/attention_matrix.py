"""Attention on matrix units: a warp keeps 16 queries, and a block loops over tiles of keys, loaded ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.compare import Where
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.pointwise import Mul
from workbench.compiler.rewrite import behind_broadcasts
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.emit.scalar import Scalar, number
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.kernels.attention_parts import (
    LOWEST,
    Context,
    clamped,
    grown,
    operands,
    within,
)
from workbench.gpu.kernels.attention_pattern import Attention, lies_along
from workbench.gpu.kernels.contraction import source_of
from workbench.gpu.kernels.kernel import Builder, Launch
from workbench.gpu.kernels.matrix_tiles import (
    CHUNK,
    COLUMNS,
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

_FLOATS = (DType.FLOAT, *TYPES)

_PACK = """\
DEVICE u32 pack_{type}(f32 low, f32 high) {{
  u32 both;
  asm("cvt.rn.{type}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}}
"""


def suits(a: Attention) -> bool:
    """Whether the operands are all half, or all bfloat16, and short enough."""
    types = {i.shape.type for i in (*a.first.inputs, *a.second.inputs)}
    return len(types) == 1 and types <= set(TYPES) and max(a.depth, a.width) <= _DEEPEST


def on_matrix_units(lowering: Lowering, a: Attention) -> Launch:
    """The kernel that computes attention."""
    given, outputs = operands(lowering, a), lowering.outputs(a.group)
    b = Builder(lowering.dialect, "attention", [*(p for _, p in given.places), *outputs])
    given.bind(b)
    targets = [b.memory(p, writes=True) for p in outputs]
    warps = next((n for n in _WARPS if _blocks(a, n) >= _ENOUGH), _WARPS[-1])
    blocks = _blocks(a, warps)
    block = Index.of(Variable(b.w.define(b.w.integer_type, "GROUP(0)", "g"), 0, blocks - 1))
    batch, number = block.divmod(-(-a.rows // (warps * ROWS)), b.w)
    context = Context(b, a, targets, split(batch, a.batch, b.w))
    _Kernel(context, warps, number * (warps * ROWS)).write()
    return b.launch(blocks, warps * WARP)


def _unscaled(operand: Instruction) -> tuple[Instruction, float]:
    """An operand without multiplications by constants, and their product; 1 if there are none."""
    value, factor = operand, 1.0
    given: dict[Instruction, Instruction] = {}
    while True:
        if value in given:
            value = given[value]
        elif isinstance(value.op, PointwiseModule) and len(value.modules[0].outputs) == 1:
            body = value.modules[0]
            parameters = [body.parameters[name] for name in sorted(body.parameters)]
            given.update(zip(parameters, value.inputs, strict=True))
            value = body.outputs[0]
        elif isinstance(value.op, Convert) and value.inputs[0].shape.type in _FLOATS:
            value = value.inputs[0]
        elif isinstance(value.op, Mul) and (found := _by_constant(value)) is not None:
            value, factor = found[0], factor * found[1]
        else:
            break
    same = (value.shape.type, value.shape.lens) == (operand.shape.type, operand.shape.lens)
    return (value, factor) if same else (operand, 1.0)


def _by_constant(product: Instruction) -> tuple[Instruction, float] | None:
    """The operand and the factor of a multiplication by a constant."""
    for x, y in (product.inputs, product.inputs[::-1]):
        literal = behind_broadcasts(y).literal
        if literal is not None and literal.numpy().size == 1:
            return x, float(literal.numpy().reshape(-1)[0])
    return None


def _is_plain(a: Attention) -> bool:
    """Whether the weights are the softmax but for conversions and guards against NaN.

    A row that has a NaN has only such weights; they are guarded when results are stored.
    """
    value = a.second.inputs[0]
    while value is not a.softmax:
        if isinstance(value.op, Where):
            value = value.inputs[2]
        elif isinstance(value.op, Convert):
            value = value.inputs[0]
        else:
            return False
    return True


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
    """

    def __init__(self, context: Context, warps: int, start: Index) -> None:
        self.c, self.a, self.w, self.t = context, context.a, context.w, context.t
        a, w = self.a, self.w
        self.type = TYPES[a.first.inputs[0].shape.type]
        self.start = start
        local = w.define(w.integer_type, "LOCAL(0)", "t")
        item = Index.of(Variable(local, 0, warps * WARP - 1))
        warp, self.lane = item.divmod(WARP, w)
        self.quad, self.pair = self.lane.divmod(QUAD, w)
        self.down = warp * ROWS
        self.places = [clamped(w, start + self.down + self.quad + 8 * h, a.rows) for h in range(2)]
        self.deep, self.wide = _padded(a.depth), max(_padded(a.width), 32)
        self.loader = Loader(context.b, warps * WARP, item)
        (q, k), v = a.first.inputs, a.second.inputs[1]
        (q, scale), (k, other) = _unscaled(q), _unscaled(k)
        self.scale = scale * other
        self.plain = _is_plain(a)
        queries = self._operand(q, 0, context.first, a.rows, a.depth)
        keys = self._operand(k, 1, context.first, a.keys, a.depth)
        values = self._operand(v, 1, context.batch, a.width, a.keys)
        self.q = Tile(queries, 0, warps * ROWS, self.deep, 0)
        self.k = Tile(keys, 1, _KEYS, self.deep, self.q.bytes)
        self.v = Tile(values, 1, self.wide, _KEYS, self.q.bytes + self.k.bytes)
        self.stage = self.k.bytes + self.v.bytes
        for words in (LOADS, multiply(q.shape.type), _PACK.format(type=self.type)):
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
        a, w, turns = self.a, self.w, -(-self.a.keys // _KEYS)
        stages = min(turns, 2)
        self.c.b.shared = self.q.bytes + stages * self.stage
        w.line("extern __shared__ ALIGN(128) u8 s[];")
        w.line("const u32 p = shared_place(s);")
        sums = self.wide // COLUMNS * 4
        w.line(f"f32 o[{sums}];")
        w.line(f"UNROLL for (i32 e = 0; e < {sums}; ++e) o[e] = 0;")
        self.tops = [w.variable("f32", LOWEST, "m") for _ in range(2)]
        self.totals = [w.variable("f32", "0.0f", "l") for _ in range(2)]
        with w.block(""):
            w.line("const u32 q = 0;")
            self.loader.fill(self.q, self.c.first, self.start, a.rows, Index(), a.depth)
        self._load(Index(), "0")
        with w.loop(turns, prefix="k") as turn:
            w.line("COPIES_WAIT(0);")
            w.line("BARRIER();")
            if turns > 1:
                self._load_next(turn, turns)
            w.line(f"const u32 q = p + {turn.text()} % {stages} * {self.stage};")
            self._products()
            self._softmax(turn * _KEYS)
            self._add_values()
        self._store()

    def _load(self, turn: Index, place: str) -> None:
        """Load a tile of keys and values into a stage."""
        a, w, key = self.a, self.w, turn * _KEYS
        with w.block(""):
            w.line(f"const u32 q = {place};")
            self.loader.fill(self.k, self.c.first, key, a.keys, Index(), a.depth)
            self.loader.fill(self.v, self.c.batch, Index(), a.width, key, a.keys)
        w.line("COPIES_END();")

    def _load_next(self, turn: Index, turns: int) -> None:
        w = self.w
        later = w.define(w.integer_type, (turn + 1).text(), "n")
        with w.block(f"if ({later} < {turns})"):
            self._load(Index.of(Variable(later, 1, turns - 1)), f"{later} % 2 * {self.stage}")

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
        a, w, c, row = self.a, self.w, self.c, self.places[half]
        cells = [(j, e) for j in range(_KEYS // COLUMNS) for e in range(2)]
        keys = {(j, e): key + j * COLUMNS + self.pair * 2 + e for j, e in cells}
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
        self._across(top, "fmax({}, {})")
        factor, base = grown(w, self.tops[half], [top])
        w.line(f"{self.totals[half]} *= {factor};")
        with w.loop(self.wide // COLUMNS, unroll=True) as j:
            for e in range(2):
                w.line(f"o[{(j * 4 + half * 2 + e).text()}] *= {factor};")
        for j in range(_KEYS // COLUMNS):
            powers = [w.define("f32", f"FAST_EXP({scores[j, e]} - {base})", "e") for e in range(2)]
            w.line(f"{self.totals[half]} += {powers[0]} + {powers[1]};")
            pair = powers
            if not self.plain:
                pair = [c.weight(power, row, places[j, e]) for e, power in enumerate(powers)]
            w.line(f"h[{j * 2 + half}] = pack_{self.type}({pair[0]}, {pair[1]});")

    def _across(self, name: str, joined: str) -> None:
        """Combine the numbers of the work items that share a row."""
        for step in (1, 2):
            self.w.line(f"{name} = {joined.format(name, f'SHUFFLE_XOR({name}, {step})')};")

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

    # Results

    def _store(self) -> None:
        """Store eight adjacent elements of a row at once if rows are that regular, else one by one."""
        a, w = self.a, self.w
        whole = a.width % CHUNK == 0
        tiles = QUAD if whole else 1
        if whole:
            exchange(w, "o", self.wide // COLUMNS, self.lane)
        for total in self.totals:
            self._across(total, "{} + {}")
        self.t.lanes = CHUNK if whole else 1
        for half, row in enumerate(self.places):
            inside = within(self.start + self.down + self.quad + 8 * half, a.rows) or "1"
            with w.block(f"if ({inside})"):
                self._store_row(row, half, tiles)
        self.t.lanes = 1

    def _store_row(self, row: Index, half: int, tiles: int) -> None:
        a, w, c = self.a, self.w, self.c
        done = c.finish(self.tops[half], self.totals[half])
        if c.has_row_results:
            with w.block(f"if ({self.pair.text()} == 0)"):
                c.rows(row, self.tops[half], done[0])
        for j in range(self.wide // (tiles * COLUMNS)):
            column = (self.pair * 2 + j * COLUMNS) * tiles
            size = tiles * 2
            names = [f"o[{j * tiles * 4 + e // 2 * 4 + e % 2 + half * 2}]" for e in range(size)]
            step = size if tiles > 1 else 1
            for e in range(0, size, step):
                with w.block(f"if ({within(column + e, a.width) or 1})"):
                    own = [clamped(w, column + e, a.width) + x for x in range(step)]
                    c.elements(row, own, names[e : e + step], done)
