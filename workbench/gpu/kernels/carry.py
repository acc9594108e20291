"""Kernels at the end of an iteration: what the next one reads, rows of stacked results, and the count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.control import ScanSlice
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import c_type
from workbench.gpu.emit.scalar import number as constant
from workbench.gpu.emit.tensors import Indices, Memory
from workbench.gpu.kernels.elementwise import index_of, memory_order, store
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item


@dataclass(frozen=True)
class Carried:
    """A value that is copied, or zeros."""

    value: Instruction | None
    """The value; None for zeros."""
    source: Place | None
    """Its place; None if it is a constant of one element."""
    target: Place
    """Where it goes; for a row of a stacked result, the whole result."""
    is_row: bool = False
    limit: int | Place | None = None
    """For a row: the number of rows, if they are counted from the last one."""
    sliced: ScanSlice | None = None
    """Of the value, only the slice that this operation reads in the next iteration."""


def carry(
    dialect: Dialect, copies: Sequence[Carried], counter: tuple[Place, Place] | None
) -> Launch:
    """A kernel that copies values, rows to where the number of the iteration says, and counts on.

    Args:
        dialect: The dialect of the device.
        copies: What is copied.
        counter: Where the number of this iteration is, and where that of the next one goes.
    """
    sources = [c.source for c in copies if c.source is not None]
    limits = [c.limit for c in copies if isinstance(c.limit, Place)]
    b = Builder(
        dialect, "carry", [*sources, *limits, *(c.target for c in copies), *(counter or ())]
    )
    reads = [None if c.source is None else b.memory(c.source) for c in copies]
    number = None if counter is None else b.memory(counter[0])
    targets = [b.memory(c.target, writes=True) for c in copies]
    items = max([1, *(_elements(c) for c in copies)])
    flat = work_item(b, items)
    for one, read, target in zip(copies, reads, targets, strict=True):
        if one.value is not None and read is not None:
            b.tensors.bind(one.value, read)
        with b.w.block(f"if ({flat.text()} < {_elements(one)})"):
            _copied(b, one, target, number, Variable(flat.text(), 0, max(_elements(one) - 1, 0)))
    if counter is not None:
        _count_on(b, counter, flat)
    return b.launch(blocks_of(items))


def _elements(one: Carried) -> int:
    return prod(_lens(one))


def _lens(one: Carried) -> Sequence[int]:
    return one.target.shape.lens[int(one.is_row) :]


def _copied(
    b: Builder, one: Carried, target: Memory, number: Memory | None, item: Variable
) -> None:
    lens = _lens(one)
    shape = one.target.shape
    order = [a - int(one.is_row) for a in memory_order(shape) if a >= int(one.is_row)]
    index = index_of(Index.of(item), lens, order, b.w)
    made = constant(0, shape.type)
    if one.value is not None:
        made = b.tensors.at(one.value, _sliced(b, one, index, number))
    row = () if number is None or not one.is_row else (_row(b, one, number),)
    store(b, target, [(*row, *index)], [made])


def _sliced(b: Builder, one: Carried, index: Indices, number: Memory | None) -> Indices:
    """The index in the value: that of a slice has the position of the next iteration, or of the first."""
    if one.sliced is None or one.source is None:
        return index
    length = one.source.shape.lens[one.sliced.axis]
    at = Index()
    if number is not None and length > 1:
        following = f"({b.w.integer_type}){number.name}[{number.offset}] + 1"
        text = b.w.integer(following)
        clamped = b.w.integer(f"{text} < {length} ? {text} : {length - 1}")
        at = Index.of(Variable(clamped, 0, length - 1))
    at = Index((), length - 1) - at if one.sliced.direction else at
    return (*index[: one.sliced.axis], at, *index[one.sliced.axis + 1 :])


def _row(b: Builder, one: Carried, number: Memory) -> Index:
    """The row of this iteration."""
    rows = one.target.shape.lens[0]
    text = f"({b.w.integer_type}){number.name}[{number.offset}]"
    if one.limit is not None:
        text = f"{_limit(b, one.limit, rows)} - 1 - {text}"
    return Index.of(Variable(b.w.integer(text), 0, max(rows - 1, 0)))


def _limit(b: Builder, limit: int | Place, rows: int) -> str:
    if isinstance(limit, int):
        return str(limit)
    memory = b.memory(limit)
    count = f"{memory.name}[{memory.offset}]"
    return f"({b.w.integer_type})({count} < {rows} ? {count} : {rows})"


def _count_on(b: Builder, counter: tuple[Place, Place], flat: Index) -> None:
    here, following = b.memory(counter[0]), b.memory(counter[1], writes=True)
    kind = c_type(counter[0].shape.type)
    with b.w.block(f"if ({flat.text()} == 0)"):
        b.w.line(
            f"{following.name}[{following.offset}] = ({kind})({here.name}[{here.offset}] + 1);"
        )
