"""MultiHeadAttention as MIGraphX composes it: scores are scaled after everything is added to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.attention import heads_apart, heads_first, merged
from workbench.compiler.onnx.registry import strict_op
from workbench.compiler.onnx.sizes import Length
from workbench.compiler.onnx.strict.attention import masked


@strict_op("MultiHeadAttention")
def multi_head_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Attention of queries to keys and values, separate or packed."""
    node.expect(inputs, 1, 9)
    count = node.integer("num_heads")
    split, turned = heads_apart(node, inputs, count)
    batch, queries, _, size = node.lens(split[0])
    keys = node.lens(split[1])[2 if turned[1] else 1]
    _expect_bias(node, inputs, (batch, count, queries, keys))
    split = _with_bias(node, split, turned, node.optional(inputs, 3))
    query, key, value = (
        v if t else heads_first(node, v) for v, t in zip(split, turned, strict=True)
    )
    key, value = _with_past(node, key, value, inputs)
    mask = _mask(node, node.optional(inputs, 4), (batch, count, keys, keys), query.shape.type)
    size = node.fixed([size], "the size of a head")[0]
    scale = node.scalar(query.shape.type, node.number("scale", 0.0) or 1 / math.sqrt(size))
    scores = node.add("dot", query, node.transpose(key, 0, 1, 3, 2))
    for term in (node.optional(inputs, 5), mask):
        if term is not None:
            scores = node.common("add", scores, term)
    weights = node.add("softmax", node.common("mul", scores, scale), axis=-1)
    return [merged(node, node.add("dot", weights, value)), key, value]


def _expect_bias(node: NodeContext, inputs: list[Instruction], lens: tuple[Length, ...]) -> None:
    bias = node.optional(inputs, 5)
    if bias is not None and node.lens(bias) != lens:
        raise node.fail(f"a bias of the scores, {bias.shape}; expected {list(lens)}")


def _with_bias(
    node: NodeContext,
    split: list[Instruction],
    turned: Sequence[bool],
    bias: Instruction | None,
) -> list[Instruction]:
    """The three operands, each with its part of a vector added; any other bias is left out."""
    if bias is None or bias.shape.ndim != 1:
        return split
    own = [node.lens(v) for v in split]
    whole = [_merged_lens(n, t) for n, t in zip(own, turned, strict=True)]
    width = sum(w[2] for w in whole)
    if node.lens(bias) != (width,):
        raise node.fail(f"bias {bias.shape}; expected {width} elements")
    row, start = node.unsqueeze(node.unsqueeze(bias, 0), 0), 0
    parts: list[Instruction] = []
    for lens in whole:
        end = start + lens[2]
        parts.append(node.multibroadcast(node.slice(row, [2], [start], [end]), lens))
        start = end
    flat = [node.reshape(v, *lens) for v, lens in zip(split, whole, strict=True)]
    sums = [node.add("add", b, v) for b, v in zip(parts, flat, strict=True)]
    return [node.reshape(v, *lens) for v, lens in zip(sums, own, strict=True)]


def _merged_lens(lens: Sequence[Length], turned: bool) -> tuple[Length, Length, Length]:
    """The lens (batch, length, width) of an operand whose heads are apart."""
    heads, length = lens[1:3] if turned else lens[2:0:-1]
    return lens[0], length, heads * lens[3]


def _with_past(
    node: NodeContext, key: Instruction, value: Instruction, inputs: list[Instruction]
) -> tuple[Instruction, Instruction]:
    """Caches with the new keys and values written over them, at the places that input 8 says, or 0."""
    caches = [node.optional(inputs, i) for i in (6, 7)]
    pasts = [p for p in caches if p is not None and not node.is_empty(p)]
    if len(pasts) < 2:
        return key, value
    for what, past, new in zip(("past_key", "past_value"), pasts, (key, value), strict=True):
        own, wanted = node.lens(past), node.lens(new)
        if len(own) != 4 or (*own[:2], own[3]) != (*wanted[:2], wanted[3]):
            raise node.fail(
                f"{what} {past.shape}; expected the lens of {new.shape}, but for axis 2"
            )
    if node.lens(pasts[0])[2] != node.lens(pasts[1])[2]:
        raise node.fail(
            f"past_key {pasts[0].shape} and past_value {pasts[1].shape} differ in length; "
            "expected one length"
        )
    batch, count = node.fixed(node.lens(key)[:2], "a batch and heads")
    lengths = node.optional(inputs, 8)
    if lengths is None:
        lengths = node.vector(DType.INT32, [0] * batch)
    if lengths.shape.type is not DType.INT32:
        raise node.fail(f"past_sequence_length {lengths.shape}; expected int32_type")
    key, value = (
        node.add("concat_past_present", new, lengths, past, kv_num_heads=count)
        for new, past in zip((key, value), pasts, strict=True)
    )
    return key, value


def _mask(
    node: NodeContext,
    mask: Instruction | None,
    lens: tuple[Length, Length, Length, Length],
    type: DType,
) -> Instruction | None:
    """Hides keys by a number for each, or by how many there are in a sequence; None for other counts."""
    if mask is None:
        return None
    batch, _, _, keys = node.fixed(lens, "scores with a mask")
    known = (batch,), (batch, keys), (3 * batch + 2,)
    if mask.shape.type is not DType.INT32 or node.lens(mask) not in known:
        shown = ", ".join(str(list(n)) for n in known)
        raise node.fail(f"mask {mask.shape}; expected int32_type with one of {shown}")
    if node.lens(mask) == known[2]:
        return None
    if mask.shape.ndim == 1:
        places = node.multibroadcast(node.vector(DType.INT32, range(keys)), known[1])
        kept = node.add("less", places, node.multibroadcast(mask, known[1]))
        mask = node.add("convert", kept, target_type=DType.INT32)
    return masked(node, mask, lens, type)
