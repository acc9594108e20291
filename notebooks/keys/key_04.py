"""The teacher's key of `04-passes-and-laws.ipynb`: right answers, and three wrong ones each."""

from typing import Any


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    four = lesson["four"]
    return {
        "without one pass": (7, [5, 8, 26]),
        "the order of passes": (
            ["fuse_pointwise", "fuse_reduce", "fuse_gemm_epilogue", "simplify_algebra"],
            [four, ["simplify_algebra", *four[:3]], ["fuse_pointwise", *four]],
        ),
        "the wrong pass": ("sums", ["products", "differences", "simplify_algebra"]),
    }
