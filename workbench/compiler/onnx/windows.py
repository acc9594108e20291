"""Windows of convolutions and poolings: strides, dilations and padding, checked, with defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.onnx.context import NodeContext

DEFAULT, SAME_LOWER, SAME_UPPER = 0, 1, 2
"""Codes of ``padding_mode``: as given, or computed at run time to keep the lens."""


@dataclass
class Window:
    """The windows of a kernel over the spatial axes."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    mode: int = DEFAULT
    is_padded: bool = False
    """Whether the padding was given or computed, not omitted."""

    @property
    def is_symmetric(self) -> bool:
        """Whether both sides of each axis have the same padding."""
        return self.begins == self.ends

    @property
    def padding(self) -> tuple[int, ...]:
        """Begins, then ends."""
        return self.begins + self.ends


def window(
    node: NodeContext,
    x: Instruction,
    kernel: Sequence[int] | None,
    transposed: bool = False,
    extra: Sequence[int] = (),
) -> Window:
    """The window that a node describes.

    Args:
        node: The node.
        x: The value that the window moves over.
        kernel: The kernel's lens; None if they are only known at run time.
        transposed: Whether to compute the padding of a transposed convolution.
        extra: The ``output_padding`` of a transposed convolution, which automatic padding takes off again.

    Raises:
        ModelError: A list has the wrong length, or the padding is given twice.
    """
    rank = x.shape.ndim - 2
    if rank < 1:
        raise node.fail(f"input {x.shape}; expected a batch, channels and spatial axes")
    if kernel is not None and len(kernel) != rank:
        raise node.fail(f"kernel_shape {list(kernel)}; expected {rank} lengths")
    stride = _list(node, "strides", rank, 1)
    dilation = _list(node, "dilations", rank, 1)
    auto = node.text("auto_pad", "NOTSET").upper() or "NOTSET"
    zeros = (0,) * rank
    if auto == "NOTSET":
        pads = node.integers("pads", ()) or zeros * 2
        if len(pads) != 2 * rank:
            raise node.fail(f"{len(pads)} pads; expected {2 * rank}")
        given = node.has("pads")
        return Window(stride, dilation, pads[:rank], pads[rank:], is_padded=given)
    if any(node.integers("pads", ())):
        raise node.fail(f"attributes pads and auto_pad={auto}; expected only one of them")
    if auto == "VALID":
        return Window(stride, dilation, zeros, zeros)
    if auto == "SAME" and node.strict:
        auto = "SAME_LOWER"
    if auto not in {"SAME_UPPER", "SAME_LOWER"}:
        raise node.fail(f"auto_pad={auto!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    dims = dims_of(x.shape)[2:]
    if kernel is None or not (transposed or all(d.is_fixed for d in dims)):
        return Window(
            stride, dilation, zeros, zeros, SAME_UPPER if auto == "SAME_UPPER" else SAME_LOWER
        )
    lens = [d.max for d in dims]
    wides = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    totals = [
        max(0, wide + more - s) if transposed else max(0, (-(-n // s) - 1) * s + wide - n)
        for n, wide, s, more in zip(lens, wides, stride, extra or zeros, strict=True)
    ]
    small = tuple(t // 2 for t in totals)
    large = tuple(t - t // 2 for t in totals)
    begins, ends = (small, large) if auto == "SAME_UPPER" else (large, small)
    return Window(stride, dilation, begins, ends, is_padded=True)


def _list(node: NodeContext, name: str, rank: int, default: int) -> tuple[int, ...]:
    values = node.integers(name, ()) or (default,) * rank
    if len(values) != rank:
        raise node.fail(f"{len(values)} {name}; expected {rank}")
    if min(values) < 1:
        raise node.fail(f"{name} {list(values)}; expected 1 or more")
    return values
