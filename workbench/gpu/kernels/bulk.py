"""The kernel of a product on Hopper GPUs whose operands are in memory: a warp has the copy engine load tiles.

The other warps only multiply and store. Barriers in shared memory say which stages are loaded, and which are
free again. A block goes on to further parts of the product, whose first stages are loaded while it stores.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.tensors import Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import NEXT, ORDER, Builder
from workbench.gpu.kernels.matrix import UNITS, Blocking
from workbench.gpu.kernels.matrix_tiles import CHUNK, COPIES, WARP
from workbench.gpu.kernels.product import Operand, Product, Store
from workbench.gpu.kernels.sources import bind_named, sources
from workbench.gpu.kernels.warpgroup import ALIGN, DEPTH, Warpgroup

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

FEW_REGISTERS, MANY_REGISTERS = 24, 240
"""Registers of a work item that loads, and of one that multiplies, if eight warps multiply and four load."""
_MOST_SUMS = 128
"""Sums of a work item for which the registers that every one has are enough."""
BARRIER = 8
"""Bytes of a barrier."""
MOST_AXES = 5

BULK_WORDS = """\
struct __align__(64) TileMap { u64 words[16]; };
#define TILE_MAP(name) const __grid_constant__ TileMap name
DEVICE bool elected() {
  u32 r;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(r));
  return r;
}
#define LOADING(warp, last) if ((warp) == (last) && elected())
#define MULTIPLYING(warp, last) if ((warp) < (last))
#define OWN_TURN(turn, teams, team) if ((turn) % (teams) == (team))
#define HANDOVER()
#define REGISTERS(way, n) asm volatile("setmaxnreg." #way ".sync.aligned.u32 %0;" :: "n"(n))
DEVICE void barrier_make(u32 at, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(count) : "memory");
}
DEVICE void barriers_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void barrier_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory");
}
DEVICE void barrier_wait(u32 at, u32 parity) {
  u32 done;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
    " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory"); while (!done);
}
DEVICE void barrier_arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
}
DEVICE void map_needed(const TileMap *map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
"""
"""Barriers (PTX ISA, the section on ``mbarrier``)."""


def copy_function(rank: int) -> str:
    """The function that begins the copy of a tile of a tensor of some axes."""
    numbers = [f"c{k}" for k in range(rank)]
    given = ", ".join(f"i32 {n}" for n in numbers)
    places = ", ".join(f"%{k + 3}" for k in range(rank))
    bound = ", ".join(f'"r"({n})' for n in numbers)
    way = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    return (
        f"DEVICE void copy_tile_{rank}(u32 to, const TileMap *map, u32 barrier, {given}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.{way} [%0], [%1, {{{places}}}], [%2];"\n'
        f'    :: "r"(to), "l"(map), "r"(barrier), {bound} : "memory");\n}}\n'
    )


@dataclass(frozen=True)
class Plain:
    """An operand in memory: its pointer and the strides of its axes."""

    pointer: str
    offset: int
    batch: tuple[int, ...]
    own: int
    terms: int


@dataclass(frozen=True)
class _Mapped:
    """An operand as the kernel loads it."""

    name: str
    """The map's name."""
    batch: tuple[int, ...]
    """The axes of the batch that it has."""
    wide: int
    """Rows or columns of one copy."""
    constant: bool
    """Whether it is a constant of the program, which no kernel writes."""


def plain(
    operand: Operand, lens: tuple[int, ...], own: int, terms: int, t: Tensors
) -> Plain | None:
    """An operand as the copy engine can load it; None if it is computed, or not so regular.

    Args:
        operand: The operand.
        lens: The lengths of the batch's axes.
        own: The number of rows or columns.
        terms: The number of terms.
        t: Its sources are bound to memory there.
    """
    names = [f"batch{a}" for a in range(len(lens))]
    batch = tuple(Index.of(Variable(n, 0, size - 1)) for n, size in zip(names, lens, strict=True))
    ends = (Index.of(Variable("own", 0, own - 1)), Index.of(Variable("terms", 0, terms - 1)))
    found = None if operand.address is None else operand.address(t, batch, *ends)
    if found is None or found.inside != "1":
        return None
    strides = {v.name: k for v, k in found.offset.terms}
    if not strides.keys() <= {*names, "own", "terms"}:
        return None
    of = [strides.get(n, 0) for n in (*names, "own", "terms")]
    one = Plain(found.pointer, found.offset.constant, tuple(of[:-2]), of[-2], of[-1])
    near, far = (one.terms, one.own) if operand.along_k else (one.own, one.terms)
    steps = [one.offset, far, *one.batch]
    regular = near == 1 and far > 0 and not any(k % CHUNK for k in steps)
    return one if regular and 2 + sum(map(bool, one.batch)) <= MOST_AXES else None


def suits(lowering: Lowering, product: Product) -> bool:
    """Whether the copy engine can load both operands."""
    t = Tensors(Writer())
    bind_named(t, sources(lowering, product.heart.inputs))
    return all(plain(o, product.lens, n, product.k, t) is not None for o, n in _operands(product))


def _operands(product: Product) -> tuple[tuple[Operand, int], tuple[Operand, int]]:
    return (product.a, product.m), (product.b, product.n)


class Bulk(Warpgroup):
    """Writes the kernel."""

    @property
    def idle(self) -> int:
        """Work items that do not multiply: four warps where these can leave registers to the others."""
        return WARP * 4 if self._has_many_sums else WARP

    @property
    def _has_many_sums(self) -> bool:
        return self.cut.height * self.cut.width // (4 * WARP) > _MOST_SUMS

    def __init__(self, b: Builder, product: Product, blocking: Blocking, parts: int = 1) -> None:
        """Begin the kernel."""
        b.matrix = True
        super().__init__(b, product, blocking, parts)
        self.last = blocking.threads // WARP
        """Warps that multiply."""
        self.grid = min(self.blocks, UNITS * blocking.resident)
        self.maps = [self._map(side) for side in range(2)]

    def _place_block(self, number: str) -> None:
        """The number of the block is not that of its first part only."""
        self.block = number

    def _place_warp(self, warp: Index) -> None:
        """Compute the team of the warp, and its first row in the team's part."""
        group, part = warp.divmod(4, self.w)
        high = self.cut.rows // self.cut.height
        self.team, group = group.divmod(high, self.w)
        self.group = group * self.cut.height
        self.down, self.along = self.group + part * 16, Index()

    def _need(self) -> None:
        super()._need()
        self.w.need(COPIES)
        self.w.need(BULK_WORDS)

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w = self.w
        self._allocate()
        self._make_barriers()
        warp = self.local.divmod(WARP, w)[0].text()
        if self._has_many_sums:
            w.line(f"if ({warp} >= {self.last}) REGISTERS(dec, {FEW_REGISTERS});")
        with w.block(f"LOADING({warp}, {self.last})"):
            self._load_all()
        w.line("HANDOVER();")
        with w.block(f"MULTIPLYING({warp}, {self.last})"):
            w.line(ORDER)
            if self._has_many_sums:
                w.line(f"REGISTERS(inc, {MANY_REGISTERS});")
            self._multiply_all(store)
        return self.grid

    def _make_barriers(self) -> None:
        """Make barriers: each stage has one for being loaded and one for being free, each team one."""
        w, stages, teams = self.w, self.stages, self.cut.teams
        self.b.shared += (2 * stages + teams) * BARRIER
        space = stages * self.cut.stage
        w.line(f"const u32 full = p + {space}, empty = full + {stages * BARRIER};")
        w.line(f"const u32 order = empty + {stages * BARRIER};")
        with w.block(f"if ({self.local.text()} == 0)"):
            w.line(f"for (i32 i = 0; i < {stages}; ++i) barrier_make(full + i * {BARRIER}, 1);")
            with w.block(f"for (i32 i = 0; i < {stages + teams}; ++i)"):
                w.line(f"barrier_make(empty + i * {BARRIER}, {self.last // teams});")
            w.line("barriers_made();")
        w.line("BARRIER();")

    def _room(self, floats: int) -> str:
        """Memory beside the stages."""
        place = -(-self.b.shared // 16) * 16
        self.b.shared = place + self.last * floats * 4
        return f"(f32 *)(s + {place - ALIGN})"

    @contextmanager
    def _parts(self) -> Generator[str]:
        """A loop over the block's parts of the product; yields the number of stages before the part."""
        w = self.w
        name, done = w.name("n"), w.variable("u32", "0", "d")
        head = f"{w.integer_type} {name} = {self.block}; {name} < {self.blocks}"
        with w.block(f"for ({head}; {name} += {self.grid}, {done} += {self.steps})"):
            super()._place_block(name)
            yield done

    def _load_all(self) -> None:
        """Load each stage when it is free."""
        w = self.w
        for one in self.maps:
            w.line(f"map_needed(&{one.name});")
        early = [side for side, one in enumerate(self.maps) if one.constant]
        ahead = self._load_early(early) if early else 0
        w.line(ORDER)
        place, turn = w.variable("u32", "0", "s"), w.variable("u32", "1", "s")
        with self._parts() as done, w.loop(self.steps) as step:
            number = w.define("u32", f"{done} + {step.text()}", "s")
            w.line(f"const u32 ready = full + {place} * {BARRIER};")
            with w.block(f"if ({number} >= {ahead})" if ahead else ""):
                w.line(f"if ({number} >= {self.stages})")
                w.line(f"  barrier_wait(empty + {place} * {BARRIER}, {turn});")
                w.line(f"barrier_expect(ready, {self.cut.stage});")
                for side in early:
                    self._load(side, place, step)
            for side in range(2):
                if side not in early:
                    self._load(side, place, step)
            self._go_on(place, turn)
        w.line(NEXT)

    def _go_on(self, place: str, turn: str) -> None:
        """Go on to the next stage: a division would take longer than the rest of the loop."""
        self.w.line(f"if (++{place} == {self.stages}) {{ {place} = 0; {turn} ^= 1; }}")

    def _load_early(self, sides: Sequence[int]) -> int:
        """Begin to load constants for the first stages, whatever the kernels before this one still do.

        Returns:
            The number of stages.
        """
        w, ahead = self.w, min(self.stages, self.steps)
        with w.block(""):
            super()._place_block(self.block)
            with w.loop(ahead) as step:
                w.line(f"const u32 ready = full + {step.text()} * {BARRIER};")
                w.line(f"barrier_expect(ready, {self.cut.stage});")
                for side in sides:
                    self._load(side, step.text(), step)
        return ahead

    def _load(self, side: int, place: str, step: Index) -> None:
        """Begin to load a tile of an operand, whose rows are lines of 128 bytes, for a step into a stage."""
        w, tile, one = self.w, self.tiles[side], self.maps[side]
        start = (self.row, self.column)[side]
        k = (self.part * self.steps + step) * self.cut.depth
        to = f"p + {place} * {self.cut.stage}"
        for begin in range(0, tile.span, one.wide):
            there = f"{to} + {tile.first + begin * DEPTH * tile.size}"
            ends = [k, start + begin]
            near, far = ends if tile.operand.along_k else ends[::-1]
            at = (near, far, *(self.batch[a] for a in reversed(one.batch)))
            w.need(copy_function(len(at)))
            w.line(
                f"copy_tile_{len(at)}({there}, &{one.name}, ready, {', '.join(i.text() for i in at)});"
            )

    def _map(self, side: int) -> _Mapped:
        """The map of an operand."""
        product, tile = self.product, self.tiles[side]
        operand, length = _operands(product)[side]
        one = plain(operand, product.lens, length, product.k, self.b.tensors)
        assert one is not None
        batch = tuple(a for a, stride in enumerate(one.batch) if stride and product.lens[a] > 1)
        ends = [(length, one.own), (product.k, one.terms)]
        axes = [(product.lens[a], one.batch[a]) for a in batch]
        axes += ends if operand.along_k else ends[::-1]
        wide = tile.span if operand.along_k else DEPTH
        box = [1] * len(batch) + ([wide, DEPTH] if operand.along_k else [DEPTH, wide])
        name = self.b.tile_map(one.pointer, one.offset, axes, box)
        return _Mapped(name, batch, wide, self.b.root(one.pointer).kind == "literal")

    def _multiply_all(self, store: Store) -> None:
        """Multiply and store the team's parts of the product."""
        w, count, teams = self.w, self.high * self.wide * 4, self.cut.teams
        w.line(f"f32 r[{count}];")
        with self._parts() as done:
            turn = w.define("u32", f"{done} / {self.steps}", "u")
            with w.block(f"OWN_TURN({turn}, {teams}, {self.team.text()})" if teams > 1 else ""):
                w.line(f"UNROLL for (i32 e = 0; e < {count}; ++e) r[e] = 0;")
                self._multiply_stages(done, turn)
                self._store(store)

    def _multiply_stages(self, done: str, turn: str) -> None:
        """Multiply each stage when it is loaded; the one before it is free when its products are done.

        Teams take turns, as a wait cannot tell a stage from the one that is loaded into its place later.
        """
        w, stages, teams = self.w, self.stages, self.cut.teams
        if teams > 1:
            mine = f"order + {self.team.text()} * {BARRIER}"
            w.line(f"if ({turn}) barrier_wait({mine}, ({turn} - 1) / {teams} & 1);")
        place = w.variable("u32", f"{done} % {stages}", "s")
        loads = w.variable("u32", f"{done} / {stages} & 1", "s")
        last = f"empty + ({place} ? {place} - 1 : {stages - 1}) * {BARRIER}"
        with w.loop(self.steps) as step:
            w.line(f"barrier_wait(full + {place} * {BARRIER}, {loads});")
            self._multiply(f"{place} * {self.cut.stage}")
            w.line("WAIT(1);")
            self._arrive(f"{step.text()} && ", last)
            self._go_on(place, loads)
        if teams > 1:
            self._arrive("", f"order + ({self.team.text()} + 1) % {teams} * {BARRIER}")
        w.line("WAIT(0);")
        self._arrive("", last)

    def _arrive(self, condition: str, barrier: str) -> None:
        """Count the warp at a barrier."""
        self.w.line(f"if ({condition}{self.lane.text()} == 0) barrier_arrive({barrier});")


def _blocking(
    rows: int, columns: int, time: float, stages: int, start: float, teams: int = 2
) -> Blocking:
    high = 64 if teams == 1 else rows
    return Blocking(
        rows, columns, DEPTH, high, columns, 1, time, stages, 4, start=start, bulk=True, teams=teams
    )


BLOCKINGS = (
    _blocking(128, 256, 0.64, 4, 3.4, teams=1), _blocking(128, 192, 0.53, 5, 2.4, teams=1),
    _blocking(192, 192, 0.86, 4, 2.3, teams=1),
    _blocking(128, 192, 0.56, 5, 0.7), _blocking(128, 128, 0.36, 6, 0.7),
    _blocking(64, 256, 0.36, 5, 0.9), _blocking(64, 192, 0.29, 6, 0.7),
    _blocking(64, 128, 0.20, 8, 0.4), _blocking(64, 64, 0.16, 8, 0.1),
)  # fmt: skip


def blockings_for(product: Product) -> list[Blocking]:
    """The blockings whose columns fill lines, if the second operand's columns are contiguous."""
    turned = not product.b.along_k
    return [one for one in BLOCKINGS if not turned or not one.columns % DEPTH]
