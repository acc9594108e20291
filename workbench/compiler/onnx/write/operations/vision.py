"""Resampling, regions of images, and images."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.registry import writes


@writes("resize")
def resize(call: Call) -> str:
    """Resize, by sizes or by scales."""
    op, own = call.op, call.type
    scales = sizes = ""
    if len(call.inputs) == 2 and call.shapes[1].type.is_float:
        scales = call.cast(call.inputs[1], call.shapes[1].type, DType.FLOAT)
    elif len(call.inputs) == 2:
        sizes = call.whole(1)
    elif op.scales:
        scales = call.constant(np.array(op.scales, np.float32))
    else:
        sizes = call.constant(list(op.sizes))
    type = call.taken("Resize", own, DType.FLOAT)
    x = call.cast(call.inputs[0], own, type)
    made = call.add("Resize", x, "", scales, sizes, mode=op.mode, nearest_mode=op.nearest_mode,
                    coordinate_transformation_mode=op.coordinate_transformation_mode,
                    cubic_coeff_a=op.cubic_coeff_a)  # fmt: skip
    return call.cast(made, type, own)


@writes("roialign")
def roialign(call: Call) -> str:
    """RoiAlign."""
    op, own = call.op, call.type
    type = call.taken("RoiAlign", own, DType.FLOAT)
    x, regions = (call.cast(v, own, type) for v in call.inputs[:2])
    mode = {"average": "avg", "max": "max"}.get(op.mode)
    if mode is None:
        raise call.refuse(f"ONNX's RoiAlign has no mode {op.mode}")
    made = call.add("RoiAlign", x, regions, call.whole(2), **op.attributes() | {"mode": mode})
    return call.cast(made, type, own)


@writes("max_roi_pool")
def max_roi_pool(call: Call) -> str:
    """MaxRoiPool."""
    return call.within("MaxRoiPool", call.type, DType.FLOAT, **call.op.attributes())


@writes("image_decode")
def image_decode(call: Call) -> str:
    """ImageDecoder."""
    return call.add("ImageDecoder", *call.inputs, pixel_format=call.op.pixel_format)
