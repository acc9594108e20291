"""Reshapes: the same elements, in the same order, with other lens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import expect, expect_tensors, product, quotient, ranged
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.structure import Rearrangement

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


def resolved(op: Operation, dims: Sequence[int], lens: Sequence[int]) -> Ints:
    """``dims`` with 0 replaced by the input's length on that axis, and -1 by the inferred length.

    Raises:
        ShapeError: Two dims are -1, a 0 has no axis to copy, or the numbers of elements differ.
    """
    check_inferred(op, dims)
    expect(
        op,
        all(d or i < len(lens) for i, d in enumerate(dims)),
        f"dims {dims}: no axis to copy for 0",
    )
    found = [d or lens[i] for i, d in enumerate(dims)]
    total = prod(lens)
    if -1 in found:
        rest = prod(d for d in found if d != -1)
        found[found.index(-1)] = total // rest if rest else 0
    if prod(found) != total:
        raise ShapeError(
            f"{op.name}: dims {list(dims)} hold {prod(found)} elements; "
            f"expected {total}, as the input has lens {list(lens)}"
        )
    return tuple(found)


def check_inferred(op: Operation, dims: Sequence[int]) -> None:
    """Raise a ShapeError unless at most one of the dims is -1, and none is less."""
    expect(
        op,
        list(dims).count(-1) <= 1,
        f"dims {list(dims)}: more than one is -1; expected at most one",
    )
    expect(op, min(dims, default=0) >= -1, f"dims {list(dims)}: expected none below -1")


def reshaped_strides(x: Shape, dims: Sequence[int], lazy: bool) -> Ints | None:
    """Strides of ``dims`` over the memory of ``x``, or None if the axes do not line up.

    With ``lazy``, merged axes must also be contiguous in memory, so that the result is a view.
    """
    strides: list[int] = []
    i = r = 0
    while i < x.ndim and r < len(dims):
        merged = _run(x.lens, i, dims[r])
        parts = _run(dims, r, x.lens[i])
        if merged:
            if lazy and not _is_one_run(x, i, i + merged):
                return None
            strides.append(x.strides[i + merged - 1])
            i, r = i + merged, r + 1
        elif parts:
            step = x.strides[i] * x.lens[i]
            for d in dims[r : r + parts]:
                step //= d
                strides.append(step)
            i, r = i + 1, r + parts
        else:
            return None
    trailing = dims[len(strides) :]
    if not strides or any(d != 1 for d in trailing):
        return None
    return (*strides, *[strides[-1]] * len(trailing))


def _run(lens: Sequence[int], start: int, target: int) -> int:
    """The number of lens from ``start`` whose product is ``target``; 0 if there is none."""
    total = 1
    for count, n in enumerate(lens[start:], 1):
        total *= n
        if total >= target:
            return count if total == target else 0
    return 0


def _is_one_run(x: Shape, start: int, end: int) -> bool:
    for i in range(end - 2, start - 1, -1):
        outer, inner, n = x.strides[i], x.strides[i + 1], x.lens[i + 1]
        if outer < inner or (outer != 0 and inner == 0):
            return False
        if inner and (outer % inner or (n > 1 and x.lens[i] > 1 and outer != inner * n)):
            return False
    return True


@operation
class Reshape(Operation):
    """The elements with other lens: 0 copies the input's length, -1 is inferred.

    A second input gives the lens instead.
    """

    name = "reshape"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.RELAID
    dims: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Packed, in the memory order of the input's axes as far as that can be kept."""
        expect_count(self, inputs, 1, 2)
        expect_tensors(self, inputs)
        if len(inputs) == 2:
            return self._like(inputs)
        x = inputs[0]
        if x.dims is not None:
            return self._dynamic_shape(x, x.dims)
        dims = resolved(self, self.dims, x.lens)
        if x.standard or x.broadcasted or 0 in dims:
            return Shape(x.type, dims)
        strides = reshaped_strides(x, dims, lazy=False)
        if strides is None:
            return Shape(x.type, dims)
        found = Shape(x.type, dims, strides)
        return found if found.packed else found.with_lens(dims)

    def _dynamic_shape(self, x: Shape, dims: Sequence[Dim]) -> Shape:
        check_inferred(self, self.dims)
        expect(
            self,
            all(d or i < x.ndim for i, d in enumerate(self.dims)),
            f"dims {list(self.dims)}: no axis of {x} to copy for 0",
        )
        found = [dims[i] if d == 0 else Dim(max(d, 1), max(d, 1)) for i, d in enumerate(self.dims)]
        if -1 in self.dims:
            copied = {i for i, d in enumerate(self.dims) if d == 0}
            whole = [d for i, d in enumerate(dims) if i not in copied]
            rest = [Dim(d, d) for d in self.dims if d > 0]
            found[self.dims.index(-1)] = quotient(whole, rest)
        return ranged(x.type, found)

    def _like(self, inputs: Sequence[Shape]) -> Shape:
        expect_same_type(self, inputs)
        x, like = inputs
        static = x.dims is None and like.dims is None
        fits = not static or prod(x.lens) == prod(like.lens)
        expect(self, fits, f"input 0 is {x}; expected as many elements as input 1 has, {like}")
        return like

    def compute(self, *inputs: Any) -> Any:
        """``numpy.reshape``."""
        x: Array = inputs[0]
        if len(inputs) == 2:
            return x.reshape(inputs[1].shape)
        return x.reshape(resolved(self, self.dims, x.shape))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """0 and -1, split and merged axes, a transposed operand, a shape from an input."""
        yield cls(dims=(0, -1)), [grid(2, 3, 4)]
        yield cls(dims=(4, 3, 2)), [grid(2, 3, 4, type=np.int32)]
        yield cls(dims=(4, 4, 6)), [grid(24, 4).T]
        yield cls(dims=(-1,)), [grid(3, 4, type=np.float16).T]
        yield cls(dims=(2, 2, 1)), [grid(4, 6)[:, 2]]
        yield cls(), [grid(2, 6), grid(3, 4)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with the lens of the input."""
        return [given.reshape(operands[0].shape), *[None] * (len(operands) - 1)]


@operation
class ReshapeLazy(Operation):
    """A reshape that is a view; rejected if elements would have to be copied."""

    name = "reshape_lazy"
    family = Family.VIEW
    alias = 0
    dynamic = True
    needs_standard = True
    rearranges = Rearrangement.RELAID
    dims: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens, with strides over the same memory."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        if x.dims is not None:
            return self._dynamic_shape(x, x.dims)
        dims = resolved(self, self.dims, x.lens)
        if x.standard:
            return Shape(x.type, dims)
        strides = reshaped_strides(x, dims, lazy=True)
        if strides is None:
            raise ShapeError(
                f"reshape_lazy: {x} cannot be viewed as {list(dims)} without a copy; "
                "use reshape, or contiguous before this"
            )
        return Shape(x.type, dims, strides)

    def _dynamic_shape(self, x: Shape, dims: Sequence[Dim]) -> Shape:
        loose = [i for i, d in enumerate(dims) if not d.is_fixed]
        expect(self, len(loose) == 1, f"input {x}; expected one dimension that is a range")
        expect(
            self,
            len(self.dims) == len(dims),
            f"dims {list(self.dims)}; expected one per dimension of {x}",
        )
        at = loose[0]
        fixed = prod(d.min for i, d in enumerate(dims) if i != at)
        wanted = prod(d for i, d in enumerate(self.dims) if i != at)
        fits = self.dims[at] in (0, -1) and wanted == fixed
        expect(self, fits, f"dims {list(self.dims)}; expected dimension {at} of {x} unchanged")
        return ranged(x.type, (dims[i] if i == at else Dim(d, d) for i, d in enumerate(self.dims)))

    def compute(self, *inputs: Any) -> Any:
        """``numpy.reshape``."""
        x: Array = inputs[0]
        return x.reshape(resolved(self, self.dims, x.shape))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Standard and strided operands."""
        yield cls(dims=(0, -1)), [grid(2, 3, 4)]
        yield cls(dims=(2, 2, 3)), [grid(4, 6)[:, ::2]]
        yield cls(dims=(3, 2, 2)), [grid(4, 3, type=np.float16).T]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with the lens of the input."""
        return [given.reshape(operands[0].shape)]


@operation
class Flatten(Operation):
    """A matrix: the axes before ``axis`` merged into one, the others into the second."""

    name = "flatten"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.RELAID
    axis: int = 1

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """The axis counted from the front; it may be one past the last."""
        axis = self._place(inputs[0].ndim)
        return self if axis == self.axis else Flatten(axis)

    def _place(self, rank: int) -> int:
        return rank if self.axis == rank else normalize_axis(self, self.axis, rank)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Two dimensions, standard."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        axis = self._place(x.ndim)
        if x.dims is not None:
            return ranged(x.type, (product(x.dims[:axis]), product(x.dims[axis:])))
        return Shape(x.type, (prod(x.lens[:axis]), prod(x.lens[axis:])))

    def compute(self, *inputs: Any) -> Any:
        """``numpy.reshape``."""
        x: Array = inputs[0]
        axis = self._place(x.ndim)
        return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The first axis, the middle, both ends."""
        yield cls(), [grid(2, 3, 4)]
        yield cls(axis=-1), [grid(4, 3, 2, type=np.float16).T]
        yield cls(axis=0), [grid(2, 3)]
        yield cls(axis=2), [grid(2, 3)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with the lens of the input."""
        return [given.reshape(operands[0].shape)]
