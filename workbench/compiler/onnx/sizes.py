"""Lengths for handlers to compute with: integers, and placeholders for dynamic lengths."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.ranges import (
    broadcast_dim,
    dims_of,
    intersection,
    minus,
    over,
    product,
    same_length,
    total,
)
from workbench.compiler.ir.shape import Dim, Shape

Length: TypeAlias = "int | Size"
"""A length that is known at import, or a placeholder."""


class Size:
    """A length that is known only at run time: its range, and the instruction that computes it.

    Sums, differences, products and quotients with lengths are lengths. A comparison is answered if the
    ranges decide it, and otherwise refused. A remainder counts as 0: if the division leaves one, the
    reshape that follows fails at run time.
    """

    def __init__(self, module: Module, dim: Dim, make: Callable[[], Instruction]) -> None:
        """A length in a range; ``make`` appends its instruction when it is first needed."""
        self.module = module
        self.dim = dim
        self.source: tuple[Instruction, int] | None = None
        """The value and the axis whose length this is."""
        self._make = make
        self._value: Instruction | None = None

    @property
    def value(self) -> Instruction:
        """The instruction that computes the length: a vector of one int64."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def _with(self, op: str, other: Length, dim: Dim, *, swapped: bool = False) -> Length:
        if dim.is_fixed:
            return dim.min

        def make() -> Instruction:
            a, b = self.value, vector(self.module, [other])
            return self.module.add(op, *((b, a) if swapped else (a, b)))

        return Size(self.module, dim, make)

    def __add__(self, other: Length) -> Length:
        """The sum."""
        if isinstance(other, int) and other < 0:
            return self - -other
        if same(other, 0):
            return self
        return self._with("add", other, total([self.dim, dim_of(other)]))

    __radd__ = __add__

    def __sub__(self, other: Length) -> Length:
        """The difference; at least 0."""
        if isinstance(other, Size) and same(self, other):
            return 0
        if isinstance(other, int) and other <= 0:
            return self + -other if other else self
        return self._with("sub", other, minus(self.dim, dim_of(other)))

    def __rsub__(self, other: int) -> Length:
        """The difference; at least 0."""
        return self._with("sub", other, minus(dim_of(other), self.dim), swapped=True)

    def __mul__(self, other: Length) -> Length:
        """The product."""
        if same(other, 1):
            return self
        return self._with("mul", other, product([self.dim, dim_of(other)]))

    __rmul__ = __mul__

    def __floordiv__(self, other: Length) -> Length:
        """The quotient, truncated."""
        if isinstance(other, Size):
            raise self.unknown(f"divided by a length of {other.dim}")
        return self if other == 1 else self._with("div", other, over(self.dim, other))

    def __rfloordiv__(self, other: int) -> Length:
        """Refused."""
        raise self.unknown(f"the divisor of {other}")

    def __mod__(self, other: Length) -> int:
        """0: a run fails if the division leaves a remainder."""
        return 0

    __rmod__ = __mod__

    def __eq__(self, other: object) -> bool:
        """Whether both are the same length; refused if the ranges do not decide it."""
        if not isinstance(other, int | Size) or (isinstance(other, int) and other < 0):
            return False
        if same(self, other):
            return True
        if intersection(self.dim, dim_of(other)) is None:
            return False
        raise self.unknown(f"compared with {dim_of(other)}")

    def __hash__(self) -> int:
        """The hash of the name, or else of the identity."""
        return hash(self.dim.name or id(self))

    def __lt__(self, other: Length) -> bool:
        """Whether it is less; refused if the ranges do not decide it."""
        return self._decided(other, operator.lt)

    def __le__(self, other: Length) -> bool:
        """Whether it is at most ``other``; refused if the ranges do not decide it."""
        return self._decided(other, operator.le)

    def __gt__(self, other: Length) -> bool:
        """Whether it is more; refused if the ranges do not decide it."""
        return self._decided(other, operator.gt)

    def __ge__(self, other: Length) -> bool:
        """Whether it is at least ``other``; refused if the ranges do not decide it."""
        return self._decided(other, operator.ge)

    def _decided(self, other: Length, holds: Callable[[int, int], bool]) -> bool:
        if isinstance(other, int) and other < 0:
            return holds(1, 0)
        that = dim_of(other)
        found = {holds(a, b) for a in (self.dim.min, self.dim.max) for b in (that.min, that.max)}
        if len(found) > 1:
            raise self.unknown(f"compared with {that}")
        return found.pop()

    def __bool__(self) -> bool:
        """Whether it is not 0."""
        return self > 0

    def __index__(self) -> int:
        """Refused: there is no one integer."""
        raise self.unknown("needed at import")

    __int__ = __index__

    def unknown(self, how: str) -> ModelError:
        """The error that this length is unknown at import."""
        return ModelError(
            f"a dimension of {self.dim} is {how}; expected a fixed one: give its length, or a "
            "narrower range"
        )


