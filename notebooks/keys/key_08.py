"""The teacher's key of `08-attention-fused.ipynb`: right answers, and three wrong ones each."""

from typing import Any

import numpy as np


def online(scores: Any, v: Any, tile: int = 16, *, corrects: str = "both") -> Any:
    """The online softmax; with only the total or the result corrected, it is wrong."""
    largest = np.full((len(scores), 1), -np.inf)
    total, result = 0.0, 0.0
    for start in range(0, len(v), tile):
        part = scores[:, start : start + tile]
        larger = np.maximum(largest, part.max(axis=1, keepdims=True))
        weights, factor = np.exp(part - larger), np.exp(largest - larger)
        if corrects in ("both", "total"):
            total = total * factor
        if corrects in ("both", "result"):
            result = result * factor
        total = total + weights.sum(axis=1, keepdims=True)
        result = result + weights @ v[start : start + tile]
        largest = larger
    return result / total


def with_softmax(q: Any, k: Any, v: Any) -> Any:
    """The compiler's own softmax."""
    return (q @ k.T * 64**-0.5).softmax(axis=1) @ v


def early(q: Any, k: Any, v: Any) -> Any:
    """Divided before the product, but without the maximum: it is not recognised."""
    exps = (q @ k.T * 64**-0.5).exp()
    return (exps / exps.sum(axis=1, keepdims=True)) @ v


def unscaled(q: Any, k: Any, v: Any) -> Any:
    """Without the scale: other results."""
    return (q @ k.T).softmax(axis=1) @ v


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    program = lesson["without"].program.main
    node = {i.name: i for i in program}

    def only_total(scores: Any, v: Any) -> Any:
        return online(scores, v, corrects="total")

    def only_result(scores: Any, v: Any) -> Any:
        return online(scores, v, corrects="result")

    return {
        "bytes of the scores": (4_194_304, [262_144, 1_048_576, 786_432]),
        "the last large value": (node["div"], [node["dot"], node["exp"], node["multibroadcast"]]),
        "the online softmax": (online, [lesson["by_tiles"], only_total, only_result]),
        "twice the tokens": (2, [4, 1, 8]),
        "the price of looking": (
            "two kernels, and all traffic of the scores",
            ["one matrix that is written", "nothing: they are computed anyway", "4 MB"],
        ),
        "attention by hand": (with_softmax, [lesson["by_hand"], early, unscaled]),
    }
