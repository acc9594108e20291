"""The teacher's key of `09-memory.ipynb`: right answers, and three wrong ones each."""

from typing import Any


def one_by_one(x: Any, w1: Any, w2: Any, w3: Any, w4: Any) -> Any:
    """The rows of each product are added up before the next product."""
    total = (x @ w1).sum(axis=1)
    for w in (w2, w3, w4):
        total = total + (x @ w).sum(axis=1)
    return total


def two_by_two(x: Any, w1: Any, w2: Any, w3: Any, w4: Any) -> Any:
    """Two products at a time."""
    a, b = x @ w1, x @ w2
    left = a.sum(axis=1) + b.sum(axis=1)
    c, d = x @ w3, x @ w4
    return left + c.sum(axis=1) + d.sum(axis=1)


def of_the_sum(x: Any, w1: Any, w2: Any, w3: Any, w4: Any) -> Any:
    """The products are added up first: one sum, but four products."""
    return (x @ w1 + x @ w2 + x @ w3 + x @ w4).sum(axis=1)


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    node = {i.name: i for i in lesson["views"].program.main}
    return {
        "live at once": (524_288, [262_144, 1_572_864, 786_432]),
        "in place": (
            "yes, if nothing else uses the input later",
            ["always", "never", "if it is relu"],
        ),
        "the last user": (node["add"], [node["relu"], node["transpose"], node["tanh"]]),
        "the arena": (786_432, [524_288, 1_310_720, 262_144]),
        "the small arena": (
            "later layers use the memory of earlier ones",
            ["most values are views", "weights are constants", ""],
        ),
        "a better order": (one_by_one, [lesson["heads"], two_by_two, of_the_sum]),
    }
