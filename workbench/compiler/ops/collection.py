"""Sequences of tensors and optional values, as in ONNX; MIGraphX has neither.

The value of a sequence is a Python tuple of its elements, that of an optional a tuple of at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Operation, expect_count, normalize_axis, operation
from workbench.compiler.ir.ranges import dims_of, joined, ranged
from workbench.compiler.ir.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

MAX_LENGTH = 2**31 - 1
"""The range of a length that depends on a sequence: nothing is known of it."""


def element_of(op: Operation, shape: Shape, kind: str = "sequence") -> Shape:
    """The shape of the elements of a sequence or optional.

    Raises:
        ShapeError: It is neither, or the shape of its elements is unknown.
    """
    _expect_kind(op, shape, kind)
    if not shape.subs:
        raise ShapeError(f"{op.name}: input 0 is {shape}; expected one whose elements have a shape")
    return shape.subs[0]


def _expect_kind(op: Operation, shape: Shape, kind: str) -> None:
    if shape.kind != kind:
        raise ShapeError(f"{op.name}: input 0 is {shape}; expected a value of kind {kind}")


def _joined(op: Operation, a: Shape, b: Shape) -> Shape:
    try:
        return joined(a, b)
    except ShapeError as error:
        raise ShapeError(f"{op.name}: {error}") from None


def _number(value: Any) -> int:
    return int(np.asarray(value).reshape(-1)[0])


def _place(op: Operation, values: Sequence[Any], position: int, end: int) -> int:
    """A position counted from the front, below ``end``."""
    if not -len(values) <= position < end:
        raise EvaluationError(
            f"{op.name}: position {position} in a sequence of {len(values)}; "
            f"expected {-len(values)} to {end - 1}"
        )
    return position + len(values) if position < 0 else position


@operation
class SequenceConstruct(Operation):
    """A sequence of the inputs."""

    name = "sequence_construct"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A sequence of the shape that the inputs have in common."""
        element: Shape | None = None
        for shape in inputs:
            element = shape if element is None else _joined(self, element, shape)
        return Shape.sequence_of(element)

    def compute(self, *inputs: Any) -> Any:
        """The inputs."""
        return inputs


@operation
class SequenceInsert(Operation):
    """A sequence with one more element, at a position or at its end."""

    name = "sequence_insert"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A sequence of the shape that the elements have in common."""
        expect_count(self, inputs, 2, 3)
        _expect_kind(self, inputs[0], "sequence")
        return _joined(self, inputs[0], Shape.sequence_of(inputs[1]))

    def compute(self, *inputs: Any) -> Any:
        """The elements, with the new one inserted."""
        values, added = inputs[:2]
        position = _number(inputs[2]) if len(inputs) > 2 else len(values)
        place = _place(self, values, position, len(values) + 1)
        return (*values[:place], added, *values[place:])


@operation
class SequenceErase(Operation):
    """A sequence without the element at a position, the last one unless given."""

    name = "sequence_erase"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The sequence's shape."""
        expect_count(self, inputs, 1, 2)
        _expect_kind(self, inputs[0], "sequence")
        return inputs[0]

    def compute(self, *inputs: Any) -> Any:
        """The other elements."""
        values = inputs[0]
        position = _number(inputs[1]) if len(inputs) > 1 else -1
        place = _place(self, values, position, len(values))
        return (*values[:place], *values[place + 1 :])


@operation
class SequenceAt(Operation):
    """The element of a sequence at a position."""

    name = "sequence_at"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The elements' shape."""
        expect_count(self, inputs, 2)
        return element_of(self, inputs[0])

    def compute(self, *inputs: Any) -> Any:
        """That element."""
        values = inputs[0]
        return values[_place(self, values, _number(inputs[1]), len(values))]


@operation
class SequenceLength(Operation):
    """The number of elements of a sequence."""

    name = "sequence_length"
    flat = True
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """One integer."""
        expect_count(self, inputs, 1)
        _expect_kind(self, inputs[0], "sequence")
        return Shape(DType.INT64)

    def compute(self, *inputs: Any) -> Array:
        """The number."""
        return np.array(len(inputs[0]), np.int64)


