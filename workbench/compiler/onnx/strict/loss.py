"""Losses from probabilities, with the weights negated first."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import strict_op
from workbench.compiler.onnx.sizes import known

_REDUCTIONS = ("mean", "none", "sum")


@strict_op("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def cross_entropy(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The negative logarithm of the probability of each label, weighted and reduced."""
    node.expect(inputs, 2, 3)
    reduction = node.text("reduction", "mean")
    lens = _checked(node, inputs, reduction)
    scores, labels = inputs[:2]
    given, count = node.optional(inputs, 2), lens[1]
    is_soft = node.op_type == "SoftmaxCrossEntropyLoss"
    ignored = node.integer("ignore_index") if node.has("ignore_index") else None
    index = None if ignored is None else node.scalar(DType.INT64, ignored)
    inside = ignored is not None and 0 <= ignored < count
    weights = _weights(node, scores, given, count, index if inside else None)
    if is_soft:
        scores = node.add("softmax", scores, axis=1)
    places = _places(node, labels, lens[:1] + lens[2:])
    turn = (0, *range(2, len(lens)), 1) if _has_more_axes(lens) else None
    picked = _picked(node, scores, places, turn)
    spread = node.unsqueeze(weights, 0, *range(2, len(lens)))
    weights = _picked(node, node.multibroadcast(spread, lens), places, turn)
    logs = node.add("log", picked) if is_soft else picked
    loss = node.add("mul", logs, weights)
    if index is not None and not inside:
        loss = _without(node, loss, labels, index)
    return [_reduced(node, loss, weights, reduction, given is not None), logs]


def _has_more_axes(lens: tuple[int, ...]) -> bool:
    return len(lens) > 3 or (len(lens) == 3 and lens[2] > 1)


def _checked(node: NodeContext, inputs: list[Instruction], reduction: str) -> tuple[int, ...]:
    """The lens of the scores; refuses inputs that do not match."""
    scores, labels = inputs[:2]
    if reduction not in _REDUCTIONS:
        raise node.fail(f"reduction={reduction!r}; expected one of {', '.join(_REDUCTIONS)}")
    lens, own = (node.fixed(node.lens(i), "lengths of") for i in (scores, labels))
    shapes = "; ".join(str(i.shape) for i in inputs)
    if len(lens) < 2 or scores.shape.type.is_integral:
        raise node.fail(f"inputs {shapes}; expected floats of a batch and classes")
    if labels.shape.type not in {DType.INT32, DType.INT64}:
        raise node.fail(f"inputs {shapes}; expected labels of int32_type or int64_type")
    if own != lens[:1] + lens[2:]:
        raise node.fail(f"inputs {shapes}; expected a label per position")
    given = node.optional(inputs, 2)
    if given is None:
        return lens
    if known(node.lens(given)) != (lens[1],) or given.shape.type is not scores.shape.type:
        raise node.fail(f"inputs {shapes}; expected a weight for each class, of the scores' type")
    return lens


def _weights(
    node: NodeContext,
    scores: Instruction,
    given: Instruction | None,
    count: int,
    ignored: Instruction | None,
) -> Instruction:
    """The negated weights of classes, with zero for the ignored one."""
    type = scores.shape.type
    ones = node.multibroadcast(node.scalar(type, 1), (count,))
    weights = node.add("neg", ones if given is None else given)
    if ignored is None:
        return weights
    zeros = node.vector(type, np.zeros(count))
    return node.add("scatter_none", weights, ignored, zeros, axis=0)


def _places(node: NodeContext, labels: Instruction, lens: tuple[int, ...]) -> Instruction:
    """The position of each label's score."""
    last = node.unsqueeze(labels, -1)
    every = (*lens, 1)
    rows: list[Instruction] = []
    for axis, length in enumerate(lens):
        row = node.vector(labels.shape.type, range(length))
        row = node.unsqueeze(row, *[i for i in range(len(every)) if i != axis])
        rows.append(node.multibroadcast(row, every))
    return node.add("concat", *rows, last, axis=-1)


def _picked(
    node: NodeContext, values: Instruction, places: Instruction, turn: tuple[int, ...] | None
) -> Instruction:
    turned = values if turn is None else node.transpose(values, *turn)
    return node.add("gathernd", turned, places)


def _reduced(
    node: NodeContext, loss: Instruction, weights: Instruction, reduction: str, is_weighted: bool
) -> Instruction:
    axes = tuple(range(loss.shape.ndim))
    if reduction == "none":
        return loss
    if reduction == "sum" or is_weighted:
        total = node.add("reduce_sum", loss, axes=axes)
        if reduction == "sum":
            return total
        divisor = node.add("neg", node.add("reduce_sum", weights, axes=axes))
        return node.add("div", total, divisor)
    return node.add("reduce_mean", loss, axes=axes)


def _without(
    node: NodeContext, loss: Instruction, labels: Instruction, index: Instruction
) -> Instruction:
    """The loss, with zero for ignored labels."""
    lens = node.fixed(node.lens(labels), "lengths of labels")
    spread = node.multibroadcast(index, lens)
    wide = node.add("convert", labels, target_type=DType.INT64)
    zeros = node.literal(np.zeros(loss.shape.lens, loss.shape.type.numpy))
    return node.add("where", node.add("equal", wide, spread), zeros, loss)
