"""Attention as one operator: its products, scale and mask, and its gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.builders import dot
from workbench.compiler.onnx.sizes import known
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.nodes.random import dropped
from workbench.compiler.torch.registry import torch_op


@torch_op("aten.scaled_dot_product_attention")
def attention(
    node: Context, query: Instruction, key: Instruction, value: Instruction,
    mask: Instruction | None = None, dropout: float = 0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Instruction:  # fmt: skip
    """``dropout(softmax(query · keyᵀ · scale + mask)) · value``."""
    if enable_gqa:
        key, value = (_repeated(node, v, query) for v in (key, value))
    scores = _scores(node, query, key, mask, is_causal, scale)
    weights = node.add("softmax", scores, axis=scores.shape.ndim - 1)
    if dropout:
        weights, _ = dropped(node, weights, dropout)
    return _weighed(node, weights, value)


KERNELS: dict[str, tuple[str, ...]] = {
    "flash": ("dropout", "causal", "debug"),
    "efficient": ("mask", "statistics", "dropout", "causal"),
    "cudnn": ("mask", "statistics", "dropout", "causal", "debug"),
    "fused": ("mask", "dropout", "causal", "debug"),
}
"""The arguments of PyTorch's kernels of CUDA, between the value and the scale, by what they are called by."""


@torch_op(
    "aten._scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention",
    "aten._scaled_dot_product_fused_attention_overrideable",
)
def kernel(
    node: Context, query: Instruction, key: Instruction, value: Instruction, *rest: Any
) -> list[Any]:
    """Attention by a kernel of CUDA; what else it returns is for its gradient, which has no handler."""
    name = next(n for n in KERNELS if f"product_{n}" in str(node.fx.target))
    *given, scale = rest
    named = dict(zip(KERNELS[name], given, strict=True))
    found = attention(
        node, query, key, value, named.get("mask"), named["dropout"], named["causal"], scale
    )
    return [found, *[None] * (len(node.fx.meta["val"]) - 1)]


def _repeated(node: Context, x: Instruction, query: Instruction) -> Instruction:
    """The heads of keys or values, each repeated for the queries that share it."""
    own, wanted = node.lens(x), node.lens(query)
    axis = len(own) - 3
    heads, total = node.fixed([own[axis], wanted[axis]], "heads")
    times = total // heads
    split = node.unsqueeze(x, axis + 1)
    spread = node.fit(split, [*own[: axis + 1], times, *own[axis + 1 :]])
    return node.reshape(spread, *own[:axis], total, *own[axis + 1 :])


def _scores(
    node: Context, query: Instruction, key: Instruction, mask: Instruction | None, is_causal: bool,
    scale: float | None,
) -> Instruction:  # fmt: skip
    """The products of queries and keys, scaled and masked."""
    type, rank = query.shape.type, key.shape.ndim
    turned = node.transpose(key, *range(rank - 2), rank - 1, rank - 2)
    scores = node.apply("mul", dot(node, query, turned), factor(node, query, scale), type=type)
    if is_causal:
        mask = _causal(node, scores)
    if mask is None:
        return scores
    if mask.shape.type is DType.BOOL:
        return node.choose(mask, scores, float("-inf"), type)
    return node.apply("add", scores, mask, type=type)


def factor(node: Context, query: Instruction, scale: float | None) -> float:
    """The scale of the products: the root of the inverse of the queries' width, unless it is given."""
    width = node.whole(node.lens(query)[-1], "the width of a query")
    return 1 / math.sqrt(width) if scale is None else scale


def _causal(node: Context, scores: Instruction) -> Instruction:
    """Whether a query sees a key: those of its own position and before."""
    rows, columns = node.lens(scores)[-2:]
    fixed = known([rows, columns])
    if fixed is not None:
        return node.literal(np.tril(np.ones(fixed, np.bool_)))
    place = node.unsqueeze(node.counted(DType.INT64, rows), 1)
    return node.add(
        "not", node.test("less", place, node.counted(DType.INT64, columns), type=DType.INT64)
    )


def _weighed(node: Context, weights: Instruction, value: Instruction) -> Instruction:
    """The product of weights and values; a row of weights that are all masked gives zeros."""
    return dot(node, weights, value)


@torch_op("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    node: Context, query: Instruction, key: Instruction, value: Instruction, dropout: float = 0,
    is_causal: bool = False, mask: Instruction | None = None, scale: float | None = None, *_: Any,
) -> list[Instruction]:  # fmt: skip
    """Attention, and the logarithm of each row's sum of exponentials."""
    if dropout:
        raise node.fail(f"dropout_p={dropout}; expected 0, as this kernel of PyTorch drops none")
    scores = _scores(node, query, key, mask, is_causal, scale)
    last = scores.shape.ndim - 1
    found = _weighed(node, node.add("softmax", scores, axis=last), value)
    wide = node.convert(scores, node.dtype(1))
    kind = wide.shape.type
    top = node.reduce("reduce_max", wide, (last,), keepdim=True)
    total = node.reduce(
        "reduce_sum",
        node.add("exp", node.apply("sub", wide, top, type=kind)),
        (last,),
        keepdim=True,
    )
    logs = node.squeeze(node.add("add", node.add("log", total), top), last)
    return [node.convert(found, node.dtype(0)), logs]


@torch_op("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    node: Context, given: Instruction, query: Instruction, key: Instruction, value: Instruction,
    result: Instruction, logsumexp: Instruction, dropout: float, is_causal: bool,
    mask: Instruction | None = None, scale: float | None = None,
) -> list[Instruction]:  # fmt: skip
    """The gradients of queries, keys and values: ``dS = P ∘ (dP - rowsum(dO ∘ O))``."""
    type, rank = query.shape.type, query.shape.ndim
    order = (*range(rank - 2), rank - 1, rank - 2)
    scores = _scores(node, query, key, mask, is_causal, scale)
    weights = node.add("softmax", scores, axis=rank - 1)
    dv = dot(node, node.transpose(weights, *order), given)
    dp = dot(node, given, node.transpose(value, *order))
    rows = node.reduce("reduce_sum", node.add("mul", given, result), (rank - 1,), keepdim=True)
    ds = node.add("mul", weights, node.apply("sub", dp, rows, type=type))
    ds = node.apply("mul", ds, factor(node, query, scale), type=type)
    dq, dk = dot(node, ds, key), dot(node, node.transpose(ds, *order), query)
    return [node.convert(v, node.dtype(k)) for k, v in enumerate((dq, dk, dv))]
