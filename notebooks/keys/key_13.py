"""The teacher's key of `13-a-real-model-end-to-end.ipynb`: right answers, and three wrong ones each."""

from typing import Any

import workbench as wb


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    hot, *cooler = [int(id) for id in lesson["times"]["ms"].sort_values(ascending=False).index]
    return {
        "weights": (1_700_000, [6_783_084, 978, 850_000]),
        "the largest step": (
            "propagate_constant",
            ["fuse_pointwise", "simplify_algebra", "dead_code_elimination"],
        ),
        "the answer": (90, [0, 180, 1]),
        "not compared": (
            "the compiler changed their weights",
            ["onnxruntime cannot compute them", "they are in fused kernels", "their error is too large"],
        ),
        "the hot kernel": (hot, [cooler[0], cooler[1], cooler[-1]]),
        "bytes or arithmetic": (
            "they move three quarters as many bytes as the convolutions",
            ["there are more of them", "exp is slow", ""],
        ),
        "40 kernels": ("gpu", ["optimize", "ref", wb.pipelines()["gpu"].without("fuse_gemm_epilogue")]),
        "two halves": ("fp16", ["bf16", "both", ""]),
    }
