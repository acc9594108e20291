"""Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import ANY, UNBOUNDED, agree, dims_of, fixed
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.resampling import COORDINATES, NEAREST, Axis, Interpolation
from workbench.compiler.onnx.sizes import Size
from workbench.compiler.onnx.tensors import MAX_TENSOR_BYTES

_UNCHANGED = Axis(0, 0, 1.0)
"""The resize of an axis whose length is known only at run time: none."""

CROP = "tf_crop_and_resize"
OURS = {CROP, "half_pixel_symmetric"}
"""Coordinates that the operation ``resize`` does not support."""


@onnx_op("Resize")
def resize(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value resampled on a finer or coarser grid."""
    node.expect(inputs, 1, 4)
    first = 1 if node.version < 11 or len(inputs) == 2 else 2
    sizes = node.optional(inputs, 3)
    given = node.optional(inputs, first) if sizes is None or node.is_empty(sizes) else sizes
    if given is None or node.is_empty(given):
        raise node.fail("neither scales nor sizes are given")
    how = _interpolation(node)
    roi = node.optional(inputs, 1) if how.coordinates == CROP else None
    return _resized(node, inputs[0], given, how, roi)


@onnx_op("Upsample")
def upsample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value resampled on a finer grid, with asymmetric coordinates."""
    node.expect(inputs, 1, 2)
    if node.has("scales"):
        scales = node.vector(DType.FLOAT, node.numbers("scales"))
    else:
        node.expect(inputs, 2)
        scales = inputs[1]
    how = Interpolation(_word(node, "mode", "nearest", MODES), "asymmetric", "floor")
    return _resized(node, inputs[0], scales, how, None)


MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


def _word(node: NodeContext, name: str, default: str, known: dict[str, str]) -> str:
    found = node.text(name, default)
    if found not in known:
        raise node.fail(f"{name}={found!r}; expected one of {', '.join(sorted(known))}")
    return known[found]


def _interpolation(node: NodeContext) -> Interpolation:
    old = node.version < 11
    places = {c: c for c in COORDINATES}
    where = _word(node, "coordinate_transformation_mode", "half_pixel", places)
    nearest = "floor" if old else "round_prefer_floor"
    return Interpolation(
        _word(node, "mode", "nearest", MODES),
        "asymmetric" if old else where,
        _word(node, "nearest_mode", nearest, {n: n for n in NEAREST}),
        node.number("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
        node.flag("antialias"),
    )


def _resized(
    node: NodeContext,
    x: Instruction,
    given: Instruction,
    how: Interpolation,
    roi: Instruction | None,
) -> Instruction:
    is_plain = how.coordinates not in OURS and not how.exclude_outside and not how.antialias
    is_known = node.constant(given) is not None and not x.shape.is_dynamic
    if not is_known and is_plain and _leaves_axes(node, x, given, how):
        given = node.expected(given, fixed(x.shape.ndim))
        result = node.add("resize", x, given, **_attributes(how))
        return node.expected(result, _dims(node, x, given))
    values = node.required_constant(given, "the list of scales or sizes").reshape(-1)
    axes = _axes(node, x, values, given.shape.type.is_float)
    if is_plain and given.shape.type.is_float and _is_even(axes, how):
        scales = tuple(float(np.float32(a.scale)) for a in axes)
        if x.shape.is_dynamic:
            result = node.add("resize", x, node.vector(DType.FLOAT, scales), **_attributes(how))
            pairs = zip(axes, dims_of(x.shape), strict=True)
            return node.expected(result, [_after(a, d) for a, d in pairs])
        return node.add("resize", x, scales=scales, **_attributes(how))
    if (
        is_plain
        and not x.shape.is_dynamic
        and all(a.scale == _ratio(a.after, a.before) for a in axes)
    ):
        return node.add("resize", x, sizes=tuple(a.after for a in axes), **_attributes(how))
    return _sampled(node, x, _cropped(node, axes, roi), how)


def _leaves_axes(node: NodeContext, x: Instruction, given: Instruction, how: Interpolation) -> bool:
    """Whether scales or sizes computed at run time apply to all axes, without rounding or a ratio to keep."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    rounds = given.shape.type.is_float and how.coordinates == "align_corners"
    whole = agree(dims_of(given.shape), fixed(x.shape.ndim))
    return policy == "stretch" and not node.has("axes") and whole and not rounds


def _dims(node: NodeContext, x: Instruction, given: Instruction) -> list[Dim]:
    """The dimensions after a resize by scales or sizes, as far as these are known."""
    dims = list(dims_of(x.shape))
    if not given.shape.type.is_float:
        spans = node.spans(given)
        return [s.dim for s in spans] if spans else [ANY] * len(dims)
    scales = node.constant(given)
    if scales is None:
        return [ANY] * len(dims)
    return [d if s == 1 else _scaled(d, np.float32(s)) for d, s in zip(dims, scales, strict=True)]


def _after(axis: Axis, dim: Dim) -> Dim:
    return dim if axis == _UNCHANGED else Dim(axis.after, axis.after)


def _scaled(dim: Dim, scale: np.float32) -> Dim:
    most = UNBOUNDED if dim.max == UNBOUNDED else int(np.float32(dim.max) * scale)
    return Dim(int(np.float32(dim.min) * scale), most)


def _attributes(how: Interpolation) -> dict[str, Any]:
    """Attributes of the operation ``resize`` that matter to the mode."""
    attributes: dict[str, Any] = {"coordinate_transformation_mode": how.coordinates}
    if how.mode == "nearest":
        return attributes | {"nearest_mode": how.nearest}
    attributes["mode"] = how.mode
    return attributes | ({"cubic_coeff_a": how.cubic} if how.mode == "cubic" else {})


