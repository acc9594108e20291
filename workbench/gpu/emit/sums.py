"""Sums and other reductions that one work item accumulates in a variable."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.emit.functions import definition, integer_limits, kind_of, limit_text
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number, rounded
from workbench.gpu.emit.writer import Writer


def real_type(type: DType) -> DType:
    """The type for functions of real numbers: float at least, double for integers."""
    return DType.FLOAT if type.is_float and type is not DType.DOUBLE else DType.DOUBLE


def product_sum_type(type: DType) -> DType:
    """The accumulator type of sums of products: float at least; for integers, one that keeps the low bits.

    Integers wrap, so 32 bits are enough for a result of 32 bits; they are unsigned, which wrap in C too.
    """
    if type.is_float:
        return real_type(type)
    return DType.UINT64 if type.size == 8 else DType.UINT32


def finished(w: Writer, value: Scalar, type: DType) -> Scalar:
    """A sum in its result's type: rounded once for a float, the low bits for an integer."""
    if value.type.is_float and type.is_integral and type is not DType.BOOL:
        value = cast(w, value, DType.INT64)
    return rounded(w, cast(w, value, type))


def lowest(type: DType) -> Scalar:
    """The least value of a type."""
    if type.is_float:
        return number(float("-inf"), type)
    kind = c_type(type)
    low = 0 if type is DType.BOOL else integer_limits(kind)[0]
    return Scalar(limit_text(kind, low), type)


def larger(w: Writer, a: str, b: str, type: DType) -> str:
    """The larger of two values; NaN if either is NaN."""
    kind = c_type(type)
    w.need(definition("max", kind))
    return f"max_{kind}({a}, {b})"


def product(w: Writer, a: Scalar, b: Scalar, type: DType) -> str:
    """The product of two elements, in the accumulator's type."""
    kind = c_type(type)
    if kind_of(kind) == "f":
        return f"{cast(w, a, type).text} * {cast(w, b, type).text}"
    # Through the signed type, for sign extension.
    wide = kind.replace("u", "i")
    return f"({kind})({wide}){a.text} * ({kind})({wide}){b.text}"


@contextmanager
def over(w: Writer, lens: Sequence[int]) -> Generator[tuple[Index, ...]]:
    """Loops over all indices of a tensor; none for axes of length 1."""
    with ExitStack() as loops:
        yield tuple(loops.enter_context(w.loop(n)) if n != 1 else Index() for n in lens)


def bounded(w: Writer, index: Index, n: int) -> Index:
    """An index that is known to lie within an axis, as a variable of that range."""
    low, high = index.range
    if low >= 0 and high < n:
        return index
    return Index.of(Variable(w.integer(index.text()), 0, n - 1))


def clamped(w: Writer, index: Index, high: int) -> Index:
    """The nearest index from 0 to ``high``."""
    low, most = index.range
    if low >= 0 and most <= high:
        return index
    name = w.integer(index.text())
    text = name if most <= high else f"({name} > {high} ? {high} : {name})"
    text = text if low >= 0 else f"({name} < 0 ? 0 : {text})"
    return Index.of(Variable(w.integer(text), 0, high))
