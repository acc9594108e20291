"""Operators on sequences of tokens."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The counts of n-grams in rows of tokens, their weights if they occur, or the product."""
    node.expect(inputs, 1)
    if node.has("pool_strings") and node.texts("pool_strings"):
        raise node.fail("attribute 'pool_strings': strings are not supported")
    pool, starts = node.integers("pool_int64s"), node.integers("ngram_counts")
    columns = node.integers("ngram_indexes")
    _check(node, pool, starts, columns)
    size = max(columns) + 1
    check_size(Shape(DType.FLOAT, (size,)), node.op_type)
    tables = [node.literal(np.array(t, np.int64)) for t in (pool, starts, columns)]
    found = node.add(
        "count_ngrams",
        inputs[0],
        *tables,
        size=size,
        shortest=node.integer("min_gram_length"),
        longest=node.integer("max_gram_length"),
        skips=node.integer("max_skip_count"),
    )
    return _weighted(node, node.convert(found, DType.FLOAT), columns)


def _check(
    node: NodeContext, pool: tuple[int, ...], starts: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    if (
        list(starts) != sorted(starts)
        or not starts
        or not 0 <= starts[0] <= starts[-1] <= len(pool)
    ):
        raise node.fail(
            f"ngram_counts {list(starts)}; expected ascending positions in a pool of {len(pool)}"
        )
    ends = (*starts[1:], len(pool))
    grams = sum((b - a) // n for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1))
    if len(columns) != grams or not columns or min(columns) < 0:
        raise node.fail(
            f"{len(columns)} ngram_indexes for {grams} n-grams; expected one per n-gram"
        )


def _weighted(node: NodeContext, counts: Instruction, columns: tuple[int, ...]) -> Instruction:
    mode, weights = node.text("mode"), node.numbers("weights", ())
    if mode not in {"TF", "IDF", "TFIDF"}:
        raise node.fail(f"mode={mode!r}; expected TF, IDF or TFIDF")
    if weights and len(weights) != len(columns):
        raise node.fail(
            f"{len(weights)} weights for {len(columns)} n-grams; expected one per n-gram"
        )
    if weights and len(set(columns)) != len(columns):
        raise node.fail("weighted n-grams that share a column; expected one column per n-gram")
    if mode == "IDF":
        counts = node.common("min", counts, node.scalar(DType.FLOAT, 1))
    if mode == "TF" or not weights:
        return counts
    ordered = np.zeros(max(columns) + 1)
    ordered[list(columns)] = weights
    return node.common("mul", counts, node.vector(DType.FLOAT, ordered))
