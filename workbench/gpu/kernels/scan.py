"""Kernels of scans (running sums and products) along an axis, and of nonzero, which scans counts."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.accumulate import sum_type
from workbench.compiler.ops.reduce import SUM
from workbench.compiler.ops.scan import PrefixScanProd, PrefixScanSum
from workbench.compiler.ops.select import NonZero
from workbench.gpu.emit.choices import axis_of
from workbench.gpu.emit.index import Index, Variable, linear, split
from workbench.gpu.emit.scalar import Scalar, c_type, stored
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import Indices
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import BLOCK, Builder, Launch, Place, blocks_of, work_item
from workbench.gpu.kernels.schedules import schedule

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_SHORT = 32
"""Most elements of a row that one work item scans alone."""
_MANY = 1 << 14
"""Number of rows from which each is scanned by one work item."""
_EACH = 16
"""Elements per work item when nonzero elements are counted."""


# Scans


@schedule(PrefixScanSum, PrefixScanProd)
def prefix_scan(lowering: Lowering, i: Instruction) -> list[Launch]:
    """A scan with a block per row, or with a work item per row if rows are short or many."""
    lens = i.shape.lens
    n = lens[axis_of(i)]
    alone = n <= _SHORT or prod(lens) // n >= _MANY
    return [(_rows_alone if alone else _rows_together)(_Scan(lowering, i))]


class _Scan:
    """The builder of a scan kernel."""

    def __init__(self, lowering: Lowering, i: Instruction) -> None:
        """Start the kernel, with its inputs bound."""
        inputs, out = lowering.inputs(i), lowering.place(i)
        self.b = Builder(lowering.dialect, i.name, [*(p for _, p in inputs), out])
        for one, place in inputs:
            self.b.tensors.bind(one, self.b.memory(place))
        self.i, self.out = i, self.b.memory(out, writes=True)
        self.op, self.lens = cast("Any", i.op), i.shape.lens
        self.axis = axis_of(i)
        self.n = self.lens[self.axis]
        self.work = DType.of(sum_type(i.shape.type.numpy))
        monoid = i.op.scan_monoid
        assert monoid is not None
        self.join = monoid.join.format
        self.least = f"({c_type(self.work)}){monoid.identity(i.shape.type):g}"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return prod(self.lens) // self.n

    def place(self, row: Index, element: Index) -> Indices:
        """The index of an element of a row, counted from the end at which the scan starts."""
        others = (*self.lens[: self.axis], *self.lens[self.axis + 1 :])
        rest = split(row, others, self.b.w)
        at = Index((), self.n - 1) - element if self.op.reverse else element
        return (*rest[: self.axis], at, *rest[self.axis :])

    def value(self, row: Index, element: Index) -> str:
        """An element of the input in the accumulator's type."""
        found = self.b.tensors.at(self.i.inputs[0], self.place(row, element))
        return converted(self.b.w, found, self.work).text

    def write(self, row: Index, element: Index, total: str) -> None:
        """Store a partial result, rounded."""
        w = self.b.w
        made = converted(w, Scalar(total, self.work), self.i.shape.type)
        offset = linear(self.place(row, element), self.out.shape.strides, self.out.offset)
        w.line(f"{self.out.name}[{offset.text()}] = {stored(w, made)};")


def _rows_alone(s: _Scan) -> Launch:
    w, kind = s.b.w, c_type(s.work)
    row = work_item(s.b, s.rows)
    total = w.variable(kind, s.least)
    with w.loop(s.n) as k:
        value, before = s.value(row, k), w.define(kind, total)
        after = w.define(kind, s.join(before, value))
        s.write(row, k, before if s.op.exclusive else after)
        w.line(f"{total} = {after};")
    return s.b.launch(blocks_of(s.rows))


def _rows_together(s: _Scan) -> Launch:
    w, kind = s.b.w, c_type(s.work)
    row = Index.of(Variable(w.define(w.integer_type, "GROUP(0)", "g"), 0, s.rows - 1))
    shared = w.array(kind, BLOCK, "s", "SHARED")
    carried = w.variable(kind, s.least)
    with w.block(f"for ({w.integer_type} start = 0; start < {s.n}; start += {BLOCK})"):
        at = w.define(w.integer_type, "start + LOCAL(0)", "i")
        element = Index.of(Variable(at, 0, s.n - 1))
        own = w.variable(kind, s.least)
        with w.block(f"if ({at} < {s.n})"):
            w.line(f"{own} = {s.value(row, element)};")
        _scan_block(w, shared, own, s.join)
        before = w.define(kind, f"LOCAL(0) == 0 ? {s.least} : {shared}[LOCAL(0) - 1]")
        found = before if s.op.exclusive else f"{shared}[LOCAL(0)]"
        with w.block(f"if ({at} < {s.n})"):
            s.write(row, element, w.define(kind, s.join(carried, found)))
        whole = s.join(carried, f"{shared}[{BLOCK - 1}]")
        w.line(f"{carried} = {whole};")
        w.line("BARRIER();")
    return s.b.launch(s.rows)


