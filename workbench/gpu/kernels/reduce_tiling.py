"""Tilings of reductions: the division of elements among work items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from workbench.compiler.ir.shape import Shape
from workbench.gpu.emit.index import Index, split
from workbench.gpu.emit.tensors import Indices
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.elementwise import memory_order
from workbench.gpu.kernels.kernel import BLOCK
from workbench.gpu.machine import Machine

KEPT = 32
"""Elements that a work item holds in registers from one stage to the next."""
_EACH = 16
"""Elements that a work item takes where there are work items enough."""
_FEW_ROWS = 512
_SPREAD = 256
"""Blocks that rows are spread over before a block takes several."""
_WIDEST = 8
"""Neighbours that a work item handles at once at most, of however small a type."""
_BLOCKS = 1024
"""Blocks that a split reduction aims at."""
_CPU_BLOCKS = 64
"""Blocks that keep a CPU's cores busy."""
_CPU_LEAST = 1 << 12
"""Elements of a part on a CPU at least."""
_AT_ONCE = 16
"""Partial results that a CPU's work item keeps: its vectors join them."""


@dataclass(frozen=True)
class Space:
    """The elements that are reduced: a row for each result, a column for each element of it."""

    lens: tuple[int, ...]
    kept: tuple[int, ...]
    """The axes that rows count, in the order in which they lie in memory."""
    reduced: tuple[int, ...]
    """The axes that columns count."""
    along: bool
    """Whether neighbours in memory belong to one row, and not to neighbouring rows."""

    @property
    def rows(self) -> int:
        """The number of results."""
        return prod(self.lens[a] for a in self.kept)

    @property
    def columns(self) -> int:
        """The number of elements per result."""
        return prod(self.lens[a] for a in self.reduced)

    @property
    def run(self) -> int:
        """The length of the innermost axis of those that neighbours lie along."""
        axes = self.reduced if self.along else self.kept
        return self.lens[axes[-1]] if axes else 1

    def index(self, row: Index, column: Index, w: Writer) -> Indices:
        """The index of an element."""
        place = [Index()] * len(self.lens)
        for axes, flat in ((self.kept, row), (self.reduced, column)):
            parts = split(flat, [self.lens[a] for a in axes], w)
            for axis, part in zip(axes, parts, strict=True) if axes else ():
                place[axis] = part if self.lens[axis] > 1 else Index()
        return tuple(place)


def space_of(lens: Sequence[int], axes: Sequence[int], largest: Shape) -> Space:
    """The space of a reduction along some axes, ordered as its largest operand lies in memory."""
    strides = largest.strides
    repeated = [a for a in range(len(lens)) if lens[a] > 1 and not strides[a]]
    order = [a for a in memory_order(largest) if lens[a] > 1 and strides[a]]
    reduced = tuple(a for a in (*repeated, *order) if a in axes)
    kept = tuple(a for a in (*repeated, *order) if a not in axes)
    return Space(tuple(lens), kept, reduced, along=not order or order[-1] in axes)


