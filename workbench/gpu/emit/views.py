"""Values of operations that only map indices: views, reshapes, slices."""

from __future__ import annotations

from typing import Any, cast

from workbench.compiler.ir.builtin import Capture, Identity
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.broadcast import (
    Broadcast,
    BroadcastForDot,
    BroadcastWithDims,
    Multibroadcast,
)
from workbench.compiler.ops.broadcast import Scalar as ScalarOperation
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.dims import ExpectDims, ReshapeWithDims
from workbench.compiler.ops.movement import Contiguous, Layout, Reverse
from workbench.compiler.ops.reshape import Flatten, Reshape, ReshapeLazy
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Squeeze, Step, Transpose, Unsqueeze
from workbench.gpu.emit.index import Index, joined, split
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Indices, Tensors, value_of


def attributes(t: Tensors, instruction: Instruction) -> Any:
    """The operation with its attributes resolved, typed for reading them."""
    return cast("Any", t.op(instruction))


@value_of(Identity, Contiguous, Layout, Capture, ExpectDims, moves=True)
def same(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element at the same index."""
    return t.at(i.inputs[0], index)


@value_of(GetTupleElem, moves=True)
def element_of_tuple(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element of one of the input's results."""
    return t.at(i.inputs[0], index, attributes(t, i).index)


@value_of(Transpose, moves=True)
def transposed(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """Axis k of the result is axis permutation[k] of the input."""
    permutation = attributes(t, i).permutation
    place = dict(zip(permutation, index, strict=True))
    return t.at(i.inputs[0], [place[a] for a in range(len(permutation))])


@value_of(Broadcast, moves=True)
def broadcast(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's axes are the result's axes from ``axis`` on."""
    x = i.inputs[0]
    axis = attributes(t, i).axis
    return t.at(x, index[axis : axis + x.shape.ndim])


@value_of(Multibroadcast, BroadcastWithDims, BroadcastForDot, moves=True)
def multibroadcast(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's axes are the result's last ones; those of length 1 repeat."""
    x = i.inputs[0]
    return t.at(x, index[len(index) - x.shape.ndim :])


@value_of(ScalarOperation, moves=True)
def scalar(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's only element."""
    return t.at(i.inputs[0], [Index()] * i.inputs[0].shape.ndim)


@value_of(Reshape, ReshapeLazy, Flatten, Squeeze, Unsqueeze, ReshapeWithDims, moves=True)
def reshaped(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element at the same row-major position."""
    x = i.inputs[0]
    return t.at(x, split(joined(index, i.shape.lens), x.shape.lens, t.w))


@value_of(Slice, when=lambda i: len(i.inputs) == 1, moves=True)
def sliced(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element, offset by the starts."""
    op = attributes(t, i)
    place = list(index)
    for axis, start in zip(op.axes, op.starts, strict=True):
        place[axis] += start
    return t.at(i.inputs[0], place)


@value_of(Step, moves=True)
def stepped(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element at the index times the steps."""
    op = attributes(t, i)
    place = list(index)
    for axis, step in zip(op.axes, op.steps, strict=True):
        place[axis] *= step
    return t.at(i.inputs[0], place)


@value_of(Reverse, moves=True)
def reversed_(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element, counted from the other end of the axes."""
    axes: tuple[int, ...] = attributes(t, i).axes
    place = list(index)
    for axis in axes:
        place[axis] = Index((), i.shape.lens[axis] - 1) - place[axis]
    return t.at(i.inputs[0], place)
