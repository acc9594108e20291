"""Losses."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import agree, dims_of
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, dim_of


@onnx_op("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def cross_entropy(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The negative logarithm of the probability of each label, weighted and reduced."""
    node.expect(inputs, 2, 3)
    scores, labels = inputs[:2]
    reduction = node.text("reduction", "mean")
    if reduction not in {"none", "sum", "mean"}:
        raise node.fail(f"reduction={reduction!r}; expected none, sum or mean")
    rank = scores.shape.ndim
    if rank < 2:
        raise node.fail(f"scores {scores.shape}; expected a batch and classes")
    count = node.lens(scores)[1]
    logs = scores
    if node.op_type == "SoftmaxCrossEntropyLoss":
        logs = node.add("logsoftmax", scores, axis=1)
    ignored = _ignored(node, labels)
    safe = labels if ignored is None else _or_zero(node, labels, ignored)
    picked = _picked(node, logs, safe)
    weights = _weights(node, inputs, safe, count)
    if ignored is not None:
        zero = node.multibroadcast(node.scalar(scores.shape.type, 0), node.lens(labels))
        weights = node.add("where", ignored, zero, weights)
    loss = node.add("mul", node.add("neg", picked), weights)
    # An ignored label may select an infinite loss, and infinity times a weight of zero is NaN.
    if ignored is not None:
        zero = node.multibroadcast(node.scalar(scores.shape.type, 0), node.lens(labels))
        loss = node.add("where", ignored, zero, loss)
    axes = tuple(range(rank - 1))
    if reduction != "none":
        total = node.squeeze(node.add("reduce_sum", loss, axes=axes), *axes)
        if reduction == "mean":
            divisor = node.squeeze(node.add("reduce_sum", weights, axes=axes), *axes)
            total = node.add("div", total, divisor)
        loss = total
    return [loss, logs]


def _ignored(node: NodeContext, labels: Instruction) -> Instruction | None:
    if not node.has("ignore_index"):
        return None
    index = node.scalar(labels.shape.type, node.integer("ignore_index"))
    spread = node.multibroadcast(index, node.lens(labels))
    return node.convert(node.add("equal", labels, spread), DType.BOOL)


def _or_zero(node: NodeContext, labels: Instruction, ignored: Instruction) -> Instruction:
    zero = node.multibroadcast(node.scalar(labels.shape.type, 0), node.lens(labels))
    return node.add("where", ignored, zero, labels)


def _picked(node: NodeContext, scores: Instruction, labels: Instruction) -> Instruction:
    """The score of each label."""
    lens, rank = node.lens(labels), labels.shape.ndim
    last = node.transpose(scores, 0, *range(2, scores.shape.ndim), 1)
    places = [
        node.multibroadcast(
            node.unsqueeze(node.counted(labels.shape.type, n), *_others(i, rank + 1)),
            (*lens, 1),
        )
        for i, n in enumerate(lens)
    ]
    index = node.add("concat", *places, node.unsqueeze(labels, rank), axis=rank)
    return node.add("gathernd", last, index, batch_dims=0)


def _others(axis: int, rank: int) -> list[int]:
    return [int(i) for i in np.arange(rank) if i != axis]


def _weights(
    node: NodeContext, inputs: list[Instruction], labels: Instruction, count: Length
) -> Instruction:
    given, type = node.optional(inputs, 2), inputs[0].shape.type
    if given is None:
        return node.multibroadcast(node.scalar(type, 1), node.lens(labels))
    if not agree(dims_of(given.shape), [dim_of(count)]):
        raise node.fail(f"weights {given.shape}; expected one for each of {count} classes")
    return node.add("gather", given, labels, axis=0)
