"""Places of values: their own memory, or for views the memory of another value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from workbench.compiler.ir.builtin import Capture, Identity
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.dims import ExpectDims
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Load
from workbench.gpu.kernels.kernel import Place

Places = Mapping[tuple[int, int], Place]
"""Places by the instruction's id and the number of the result."""


def parts_of(shape: Shape) -> tuple[Shape, ...]:
    """The shapes of a tuple's parts; for a tensor, its own shape."""
    return shape.subs if shape.subs is not None and not shape.kind else (shape,)


def overlap(one: Place, other: Place) -> bool:
    """Whether the memory ranges of two tensors, from first to last element, overlap."""
    if one.root != other.root:
        return False
    (start, end), (from_, to) = _stretch(one), _stretch(other)
    return start < to and from_ < end


def _stretch(place: Place) -> tuple[int, int]:
    return place.offset * place.shape.type.size, place.end


def viewed(instruction: Instruction, places: Places) -> list[Place] | None:
    """The places of a result that lies in an input's memory; None if it needs memory of its own."""
    op, inputs = instruction.op, instruction.inputs
    if not inputs or instruction.shape.is_dynamic:
        return None
    if isinstance(op, Identity | Capture | ExpectDims):
        shapes = parts_of(inputs[0].shape)
        return _all(places, inputs[0], range(len(shapes)))
    if isinstance(op, GetTupleElem):
        return _all(places, inputs[0], [op.index])
    x = places.get((inputs[0].id, 0))
    if x is None or not inputs[0].shape.is_tensor:
        return None
    if isinstance(op, Multibroadcast):
        return [Place(x.root, _spread(x.shape, instruction.shape), x.offset)]
    return _moved(instruction, x) if x.shape == inputs[0].shape else None


def _spread(source: Shape, shape: Shape) -> Shape:
    """The shape of a broadcast of memory, whatever layout that has."""
    new = shape.ndim - source.ndim
    pairs = zip(source.lens, source.strides, shape.lens[new:], strict=True)
    own = (stride if length == wide else 0 for length, stride, wide in pairs)
    return Shape(shape.type, shape.lens, (*[0] * new, *own))


def _all(places: Places, source: Instruction, parts: Any) -> list[Place] | None:
    found = [places.get((source.id, part)) for part in parts]
    return [p for p in found if p is not None] if None not in found else None


def _moved(instruction: Instruction, x: Place) -> list[Place] | None:
    op, shape, source = instruction.op, instruction.shape, instruction.inputs[0].shape
    if isinstance(op, Slice) and len(instruction.inputs) > 1:
        return None
    if isinstance(op, Load):
        return _loaded(op, shape, x)
    if op.rearranges is not None and op.family is Family.VIEW:
        return [Place(x.root, shape, x.offset + _start(instruction))]
    if op.rearranges is Rearrangement.RELAID and _same_order(
        source, shape
    ):  # a copy that need not be
        return [Place(x.root, shape, x.offset)]
    return None


def _loaded(op: Load, shape: Shape, x: Place) -> list[Place] | None:
    """The place of elements reinterpreted from an input's memory, if their offset is aligned."""
    start = x.offset * x.shape.type.size + op.offset
    fits = shape.is_tensor and op.offset >= 0 and op.offset + shape.bytes <= x.shape.bytes
    if not fits or start % shape.type.size:
        return None
    return [Place(x.root, shape, start // shape.type.size)]


def _start(instruction: Instruction) -> int:
    """The offset of a view's first element from the input's, in elements."""
    if not isinstance(instruction.op, Slice):
        return 0
    source = instruction.inputs[0].shape
    op = cast("Any", instruction.op.normalized([source]))
    pairs: list[tuple[int, int]] = list(zip(op.axes, op.starts, strict=True))
    return sum(source.strides[a] * s for a, s in pairs)


def _same_order(source: Shape, shape: Shape) -> bool:
    """Whether a copy's elements would be in the same order as its source's."""
    if source.elements != shape.elements:
        return False
    return (source.standard and shape.standard) or (
        source.lens == shape.lens and source.strides == shape.strides
    )
