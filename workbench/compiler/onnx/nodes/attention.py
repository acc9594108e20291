"""Fused attention operators of onnxruntime, decomposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of
from workbench.compiler.onnx.strict.attention import expect_plain, expect_projection, self_attention

MICROSOFT = "com.microsoft"

Lens: TypeAlias = "tuple[Length, Length, Length, Length]"


@dataclass
class Heads:
    """Queries, keys and values, each (batch, heads, length, size)."""

    query: Instruction
    key: Instruction
    value: Instruction

    def lens(self, node: NodeContext) -> Lens:
        """The lens of the scores: batch, heads, queries, keys."""
        batch, heads, queries, _ = node.lens(self.query)
        return batch, heads, queries, node.lens(self.key)[2]


def heads_first(node: NodeContext, value: Instruction) -> Instruction:
    """(batch, length, heads, size) as (batch, heads, length, size), and vice versa."""
    return node.transpose(value, 0, 2, 1, 3)


def merged(node: NodeContext, value: Instruction) -> Instruction:
    """(batch, heads, length, size) as (batch, length, heads × size)."""
    batch, heads, length, size = node.lens(value)
    return node.reshape(heads_first(node, value), batch, length, heads * size)


def scores_of(node: NodeContext, heads: Heads) -> Instruction:
    """The products of queries and keys, scaled by the attribute or by the root of the size."""
    scale = node.number("scale", 0.0) or 1 / math.sqrt(node.lens(heads.query)[3])
    scores = node.add("dot", heads.query, node.transpose(heads.key, 0, 1, 3, 2))
    return node.common("mul", scores, node.scalar(heads.query.shape.type, scale))


def _attended(
    node: NodeContext, heads: Heads, biases: Sequence[Instruction | None], before: Length
) -> Instruction:
    """Softmax of the scaled products of queries and keys, plus biases, times the values.

    Args:
        node: The node.
        heads: Queries, keys and values.
        biases: The terms to add to the scores.
        before: The number of keys before the key of the first query.
    """
    scores = scores_of(node, heads)
    for bias in biases:
        if bias is not None:
            scores = node.common("add", scores, bias)
    if node.flag("unidirectional"):
        scores = _causal(node, scores, before)
    weights = node.add("softmax", scores, axis=-1)
    return merged(node, node.add("dot", weights, heads.value))


def _causal(node: NodeContext, scores: Instruction, before: Length) -> Instruction:
    """The scores with the keys after each query's own set to minus infinity."""
    lens = node.lens(scores)
    queries, keys = lens[-2:]
    places = node.multibroadcast(node.counted(DType.INT64, keys), lens)
    own = node.common("add", node.counted(DType.INT64, queries), node.number_of(before))
    own = node.multibroadcast(node.unsqueeze(own, 1), lens)
    hidden = node.convert(node.add("greater", places, own), DType.BOOL)
    lowest = node.multibroadcast(node.scalar(scores.shape.type, -np.inf), lens)
    return node.add("where", hidden, lowest, scores)


def _padding_bias(
    node: NodeContext, mask: Instruction | None, lens: Lens, type: DType
) -> Instruction | None:
    """A bias that is zero for keys that a mask keeps, and a large negative number for others."""
    if mask is None:
        return None
    hidden = node.multibroadcast(_hidden(node, mask, lens), lens)
    filler = node.number("mask_filter_value", -10000.0)
    values = [node.multibroadcast(node.vector(type, [v]), lens) for v in (filler, 0)]
    return node.add("where", hidden, *values)


def _hidden(node: NodeContext, mask: Instruction, lens: Lens) -> Instruction:
    """The keys that a mask hides: 0 in a mask per key, or those beyond a count."""
    batch, _, queries, keys = lens
    own, type = node.lens(mask), mask.shape.type
    if own in [(batch, keys), (batch, queries, keys)]:
        mask = node.unsqueeze(mask, 1, 2) if len(own) == 2 else node.unsqueeze(mask, 1)
        return node.convert(node.common("equal", mask, node.scalar(type, 0)), DType.BOOL)
    counts = (batch,), (2 * batch,), (3 * batch + 2,)
    if own not in counts:
        known = ", ".join(str(list(n)) for n in (*counts, (batch, keys), (batch, queries, keys)))
        raise node.fail(f"mask {mask.shape}; expected one of {known}")
    places = node.counted(type, keys)
    hidden = node.common("less", places, _counted(node, mask, 0, batch))
    hidden = node.add("not", node.convert(hidden, DType.BOOL))
    if own == counts[1]:  # ends, then starts
        early = node.common("less", places, _counted(node, mask, batch, batch))
        hidden = node.common("logical_or", hidden, node.convert(early, DType.BOOL))
    return hidden


