"""Images resampled on other grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.registry import torch_op

MODES = ("linear", "nearest", "cubic")
BORDERS = ("zeros", "border", "reflection")


@torch_op("aten.grid_sampler_2d", "aten.grid_sampler_3d", "aten.grid_sampler")
def grid_sampler(
    node: Context, x: Instruction, grid: Instruction, mode: int, border: int, align_corners: bool
) -> Instruction:
    """An image sampled at the points of a grid."""
    wide = node.convert(x, DType.FLOAT) if x.shape.type.is_narrow_float else x
    points = node.convert(grid, wide.shape.type)
    (found,) = node.operator(
        "GridSample", wide, points, mode=MODES[mode], padding_mode=BORDERS[border],
        align_corners=int(align_corners),
    )  # fmt: skip
    return node.convert(found, x.shape.type)


def _resized(
    node: Context, x: Instruction, factors: Sequence[float] | None, **attributes: Any
) -> Instruction:
    """ONNX's Resize to the lengths of the result; PyTorch's scales, where given, set the coordinates."""
    lens, own = node.fixed(node.out_lens(), "the result"), node.fixed(node.lens(x), "the input")
    empty = node.vector(DType.FLOAT, [])
    scaled = factors is not None and all(
        int(n * f) == m for n, f, m in zip(own[2:], factors, lens[2:], strict=True)
    )
    if scaled and factors is not None:
        scales = node.vector(DType.FLOAT, [1.0, 1.0, *factors])
        return node.operator("Resize", x, empty, scales, **attributes)[0]
    sizes = node.vector(DType.INT64, lens)
    return node.operator("Resize", x, empty, empty, sizes, **attributes)[0]


@torch_op(
    "aten.upsample_bilinear2d.vec", "aten.upsample_linear1d.vec", "aten.upsample_trilinear3d.vec"
)
def upsample_linear(
    node: Context, x: Instruction, size: Any, align_corners: bool, factors: Sequence[float] | None
) -> Instruction:
    """A value resampled by interpolation between neighbours."""
    where = "align_corners" if align_corners else "pytorch_half_pixel"
    if not align_corners:
        where = "half_pixel"
    given = None if align_corners else factors
    return _resized(node, x, given, mode="linear", coordinate_transformation_mode=where)


@torch_op(
    "aten.upsample_nearest2d.vec", "aten.upsample_nearest1d.vec", "aten.upsample_nearest3d.vec"
)
def upsample_nearest(
    node: Context, x: Instruction, size: Any, factors: Sequence[float] | None
) -> Instruction:
    """A value resampled by its nearest elements, rounded down."""
    return _resized(
        node,
        x,
        factors,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