def _scan_block(w: Writer, shared: str, own: str, join: Callable[[str, str], str]) -> None:
    """Scan the work items' values in shared memory (inclusive)."""
    joined = join(f"{shared}[LOCAL(0) - step]", own)
    w.line(f"{shared}[LOCAL(0)] = {own};")
    w.line("BARRIER();")
    with w.block(f"for (i32 step = 1; step < {BLOCK}; step *= 2)"):
        w.line(f"if (LOCAL(0) >= step) {own} = {joined};")
        w.line("BARRIER();")
        w.line(f"{shared}[LOCAL(0)] = {own};")
        w.line("BARRIER();")


# Nonzero elements


@schedule(NonZero)
def nonzero(lowering: Lowering, i: Instruction) -> list[Launch] | None:
    """Kernels of nonzero: blocks count their nonzero elements, and the counts give each block's offset."""
    x = i.inputs[0].shape
    if x.elements >= 1 << 31:
        return None
    blocks = -(-x.elements // (BLOCK * _EACH))
    if blocks == 1:
        return [_found(lowering, i, None, 1)]
    counts = lowering.scratch(i, 0, Shape(DType.INT32, (blocks,)))
    return [_counted(lowering, i, counts), _found(lowering, i, counts, blocks)]


def _reader(
    lowering: Lowering, i: Instruction, more: list[Place]
) -> tuple[Builder, Callable[[Index], str]]:
    """A kernel that reads the input, and the condition that an element is not zero."""
    inputs = lowering.inputs(i)
    b = Builder(lowering.dialect, i.name, [*(p for _, p in inputs), *more])
    for one, place in inputs:
        b.tensors.bind(one, b.memory(place))
    x = i.inputs[0]
    return b, lambda at: f"{b.tensors.at(x, split(at, x.shape.lens, b.w)).text} != 0"


def _own_count(b: Builder, count: int, is_found: Callable[[Index], str]) -> tuple[str, str]:
    """The first element of a work item, and the number of its nonzero elements."""
    w = b.w
    first = w.define("i32", f"(GROUP(0) * {BLOCK} + LOCAL(0)) * {_EACH}", "t")
    own = w.variable("i32", "0")
    with w.block(f"for (i32 k = {first}; k < {first} + {_EACH} && k < {count}; ++k)"):
        w.line(f"{own} += {is_found(Index.of(Variable('k', 0, count - 1)))};")
    return first, own


def _counted(lowering: Lowering, i: Instruction, counts: Place) -> Launch:
    b, is_found = _reader(lowering, i, [counts])
    w, target = b.w, b.memory(counts, writes=True)
    shared = w.array("i32", BLOCK, "s", "SHARED")
    _, own = _own_count(b, i.inputs[0].shape.elements, is_found)
    _scan_block(w, shared, own, SUM.join.format)
    w.line(f"if (LOCAL(0) == 0) {target.name}[GROUP(0)] = {shared}[{BLOCK - 1}];")
    return b.launch(counts.shape.elements)


def _found(lowering: Lowering, i: Instruction, counts: Place | None, blocks: int) -> Launch:
    """A kernel that writes the coordinates to their positions, and zeros after the last."""
    out, x = lowering.place(i), i.inputs[0].shape
    b, is_found = _reader(lowering, i, [out] if counts is None else [out, counts])
    w, target, n = b.w, b.memory(out, writes=True), x.elements
    shared = w.array("i32", BLOCK, "s", "SHARED")
    first, own = _own_count(b, n, is_found)
    count = w.define("i32", own)
    _scan_block(w, shared, own, SUM.join.format)
    rank, total = w.variable("i32", f"{shared}[LOCAL(0)] - {count}"), f"{shared}[{BLOCK - 1}]"
    if counts is not None:
        before, total = _others(b, b.memory(counts).name, shared, blocks)
        w.line(f"{rank} += {before};")
    total = w.define("i32", total)
    with w.block(f"for (i32 k = {first}; k < {first} + {_EACH} && k < {n}; ++k)"):
        at = Index.of(Variable("k", 0, n - 1))
        with w.block(f"if ({is_found(at)})"):
            for axis, place in enumerate(split(at, x.lens, w)):
                w.line(f"{_column(target.name, out, axis, rank)} = {place.text()};")
            w.line(f"++{rank};")
        with w.block(f"if (k >= {total})"):
            for axis in range(x.ndim):
                w.line(f"{_column(target.name, out, axis, 'k')} = 0;")
    return b.launch(blocks)


def _column(name: str, out: Place, axis: int, column: str) -> str:
    """An element of the result."""
    across, along = out.shape.strides
    return f"{name}[{out.offset + axis * across} + {column} * {along}]"


def _others(b: Builder, counts: str, shared: str, blocks: int) -> tuple[str, str]:
    """The counts of the blocks before this one, and of all blocks."""
    w = b.w
    sums: list[str] = []
    for limit in ("GROUP(0)", str(blocks)):
        own = w.variable("i32", "0")
        w.line("BARRIER();")
        w.line(f"for (i32 k = LOCAL(0); k < {limit}; k += {BLOCK}) {own} += {counts}[k];")
        _scan_block(w, shared, own, SUM.join.format)
        sums.append(w.define("i32", f"{shared}[{BLOCK - 1}]"))
    w.line("BARRIER();")
    return sums[0], sums[1]
