"""Tilings of reductions: the division of their elements among work items."""

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
"""Most elements that a work item keeps in registers from one stage to the next, by default."""
_EACH = 16
"""Elements per work item if there are enough work items."""
_OFFERS = (32, 16, 64, 128)
"""The same where elements are read once for several stages; the first is used unless another is chosen.

With more elements, more loads are under way and fewer work items wait for each other.
"""
_FEW_ROWS = 512
_SPREAD = 256
"""Number of blocks that rows are spread over before a block gets several rows."""
_WIDEST = 8
"""Most adjacent elements that a work item handles at once, however small their type."""
_BLOCKS = 1024
"""Number of blocks that a split reduction aims at."""
_CPU_BLOCKS = 64
"""Number of blocks that keep a CPU's cores busy."""
_CPU_LEAST = 1 << 12
"""Least number of elements of a part on a CPU."""
_AT_ONCE = 16
"""Partial results that a CPU's work item keeps, so that the loop vectorizes."""


@dataclass(frozen=True)
class Space:
    """The elements that are reduced: a row per result, a column per element that is folded into it."""

    lens: tuple[int, ...]
    kept: tuple[int, ...]
    """The axes that rows enumerate, in their order in memory."""
    reduced: tuple[int, ...]
    """The axes that columns enumerate."""
    along: bool
    """Whether elements adjacent in memory belong to one row, not to adjacent rows."""

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
        """The length of the innermost axis of the rows or columns, whichever is contiguous."""
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
    """The space of a reduction along some axes, in the memory order of its largest operand."""
    strides = largest.strides
    repeated = [a for a in range(len(lens)) if lens[a] > 1 and not strides[a]]
    order = [a for a in memory_order(largest) if lens[a] > 1 and strides[a]]
    reduced = tuple(a for a in (*repeated, *order) if a in axes)
    kept = tuple(a for a in (*repeated, *order) if a not in axes)
    return Space(tuple(lens), kept, reduced, along=not order or order[-1] in axes)