@operation
class SplitToSequence(Operation):
    """Slices of a tensor along an axis, as a sequence.

    The second input is the length of every slice, or a list with the length of each. Without it, slices
    have length 1, and ``keepdims=0`` drops their axis.
    """

    name = "split_to_sequence"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True
    axes_of_input = ("axis",)
    axis: int = 0
    keepdims: bool = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A sequence of tensors with another length on the axis."""
        expect_count(self, inputs, 1, 2)
        x = inputs[0]
        if not x.is_tensor:
            raise ShapeError(f"split_to_sequence: input 0 is {x}; expected a tensor")
        axis = normalize_axis(self, self.axis, x.ndim)
        dims = list(dims_of(x))
        if len(inputs) == 1 and not self.keepdims:
            del dims[axis]
        else:
            dims[axis] = Dim(0, dims[axis].max) if len(inputs) > 1 else Dim(1, 1)
        return Shape.sequence_of(ranged(x.type, dims))

    def compute(self, *inputs: Any) -> Any:
        """The slices."""
        x = inputs[0]
        axis, length = self.axis % x.ndim, x.shape[self.axis]
        if len(inputs) == 1:
            parts = np.split(x, length, axis) if length else []
            return tuple(parts if self.keepdims else [p.squeeze(axis) for p in parts])
        given = np.asarray(inputs[1]).reshape(-1)
        sizes = split_sizes(self, length, [int(n) for n in given], given.size == 1)
        return tuple(np.split(x, np.cumsum(sizes)[:-1], axis)) if sizes else ()


def split_sizes(op: Operation, length: int, given: Sequence[int], one_for_all: bool) -> list[int]:
    """The length of each slice: as given, or equal ones except for a shorter last one."""
    sizes = list(given)
    if one_for_all and sizes[0] > 0 and sizes[0] != length:
        full, rest = divmod(length, sizes[0])
        sizes = [sizes[0]] * full + [rest] * (rest > 0)
    if sum(sizes) != length or any(n < 0 for n in sizes):
        raise EvaluationError(
            f"{op.name}: slices of lengths {list(given)} along an axis of length {length}; "
            f"expected lengths that add up to {length}"
        )
    return sizes


@operation
class ConcatFromSequence(Operation):
    """The elements of a sequence concatenated along an axis, or stacked along a new one."""

    name = "concat_from_sequence"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True
    axis: int = 0
    new_axis: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The elements' shape with any length on the axis."""
        expect_count(self, inputs, 1)
        element = element_of(self, inputs[0])
        dims = list(dims_of(element))
        axis = normalize_axis(self, self.axis, len(dims) + self.new_axis)
        if self.new_axis:
            dims.insert(axis, Dim(0, MAX_LENGTH))
        dims[axis] = Dim(0, MAX_LENGTH)
        return ranged(element.type, dims)

    def compute(self, *inputs: Any) -> Array:
        """The elements, concatenated or stacked."""
        if not inputs[0]:
            raise EvaluationError(f"{self.name}: an empty sequence; expected at least one element")
        return (
            np.stack(inputs[0], self.axis)
            if self.new_axis
            else np.concatenate(inputs[0], self.axis)
        )


@operation
class OptionalConstruct(Operation):
    """An optional value: the input, or nothing."""

    name = "optional"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """An optional of the input's shape."""
        expect_count(self, inputs, 0, 1)
        return Shape.sequence_of(inputs[0] if inputs else None, "optional")

    def compute(self, *inputs: Any) -> Any:
        """The input, if there is one."""
        return inputs


@operation
class OptionalHasElement(Operation):
    """Whether an optional has a value."""

    name = "optional_has_element"
    flat = True
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """One bool."""
        expect_count(self, inputs, 1)
        _expect_kind(self, inputs[0], "optional")
        return Shape(DType.BOOL)

    def compute(self, *inputs: Any) -> Array:
        """True if it has a value."""
        return np.array(bool(inputs[0]))


@operation
class OptionalGetElement(Operation):
    """The value of an optional that has one."""

    name = "optional_get_element"
    not_differentiable = "sequences and optionals have no gradients"
    on_host = "sequences and optionals are not arrays"
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The value's shape."""
        expect_count(self, inputs, 1)
        return element_of(self, inputs[0], "optional")

    def compute(self, *inputs: Any) -> Any:
        """That value."""
        if not inputs[0]:
            raise EvaluationError(f"{self.name}: the optional has no value; expected one")
        return inputs[0][0]
