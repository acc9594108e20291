"""Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_MODES = {"nearest", "linear", "cubic"}


@onnx_op("Resize")
def resize(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value sampled anew on a finer or coarser grid."""
    node.expect(inputs, 1, 4)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    if node.version < 11:
        coordinates = "asymmetric"
    nearest = node.text("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    _check(node, coordinates)
    first = 1 if node.version < 11 or len(inputs) == 2 else 2
    sizes = node.optional(inputs, 3)
    given = node.optional(inputs, first) if sizes is None or not sizes.shape.elements else sizes
    if given is None or not given.shape.elements:
        raise node.fail("neither scales nor sizes are given")
    return _resized(node, inputs[0], given, _mode(node), nearest, coordinates)


@onnx_op("Upsample")
def upsample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value sampled anew on a finer grid, each element where it was."""
    node.expect(inputs, 1, 2)
    if node.has("scales"):
        scales = node.vector(DType.FLOAT, node.numbers("scales"))
    else:
        node.expect(inputs, 2)
        scales = inputs[1]
    return _resized(node, inputs[0], scales, _mode(node), "floor", "asymmetric")


def _mode(node: NodeContext) -> str:
    mode = node.text("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    if mode not in _MODES:
        raise node.fail(f"mode={mode!r}; expected one of {', '.join(sorted(_MODES))}")
    return mode


def _check(node: NodeContext, coordinates: str) -> None:
    if coordinates in {"tf_crop_and_resize", "half_pixel_symmetric"}:
        raise node.fail(f"coordinate_transformation_mode={coordinates!r} is not supported")
    for name in ("exclude_outside", "antialias"):
        if node.flag(name):
            raise node.fail(f"{name}=1 is not supported")


def _resized(
    node: NodeContext,
    x: Instruction,
    given: Instruction,
    mode: str,
    nearest: str,
    coordinates: str,
) -> Instruction:
    attributes: dict[str, Any] = {"coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = nearest
    else:
        attributes["mode"] = mode
    if mode == "cubic":
        attributes["cubic_coeff_a"] = node.number("cubic_coeff_a", -0.75)
    known = node.constant(given)
    if known is None or x.shape.is_dynamic:
        if node.has("axes"):
            raise node.fail("attribute 'axes' needs constant scales or sizes")
        return node.add("resize", x, given, **attributes)
    values = [float(v) if given.shape.type.is_float else int(v) for v in known.reshape(-1)]
    if given.shape.type.is_float:
        scales = _all_axes(node, x, values, [1.0] * x.shape.ndim)
        return node.add("resize", x, scales=tuple(scales), **attributes)
    wanted = _all_axes(node, x, _kept(node, x, values), list(x.shape.lens))
    return node.add("resize", x, sizes=tuple(int(n) for n in wanted), **attributes)


def _axes(node: NodeContext, x: Instruction) -> list[int]:
    rank = x.shape.ndim
    return [node.axis(a, rank) for a in node.integers("axes", tuple(range(rank)))]


def _all_axes(
    node: NodeContext, x: Instruction, values: Sequence[float], default: list[Any]
) -> list[Any]:
    axes = _axes(node, x)
    if len(values) != len(axes):
        raise node.fail(f"{len(values)} scales or sizes; expected {len(axes)}")
    for axis, value in zip(axes, values, strict=True):
        if not value > 0 or not math.isfinite(value):
            raise node.fail(f"a scale or size of {value}; expected a positive number")
        default[axis] = value
    return default


def _kept(node: NodeContext, x: Instruction, sizes: Sequence[float]) -> Sequence[float]:
    """The sizes, changed so that the aspect ratio is kept where the node asks for it."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    if policy not in {"not_larger", "not_smaller"}:
        raise node.fail(f"keep_aspect_ratio_policy={policy!r}; expected a known one")
    lens = [x.shape.lens[a] for a in _axes(node, x)]
    ratios = [s / n for s, n in zip(sizes, lens, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(np.floor(scale * n + 0.5)) for n in lens]
