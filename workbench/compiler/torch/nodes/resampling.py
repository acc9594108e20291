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
    node: Context, x: Instruction, factors: Sequence[float | None] | None, **attributes: Any
) -> Instruction:
    """ONNX's Resize to the lengths of the result; PyTorch's scales, where given, set the coordinates."""
    lens, own = node.fixed(node.out_lens(), "the result"), node.fixed(node.lens(x), "the input")
    empty, given = node.vector(DType.FLOAT, []), [f for f in factors or () if f is not None]
    pairs = list(zip(own[2:], given, lens[2:], strict=False))
    if len(given) == len(lens) - 2 and all(int(n * f) == m for n, f, m in pairs):
        scales = node.vector(DType.FLOAT, [1.0, 1.0, *given])
        return node.operator("Resize", x, empty, scales, **attributes)[0]
    sizes = node.vector(DType.INT64, lens)
    return node.operator("Resize", x, empty, empty, sizes, **attributes)[0]


def _factors(given: Sequence[Any], rank: int) -> Sequence[float | None] | None:
    """The scales among the arguments that follow the result's lengths: one list, or one for each axis."""
    if len(given) == 1:
        return given[0]
    return list(given[:rank])


def _interpolated(
    node: Context, x: Instruction, align_corners: bool, rest: Any, **how: Any
) -> Instruction:
    where = "align_corners" if align_corners else "half_pixel"
    factors = None if align_corners else _factors(rest, x.shape.ndim - 2)
    return _resized(node, x, factors, coordinate_transformation_mode=where, **how)


@torch_op(
    *(
        f"aten.upsample_{k}{overload}"
        for k in ("linear1d", "bilinear2d", "trilinear3d")
        for overload in ("", ".vec")
    )
)
def upsample_linear(
    node: Context, x: Instruction, size: Any, align_corners: bool, *rest: Any
) -> Instruction:
    """A value resampled by interpolation between neighbours."""
    return _interpolated(node, x, align_corners, rest, mode="linear")


@torch_op("aten.upsample_bicubic2d", "aten.upsample_bicubic2d.vec")
def upsample_cubic(
    node: Context, x: Instruction, size: Any, align_corners: bool, *rest: Any
) -> Instruction:
    """A value resampled by cubic interpolation."""
    return _interpolated(node, x, align_corners, rest, mode="cubic", cubic_coeff_a=-0.75)


@torch_op(*(f"aten.upsample_nearest{k}d{overload}" for k in (1, 2, 3) for overload in ("", ".vec")))
def upsample_nearest(node: Context, x: Instruction, size: Any, *rest: Any) -> Instruction:
    """A value resampled by its nearest elements, rounded down."""
    return _resized(
        node, x, _factors(rest, x.shape.ndim - 2), mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
