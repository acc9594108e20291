"""Support vector machines."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx import scores
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.ml import rows, width
from workbench.compiler.onnx.registry import onnx_op

_LEAST = 1e-7
"""The least distance of a pair's probability from 0 and 1."""


def _kernel(node: NodeContext, x: Instruction, vectors: Array) -> Instruction:
    """The kernel function between each sample and each support vector, ``[N, vectors]``."""
    given = node.numbers("kernel_params", ()) or (0.0, 0.0, 0.0)
    if len(given) != 3:
        raise node.fail(f"{len(given)} kernel_params; expected 3: gamma, coef0 and degree")
    gamma, offset, degree = (node.scalar(DType.FLOAT, v) for v in given)
    kind = node.text("kernel_type", "LINEAR")
    if kind == "RBF":
        both = (node.unsqueeze(x, 1), node.literal(vectors[None]))
        distance = node.squeeze(node.add("reduce_sum", node.common("sqdiff", *both), axes=(2,)), 2)
        return node.add("exp", node.add("neg", node.common("mul", distance, gamma)))
    product = node.add("dot", x, node.literal(vectors.T.copy()))
    if kind == "LINEAR":
        return product
    shifted = node.common("add", node.common("mul", product, gamma), offset)
    match kind:
        case "POLY":
            return node.common("pow", shifted, degree)
        case "SIGMOID":
            return node.add("tanh", shifted)
        case _:
            raise node.fail(f"kernel_type={kind!r}; expected LINEAR, POLY, RBF or SIGMOID")


def _matrix(node: NodeContext, name: str, count: int) -> Array:
    """A list of floats as a matrix with ``count`` rows."""
    values = np.array(node.numbers(name), np.float32)
    if count < 1 or values.size % count:
        raise node.fail(f"{values.size} {name} in {count} rows; expected a multiple of {count}")
    return values.reshape(count, -1)


def _weighted(node: NodeContext, x: Instruction, weights: Array) -> Instruction:
    """``x @ weights`` plus the biases of attribute rho."""
    if width(node, x) != len(weights):
        raise node.fail(f"{x.shape} times weights of {weights.shape}; expected {len(weights)}")
    rho = node.numbers("rho")
    if len(rho) not in (1, weights.shape[1]):
        raise node.fail(f"{len(rho)} elements of rho; expected {weights.shape[1]}")
    return node.common(
        "add", node.add("dot", x, node.literal(weights)), node.vector(DType.FLOAT, rho)
    )


@onnx_op("SVMRegressor")
def svm_regressor(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A regression; with ``one_class``, whether a sample is like the training samples."""
    node.expect(inputs, 1)
    x = rows(node, node.convert(inputs[0], DType.FLOAT))
    count = node.integer("n_supports", 0)
    if count:
        vectors = _matrix(node, "support_vectors", count)
        _expect_width(node, x, vectors)
        x = _kernel(node, x, vectors)
    found = _weighted(node, x, _matrix(node, "coefficients", 1).T.copy())
    if node.flag("one_class"):
        above = node.common("greater", found, node.scalar(DType.FLOAT, 0))
        two, one = node.scalar(DType.FLOAT, 2), node.scalar(DType.FLOAT, 1)
        found = node.common("sub", node.common("mul", above, two), one)
    return scores.transformed(node, found, scores.transform_of(node))


def _expect_width(node: NodeContext, x: Instruction, vectors: Array) -> None:
    if vectors.shape[1] != width(node, x):
        raise node.fail(
            f"support vectors of {vectors.shape[1]} features for {x.shape}; expected as many features"
        )


@onnx_op("SVMClassifier")
def svm_classifier(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The class that wins most pairs, and the scores of the pairs or probabilities of the classes."""
    node.expect(inputs, 1)
    x = rows(node, node.convert(inputs[0], DType.FLOAT))
    labels, kind = scores.labels_of(node), scores.transform_of(node)
    sizes = node.integers("vectors_per_class", ())
    if not sizes:
        found = _weighted(node, x, _matrix(node, "coefficients", len(labels)).T.copy())
        return [scores.chosen(node, found, labels), scores.transformed(node, found, kind)]
    if len(sizes) != len(labels) or len(labels) < 2 or min(sizes) < 0:
        raise node.fail(
            f"vectors_per_class {list(sizes)} for {len(labels)} labels; expected a count for each "
            "of two labels or more"
        )
    vectors = _matrix(node, "support_vectors", sum(sizes))
    _expect_width(node, x, vectors)
    weights = _of_pairs(node, sizes)
    found = _weighted(node, _kernel(node, x, vectors), weights)
    label = scores.chosen(node, _votes(node, found, len(labels)), labels)
    if node.numbers("prob_a", ()):
        chances = node.add("couple_pairs", _chances(node, found), classes=len(labels))
        return [label, scores.transformed(node, chances, kind)]
    if len(labels) == 2:
        return [label, scores.both(node, found, kind, complement=False)]
    return [label, scores.transformed(node, found, kind)]


def _of_pairs(node: NodeContext, sizes: tuple[int, ...]) -> Array:
    """The weight of each vector in the score of each pair of classes."""
    given = _matrix(node, "coefficients", len(sizes) - 1)
    if given.shape[1] != sum(sizes):
        raise node.fail(
            f"{given.shape[1]} coefficients a class for {sum(sizes)} vectors; expected as many"
        )
    ends = np.cumsum(sizes)
    starts = ends - sizes
    pairs = list(combinations(range(len(sizes)), 2))
    weights = np.zeros((sum(sizes), len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        weights[starts[i] : ends[i], column] = given[j - 1, starts[i] : ends[i]]
        weights[starts[j] : ends[j], column] = given[i, starts[j] : ends[j]]
    return weights


def _votes(node: NodeContext, found: Instruction, classes: int) -> Instruction:
    """The number of pairs that each class wins: the first class of a pair if its score is above 0."""
    pairs = np.array(list(combinations(range(classes), 2)))
    first, second = (np.eye(classes, dtype=np.float32)[pairs[:, side]] for side in (0, 1))
    above = node.convert(node.common("greater", found, node.scalar(DType.FLOAT, 0)), DType.FLOAT)
    gained = node.add("dot", above, node.literal(first - second))
    return node.common("add", gained, node.vector(DType.FLOAT, second.sum(axis=0)))


def _chances(node: NodeContext, found: Instruction) -> Instruction:
    """The probability of the first of each pair, from its score."""
    slope, offset = node.numbers("prob_a"), node.numbers("prob_b")
    if not len(slope) == len(offset) == width(node, found):
        raise node.fail(
            f"{len(slope)} prob_a and {len(offset)} prob_b for scores {found.shape}; expected one "
            "of each for each pair of classes"
        )
    scaled = node.common("mul", found, node.vector(DType.FLOAT, slope))
    raised = node.common("add", scaled, node.vector(DType.FLOAT, offset))
    chance = node.add("sigmoid", node.add("neg", raised))
    low, high = node.scalar(DType.FLOAT, _LEAST), node.scalar(DType.FLOAT, 1 - _LEAST)
    return node.common("clip", chance, low, high)
