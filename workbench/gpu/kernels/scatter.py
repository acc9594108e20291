"""Kernels of scatters: a copy of the data, then updates in the order of their indices.

All updates of one element are applied in order by one work item, so that the result is the
reference's: the last update wins, and sums are added in order. If that leaves few work items, several
scan the same updates, and each applies those of the elements that it owns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.scatter import Scatter, ScatterNd, Update
from workbench.gpu.emit.choices import axis_of, integer_text, wrapped
from workbench.gpu.emit.index import Index, Variable, joined, linear, split
from workbench.gpu.emit.scalar import Scalar, c_type, called, loaded, stored
from workbench.gpu.emit.tensors import Indices, Memory
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.copies import copy, raw
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item
from workbench.gpu.kernels.schedules import schedule

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_ENOUGH = 4096
"""Number of work items that keep a device busy."""
_LONG = 64
"""Number of updates from which it pays to divide them among work items."""


@dataclass
class _Update:
    """The builder of a kernel that applies updates."""

    b: Builder
    target: Memory
    join: str
    """The C expression that combines an element and an update, as in ``Update.join``."""
    updates: Instruction

    def apply(self, place: Indices, update: Indices) -> None:
        """Combine an update with the element at its position."""
        w, type = self.b.w, self.target.shape.type
        value = self.b.tensors.at(self.updates, update)
        text = linear(place, self.target.shape.strides, self.target.offset).text()
        element = f"{self.target.name}[{text}]"
        if self.join:
            before = loaded(w, element, type).text
            value = Scalar(_joined(w, self.join.format(before, value.text), type), type)
        w.line(f"{element} = {stored(w, Scalar(value.text, type))};")


def _joined(w: Writer, text: str, type: DType) -> str:
    work = c_type(type)
    made = called(w, text, work)
    return f"({work})(({made}) != 0)" if type is DType.BOOL else f"({work})({made})"


# The kernels of an instruction


@dataclass(frozen=True)
class _Scatter:
    """The updates of a scatter, and the memory that they are accumulated in."""

    lowering: Lowering
    instruction: Instruction
    update: Update
    target: Place

    def launches(self, update: Callable[[], list[Launch]]) -> list[Launch]:
        """The copy of the data, the updates, and the rounding of sums that were accumulated in float32."""
        data, out = (self.lowering.place(i) for i in (self.instruction.inputs[0], self.instruction))
        dialect = self.lowering.dialect
        made = [copy(dialect, data, self.target), *update()]
        return made if self.target.root == out.root else [*made, copy(dialect, self.target, out)]

    def builder(self, more: Sequence[Place] = ()) -> Builder:
        """A kernel that reads indices and updates; updates that only replace are copied as bits."""
        i, read = self.instruction, dict(self.lowering.inputs(self.instruction))
        b = Builder(self.lowering.dialect, i.name, [*read.values(), self.target, *more])
        for one in (i.inputs[1], i.inputs[2]):
            if one in read:
                is_bits = one is i.inputs[2] and self.is_raw
                b.tensors.bind(one, b.memory(raw(read[one]) if is_bits else read[one]))
        return b

    @property
    def is_raw(self) -> bool:
        """Whether updates are copied bit by bit."""
        return not self.update.join and not self.lowering.is_folded(self.instruction.inputs[2])

    def update_of(self, b: Builder) -> _Update:
        """The update of a kernel."""
        target = raw(self.target) if self.is_raw else self.target
        return _Update(
            b, b.memory(target, writes=True), self.update.join, self.instruction.inputs[2]
        )


def _scatter(lowering: Lowering, i: Instruction) -> _Scatter | None:
    if i.inputs[1] is i.inputs[2]:
        return None
    assert isinstance(i.op, Scatter | ScatterNd)
    update, out, type = i.op.update, lowering.place(i), i.shape.type
    if update.rounds and type.is_narrow_float:
        out = lowering.scratch(i, 0, i.shape.with_type(DType.FLOAT))
    return _Scatter(lowering, i, update, out)


def owners_of(others: int, updates: int) -> int:
    """The number of work items that scan the same updates, given the number of other work items."""
    owners = 1
    while updates >= _LONG and owners * others < _ENOUGH and owners < _ENOUGH // 16:
        owners *= 2
    return owners


@schedule(Scatter)
def scatter(lowering: Lowering, i: Instruction) -> list[Launch] | None:
    """The kernels of a scatter along an axis: a work item per line of updates along it."""
    made = _scatter(lowering, i)
    return None if made is None else made.launches(lambda: [_along_axis(made)])


def _along_axis(s: _Scatter) -> Launch:
    i, b = s.instruction, s.builder()
    op = cast("Any", i.op)
    axis, lens = axis_of(i), i.inputs[1].shape.lens
    n, across = i.shape.lens[axis], (*lens[:axis], *lens[axis + 1 :])
    owners, w, update = owners_of(prod(across), lens[axis]), b.w, s.update_of(b)
    items = owners * prod(across)
    owner, lane = work_item(b, items).divmod(prod(across), w)
    place = split(lane, across, w)
    with w.loop(lens[axis]) as k:
        index = (*place[:axis], k, *place[axis:])
        value = b.tensors.at(i.inputs[1], index)
        at, condition = _place(b, value, n, op.skip_out_of_bounds)
        if owners > 1:
            condition = f"{condition} && ({at.text()}) % {owners} == {owner.text()}"
        with w.block(f"if ({condition})"):
            update.apply((*place[:axis], at, *place[axis:]), index)
    return b.launch(blocks_of(items))


def _place(b: Builder, value: Scalar, n: int, skips: bool) -> tuple[Index, str]:
    """An index, clamped to the length, and the condition that it was within it."""
    if not skips:
        return wrapped(b.tensors, value, n), "1"
    text, kind = integer_text(b.tensors, value, n)
    at = b.w.let(kind, text)
    if not kind.startswith("u"):
        at = b.w.let(kind, f"{at} < 0 ? {at} + {n} : {at}")
    name = b.w.integer(f"({b.w.integer_type}){at}")
    return Index.of(Variable(name, 0, max(n - 1, 0))), f"{at} >= 0 && {at} < {n}"


@schedule(ScatterNd)
def scatter_nd(lowering: Lowering, i: Instruction) -> list[Launch] | None:
    """The kernels of scatternd: a work item per element of a slice loops over all index tuples."""
    made = _scatter(lowering, i)
    return None if made is None else made.launches(lambda: _by_tuples(made))


def _by_tuples(s: _Scatter) -> list[Launch]:
    i, lens = s.instruction, s.instruction.inputs[1].shape.lens
    count, depth = prod(lens[:-1]), lens[-1]
    others = prod(i.shape.lens[depth:])
    owners = owners_of(others, count)
    if owners == 1 or not depth:
        return [_tuples(s, 1, None)]
    kind = DType.INT64 if i.shape.elements >= 1 << 31 else DType.INT32
    rows = s.lowering.scratch(i, 1, Shape(kind, (count,)))
    return [_rows(s, rows), _tuples(s, owners, rows)]


def _rows(s: _Scatter, rows: Place) -> Launch:
    """A kernel that computes the slice that each index tuple selects."""
    i, b = s.instruction, s.builder([rows])
    target = b.memory(rows, writes=True)
    at = work_item(b, rows.shape.elements)
    b.w.line(f"{target.name}[{at.text()}] = {_row(b, i, at).text()};")
    return b.launch(blocks_of(rows.shape.elements))


def _row(b: Builder, i: Instruction, at: Index) -> Index:
    """The slice that an index tuple selects."""
    lens, whole = i.inputs[1].shape.lens, i.shape.lens
    lead = split(at, lens[:-1], b.w)
    found = [
        wrapped(b.tensors, b.tensors.at(i.inputs[1], (*lead, Index((), k))), whole[k])
        for k in range(lens[-1])
    ]
    return joined(found, whole[: lens[-1]])


def _tuples(s: _Scatter, owners: int, rows: Place | None) -> Launch:
    i, b = s.instruction, s.builder([] if rows is None else [rows])
    lens, whole = i.inputs[1].shape.lens, i.shape.lens
    depth, w, update = lens[-1], b.w, s.update_of(b)
    others = prod(whole[depth:])
    owner, rest = work_item(b, owners * others).divmod(others, w)
    named = None if rows is None else b.memory(rows).name
    with w.loop(prod(lens[:-1])) as k:
        row = (
            _row(b, i, k)
            if named is None
            else _read(b, f"{named}[{k.text()}]", prod(whole[:depth]))
        )
        mine = "1" if owners == 1 else f"{row.text()} % {owners} == {owner.text()}"
        with w.block(f"if ({mine})"):
            element = split(rest, whole[depth:], w)
            place = (*split(row, whole[:depth], w), *element)
            update.apply(place, (*split(k, lens[:-1], w), *element))
    return b.launch(blocks_of(owners * others))


def _read(b: Builder, text: str, count: int) -> Index:
    return Index.of(Variable(b.w.integer(text), 0, count - 1))