def origin(value: Instruction) -> Instruction:
    """The value that determines a value's lens: the first in its chain of elementwise operations.

    Instructions that need the lens read them there, so that the chain gets no other users.
    """
    while value.op.pointwise:
        dims = value.shape.dims
        like = next((i for i in value.inputs if i.shape.dims is not None), None)
        if like is None or like.shape.dims != dims or like.module is not value.module:
            return value
        value = like
    return value


def lengths(module: Module, value: Instruction) -> tuple[Length, ...]:
    """The lens of a value."""
    shape = value.shape
    if shape.dims is None:
        return shape.lens
    start = origin(value)
    return tuple(_length(module, start, i, d) for i, d in enumerate(shape.dims))


def _length(module: Module, value: Instruction, axis: int, dim: Dim) -> Length:
    if dim.is_fixed:
        return dim.min
    made = Size(module, dim, lambda: module.add("dimensions_of", value, start=axis, end=axis + 1))
    made.source = (value, axis)
    return made


def element(module: Module, value: Instruction, index: int, dim: Dim) -> Length:
    """An element of a vector of lengths."""
    if dim.is_fixed:
        return dim.min

    def make() -> Instruction:
        given = module.add("convert", value, target_type=DType.INT64) if _narrow(value) else value
        if given.shape.lens == (1,):
            return module.add("reshape", given, dims=(1,))
        return module.add("slice", given, axes=(0,), starts=(index,), ends=(index + 1,))

    return Size(module, dim, make)


def _narrow(value: Instruction) -> bool:
    return value.shape.type is not DType.INT64


def dim_of(length: Length) -> Dim:
    """The range of a length."""
    return length.dim if isinstance(length, Size) else Dim(length, length)


def same(a: Length, b: Length) -> bool:
    """Whether two lengths are known to be equal."""
    if isinstance(a, Size) and a is b:
        return True
    return same_length(dim_of(a), dim_of(b))


def known(lens: Sequence[Length]) -> tuple[int, ...] | None:
    """The lens, if all are known at import."""
    found = [n for n in lens if isinstance(n, int)]
    return tuple(found) if len(found) == len(lens) else None


def source_of(lens: Sequence[Length]) -> Instruction | None:
    """A value with exactly these lens, if they were read from one."""
    sources = [n.source[0] for n in lens if isinstance(n, Size) and n.source is not None]
    for source in sources:
        dims = dims_of(source.shape)
        if len(dims) == len(lens) and all(map(same_length, dims, map(dim_of, lens))):
            return source
        if len(dims) == len(lens) and all(_read(n, source, i) for i, n in enumerate(lens)):
            return source
    return None


def _read(length: Length, source: Instruction, axis: int) -> bool:
    if isinstance(length, Size):
        return length.source == (source, axis)
    return length >= 0 and dims_of(source.shape)[axis] == Dim(length, length)


def vector(module: Module, lens: Sequence[Length]) -> Instruction:
    """The lens as a vector of int64."""
    parts: list[Instruction] = []
    i = 0
    while i < len(lens):
        length, end = lens[i], i + 1
        if not isinstance(length, Size):
            while end < len(lens) and not isinstance(lens[end], Size):
                end += 1
            array = np.array(lens[i:end], np.int64)
            parts.append(module.add_literal(Argument(Shape(DType.INT64, array.shape), array)))
        elif length.source is None:
            parts.append(length.value)
        else:
            end = _run_end(lens, i)
            value, start = length.source
            parts.append(module.add("dimensions_of", value, start=start, end=start + end - i))
        i = end
    return parts[0] if len(parts) == 1 else module.add("concat", *parts, axis=0)


def _run_end(lens: Sequence[Length], start: int) -> int:
    """The end of a run of lens that are adjacent axes of one value."""
    first = lens[start]
    assert isinstance(first, Size)
    assert first.source is not None
    value, axis = first.source
    end = start + 1
    while end < len(lens):
        at = axis + end - start
        if at >= value.shape.ndim or not _read(lens[end], value, at):
            break
        end += 1
    return end


def common(module: Module, every: Sequence[Sequence[Length]]) -> tuple[Length, ...]:
    """The lens that several broadcast to.

    Raises:
        ModelError: Two lengths cannot be equal, and neither can be 1.
    """
    rank = max(map(len, every))
    found: list[Length] = [1] * rank
    for lens in every:
        for axis, length in enumerate(lens, rank - len(lens)):
            found[axis] = _common(module, found[axis], length)
    return tuple(found)


def _common(module: Module, a: Length, b: Length) -> Length:
    if same(a, b) or same(b, 1):
        return a
    if same(a, 1):
        return b
    dim = broadcast_dim(dim_of(a), dim_of(b))
    if dim is None:
        raise ModelError(f"dimensions {dim_of(a)} and {dim_of(b)} do not broadcast")
    if dim.is_fixed:
        return dim.min

    def make() -> Instruction:
        first, second = vector(module, [a]), vector(module, [b])
        one = vector(module, [1])
        is_one = module.add("convert", module.add("equal", first, one), target_type=DType.BOOL)
        return module.add("where", is_one, second, first)

    return Size(module, dim, make)
