"""Core ATen operators that PyTorch's decompositions replace, or its samples do not reach: called directly."""

from collections.abc import Callable
from typing import Any


def direct_samples() -> dict[str, Callable[[], tuple[Any, ...]]]:
    """The arguments of each operator."""
    import torch

    draw = torch.Generator().manual_seed(0)

    def normal(*lens: int) -> Any:
        return torch.randn(*lens, generator=draw)

    def whole(*lens: int) -> Any:
        return torch.randint(-9, 9, lens, generator=draw)

    bags = torch.tensor([0, 2, 1, 3, 3]), torch.tensor([0, 3, 3])
    return {
        "_adaptive_avg_pool2d": lambda: (normal(2, 3, 7, 5), [3, 2]),
        "_adaptive_avg_pool2d_backward": lambda: (normal(2, 3, 3, 2), normal(2, 3, 7, 5)),
        "_adaptive_avg_pool3d": lambda: (normal(2, 3, 7, 5, 4), [3, 2, 4]),
        "_embedding_bag": lambda: (normal(4, 3), *bags),
        "_native_batch_norm_legit.no_stats": lambda: (normal(4, 3, 5), normal(3), normal(3), True, 0.1, 1e-5),
        "_native_batch_norm_legit_no_training": lambda: (
            normal(4, 3, 5), normal(3), normal(3), normal(3), normal(3).abs(), 0.1, 1e-5,
        ),
        "adaptive_avg_pool1d": lambda: (normal(2, 3, 7), [3]),
        "avg_pool1d": lambda: (normal(2, 3, 9), [3], [2], [1]),
        "avg_pool2d_backward": lambda: (
            normal(1, 2, 4, 3), normal(1, 2, 8, 6), [2, 2], [2, 2], [0, 0], False, True, None,
        ),
        "bitwise_and.Scalar": lambda: (whole(5), 6),
        "bitwise_or.Scalar": lambda: (whole(5), 6),
        "bitwise_xor.Scalar": lambda: (whole(5), 6),
        "col2im": lambda: (normal(1, 8, 9), [6, 6], [2, 2], [1, 1], [0, 0], [2, 2]),
        "convolution_backward": lambda: (
            normal(2, 4, 5, 4), normal(2, 6, 9, 7), normal(4, 3, 3, 3), [4], [2, 2], [1, 1], [1, 1], False,
            [0, 0], 2, [True, True, True],
        ),
        "div.Scalar_mode": lambda: (normal(9) * 9, 2.0),
        "embedding_dense_backward": lambda: (
            normal(2, 3, 4), torch.tensor([[0, 1, 2], [2, 2, 1]]), 5, 1, False,
        ),
        "fill.Scalar": lambda: (normal(3), 2.5),
        "max_pool2d_with_indices_backward": lambda: (
            normal(1, 2, 3, 3), values := normal(1, 2, 6, 6), [2, 2], [2, 2], [0, 0], [1, 1], False,
            torch.nn.functional.max_pool2d(values, 2, return_indices=True)[1],
        ),
        **_more(normal),
    }  # fmt: skip


def _more(normal: Callable[..., Any]) -> dict[str, Callable[[], tuple[Any, ...]]]:
    import torch

    return {
        "native_group_norm_backward": lambda: (
            normal(2, 4, 5), normal(2, 4, 5), normal(2, 2), normal(2, 2).abs(), normal(4), 2, 4, 5, 2,
            [True, True, True],
        ),
        "native_layer_norm_backward": lambda: (
            normal(2, 4, 5), normal(2, 4, 5), [5], normal(2, 4, 1), normal(2, 4, 1).abs(), normal(5),
            normal(5), [True, True, True],
        ),
        "reflection_pad1d": lambda: (normal(2, 5), [2, 1]),
        "reflection_pad2d": lambda: (normal(2, 5, 4), [2, 1, 3, 0]),
        "reflection_pad3d": lambda: (normal(1, 2, 5, 4, 3), [2, 1, 3, 0, 1, 1]),
        "replication_pad2d": lambda: (normal(2, 5, 4), [2, 1, 3, 0]),
        "replication_pad3d": lambda: (normal(1, 2, 5, 4, 3), [2, 1, 3, 0, 1, 1]),
        "scatter.value": lambda: (normal(3, 4), 1, torch.tensor([[0, 2], [1, 1]]), 7.0),
        "select_scatter": lambda: (normal(3, 4), normal(3), 1, -2),
        "squeeze.dim": lambda: (normal(3, 1, 4), 1),
        "sub.Scalar": lambda: (normal(3), 2, 3),
        "upsample_bilinear2d.vec": lambda: (normal(1, 2, 4, 3), [7, 8], False, None),
        "upsample_nearest2d.vec": lambda: (normal(1, 2, 4, 3), None, [1.5, 2.0]),
        "var.dim": lambda: (normal(3, 4), [1], False, True),
    }  # fmt: skip
