"""The final transforms of scores in ai.onnx.ml, and the labels that scores stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Names of transforms of scores; newer operators give the index in this list."""

_TINY = 1e-7
_WINITZKI = 0.147


def transform_of(node: NodeContext) -> str:
    """The transform that a node asks for."""
    found = node.text("post_transform", "NONE")
    if found not in TRANSFORMS:
        raise node.fail(f"post_transform={found!r}; expected one of {', '.join(TRANSFORMS)}")
    return found


def transformed(node: NodeContext, scores: Instruction, kind: str) -> Instruction:
    """Scores ``[N, classes]`` under a transform."""
    match kind:
        case "SOFTMAX":
            return node.add("softmax", scores, axis=1)
        case "LOGISTIC":
            return node.add("sigmoid", scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(node, scores)
        case "PROBIT":
            return _probit(node, scores)
        case _:
            return scores


def both(node: NodeContext, score: Instruction, kind: str, complement: bool) -> Instruction:
    """The scores of two classes from that of the second, ``[N, 1]``.

    Args:
        node: The node.
        score: The score of the second class.
        kind: The transform; the softmaxes do nothing to a single score.
        complement: Whether the first class scores 1 minus the second; otherwise the negation.
    """
    whole = node.scalar(score.shape.type, float(complement and kind != "LOGISTIC"))
    first = node.common("sub", whole, score)
    scores = node.add("concat", first, score, axis=1)
    return transformed(node, scores, kind) if kind in {"LOGISTIC", "PROBIT"} else scores


def labels_of(node: NodeContext) -> tuple[int, ...]:
    """The labels of the classes of a node.

    Raises:
        ModelError: The labels are strings, or there are none.
    """
    names = ("classlabels_ints", "classlabels_int64s")
    if node.has("classlabels_strings") and node.texts("classlabels_strings"):
        raise node.fail("attribute 'classlabels_strings': strings are not supported")
    found = next((node.integers(n) for n in names if node.has(n)), ())
    if not found:
        raise node.fail("no class labels; expected a list of integers")
    return found


def chosen(node: NodeContext, scores: Instruction, labels: Sequence[int]) -> Instruction:
    """The label of the highest score of each row."""
    best = node.squeeze(node.add("argmax", scores, axis=1), 1)
    return node.add("gather", node.literal(np.array(labels, np.int64)), best, axis=0)


def decided(
    node: NodeContext, score: Instruction, threshold: float, labels: Sequence[int]
) -> Instruction:
    """The second of two labels if the score ``[N, 1]`` is above a threshold, otherwise the first."""
    above = node.common("greater", score, node.scalar(score.shape.type, threshold))
    place = node.convert(node.squeeze(above, 1), DType.INT64)
    return node.add("gather", node.literal(np.array(labels, np.int64)), place, axis=0)


def _softmax_zero(node: NodeContext, scores: Instruction) -> Instruction:
    """A softmax in which scores of 0 stay 0."""
    type = scores.shape.type
    highest = node.add("reduce_max", scores, axes=(1,))
    raised = node.add("exp", node.common("sub", scores, highest))
    scaled = node.common("mul", scores, node.add("exp", node.add("neg", highest)))
    is_zero = node.common("less", node.add("abs", scores), node.scalar(type, _TINY))
    parts = node.add("where", node.convert(is_zero, DType.BOOL), scaled, raised)
    total = node.fit(node.add("reduce_sum", parts, axes=(1,)), node.lens(scores))
    no_total = node.common("equal", total, node.scalar(type, 0))
    half = node.multibroadcast(node.scalar(type, 0.5), node.lens(scores))
    shares = node.add("div", parts, total)
    return node.add("where", node.convert(no_total, DType.BOOL), half, shares)


def _probit(node: NodeContext, scores: Instruction) -> Instruction:
    """The quantile of the normal distribution, by Winitzki's formula for the inverse error function."""
    type = scores.shape.type

    def number(value: float) -> Instruction:
        return node.multibroadcast(node.scalar(type, value), node.lens(scores))

    x = node.add("sub", node.add("mul", scores, number(2)), number(1))
    logarithm = node.add("log", node.add("sub", number(1), node.add("mul", x, x)))
    halved = node.add("mul", logarithm, number(0.5))
    shifted = node.add("add", halved, number(2 / (math.pi * _WINITZKI)))
    square = node.add("mul", shifted, shifted)
    inner = node.add("sub", square, node.add("mul", logarithm, number(1 / _WINITZKI)))
    root = node.add("sqrt", node.add("sub", node.add("sqrt", inner), shifted))
    signed = node.add("mul", node.add("sign", x), root)
    return node.add("mul", signed, number(math.sqrt(2)))
