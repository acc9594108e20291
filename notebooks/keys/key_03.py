"""The teacher's key of `03-shapes-strides-broadcasts.ipynb`: right answers, and three wrong ones each."""

from typing import Any


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    culprit = next(i for i in lesson["wrong"].main if i.name == "reduce_max")
    return {
        "strides in order": ("{30, 6, 1}", ["{1, 4, 20}", "{120, 30, 6}", "30 6 1"]),
        "which one copies": ("x.T.reshape(6)", ["x.T", "x[:, 1:]", "x.reshape(3, 2)"]),
        "elements behind a broadcast": (3, [12, 4, 1]),
        "side by side": ("the first (down a column)", ["the last (along a row)", "", "both"]),
        "the culprit": (culprit, ["@1", "@4", "x"]),
    }
