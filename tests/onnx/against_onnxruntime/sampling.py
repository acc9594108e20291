"""Generators of what reads an image between its pixels."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers

LENS = (1, 2, 3, 4, 5)
SCALES = (0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0)
EXACT = (0.5, 1.0, 2.0, 4.0)
"""Where a place is half-way between two pixels, it must be so in every floating-point type."""
WITH_LENGTHS = {"align_corners", "tf_crop_and_resize"}
"""Ways that onnxruntime reckons with lengths rounded to whole numbers, which ONNX does not round."""


@covers("Resize")
def resize(pick: Pick) -> Example:
    type = pick.type("T1") if pick.opset >= 11 else pick.type("T")
    mode = pick.one_of(["nearest", "linear"] + (["cubic"] if pick.opset >= 11 else []))
    # Between pixels, onnxruntime knows floats alone, and rounds integers in its own ways.
    type = type if mode == "nearest" else "float"
    rank = pick.integer(1, 4) if mode == "nearest" else 4
    front = (pick.integer(1, 2),) * (rank - 2) if rank > 2 else ()
    lens = (*front, *[pick.one_of(LENS) for _ in range(rank - len(front))])
    x = pick.array(type, lens)
    if pick.opset < 11:
        scales = np.array(
            [1.0] * len(front) + [pick.one_of(SCALES[3:]) for _ in lens[len(front) :]]
        )
        return Example([x, scales.astype(np.float32)], {"mode": mode}, fixed=(1,))
    return _resize(pick, x, mode, len(front))


def _resize(pick: Pick, x: Any, mode: str, front: int) -> Example:
    attributes: dict[str, Any] = {"mode": mode}
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    ways += ["half_pixel_symmetric"] if pick.opset >= 19 else []
    attributes |= pick.some(coordinate_transformation_mode=pick.one_of(ways))
    if mode == "nearest":
        kinds = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes |= pick.some(nearest_mode=pick.one_of(kinds))
    if mode == "cubic":
        attributes |= pick.some(
            cubic_coeff_a=pick.number(-1, -0.5), exclude_outside=pick.integer(0, 1)
        )
    if pick.opset >= 18 and mode != "nearest":
        attributes |= pick.some(antialias=pick.integer(0, 1)) if x.dtype == np.float32 else {}
    scaled, nearest = x.shape[front:], mode == "nearest"
    roi = None if pick.opset >= 13 else np.zeros(0, np.float32)
    if mode == "linear" and "antialias" not in attributes and pick.rarely():
        attributes |= {"coordinate_transformation_mode": "tf_crop_and_resize"}
        attributes |= pick.some(extrapolation_value=pick.number(-9, 9))
        ends = [
            [0.0] * front + [pick.number(*e) for _ in scaled] for e in ((-0.2, 0.4), (0.5, 1.2))
        ]
        ends[1][:front] = [1.0] * front
        roi = np.array(ends[0] + ends[1], np.float32)
    way = attributes.get("coordinate_transformation_mode")
    if way not in WITH_LENGTHS and pick.flag():
        factors = [1.0] * front + [pick.one_of(EXACT if nearest else SCALES) for _ in scaled]
        factors = [f if int(f * n) else 1.0 for f, n in zip(factors, x.shape, strict=True)]
        return Example(
            [x, roi, np.array(factors, np.float32)], attributes, fixed=(1, 2), summed=True, slack=5
        )
    lens = [n * pick.integer(1, 3) if nearest else pick.integer(1, 7) for n in scaled]
    if way == "tf_crop_and_resize":  # onnxruntime does not crop where the length stays
        lens = [n + pick.integer(1, 3) for n in scaled]
    if pick.opset >= 18 and pick.flag():
        axes = list(range(front, x.ndim))
        if not nearest and way not in WITH_LENGTHS:
            policies = ["stretch", "not_larger", "not_smaller"]
            attributes |= pick.some(keep_aspect_ratio_policy=pick.one_of(policies))
        sizes = np.array(lens, np.int64)
        if roi is not None and roi.size:
            roi = roi.reshape(2, -1)[:, front:].reshape(-1)
        given = [x, roi, None, sizes]
        return Example(given, attributes | {"axes": axes}, fixed=(1, 2, 3), summed=True, slack=5)
    sizes = np.array([*x.shape[:front], *lens], np.int64)
    none = None if pick.opset >= 13 else np.zeros(0, np.float32)
    return Example([x, roi, none, sizes], attributes, fixed=(1, 2, 3), summed=True, slack=5)


@covers("Upsample")
def upsample(pick: Pick) -> Example:
    mode = pick.one_of(["nearest", "linear"])
    type = pick.type("T") if mode == "nearest" else "float"
    lens = (pick.integer(1, 2), pick.integer(1, 2), pick.integer(1, 4), pick.integer(1, 4))
    scales = [1.0, 1.0, pick.one_of(SCALES[3:]), pick.one_of(SCALES[3:])]
    x = pick.array(type, lens)
    if pick.opset < 9:
        return Example([x], {"mode": mode, "scales": scales})
    return Example([x, np.array(scales, np.float32)], {"mode": mode}, fixed=(1,))


@covers("GridSample", "com.microsoft.GridSample")
def grid_sample(pick: Pick) -> Example:
    type = pick.type("T1")
    old = pick.opset < 20 or bool(pick.domain)
    sides = [pick.integer(1, 4) for _ in range(2 if old else pick.integer(2, 3))]
    modes = ["bilinear", "nearest", "bicubic"] if old else ["linear", "nearest", "cubic"]
    mode = pick.one_of(modes if len(sides) == 2 else modes[:2])
    if mode == "nearest":  # which pixel that is depends on how places are rounded
        type = pick.type("T1", ["float", "double"])
    attributes = {"mode": mode} | pick.some(
        padding_mode=pick.one_of(["zeros", "border", "reflection"]),
        align_corners=pick.integer(0, 1),
    )
    batch = pick.integer(1, 2)
    x = pick.array(type, (batch, pick.integer(1, 2), *sides))
    places = [pick.integer(1, 3) for _ in sides]
    grid = pick.array(
        pick.type("T2", [type]) if not pick.domain else type,
        (batch, *places, len(sides)),
        -1.4,
        1.4,
    )
    return Example([x, grid], attributes, summed=True, slack=10)


@covers("RoiAlign")
def roi_align(pick: Pick) -> Example:
    type, batch, count = pick.type("T1"), pick.integer(1, 2), pick.integer(1, 3)
    x = pick.array(type, (batch, pick.integer(1, 2), pick.integer(2, 6), pick.integer(2, 6)))
    corners = pick.array(type, (count, 2), 0, 3)
    rois = np.concatenate([corners, corners + pick.array(type, (count, 2), 0.5, 5)], axis=1)
    attributes = pick.some(mode=pick.one_of(["avg", "max"]), spatial_scale=pick.number(0.3, 1.2))
    attributes |= pick.some(output_height=pick.integer(1, 3), output_width=pick.integer(1, 3))
    attributes["sampling_ratio"] = pick.integer(0, 3)
    if pick.opset >= 16:
        attributes |= pick.some(
            coordinate_transformation_mode=pick.one_of(["half_pixel", "output_half_pixel"])
        )
    index = pick.array("int64", (count,), 0, batch - 1)
    return Example([x, rois.astype(x.dtype), index], attributes, summed=True, slack=10)


@covers("ImageScaler")
def image_scaler(pick: Pick) -> Example:
    channels = pick.integer(1, 3)
    x = pick.array("float", (pick.integer(1, 2), channels, 2, 3))
    bias = [pick.number(-1, 1) for _ in range(channels)]
    return Example([x], {"scale": pick.number(0.5, 2), "bias": bias})
