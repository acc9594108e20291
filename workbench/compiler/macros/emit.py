"""Emitters: where compositions insert instructions, with MIGraphX's broadcasts and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np

from workbench.compiler.errors import OperationError, WorkbenchError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.ranges import broadcast_dim, dims_of
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens

_SMALL = {DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16}
_RANK = [DType.INT32, DType.UINT32, DType.INT64, DType.UINT64]


def common_type(types: Sequence[DType]) -> DType:
    """The common type of values with these types, by C++'s usual arithmetic conversions."""
    return reduce(_common, types)


def _common(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if DType.DOUBLE in (a, b):
        return DType.DOUBLE
    if a.is_float or b.is_float:
        return DType.FLOAT
    if a in _SMALL and b in _SMALL:
        return DType.INT32
    return max((t for t in (a, b) if t not in _SMALL), key=_RANK.index)


class Emitter(Protocol):
    """The context into which a composition emits: a position in a module, or an importer's node."""

    def add(
        self, op: str, *inputs: Instruction, modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        """Emit an instruction."""
        ...

    def common(self, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
        """Emit an operation on inputs brought to common lens and a common type."""
        ...

    def scalar(self, type: DType, value: Any) -> Instruction:
        """Add a literal of one value."""
        ...

    def convert(self, value: Instruction, type: DType) -> Instruction:
        """The value with this element type."""
        ...

    def fit_like(self, value: Instruction, like: Instruction) -> Instruction:
        """The value with the lens of another one: itself, or a broadcast of it."""
        ...

    def spread_like(self, value: Instruction, like: Instruction) -> Instruction:
        """A broadcast of the value to the lens of another one, even if they are equal."""
        ...

    def unsqueeze(self, value: Instruction, *axes: int) -> Instruction:
        """Emit an unsqueeze."""
        ...

    def transpose(self, value: Instruction, *permutation: int) -> Instruction:
        """Emit a transpose."""
        ...

    def fail(self, message: str) -> WorkbenchError:
        """An error to raise that says where it happened."""
        ...


class Emit:
    """Emits before an instruction of a module, or at its end (before a ``@return``).

    Args:
        module: The module; literals go to its front.
        before: The instruction before which new ones go; None for the end.
        name: The name of the macro, for errors.
    """

    def __init__(self, module: Module, before: Instruction | None, name: str) -> None:
        """Emit at the given position."""
        self.module = module
        self.before = module.last if before is None and module.has_return else before
        self.name = name

    def fail(self, message: str) -> OperationError:
        """An error to raise that names the macro."""
        return OperationError(f"macro {self.name}: {message}")

    def add(
        self, op: str, *inputs: Instruction, modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        """Insert an instruction."""
        return self.module.insert(self.before, op, *inputs, modules=modules, **attributes)

    def common(self, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
        """Insert an operation on inputs brought to common lens and a common type.

        If some length is known only at run time, every operand is broadcast: the first against all,
        the others against the first.
        """
        type = common_type([i.shape.type for i in inputs])
        if any(i.shape.is_dynamic for i in inputs):
            fitted = [self.convert(i, type) for i in self.broadcast(*inputs)]
        else:
            lens = broadcast_lens(*[i.shape.lens for i in inputs])
            fitted = [self.convert(self.fit(i, lens), type) for i in inputs]
        return self.add(op, *fitted, **attributes)

    def broadcast(self, *inputs: Instruction) -> list[Instruction]:
        """Values with common lens; if some length is known only at run time, all are broadcast."""
        if not any(i.shape.is_dynamic for i in inputs):
            lens = broadcast_lens(*[i.shape.lens for i in inputs])
            return [self.fit(i, lens) for i in inputs]
        return self._ranges(inputs) if len(inputs) > 1 else list(inputs)

    def _ranges(self, inputs: Sequence[Instruction]) -> list[Instruction]:
        dims = reduce(self._broadcast, [dims_of(i.shape) for i in inputs])
        first = self.add("multibroadcast", *inputs, out_dyn_dims=dims)
        rest = [self.add("multibroadcast", i, first, out_dyn_dims=dims) for i in inputs[1:]]
        return [first, *rest]

    def _broadcast(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
        rank = max(len(a), len(b))
        left, right = ((Dim(1, 1),) * (rank - len(d)) + d for d in (a, b))
        found = [broadcast_dim(x, y) for x, y in zip(left, right, strict=True)]
        if None in found:
            shown = " and ".join("{" + ", ".join(map(str, d)) + "}" for d in (a, b))
            raise self.fail(f"dimensions {shown} do not broadcast")
        return tuple(d for d in found if d is not None)

    def scalar(self, type: DType, value: Any) -> Instruction:
        """Add a literal of rank 0."""
        array = np.asarray(value).astype(type.numpy).reshape(())
        return self.module.add_literal(Argument(Shape(type), array))

    def literal(self, type: DType, values: Any, lens: Sequence[int]) -> Instruction:
        """Add a literal of these lens."""
        array: Array = np.asarray(values).astype(type.numpy).reshape(tuple(lens))
        return self.module.add_literal(Argument(Shape(type, lens), array))

    def convert(self, value: Instruction, type: DType) -> Instruction:
        """The value with this element type: itself, or a convert of it."""
        return value if value.shape.type is type else self.add("convert", value, target_type=type)

    def fit(self, value: Instruction, lens: Sequence[int]) -> Instruction:
        """The value with these lens: itself, or a multibroadcast of it."""
        return value if value.shape.lens == tuple(lens) else self.multibroadcast(value, lens)

    def multibroadcast(self, value: Instruction, lens: Sequence[int]) -> Instruction:
        """Insert a multibroadcast, even to the same lens."""
        return self.add("multibroadcast", value, out_lens=tuple(lens))

    def fit_like(self, value: Instruction, like: Instruction) -> Instruction:
        """The value with the lens of another one; if these are ranges, always a broadcast."""
        if like.shape.is_dynamic:
            return self.add("multibroadcast", value, like)
        return self.fit(value, like.shape.lens)

    def spread_like(self, value: Instruction, like: Instruction) -> Instruction:
        """A multibroadcast of the value to the lens of another one."""
        if like.shape.is_dynamic:
            return self.add("multibroadcast", value, like)
        return self.multibroadcast(value, like.shape.lens)

    def unsqueeze(self, value: Instruction, *axes: int) -> Instruction:
        """Insert an unsqueeze."""
        return self.add("unsqueeze", value, axes=axes)

    def transpose(self, value: Instruction, *permutation: int) -> Instruction:
        """Insert a transpose."""
        return self.add("transpose", value, permutation=permutation)

    def reshape(self, value: Instruction, *dims: int) -> Instruction:
        """Insert a reshape."""
        return self.add("reshape", value, dims=dims)

    def slice(self, value: Instruction, axis: int, start: int, end: int) -> Instruction:
        """Insert a slice of one axis."""
        return self.add("slice", value, axes=(axis,), starts=(start,), ends=(end,))

    def static(self, value: Instruction, what: str) -> tuple[int, ...]:
        """The lens of a value, which must be fixed.

        Raises:
            OperationError: A length is known only at run time.
        """
        dims = dims_of(value.shape)
        if not all(d.is_fixed for d in dims):
            raise self.fail(f"{what} is {value.shape}; expected fixed lengths")
        return tuple(d.min for d in dims)
