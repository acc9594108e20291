"""Gradients of what slides windows over an input: convolutions, poolings and columns of taps."""

from __future__ import annotations

from typing import Any

from workbench.compiler.ops.windows import Window


def spread_over_input(given: Any, weights: Any, window: Window, group: int = 1) -> Any:
    """Each element times the weights, added up at the taps of its window: a transposed convolution."""
    rank = len(window.size)
    whole = given.convolution_backwards(
        weights, padding=(0,) * rank, stride=window.stride, dilation=window.dilation, group=group
    )
    sides = zip(window.input, window.begin, whole.shape[2:], strict=True)
    begins = [-b for b in window.begin]
    ends = [n + b - m for n, b, m in sides]
    return whole.pad(pads=(0, 0, *begins, 0, 0, *ends)) if any(begins + ends) else whole


def of_weights(x: Any, given: Any, window: Window, group: int = 1) -> Any:
    """The gradient of a convolution's weights: its input convolved with the gradient of its result.

    Batch and channels change places, and so do stride and dilation.
    """
    rank = len(window.size)
    (n, channels), lens = x.shape[:2], x.shape[2:]
    each = channels // group
    spatial = range(3, 3 + rank)
    images = x.reshape((n, group, each, *lens)).transpose(2, 1, 0, *spatial)
    found = images.reshape((each, group * n, *lens)).convolution(
        given.transpose(1, 0, *range(2, 2 + rank)),
        paddings=(*window.begin, *window.end),
        strides=window.dilation,
        dilations=window.stride,
        group=group,
    )
    if found.shape[2:] != window.size:  # taps of windows that would begin beyond the last one
        axes = tuple(range(2, 2 + rank))
        found = found.slice(axes=axes, starts=(0,) * rank, ends=window.size)
    return found.transpose(1, 0, *range(2, 2 + rank))


def as_one_channel(x: Any) -> Any:
    """``[N, C, …]`` as ``[N·C, 1, …]``, for windows that do the same in each channel."""
    return x.reshape((x.shape[0] * x.shape[1], 1, *x.shape[2:]))
