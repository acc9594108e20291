"""Single nodes: images, windows, selections, and values without elements."""

import numpy as np

from tests.onnx.cases import F, L, f, i, n, scalar
from tests.onnx.models import Case

_X = f(2, 3, 4)
_IMAGE = f(1, 2, 5, 6)

_UP, _DOWN = n(1, 1, 1.7, 2.4, type=F), n(1, 1, 0.6, 0.45, type=F)
_SIZES = n(1, 2, 7, 3)
_REGION = n(0, 0, 0.2, -0.1, 1, 1, 0.8, 1.3, type=F)

RESIZED = [
    Case("Resize", [_IMAGE, None, scales], {"mode": mode, "coordinate_transformation_mode": where},
         fixed=(2,))
    for scales in (_UP, _DOWN)
    for mode in ("nearest", "linear", "cubic")
    for where in ("half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
]  # fmt: skip
RESIZED += [
    Case("Resize", [_IMAGE, None, None, _SIZES], {"nearest_mode": nearest}, fixed=(3,))
    for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
]
RESIZED += [
    Case("Resize", [_IMAGE, _REGION, None, _SIZES],
         {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0},
         fixed=(1, 3))
    for mode in ("nearest", "linear")
]  # fmt: skip
RESIZED += [
    Case("Resize", [_IMAGE, None, None, _SIZES], {"mode": "cubic", "exclude_outside": 1,
         "cubic_coeff_a": -0.5}, fixed=(3,)),
    Case("Resize", [_IMAGE, None, None, n(1, 2, 3, 3)], {"mode": "linear", "antialias": 1}, fixed=(3,)),
    Case("Resize", [f(1, 1, 9, 9), None, None, n(1, 1, 4, 5)],
         {"mode": "cubic", "antialias": 1, "exclude_outside": 1}, fixed=(3,)),
    Case("Resize", [_IMAGE, None, None, n(8, 4)],
         {"mode": "linear", "axes": [3, 2], "keep_aspect_ratio_policy": "not_larger"}, fixed=(3,)),
    Case("Resize", [_IMAGE, None, None, n(8, 4)],
         {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}, fixed=(3,)),
    Case("Resize", [f(0, 2, 3, 4), None, n(1, 1, 2, 2, type=F)], {"mode": "linear"}, fixed=(2,)),
    Case("Resize", [f(1, 1, 10, 1), None, n(1, 1, 0.7, 1, type=F)], {"mode": "linear"}, fixed=(2,)),
    Case("Upsample", [_IMAGE, n(1, 1, 2, 1.5, type=F)], {"mode": "linear"}, opset=9, fixed=(1,)),
]  # fmt: skip

_WINDOW = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
POOLED = [
    Case("MaxPool", [_IMAGE], _WINDOW, outputs=2),
    Case("MaxPool", [_IMAGE], {**_WINDOW, "storage_order": 1}, outputs=2),
    Case("MaxPool", [_IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 2]}, outputs=2),
    Case("MaxPool", [_IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, outputs=2),
    Case("MaxPool", [_IMAGE], {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"}, outputs=2),
    Case("MaxPool", [f(1, 2, 7)], {"kernel_shape": [3]}, outputs=2),
    Case("MaxPool", [f(1, 2, 4, 3, 5)], {"kernel_shape": [2, 2, 2], "storage_order": 1}, outputs=2),
    Case("MaxPool", [i(1, 2, 4, 4, low=0, high=3, type=np.uint8)], {"kernel_shape": [2, 2]}, outputs=2),
    Case("MaxUnpool", [f(1, 2, 2, 2), n(0, 3, 8, 11, 16, 18, 27, 31).reshape(1, 2, 2, 2)],
         {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("LpPool", [_IMAGE], {**_WINDOW, "p": 1}),
    Case("GlobalLpPool", [_IMAGE], {"p": 3}),
    Case("MaxRoiPool", [f(2, 3, 8, 9), n((0, 0, 0, 8, 7), (1, 2, 1, 5, 6), (0, 4, 4, 4, 4), type=F)],
         {"pooled_shape": [2, 3]}),
    Case("MaxRoiPool", [f(2, 3, 8, 9), n((1, 1, 2, 15, 13), type=F).reshape(1, 5)],
         {"pooled_shape": [3, 2], "spatial_scale": 0.5}),
    Case("Col2Im", [f(1, 12, 12), n(5, 6), n(2, 3)], {"strides": [1, 2], "pads": [0, 1, 0, 1]},
         fixed=(1, 2)),
    Case("GridSample", [f(1, 2, 3, 4, 5), f(1, 2, 3, 2, 3, low=-1.2, high=1.2)],
         {"mode": "linear", "padding_mode": "reflection"}),
    Case("AffineGrid", [f(2, 2, 3), n(2, 1, 4, 5)], {"align_corners": 1}, fixed=(1,)),
    Case("AffineGrid", [f(1, 3, 4), n(1, 1, 2, 4, 3)], fixed=(1,)),
]  # fmt: skip

_OFFSET = f(1, 24, 4, 4, low=-1.5, high=1.5)
DEFORMED = [
    Case("DeformConv", [_IMAGE, f(2, 2, 2, 3), f(1, 12, 4, 4)]),
    Case("DeformConv", [f(1, 4, 5, 6), f(4, 2, 2, 3), _OFFSET, f(4), f(1, 12, 4, 4, low=0)],
         {"group": 2, "offset_group": 2}),
]  # fmt: skip

_CACHE, _FRESH = f(2, 5, 3), f(2, 2, 3)
SELECTED = [
    Case("Compress", [_X, n(True, False, True, type=bool)], {"axis": 1}),
    Case("Compress", [_X, n(False, True, type=bool)], {"axis": -1}),
    Case("Compress", [_X, np.array([True, False, True])]),
    Case("NonZero", [n((0, 3, 0), (4, 0, 0))]),
    Case("NonZero", [n(0.0, np.nan, 2.0, type=F)]),
    Case("NonZero", [f(0, 3)]),
    Case("NonZero", [scalar(5.0)], expected=[np.zeros((0, 1), L)]),
    Case("Unique", [n((2, 1, 2), (0, 5, 0), type=F)], {"axis": 1}, outputs=4),
    Case("Unique", [n((2, 1, 2), (0, 5, 0), type=F)], {"axis": -1, "sorted": 0}, outputs=4),
    Case("TensorScatter", [_CACHE, _FRESH, n(1, 3)], {"axis": 1}, opset=24),
    Case("TensorScatter", [_CACHE, _FRESH, n(4, 0)], {"mode": "circular"}, opset=24),
    Case("TensorScatter", [_CACHE, _FRESH], opset=24),
    Case("TopK", [n(3, 1, 3, 2, 3), n(3)], outputs=2, fixed=(1,)),
    Case("TopK", [f(2, 0), n(0)], outputs=2, fixed=(1,)),
    Case("GatherElements", [_X, i(1, 5, 2, low=-3, high=3)], {"axis": 1}),
    Case("OneHot", [n(-1, -5, 5, 0), scalar(5, L), n(1.0, 2.0, type=F)], {"axis": 0}, fixed=(1,)),
    Case("Pad", [_X, n(0, 2, -1, 1, 5, 0)], {"mode": "wrap"}, fixed=(1,), opset=19),
    Case("Slice", [_X, n(-1, 5), n(-9, -9), n(1, 2), n(-2, -3)], fixed=(1, 2, 3, 4)),
    Case("Split", [f(3, 2), n(0, 3, 0)], outputs=3, fixed=(1,)),
]

_NONE, _NO_IMAGE = f(2, 0, 3), f(0, 2, 4, 4)
EMPTY = [
    Case(f"Reduce{kind}", [_NONE, n(1)], {"keepdims": 0}, fixed=(1,))
    for kind in ("Sum", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
]
EMPTY += [
    Case("Concat", [f(2, 0), f(2, 0), f(2, 0)], {"axis": 1}),
    Case("Concat", [f(0, 2), f(0, 3)], {"axis": 1}),
    Case("Concat", [f(2, 0), f(2, 3)], {"axis": 1}),
    Case("Reshape", [_NONE, n(0, 3, 0)], {"allowzero": 1}, fixed=(1,)),
    Case("Tile", [_X, n(1, 0, 2)], fixed=(1,)),
    Case("Tile", [scalar(2.0), np.zeros(0, L)], fixed=(1,)),
    Case("Expand", [f(2, 1, 3), n(2, 0, 3)], fixed=(1,)),
    Case("Gather", [_X, np.zeros((0, 2), L)], {"axis": 1}),
    Case("GatherND", [_X, np.zeros((0, 2), L)]),
    Case("GatherElements", [_X, np.zeros((2, 0, 4), L)], {"axis": 1}),
    Case("ScatterElements", [_X, np.zeros((2, 0, 4), L), f(2, 0, 4)], {"axis": 1}),
    Case("ScatterND", [_X, np.zeros((0, 2), L), f(0, 4)]),
    Case("Pad", [_NONE, n(0, 1, 0, 0, 1, 0), scalar(3.0)], fixed=(1, 2)),
    Case("Slice", [_NONE, n(0, 0), n(2, 5), n(0, 1)], fixed=(1, 2, 3)),
    Case("Transpose", [_NONE]),
    Case("Flatten", [_NONE], {"axis": 2}),
    Case("Flatten", [scalar(2.0)], {"axis": 0}),
    Case("DepthToSpace", [f(0, 4, 2, 2)], {"blocksize": 2}),
    Case("SpaceToDepth", [f(0, 1, 2, 2)], {"blocksize": 2}),
    Case("ArgMax", [_NONE], {"axis": 2}),
    Case("Trilu", [f(0, 3)]),
    Case("EyeLike", [f(0, 3)]),
    Case("OneHot", [np.zeros(0, L), scalar(3, L), n(0, 1)], fixed=(1,)),
    Case("Einsum", [f(2, 0), f(0, 3)], {"equation": "ij,jk->ik"}),
    Case("Einsum", [f(3, 0, 3)], {"equation": "iji->ij"}, expected=[f(3, 0)]),
    Case("MaxPool", [_NO_IMAGE], {"kernel_shape": [2, 2]}, outputs=2,
         expected=[_NO_IMAGE[:, :, 1:, 1:], np.zeros((0, 2, 3, 3), L)]),
    Case("AveragePool", [_NO_IMAGE], {"kernel_shape": [2, 2]}, expected=[_NO_IMAGE[:, :, 1:, 1:]]),
    Case("GlobalAveragePool", [_NO_IMAGE], expected=[_NO_IMAGE[:, :, :1, :1]]),
    Case("GridSample", [f(0, 2, 4, 4), f(0, 3, 3, 2)]),
    Case("RoiAlign", [f(1, 2, 8, 8), f(0, 4), np.zeros(0, L)], {"output_height": 2, "output_width": 2}),
    Case("NonMaxSuppression", [f(1, 0, 4), f(1, 2, 0), scalar(3, L)], fixed=(2,)),
    Case("Unique", [f(0)], outputs=4),
]  # fmt: skip
EINSUMS = [
    Case("Einsum", [f(2, 3, 3)], {"equation": "...ii->...i"}),
    Case("Einsum", [f(2, 3, 4), f(1, 4, 5)], {"equation": "...ij, ...jk"}),
    Case("Einsum", [f(3, 3), f(3)], {"equation": "ii,i->"}),
    Case("Einsum", [f(2, 3), f(3, 4), f(4)], {"equation": "aB,Bc,c->a"}),
]