@dataclass(frozen=True)
class Tiling:
    """The tiling of a block: ``across`` groups of rows, with ``lanes`` work items each."""

    rows: int
    columns: int
    along: bool
    """Whether adjacent work items take adjacent columns, not adjacent rows."""
    lanes: int = 1
    """Work items that share a row."""
    across: int = 1
    """Rows, or groups of adjacent rows, per block."""
    row_vector: int = 1
    """Adjacent rows per work item."""
    column_vector: int = 1
    """Adjacent columns that a work item handles at once."""
    parts: int = 1
    """Blocks that a row is split among."""
    kept: int = KEPT
    """Most elements that a work item keeps in registers."""

    def __str__(self) -> str:
        """The numbers of work items and of rows, by which tilings of one reduction differ."""
        return f"{self.lanes} work items a row, {self.across * self.row_vector} rows a block"

    @property
    def block(self) -> int:
        """Work items of a block."""
        return self.lanes * self.across

    @property
    def groups(self) -> int:
        """The number of groups of rows."""
        return self.rows // self.row_vector

    @property
    def blocks(self) -> int:
        """Blocks along the rows."""
        return -(-self.groups // self.across)

    @property
    def chunks(self) -> int:
        """Whole vectors of columns per row."""
        return self.columns // self.column_vector

    @property
    def each(self) -> int:
        """The most vectors of columns that a work item has."""
        return -(-self.chunks // (self.lanes * self.parts))

    @property
    def at_once(self) -> int:
        """Vectors of columns per iteration of a work item's loop, so that their loads overlap."""
        if self.chunks % (self.each * self.lanes * self.parts):
            return 1
        fits = self.row_vector * self.column_vector
        return next(n for n in (4, 2, 1) if self.each % n == 0 and fits * n <= max(_EACH, fits))

    @property
    def is_kept(self) -> bool:
        """Whether a work item's elements fit in its registers, so that each is read once."""
        return self.parts == 1 and self.each * self.row_vector * self.column_vector <= self.kept


def tiling_of(
    rows: int, columns: int, along: bool, run: int, size: int, machine: Machine, passes: int = 1
) -> Tiling:
    """The tiling of a reduction.

    Args:
        rows: The number of results.
        columns: The number of elements per result.
        along: Whether elements adjacent in memory belong to one row.
        run: The length of the contiguous axis.
        size: Bytes of an element.
        machine: The machine that the kernel runs on.
        passes: The number of passes over the elements: one per reduction, and one to store them.
    """
    start = Tiling(rows, columns, along)
    if machine.is_cpu:
        return _along_on_cpu(start, passes) if along else _across_on_cpu(start, run)
    widest = max(min(machine.access // size, _WIDEST), 1)
    while run % widest:
        widest //= 2
    return _along(start, widest, machine) if along else _across(start, widest, machine)


def tilings_of(
    rows: int, columns: int, along: bool, run: int, size: int, machine: Machine, passes: int = 1
) -> list[Tiling]:
    """The tilings of a reduction to choose from; the arguments are those of ``tiling_of``."""
    first = tiling_of(rows, columns, along, run, size, machine, passes)
    if machine.is_cpu or not along or passes == 1 or not first.is_kept:
        return [first]
    start, found, order = Tiling(rows, columns, along), {first.lanes: first}, list[int]()
    for each in _OFFERS:
        made = _along(start, first.column_vector, machine, each)
        if made.is_kept and made.lanes >= machine.warp:
            found.setdefault(made.lanes, made)
            order.append(made.lanes)
    return [found[lanes] for lanes in dict.fromkeys((*order, first.lanes))]


def _along_on_cpu(t: Tiling, passes: int) -> Tiling:
    """One work item per row, vectorized along the row, because barriers are expensive on a CPU.

    With more than one pass, work items share rows, so that elements are kept and not recomputed.
    """
    if t.columns <= KEPT:
        return replace(t, across=_power_of_two(min(16, -(-t.rows // _CPU_BLOCKS))))
    if passes > 1 and t.columns <= KEPT * BLOCK:
        return replace(t, lanes=_power_of_two(-(-t.columns // KEPT)))
    across = _power_of_two(min(16, -(-t.rows // _CPU_BLOCKS)))
    return replace(t, across=across, column_vector=_AT_ONCE)


def _across_on_cpu(t: Tiling, run: int) -> Tiling:
    """Each work item takes as many adjacent rows as a vector holds."""
    vector = next(v for v in (_AT_ONCE, 8, 4, 2, 1) if run % v == 0)
    while vector > 1 and vector * t.columns > KEPT and t.rows < 2 * vector:
        vector //= 2
    across = min(16, -(-t.rows // vector // _CPU_BLOCKS))
    return replace(t, across=_power_of_two(across), row_vector=vector)


def _along(t: Tiling, vector: int, machine: Machine, most_each: int = _EACH) -> Tiling:
    """Adjacent work items take adjacent columns; a row has as many work items as it needs."""
    chunks = t.columns // vector
    most = BLOCK if t.rows >= _FEW_ROWS else machine.threads
    lanes = min(most, _power_of_two(chunks))
    while (
        lanes > 1 and t.rows * lanes > machine.busy and _may_halve(chunks, lanes, vector, most_each)
    ):
        lanes //= 2
    across = max(1, min(BLOCK // lanes, t.rows // _SPREAD), machine.warp // lanes)
    if most_each > _EACH:  # other rows do not wait at this row's barriers
        across = max(1, BLOCK // 2 // lanes if lanes <= machine.warp else 1)
    kept = max(KEPT, most_each)
    return replace(t, lanes=lanes, across=_power_of_two(across), column_vector=vector, kept=kept)


def _may_halve(chunks: int, lanes: int, vector: int, most_each: int) -> bool:
    """Whether half as many work items suffice for a row: they have few elements, or some would be idle."""
    each = -(-chunks * 2 // lanes) * vector
    return each <= most_each or (each <= KEPT and chunks % lanes > 0 and chunks % (lanes // 2) == 0)


def _across(t: Tiling, vector: int, machine: Machine) -> Tiling:
    """Adjacent work items take adjacent rows; if rows are few, lanes share the columns."""
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
    """The tiling, with rows split among blocks if there are too few blocks otherwise."""
    aim, least = (_CPU_BLOCKS, _CPU_LEAST) if machine.is_cpu else (_BLOCKS, KEPT)
    shared = replace(t, lanes=min(t.lanes, BLOCK))
    if t.blocks * 4 > aim or shared.each * t.column_vector < 2 * least:
        return t
    return replace(shared, parts=min(aim // t.blocks, shared.each * t.column_vector // least))


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()