@dataclass(frozen=True)
class Tiling:
    """The tiling of a block: ``across`` groups of rows by ``lanes`` work items for each."""

    rows: int
    columns: int
    along: bool
    """Whether neighbouring work items take neighbouring columns, and not neighbouring rows."""
    lanes: int = 1
    """Work items that share a row."""
    across: int = 1
    """Rows, or groups of neighbouring rows, that a block handles."""
    row_vector: int = 1
    """Neighbouring rows that a work item handles."""
    column_vector: int = 1
    """Neighbouring columns that a work item takes at once."""
    parts: int = 1
    """Blocks that share a row."""

    @property
    def block(self) -> int:
        """Work items of a block."""
        return self.lanes * self.across

    @property
    def groups(self) -> int:
        """Groups of rows."""
        return self.rows // self.row_vector

    @property
    def blocks(self) -> int:
        """Blocks along the rows."""
        return -(-self.groups // self.across)

    @property
    def chunks(self) -> int:
        """Whole vectors of columns of a row."""
        return self.columns // self.column_vector

    @property
    def each(self) -> int:
        """Vectors of columns that a work item takes, where it takes most."""
        return -(-self.chunks // (self.lanes * self.parts))

    @property
    def at_once(self) -> int:
        """Vectors of columns that a turn of a work item's loop takes, so that their loads overlap."""
        if self.chunks % (self.each * self.lanes * self.parts):
            return 1
        fits = self.row_vector * self.column_vector
        return next(n for n in (4, 2, 1) if self.each % n == 0 and fits * n <= max(_EACH, fits))

    @property
    def is_kept(self) -> bool:
        """Whether a work item's elements fit its registers, so that each is read once."""
        return self.parts == 1 and self.each * self.row_vector * self.column_vector <= KEPT


def tiling_of(
    rows: int, columns: int, along: bool, run: int, size: int, machine: Machine, passes: int = 1
) -> Tiling:
    """The tiling of a reduction.

    Args:
        rows: Results.
        columns: Elements that become one.
        along: Whether neighbours in memory belong to one row.
        run: Neighbours in memory that one index counts.
        size: Bytes of an element.
        machine: What the kernel runs on.
        passes: How often elements are gone through: by each reduction, and to store them.
    """
    start = Tiling(rows, columns, along)
    if machine.is_cpu:
        return _along_on_cpu(start, passes) if along else _across_on_cpu(start, run)
    widest = max(min(machine.access // size, _WIDEST), 1)
    while run % widest:
        widest //= 2
    return _along(start, widest, machine) if along else _across(start, widest, machine)


def _along_on_cpu(t: Tiling, passes: int) -> Tiling:
    """A row is one work item's, whose neighbouring elements vectors hold; barriers cost a CPU much.

    What is gone through more than once is shared, so that elements need not be computed again.
    """
    if t.columns <= KEPT:
        return replace(t, across=_power_of_two(min(16, -(-t.rows // _CPU_BLOCKS))))
    if passes > 1 and t.columns <= KEPT * BLOCK:
        return replace(t, lanes=_power_of_two(-(-t.columns // KEPT)))
    across = _power_of_two(min(16, -(-t.rows // _CPU_BLOCKS)))
    return replace(t, across=across, column_vector=_AT_ONCE)


def _across_on_cpu(t: Tiling, run: int) -> Tiling:
    """A work item takes as many neighbouring rows as vectors hold."""
    vector = next(v for v in (_AT_ONCE, 8, 4, 2, 1) if run % v == 0)
    while vector > 1 and vector * t.columns > KEPT and t.rows < 2 * vector:
        vector //= 2
    across = min(16, -(-t.rows // vector // _CPU_BLOCKS))
    return replace(t, across=_power_of_two(across), row_vector=vector)


def _along(t: Tiling, vector: int, machine: Machine) -> Tiling:
    """Neighbouring work items take neighbouring columns; a row has as many of them as it needs."""
    chunks = t.columns // vector
    most = BLOCK if t.rows >= _FEW_ROWS else machine.threads
    lanes = min(most, _power_of_two(chunks))
    while lanes > 1 and t.rows * lanes > machine.busy and _may_halve(chunks, lanes, vector):
        lanes //= 2
    across = max(1, min(BLOCK // lanes, t.rows // _SPREAD), machine.warp // lanes)
    return replace(t, lanes=lanes, across=_power_of_two(across), column_vector=vector)


def _may_halve(chunks: int, lanes: int, vector: int) -> bool:
    """Whether a row's work items can do with half as many: so few elements each, or none idle."""
    each = -(-chunks * 2 // lanes) * vector
    return each <= _EACH or (each <= KEPT and chunks % lanes > 0 and chunks % (lanes // 2) == 0)


def _across(t: Tiling, vector: int, machine: Machine) -> Tiling:
    """Neighbouring work items take neighbouring rows; lanes share the columns where rows are few."""
    while vector > 1 and t.rows // vector * -(-t.columns // 4) < machine.busy:
        vector //= 2
    groups, lanes = t.rows // vector, 1
    while (
        lanes < 32 // (1 + (vector == 1))
        and groups * lanes < machine.busy
        and t.columns >= lanes * 8
    ):
        lanes *= 2
    across = max(min(BLOCK // lanes, _power_of_two(groups)), machine.warp // lanes, 1)
    return replace(t, lanes=lanes, across=across, row_vector=vector)


def parts_for(t: Tiling, machine: Machine) -> Tiling:
    """The tiling with rows shared among blocks, where there are too few blocks otherwise."""
    aim, least = (_CPU_BLOCKS, _CPU_LEAST) if machine.is_cpu else (_BLOCKS, KEPT)
    shared = replace(t, lanes=min(t.lanes, BLOCK))
    if t.blocks * 4 > aim or shared.each * t.column_vector < 2 * least:
        return t
    return replace(shared, parts=min(aim // t.blocks, shared.each * t.column_vector // least))


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()
