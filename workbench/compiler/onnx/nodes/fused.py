"""Operators that onnxruntime's optimiser makes of several: products with an activation, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros import compositions
from workbench.compiler.onnx import builders
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.convolution import convolve, with_bias
from workbench.compiler.onnx.nodes.matmul import product
from workbench.compiler.onnx.nodes.pooling import pooled
from workbench.compiler.onnx.registry import onnx_op

_DEFAULTS: dict[str, tuple[float, ...]] = {
    "Elu": (1.0,), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01,), "ThresholdedRelu": (1.0,),
}  # fmt: skip
_ACTIVATIONS = {
    "Elu": "elu", "HardSigmoid": "hard_sigmoid", "LeakyRelu": "leaky_relu", "Relu": "relu",
    "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "softsign", "Tanh": "tanh",
    "ThresholdedRelu": "thresholded_relu",
}  # fmt: skip


def _activated(node: NodeContext, x: Instruction, given: Sequence[float]) -> Instruction:
    """The activation that a node names, with the numbers that it takes."""
    name = node.text("activation", "")
    if not name:
        return x
    if name == "Clip" and len(given) == 2:
        low, high = (node.scalar(x.shape.type, v) for v in given)
        return node.common("clip", x, low, high)
    if name not in _ACTIVATIONS:
        known = ", ".join(["Clip", *_ACTIVATIONS])
        raise node.fail(f"activation {name!r}; expected one of {known}")
    numbers = (*given, *_DEFAULTS.get(name, ())[len(given) :])
    scales: dict[str, Any] = dict(zip(("alpha", "beta"), numbers, strict=False))
    taken = len(_DEFAULTS.get(name, ()))
    return node.add(_ACTIVATIONS[name], x, **dict(list(scales.items())[:taken]))


@onnx_op("FusedConv")
def fused_conv(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A convolution, plus a bias and another value, and an activation of the sum."""
    node.expect(inputs, 2, 4)
    result = convolve(node, inputs[0], inputs[1])
    result = with_bias(node, result, node.optional(inputs, 2))
    other = node.optional(inputs, 3)
    if other is not None:
        result = node.common("add", result, other)
    return _activated(node, result, node.numbers("activation_params", ()))


@onnx_op("FusedGemm")
def fused_gemm(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """``alpha * A @ B + beta * C``, and an activation of it."""
    node.expect(inputs, 2, 3)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    flips = (node.flag("transA"), node.flag("transB"))
    result = compositions.gemm(
        node, inputs[0], inputs[1], node.optional(inputs, 2), alpha, beta, flips
    )
    names = [n for n in ("activation_alpha", "activation_beta") if node.has(n)]
    return _activated(node, result, [node.number(name) for name in names])


@onnx_op("FusedMatMul", "TransposeMatMul")
def fused_matmul(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A matrix product of operands that may be transposed, times a number."""
    node.expect(inputs, 2)
    a, b = (_turned(node, value, side) for value, side in zip(inputs, "AB", strict=True))
    result, alpha = product(node, a, b), node.number("alpha", 1.0)
    if alpha == 1.0:
        return result
    return node.common("mul", result, node.scalar(result.shape.type, alpha))


def _turned(node: NodeContext, value: Instruction, side: str) -> Instruction:
    """An operand with its batch axes in front, and its last two axes exchanged where the node says so."""
    rank = value.shape.ndim
    order = list(range(rank))
    if node.flag(f"transBatch{side}") and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if node.flag(f"trans{side}") and rank > 1:
        order[-2:] = reversed(order[-2:])
    return value if order == sorted(order) else node.transpose(value, *order)


@onnx_op("NhwcMaxPool")
def nhwc_max_pool(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The maximum of each window, with the channels last."""
    node.expect(inputs, 1)
    rank = inputs[0].shape.ndim
    first = node.transpose(inputs[0], 0, rank - 1, *range(1, rank - 1))
    return node.transpose(pooled(node, first, "max"), 0, *range(2, rank), 1)


@onnx_op("EmbedLayerNormalization")
def embed_layer_normalization(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Rows of words, positions and segments added up and normalised, and the number of words kept."""
    node.expect(inputs, 1, 9)
    if len(inputs) < 7:
        raise node.fail(f"{len(inputs)} inputs; expected 7 to 9")
    tables = [node.optional(inputs, i) for i in (2, 3, 4)]
    rows = [inputs[0], node.optional(inputs, 8), node.optional(inputs, 1)]
    return embedded(node, rows, tables, inputs[5:7], node.optional(inputs, 7))


def embedded(
    node: NodeContext,
    rows: Sequence[Instruction | None],
    tables: Sequence[Instruction | None],
    weights: Sequence[Instruction],
    mask: Instruction | None,
) -> list[Instruction]:
    """Rows of tables added up, normalised and weighted; the count of each mask; the plain sum.

    Args:
        node: The node.
        rows: Indices of words, of positions (by default, counted from 0) and of segments.
        tables: The tables of words, of positions and of segments.
        weights: The scale and the offset after the normalisation.
        mask: The words that count: those that are not 0.
    """
    words, places, segments = rows
    word_table, place_table, segment_table = tables
    if words is None or word_table is None or place_table is None:
        raise node.fail(
            "the words, their table or that of positions is omitted; the operator requires all three"
        )
    batch, length = node.lens(words)
    total = node.add("gather", word_table, words, axis=0)
    places = node.counted(DType.INT64, length) if places is None else places
    total = node.common("add", total, node.add("gather", place_table, places, axis=0))
    if segments is not None and segment_table is not None:
        total = node.common("add", total, node.add("gather", segment_table, segments, axis=0))
    type = total.shape.type
    epsilon = builders.epsilon_of(type, node.number("epsilon", 1e-12))
    made, _, _ = builders.standardized(node, total, (2,), epsilon)
    result = node.common("add", node.common("mul", made, weights[0]), weights[1])
    if mask is None:
        return [result, node.filled(DType.INT32, (batch,), 0), total]
    kept = node.convert(mask, DType.INT32)
    return [result, node.squeeze(node.add("reduce_sum", kept, axes=(1,)), 1), total]
