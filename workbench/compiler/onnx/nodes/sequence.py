"""Sequences and optional values; if their elements are known, they vanish from the program."""

from __future__ import annotations

from itertools import accumulate, pairwise

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.ops.collection import SplitToSequence, split_sizes


def _known(value: Instruction) -> list[Instruction] | None:
    """The elements of a sequence or optional, if they are known at import."""
    known = value.op.name in {"sequence_construct", "optional"}
    return list(value.inputs) if known else None


def _position(node: NodeContext, inputs: list[Instruction], index: int, default: int) -> int | None:
    """A position that is known at import; None if it is not."""
    given = node.optional(inputs, index)
    if given is None:
        return default
    known = node.constant(given)
    return None if known is None else int(node.element(known, "a position"))


def _place(node: NodeContext, position: int, count: int, end: int) -> int:
    if not -count <= position < end:
        raise node.fail(
            f"position {position} in a sequence of {count}; expected {-count} to {end - 1}"
        )
    return position + count if position < 0 else position


@onnx_op("SequenceEmpty", "SequenceConstruct")
def sequence_construct(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A sequence of the inputs."""
    return node.add("sequence_construct", *inputs)


@onnx_op("SequenceInsert")
def sequence_insert(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A sequence with one more element."""
    node.expect(inputs, 2, 3)
    parts = _known(inputs[0])
    position = None if parts is None else _position(node, inputs, 2, len(parts))
    if parts is None or position is None:
        given = node.optional(inputs, 2)
        return node.add("sequence_insert", *inputs[:2], *([] if given is None else [given]))
    parts.insert(_place(node, position, len(parts), len(parts) + 1), inputs[1])
    return node.add("sequence_construct", *parts)


@onnx_op("SequenceErase")
def sequence_erase(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A sequence without one of its elements."""
    node.expect(inputs, 1, 2)
    parts, position = _known(inputs[0]), _position(node, inputs, 1, -1)
    if parts is None or position is None:
        given = node.optional(inputs, 1)
        return node.add("sequence_erase", inputs[0], *([] if given is None else [given]))
    del parts[_place(node, position, len(parts), len(parts))]
    return node.add("sequence_construct", *parts)


@onnx_op("SequenceAt")
def sequence_at(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """One element."""
    node.expect(inputs, 2)
    parts, position = _known(inputs[0]), _position(node, inputs, 1, 0)
    if parts is None or position is None:
        return node.add("sequence_at", *inputs)
    return parts[_place(node, position, len(parts), len(parts))]


@onnx_op("SequenceLength")
def sequence_length(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The number of elements."""
    node.expect(inputs, 1)
    parts = _known(inputs[0])
    if parts is None:
        return node.add("sequence_length", inputs[0])
    return node.scalar(DType.INT64, len(parts))


@onnx_op("SplitToSequence")
def split_to_sequence(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Slices along an axis."""
    node.expect(inputs, 1, 2)
    x, given = inputs[0], node.optional(inputs, 1)
    op = SplitToSequence(
        node.axis(node.integer("axis", 0), x.shape.ndim), node.flag("keepdims", True)
    )
    sizes = None if given is None else node.constant(given)
    if x.shape.is_dynamic or (given is not None and sizes is None):
        return node.module.add(op, x, *([] if given is None else [given]))
    length = x.shape.lens[op.axis]
    if sizes is None:
        lengths = [1] * length
    else:
        is_rank_0 = given is not None and not node.rank(given)
        lengths = split_sizes(op, length, [int(n) for n in sizes.reshape(-1)], is_rank_0)
    bounds = pairwise(accumulate(lengths, initial=0))
    parts = [node.slice(x, [op.axis], [low], [high]) for low, high in bounds]
    if given is None and not op.keepdims:
        parts = [node.squeeze(p, op.axis) for p in parts]
    return node.add("sequence_construct", *parts)


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The elements concatenated or stacked."""
    node.expect(inputs, 1)
    axis, new_axis = node.integer("axis"), node.flag("new_axis")
    parts = _known(inputs[0])
    if not parts:
        return node.add("concat_from_sequence", inputs[0], axis=axis, new_axis=new_axis)
    if new_axis:
        axis = node.axis(axis, parts[0].shape.ndim + 1)
        parts = [node.unsqueeze(p, axis) for p in parts]
    return node.add("concat", *parts, axis=axis)


@onnx_op("Optional")
def optional(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An optional value."""
    node.expect(inputs, 0, 1)
    return node.add("optional", *inputs)


@onnx_op("OptionalHasElement")
def optional_has_element(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Whether there is a value."""
    given = node.optional(inputs, 0)
    if given is None or given.shape.kind != "optional":
        return node.scalar(DType.BOOL, given is not None)
    parts = _known(given)
    return (
        node.add("optional_has_element", given)
        if parts is None
        else node.scalar(DType.BOOL, bool(parts))
    )


@onnx_op("OptionalGetElement")
def optional_get_element(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value."""
    node.expect(inputs, 1)
    if inputs[0].shape.kind != "optional":
        return inputs[0]
    parts = _known(inputs[0])
    return parts[0] if parts else node.add("optional_get_element", inputs[0])
