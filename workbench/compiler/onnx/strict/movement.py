"""Reshapes, squeezes and splits with dynamic lens."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes import movement, slicing
from workbench.compiler.onnx.registry import strict_op

_ALL = (1 << 63) - 1
"""An end beyond every element."""


@strict_op("Reshape")
def reshape(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Other lens for the same elements; computed lens are passed as a buffer with these lens.

    A buffer cannot have lens of −1 or copied ones; those are reshaped as in an import that is not strict.
    """
    if node.has("shape") or len(inputs) != 2 or node.constant(inputs[1]) is not None:
        return movement.reshape(node, inputs)
    node.expect(inputs, 2)
    if any(span.exact in {-1, 0} for span in node.spans(inputs[1]) or ()):
        return movement.reshape(node, inputs)
    x, lens = inputs
    return node.add("reshape", x, node.add("allocate", lens, buf_type=x.shape.type))


def _standard(node: NodeContext, x: Instruction) -> Instruction:
    """The value in row-major order; dynamic values are copied, too."""
    is_plain = not x.shape.is_tensor or (not x.shape.is_dynamic and x.shape.standard)
    return x if is_plain else node.add("contiguous", x)


@strict_op("Squeeze")
def squeeze(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value without some axes of length 1."""
    node.expect(inputs, 1, 2)
    return node.squeeze(_standard(node, inputs[0]), *movement.axes_of(node, inputs))


@strict_op("Unsqueeze")
def unsqueeze(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value with additional axes of length 1."""
    node.expect(inputs, 1, 2)
    if not inputs[0].shape.is_dynamic:
        return movement.unsqueeze(node, inputs)
    return node.unsqueeze(_standard(node, inputs[0]), *movement.axes_of(node, inputs))


@strict_op("Split")
def split(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Pieces of a value along an axis; for a dynamic length, equal ones and a rest."""
    node.expect(inputs, 1, 2)
    x = inputs[0]
    axis = node.axis(node.integer("axis", 0), x.shape.ndim)
    if isinstance(node.lens(x)[axis], int):
        return slicing.split(node, inputs)
    if node.has("split") or node.optional(inputs, 1) is not None:
        raise node.fail(f"sizes for axis {axis} of {x.shape}; expected a fixed length")
    pieces = slicing.piece_count(node)
    length = node.add("dimensions_of", x, start=axis, end=axis + 1)
    count, more = node.scalar(DType.INT64, pieces), node.scalar(DType.INT64, pieces - 1)
    size = node.add("div", node.add("add", length, more), count)
    made: list[Instruction] = []
    for i in range(pieces):
        start = node.add("mul", size, node.scalar(DType.INT64, i))
        if i == pieces - 1:
            made.append(node.add("slice", x, start, axes=(axis,), ends=(_ALL,)))
        else:
            end = node.add("mul", size, node.scalar(DType.INT64, i + 1))
            made.append(node.add("slice", x, start, end, axes=(axis,)))
    return made