def _counted(node: NodeContext, mask: Instruction, start: Length, batch: Length) -> Instruction:
    return node.reshape(node.slice(mask, [0], [start], [start + batch]), batch, 1, 1, 1)


@onnx_op("Attention", domain=MICROSOFT)
def attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Self-attention, including the projection of its input."""
    node.expect(inputs, 2, 7)
    if node.flag("do_rotary"):
        raise node.fail("do_rotary=1 is not supported")
    if node.optional(inputs, 6) is not None or node.flag("past_present_share_buffer"):
        raise node.fail("a cache that is shared with the outputs is not supported")
    if node.strict:
        expect_plain(node, inputs)
        expect_projection(node, inputs)
        heads = node.integer("num_heads")
        return [self_attention(node, _projected(node, inputs), heads, node.optional(inputs, 3))]
    x, weights, bias, mask, past, added = (node.optional(inputs, i) for i in range(6))
    assert x is not None
    assert weights is not None
    return attended_to_itself(node, x, weights, bias, mask, past, added)


def attended_to_itself(
    node: NodeContext,
    x: Instruction,
    weights: Instruction,
    bias: Instruction | None,
    mask: Instruction | None,
    past: Instruction | None,
    added: Instruction | None = None,
) -> list[Instruction]:
    """Self-attention, and the keys and values up to now if that output is used."""
    projected = _projected(node, [x, weights, *([] if bias is None else [bias])])
    made = _split(node, projected)
    if past is not None:
        old = [_part(node, past, i) for i in range(2)]
        made.key = node.add("concat", old[0], made.key, axis=2)
        made.value = node.add("concat", old[1], made.value, axis=2)
    hidden = _padding_bias(node, mask, made.lens(node), made.query.shape.type)
    before = 0 if past is None else node.lens(past)[3]
    outputs = [_attended(node, made, [added, hidden], before)]
    if node.uses_output(1):
        both = [node.unsqueeze(v, 0) for v in (made.key, made.value)]
        outputs.append(node.add("concat", *both, axis=0))
    return outputs


def _projected(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Queries, keys and values, (batch, length, width): the input times the weights, plus a bias."""
    x, weights = inputs[:2]
    if x.shape.ndim != 3 or weights.shape.ndim != 2:
        raise node.fail(f"input {x.shape}, weights {weights.shape}; expected ranks 3 and 2")
    batch = node.lens(x)[0]
    total = node.fixed(node.lens(weights)[1:2], "the width of the weights")[0]
    sizes = node.integers("qkv_hidden_sizes", ()) or (total // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != total or sizes[0] != sizes[1] or min(sizes) < 1:
        raise node.fail(f"qkv_hidden_sizes {list(sizes)}; expected three that sum to {total}")
    spread = node.multibroadcast(node.unsqueeze(weights, 0), (batch, *node.lens(weights)))
    projected = node.add("dot", x, spread)
    bias = node.optional(inputs, 2)
    if bias is not None:
        projected = node.common("add", projected, bias)
    ends = np.cumsum(sizes).tolist()
    return [
        node.slice(projected, [2], [end - size], [end])
        for end, size in zip(ends, sizes, strict=True)
    ]


def _split(node: NodeContext, parts: list[Instruction]) -> Heads:
    """Queries, keys and values, (batch, length, width), split into heads."""
    count, split = node.integer("num_heads"), list[Instruction]()
    for part in parts:
        batch, length, width = node.lens(part)
        split.append(node.reshape(part, batch, length, count, width // count))
    return Heads(*[heads_first(node, s) for s in split])


@onnx_op("MultiHeadAttention")
def multi_head_attention(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Attention of queries to keys and values, separate or packed."""
    node.expect(inputs, 1, 9)
    count = node.integer("num_heads")
    made = _with_bias(node, _unpacked(node, inputs, count), node.optional(inputs, 3))
    made = _with_past(node, made, inputs)
    mask = _padding_bias(node, node.optional(inputs, 4), made.lens(node), made.query.shape.type)
    past = node.optional(inputs, 6)
    before = 0 if past is None else node.lens(past)[2]
    result = _attended(node, made, [node.optional(inputs, 5), mask], before)
    return [result, made.key, made.value]


def _with_past(node: NodeContext, heads: Heads, inputs: list[Instruction]) -> Heads:
    """The heads with new keys and values appended to past ones, or written into a cache."""
    keys, values, length = (node.optional(inputs, i) for i in (6, 7, 8))
    if keys is None or values is None:
        return heads
    pairs = ((heads.key, keys), (heads.value, values))
    if length is None:
        grown = [node.add("concat", past, new, axis=2) for new, past in pairs]
        return Heads(heads.query, *grown)
    batch, count = node.lens(heads.query)[:2]
    places = node.fit(node.reshape(length, -1), (batch,))
    written = [
        node.add("concat_past_present", new, places, past, kv_num_heads=count)
        for new, past in pairs
    ]
    return Heads(heads.query, *written)


def _unpacked(node: NodeContext, inputs: list[Instruction], count: int) -> Heads:
    """The three operands with heads first."""
    split, turned = heads_apart(node, inputs, count)
    return Heads(*[v if t else heads_first(node, v) for v, t in zip(split, turned, strict=True)])


def heads_apart(
    node: NodeContext, inputs: list[Instruction], count: int
) -> tuple[list[Instruction], tuple[bool, ...]]:
    """Queries, keys and values of rank 4, and whether each has its heads before its length already."""
    query, key = inputs[0], node.optional(inputs, 1)
    if query.shape.ndim == 5:
        _expect_lens(node, "query", query, (None, None, count, 3, None))
        return _parts(node, query, 3), (False,) * 3
    if query.shape.ndim != 3 or key is None:
        raise node.fail(f"query {query.shape}; expected rank 3 with keys, or packed, of rank 5")
    apart = _heads_apart(node, query, count)
    batch, _, _, size = node.lens(apart)
    if key.shape.ndim == 5:
        _expect_lens(node, "keys and values", key, (batch, None, count, 2, size))
        return [apart, *_parts(node, key, 2)], (False,) * 3
    value = node.optional(inputs, 2)
    if value is None:
        raise node.fail("the values are omitted; expected them together with the keys")
    if key.shape.ndim == 4:
        _expect_lens(node, "keys", key, (batch, count, None, size))
        _expect_lens(node, "values", value, (batch, count, node.lens(key)[2], None))
        return [apart, key, value], (False, True, True)
    _expect_lens(node, "keys", key, (batch, None, node.lens(query)[2]))
    _expect_lens(node, "values", value, (batch, node.lens(key)[1], None))
    split = [apart, _heads_apart(node, key, count), _heads_apart(node, value, count)]
    return split, (False,) * 3


def _expect_lens(
    node: NodeContext, what: str, value: Instruction, lens: Sequence[Length | None]
) -> None:
    """Refuse an operand unless it has these lens; None stands for any."""
    own, wanted = dims_of(value.shape), [None if n is None else dim_of(n) for n in lens]
    meet = [w is None or (d.min <= w.max and w.min <= d.max) for d, w in zip(own, wanted)]  # noqa: B905
    if len(own) == len(wanted) and all(meet):
        return
    shown = ", ".join("any" if d is None else str(d) for d in wanted)
    raise node.fail(f"{what} {value.shape}; expected {{{shown}}}, from the query and num_heads")


def _heads_apart(node: NodeContext, value: Instruction, count: int) -> Instruction:
    batch, length, width = node.lens(value)
    if count < 1 or width % count:
        raise node.fail(
            f"{value.shape} does not split into {count} heads; expected a width that num_heads divides"
        )
    return node.reshape(value, batch, length, count, width // count)


def _parts(node: NodeContext, packed: Instruction, count: int) -> list[Instruction]:
    """The operands that are packed side by side for every head."""
    first = node.transpose(packed, 3, 0, 1, 2, 4)
    return [_part(node, first, i) for i in range(count)]


def _part(node: NodeContext, packed: Instruction, index: int) -> Instruction:
    return node.squeeze(node.slice(packed, [0], [index], [index + 1]), 0)


def _with_bias(node: NodeContext, heads: Heads, bias: Instruction | None) -> Heads:
    """The three operands, each with its part of a bias added."""
    if bias is None:
        return heads
    made: list[Instruction] = []
    start = 0
    for value in (heads.query, heads.key, heads.value):
        _, count, _, size = node.lens(value)
        piece = node.slice(bias, [0], [start], [start + count * size])
        made.append(node.common("add", value, node.reshape(piece, count, 1, size)))
        start += count * size
    return Heads(*made)
