"""Matrix products: sums over k of the elements of two operands, which may be computed on the fly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.index import Index, Variable, split
from workbench.gpu.emit.scalar import Scalar, c_type, cast, rounded
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.emit.writer import Writer

Ints: TypeAlias = tuple[int, ...]
Value: TypeAlias = "Callable[[Tensors, Indices, Index, Index], Scalar]"
"""A function for an operand's element at indices of the batch, its own axis (rows or columns) and k."""
Address: TypeAlias = "Callable[[Tensors, Indices, Index, Index], Source | None]"
"""A function for the place of that element, if it is in memory as it is; None elsewhere."""
Placing: TypeAlias = "Callable[[Writer, Indices, Index, Index], Indices]"
"""A function from the indices of batch, row and column to the index in a result."""
Cell: TypeAlias = "tuple[Indices, Index, Index]"
"""An element of a product: the index in the batch, the row, the column."""
Store: TypeAlias = "Callable[[Sequence[Cell], Sequence[str]], None]"
"""A function that stores finished sums of adjacent cells."""


@dataclass(frozen=True)
class Source:
    """The place of an operand's element in memory."""

    pointer: str
    offset: Index
    inside: str = "1"
    """The condition under which it is there; elsewhere the element is 0."""


@dataclass(frozen=True)
class Operand:
    """One side of a product."""

    value: Value
    along_k: bool
    """Whether k has a smaller stride in memory than the operand's own axis."""
    unit: int
    """Contiguous elements along the axis of the smaller stride; no vector access may cross their end."""
    size: int = 4
    """Bytes of an element in memory."""
    own: Ints = ()
    """The lengths that the index along its own axis is split into, if it is."""
    inner: Ints = ()
    """The lengths that the index along k is split into, if it is."""
    address: Address | None = None
    """The place of an element in memory; those that follow it along the smaller stride are adjacent."""


@dataclass(frozen=True)
class Product:
    """``C[batch, m, n] = Σ A[batch, m, k] · B[batch, k, n]``, the result of one instruction."""

    heart: Instruction
    lens: Ints
    """The lengths of the batch's axes."""
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    place: Placing

    @property
    def batch(self) -> int:
        """Matrices."""
        return prod(self.lens)

    @property
    def work(self) -> str:
        """The C type of sums."""
        return work_type(self.heart)

    @property
    def bytes(self) -> int:
        """Bytes of an element of that type."""
        return int(self.work[1:]) // 8

    def stacked(self) -> Product:
        """The product with the rows of all matrices in one, which share the second operand."""
        lens, first, second, place = (*self.lens, self.m), self.a, self.b, self.place

        def at(row: Index, w: Writer) -> tuple[Indices, Index]:
            *batch, inner = split_over(row, lens, w)
            return tuple(batch), inner

        def value(t: Tensors, _: Indices, row: Index, k: Index) -> Scalar:
            return first.value(t, *at(row, t.w), k)

        def address(t: Tensors, _: Indices, row: Index, k: Index) -> Source | None:
            return first.address(t, *at(row, t.w), k) if first.address is not None else None

        def shared(t: Tensors, _: Indices, column: Index, k: Index) -> Scalar:
            return second.value(t, none, column, k)

        def shared_address(t: Tensors, _: Indices, column: Index, k: Index) -> Source | None:
            return second.address(t, none, column, k) if second.address is not None else None

        def placed(w: Writer, _: Indices, row: Index, column: Index) -> Indices:
            return place(w, *at(row, w), column)

        none = tuple(Index() for _ in self.lens)
        rows = replace(first, value=value, address=address, own=lens)
        columns = replace(second, value=shared, address=shared_address)
        return replace(self, lens=(), m=prod(lens), a=rows, b=columns, place=placed)

    def swapped(self) -> Product:
        """The product of the transposed operands, with rows and columns exchanged."""
        place = self.place

        def turned(w: Writer, batch: Indices, row: Index, column: Index) -> Indices:
            return place(w, batch, column, row)

        return replace(self, m=self.n, n=self.m, a=self.b, b=self.a, place=turned)


def work_type(heart: Instruction) -> str:
    """The C type of an instruction's sums; integers wrap, so they are unsigned."""
    kinds = {c_type(i.shape.type) for i in heart.inputs}
    if "f64" in kinds or "f32" in kinds:
        return "f64" if "f64" in kinds else "f32"
    return "u64" if kinds & {"i64", "u64"} else "u32"


def as_work(w: Writer, value: Scalar, work: str) -> str:
    """A value converted to the type of sums."""
    if c_type(value.type) == work:
        return value.text
    return w.let(work, f"({work}){value.text}")


def result_of(w: Writer, product: Product, text: str) -> Scalar:
    """A finished sum as an element of the instruction's result."""
    type, work = product.heart.shape.type, product.work
    if type is DType.BOOL:
        return Scalar(w.let("u8", f"({text} != 0)"), type)
    if c_type(type) == work:
        return rounded(w, Scalar(text, type)) if type in FP8 else Scalar(text, type)
    if work.startswith("f"):
        return cast(w, Scalar(text, DType.DOUBLE if work == "f64" else DType.FLOAT), type)
    return Scalar(w.let(c_type(type), f"({c_type(type)}){text}"), type)


def split_over(flat: Index, lens: Sequence[int], w: Writer) -> Indices:
    """The index of an element from its row-major position; 0 along axes of length 1."""
    axes = [a for a, n in enumerate(lens) if n != 1]
    found = dict(zip(axes, split(flat, [lens[a] for a in axes], w), strict=True))
    return tuple(found.get(a, Index()) for a in range(len(lens)))


def start_of(w: Writer, number: Index, length: int, whole: int) -> Index:
    """The start of a stretch of some length; the last one overlaps the one before it rather than the end."""
    start, last = number * length, max(whole - length, 0)
    if start.range[1] <= last:
        return start
    text = start.text()
    return Index.of(Variable(w.integer(f"{text} < {last} ? {text} : {last}"), 0, last))