def _ratio(after: int, before: int) -> float:
    return after / before if before else 1.0


def _is_even(axes: list[Axis], how: Interpolation) -> bool:
    """Whether the rounding of new lengths does not affect the coordinates."""
    return how.coordinates != "align_corners" or all(a.length == a.after for a in axes)


def _named(node: NodeContext, rank: int) -> list[int]:
    return [node.axis(a, rank) for a in node.integers("axes", tuple(range(rank)))]


def _axes(node: NodeContext, x: Instruction, values: Array, is_scales: bool) -> list[Axis]:
    """The scale or size of each axis; axes that the node does not name are unchanged."""
    lens, named = node.lens(x), _named(node, x.shape.ndim)
    if len(values) != len(named):
        raise node.fail(f"{len(values)} scales or sizes; expected {len(named)}")
    found = [_UNCHANGED if isinstance(n, Size) else Axis(n, n, 1.0) for n in lens]
    resized = [a for a, v in zip(named, values, strict=True) if not is_scales or v != 1]
    own = dict(zip(resized, node.fixed([lens[a] for a in resized], "resized axes"), strict=True))
    kept = None if is_scales else _kept_scale(node, [own[a] for a in named], values)
    for axis, value in zip(named, values, strict=True):
        if axis in own:
            found[axis] = _axis(node, own[axis], value, kept, is_scales)
    return found


def _axis(node: NodeContext, n: int, value: Any, kept: float | None, is_scales: bool) -> Axis:
    if not math.isfinite(value) or value < 0 or (value == 0 and (n or is_scales)):
        raise node.fail(f"a scale or size of {value}; expected a positive number")
    if is_scales and n * float(value) > MAX_TENSOR_BYTES:
        raise node.fail(f"a scale of {value} for an axis of length {n} takes too much memory")
    if is_scales:
        return Axis(n, int(np.float32(n) * np.float32(value)), float(value))
    if value and not n:
        raise node.fail(f"a size of {value} for an axis without elements")
    if kept is None:
        return Axis(n, int(value), _ratio(int(value), n))
    return Axis(n, math.floor(kept * n + 0.5), kept)


def _kept_scale(node: NodeContext, lens: Sequence[int], sizes: Array) -> float | None:
    """The scale that keeps the aspect ratio, if the node asks for that."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy not in {"stretch", "not_larger", "not_smaller"}:
        raise node.fail(
            f"keep_aspect_ratio_policy={policy!r}; expected stretch, not_larger or not_smaller"
        )
    if policy == "stretch":
        return None
    ratios = [_ratio(int(s), n) for s, n in zip(sizes, lens, strict=True)]
    return min(ratios) if policy == "not_larger" else max(ratios)


def _cropped(node: NodeContext, axes: list[Axis], roi: Instruction | None) -> list[Axis]:
    """The axes with the regions to crop them to; ``roi`` lists all starts, then all ends."""
    if roi is None:
        return axes
    bounds = [float(v) for v in node.required_constant(roi, "the region").reshape(-1)]
    named = _named(node, len(axes))
    if len(bounds) != 2 * len(named):
        raise node.fail(f"a region of {len(bounds)} bounds; expected {2 * len(named)}")
    starts = dict(zip(named, bounds[: len(named)], strict=True))
    ends = dict(zip(named, bounds[len(named) :], strict=True))
    return [
        Axis(a.before, a.after, a.scale, (starts.get(i, 0.0), ends.get(i, 1.0)))
        for i, a in enumerate(axes)
    ]


def _sampled(
    node: NodeContext, x: Instruction, axes: list[Axis], how: Interpolation
) -> Instruction:
    """Resample one axis after the other: sum the elements around each position by their weights."""
    type = x.shape.type
    wide = type if how.mode == "nearest" or type is DType.DOUBLE else DType.FLOAT
    value = node.convert(x, wide)
    changed = [i for i, a in enumerate(axes) if a != Axis(a.before, a.before, 1.0)]
    for index in changed:
        check_size(Shape(DType.DOUBLE, how.size(axes[index])), node.op_type)
        if how.mode == "nearest":
            nearest = node.literal(how.nearest_of(axes[index]))
            value = node.add("gather", value, nearest, axis=index)
        else:
            value = _weighted(node, value, index, *how.taps(axes[index]))
    if how.coordinates == CROP:
        outside = node.scalar(value.shape.type, node.number("extrapolation_value", 0.0))
        for index in changed:
            value = _extrapolated(node, value, index, axes[index].outside(CROP), outside)
    return node.convert(value, type)


def _weighted(
    node: NodeContext, x: Instruction, axis: int, taps: Array, weights: Array
) -> Instruction:
    around = node.add("gather", x, node.literal(taps), axis=axis)
    spread = node.broadcast(
        node.literal(weights.astype(x.shape.type.numpy)), axis, node.lens(around)
    )
    total = node.add("reduce_sum", node.add("mul", around, spread), axes=(axis + 1,))
    return node.squeeze(total, axis + 1)


def _extrapolated(
    node: NodeContext, x: Instruction, axis: int, outside: Array, value: Instruction
) -> Instruction:
    """The value with elements outside the region along an axis replaced by ``value``."""
    if not outside.any():
        return x
    lens = node.lens(x)
    mask = node.broadcast(node.literal(outside), axis, lens)
    return node.add("where", mask, node.multibroadcast(value, lens), x)
