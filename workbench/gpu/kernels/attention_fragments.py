"""Fragments of attention on matrix units: a work item has parts of two rows of scores, and of results."""

from __future__ import annotations

from workbench.gpu.emit.index import Index
from workbench.gpu.kernels.attention_parts import LOWEST, Context, clamped, within
from workbench.gpu.kernels.kernel import Builder
from workbench.gpu.kernels.matrix_tiles import CHUNK, COLUMNS, QUAD, exchange

PACK = """\
DEVICE u32 pack_{type}(f32 low, f32 high) {{
  u32 both;
  asm("cvt.rn.{type}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}}
"""


class Fragments:
    """The rows of a work item: their greatest scores, their sums of exponentials, and their results.

    Args:
        b: The kernel.
        lane: The number of the work item in its warp.
        wide: Columns of the results, a multiple of 32; a work item has a quarter of two rows of each 8.
    """

    def __init__(self, b: Builder, lane: Index, wide: int) -> None:
        """Compute the place of the work item in its warp."""
        self.w, self.t, self.lane, self.wide = b.w, b.tensors, lane, wide
        self.quad, self.pair = lane.divmod(QUAD, b.w)

    def begin(self, context: Context, first: Index) -> None:
        """Begin with rows of which nothing is known yet; the warp has 16 from the first one on."""
        self.c, self.a = context, context.a
        self.rows = [first + self.quad + 8 * half for half in range(2)]
        self.places = [clamped(self.w, row, self.a.rows) for row in self.rows]
        self.tops = [self.w.variable("f32", LOWEST, "m") for _ in range(2)]
        self.totals = [self.w.variable("f32", "0.0f", "l") for _ in range(2)]

    def across(self, name: str, joined: str) -> None:
        """Combine the numbers of the work items that share a row."""
        for step in (1, 2):
            self.w.line(f"{name} = {joined.format(name, f'SHUFFLE_XOR({name}, {step})')};")

    def rescale(self, half: int, factor: str) -> None:
        """Multiply the weighted values of a row so far."""
        with self.w.loop(self.wide // COLUMNS, unroll=True) as j:
            for e in range(2):
                self.w.line(f"o[{(j * 4 + half * 2 + e).text()}] *= {factor};")

    def store(self, unit: float = 1.0) -> None:
        """Store eight adjacent elements of a row at once if rows are that regular, else one by one.

        Args:
            unit: The number by which the greatest scores are still to be multiplied.
        """
        a, w = self.a, self.w
        whole = a.width % CHUNK == 0
        tiles = QUAD if whole else 1
        if whole:
            exchange(w, "o", self.wide // COLUMNS, self.lane)
        for total in self.totals:
            self.across(total, "{} + {}")
        self.t.lanes = CHUNK if whole else 1
        for half, row in enumerate(self.places):
            with w.block(f"if ({within(self.rows[half], a.rows) or 1})"):
                self._store_row(row, half, tiles, unit)
        self.t.lanes = 1

    def _store_row(self, row: Index, half: int, tiles: int, unit: float) -> None:
        a, w, c = self.a, self.w, self.c
        done = c.finish(self.tops[half], self.totals[half])
        if c.has_row_results:
            top = self.tops[half] if unit == 1.0 else f"{self.tops[half]} * {unit!r}f"
            with w.block(f"if ({self.pair.text()} == 0)"):
                c.rows(row, top, done[0])
        for j in range(self.wide // (tiles * COLUMNS)):
            column = (self.pair * 2 + j * COLUMNS) * tiles
            size = tiles * 2
            names = [f"o[{j * tiles * 4 + e // 2 * 4 + e % 2 + half * 2}]" for e in range(size)]
            step = size if tiles > 1 else 1
            for e in range(0, size, step):
                with w.block(f"if ({within(column + e, a.width) or 1})"):
                    own = [clamped(w, column + e, a.width) + x for x in range(step)]
                    c.elements(row, own, names[e : e + step], done)
