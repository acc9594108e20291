"""Attention of onnxruntime as MIGraphX decomposes it, which adds masks before it scales."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.sizes import Length

UNSUPPORTED = ("do_rotary", "unidirectional", "rotary_embedding_dim", "past_present_share_buffer")


def expect_plain(node: NodeContext, inputs: Sequence[Instruction]) -> None:
    """Refuse what MIGraphX's importer refuses of an ``Attention`` node."""
    for name in UNSUPPORTED:
        if node.flag(name):
            raise node.fail(f"{name}={node.integer(name)} is not supported by strict import")
    for index, what in enumerate(("a past", "a bias of the scores", "a length of the past"), 4):
        if index < len(inputs):
            raise node.fail(f"{what} is not supported by strict import; omit input {index}")


def expect_projection(node: NodeContext, inputs: Sequence[Instruction]) -> None:
    """Refuse weights and a bias that do not fit the input of an ``Attention`` node."""
    x, weights, bias = inputs[0], inputs[1], node.optional(inputs, 2)
    hidden, rows = node.lens(x)[2], node.lens(weights)[0]
    if hidden != rows or x.shape.type is not weights.shape.type:
        raise node.fail(f"weights {weights.shape}; expected {hidden} rows of {x.shape.type}")
    width = node.lens(weights)[1]
    if not node.has("qkv_hidden_sizes") and width % 3:
        raise node.fail(f"weights {weights.shape} have a width that is not a multiple of 3")
    if bias is not None and (node.lens(bias) != (width,) or bias.shape.type is not x.shape.type):
        raise node.fail(f"bias {bias.shape}; expected {width} elements of {x.shape.type}")


def expect_key_mask(node: NodeContext, mask: Instruction, lens: Sequence[Length]) -> None:
    """Refuse a mask that is not int32 with a number per key."""
    wanted = (lens[0], lens[3])
    if mask.shape.type is not DType.INT32 or node.lens(mask) != wanted:
        raise node.fail(f"mask {mask.shape}; expected int32_type, {list(wanted)}")


def masked(
    node: NodeContext, mask: Instruction, lens: Sequence[Length], type: DType
) -> Instruction:
    """``mask_filter_value`` for keys whose number is 0, and 0 for others, with the lens of the scores."""
    keep, hide = (node.vector(type, [v]) for v in (0, node.number("mask_filter_value", -10000.0)))
    keep, hide = node.multibroadcast(keep, lens), node.multibroadcast(hide, lens)
    rows = node.add("reshape", mask, dims=node.fixed((lens[0], 1, 1, lens[3]), "a mask"))
    spread = node.multibroadcast(rows, lens)
    spread = node.add("reshape", spread, dims=node.fixed(lens, "scores"))
    zeros = node.convert(keep, DType.INT32)
    hidden = node.add("convert", node.add("equal", spread, zeros), target_type=DType.BOOL)
    return node.add("where", hidden, hide, keep)


def scale_of(node: NodeContext, type: DType, size: Length) -> Instruction:
    """The ``scale`` attribute, or one over the root of the size of a head."""
    given = node.number("scale", 0.0)
    if given:
        return node.scalar(type, given)
    size = node.fixed([size], "the size of a head")[0]
    return node.add("recip", node.add("sqrt", node.scalar(type, size)))


def self_attention(
    node: NodeContext, parts: Sequence[Instruction], heads: int, mask: Instruction | None
) -> Instruction:
    """Attention among projected queries, keys and values, each (batch, length, width)."""
    batch, length, width = node.lens(parts[0])
    type, lens = parts[0].shape.type, (batch, heads, length, length)
    if mask is not None:
        expect_key_mask(node, mask, lens)
    bias = None if mask is None else masked(node, mask, lens, type)
    scale = scale_of(node, type, width // heads)
    split = [node.reshape(p, batch, length, heads, node.lens(p)[2] // heads) for p in parts]
    query, key, value = (node.transpose(s, 0, 2, 1, 3) for s in split)
    scores = node.add("dot", query, node.transpose(key, 0, 1, 3, 2))
    if bias is not None:
        scores = node.common("add", scores, bias)
    weights = node.add("softmax", node.common("mul", scores, scale), axis=3)
    result = node.transpose(node.add("dot", weights, value), 0, 2, 1, 3)
    return node.reshape(result, batch, length, node.lens(parts[2])[2])
