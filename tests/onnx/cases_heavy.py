"""Single nodes of the larger operators: convolution, matrix products, quantisation, attention."""

from dataclasses import replace

import numpy as np

from tests.onnx.cases import IMAGE, B, F, H, L, X, f, i, i8, n, scalar, u8, w8
from tests.onnx.models import CONTRIB, Case

CONVOLVED = [
    Case("Conv", [IMAGE, f(5, 4, 3, 3)]),
    Case("Conv", [IMAGE, f(5, 4, 3, 3), f(5)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    Case("Conv", [IMAGE, f(6, 2, 3, 3)], {"group": 2, "dilations": [2, 2]}),
    Case("Conv", [IMAGE, f(5, 4, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("Conv", [IMAGE, f(5, 4, 3, 2)], {"auto_pad": "SAME_LOWER"}),
    Case("Conv", [IMAGE, f(5, 4, 3, 2)], {"auto_pad": "VALID"}),
    Case("Conv", [f(1, 2, 9), f(3, 2, 4), f(3)]),
    Case("Conv", [f(1, 2, 4, 5, 6), f(3, 2, 2, 2, 2)]),
    Case("ConvTranspose", [f(1, 3, 4, 4), f(3, 2, 3, 3)]),
    Case("ConvTranspose", [f(1, 3, 4, 4), f(3, 2, 3, 3), f(2)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case("ConvTranspose", [f(1, 3, 4, 4), f(3, 2, 3, 3)],
         {"strides": [3, 2], "pads": [1, 0, 2, 1], "output_padding": [1, 1]}),
    Case("ConvTranspose", [f(1, 3, 4, 4), f(3, 2, 3, 3)], {"strides": [2, 2], "output_shape": [8, 8]}),
    Case("ConvTranspose", [f(1, 3, 4, 4), f(3, 2, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("ConvInteger", [u8(1, 2, 4, 4), u8(3, 2, 2, 2), scalar(7, np.uint8), scalar(9, np.uint8)]),
    Case("ConvInteger", [u8(1, 2, 4, 4), w8(3, 2, 2, 2)]),
    Case("AveragePool", [IMAGE], {"kernel_shape": [3, 2]}),
    Case("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    Case("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1]}),
    Case("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 0, 0, 1], "count_include_pad": 1}),
    Case("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    Case("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "strides": [2, 2]}),
    Case("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    Case("MaxPool", [f(1, 1, 5, 5)], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("LpPool", [IMAGE], {"kernel_shape": [2, 2], "p": 3}),
    *[Case(f"Global{kind}Pool", [IMAGE]) for kind in ("Average", "Max", "Lp")],
    Case("LRN", [IMAGE], {"size": 3, "alpha": 0.01, "bias": 2.0}),
]  # fmt: skip

MULTIPLIED = [
    Case("MatMul", [f(2, 3, 4), f(4, 5)]),
    Case("MatMul", [f(2, 1, 3, 4), f(5, 4, 2)]),
    Case("MatMul", [f(4), f(2, 4, 3)]),
    Case("MatMul", [f(2, 3, 4), f(4)]),
    Case("MatMul", [f(4), f(4)]),
    Case("Gemm", [f(3, 4), f(4, 5), f(5)]),
    Case("Gemm", [f(4, 3), f(5, 4), f(3, 1)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", [f(3, 4), f(4, 5)], {"alpha": 0.5}),
    Case("MatMulInteger", [u8(3, 4), w8(4, 5)]),
    Case("MatMulInteger", [u8(3, 4), u8(4, 5), scalar(0, np.uint8), scalar(255, np.uint8)]),
    Case("MatMulInteger", [i8(2, 3, 4), w8(4, 5), scalar(3, np.int8), scalar(-7, np.int8)]),
    # A constant zero point in the middle of its type, beside one that is not.
    Case("MatMulInteger", [u8(3, 4), u8(4, 5), scalar(3, np.uint8), scalar(128, np.uint8)], fixed=(2, 3)),
    Case("MatMulInteger", [u8(3, 4), w8(4, 5), scalar(128, np.uint8), scalar(5, np.int8)], fixed=(2, 3)),
    Case("MatMulIntegerToFloat", [u8(3, 4), u8(4, 5), scalar(0.1), scalar(0.2),
         scalar(3, np.uint8), scalar(7, np.uint8), f(5)], domain=CONTRIB),
    Case("MatMulNBits", [f(2, 32), u8(8, 2, 8), f(16)], {"K": 32, "N": 8, "block_size": 16, "bits": 4},
         fixed=(1, 2), domain=CONTRIB),
    Case("MatMulNBits", [f(2, 32), u8(8, 2, 8), f(16), u8(8)],
         {"K": 32, "N": 8, "block_size": 16, "bits": 4}, fixed=(1, 2, 3), domain=CONTRIB),
    *[Case("MatMulNBits", [f(3, 40), u8(6, 3, 2 * bits), f(18), zero, None, f(6)],
           {"K": 40, "N": 6, "block_size": 16, "bits": bits}, fixed=(1, 2, 3), domain=CONTRIB)
      for bits, zero in ((2, u8(6)), (4, u8(12)), (4, f(18)), (8, u8(18)))],
    *[Case("GatherBlockQuantized", [u8(5, 3, 8 * bits), np.array([[4, 0], [-1, 2]]), f(5, 3, 2), zero],
           {"block_size": 32, "quantize_axis": 2, "bits": bits}, fixed=(0, 2, 3), domain=CONTRIB)
      for bits, zero in ((2, u8(5, 3, 1)), (4, None), (8, u8(5, 3, 2)))],
    *[Case("Einsum", inputs, {"equation": equation}) for equation, *inputs in (
        ("ij,jk->ik", f(2, 3), f(3, 4)), ("bij,bjk->bik", f(2, 3, 4), f(2, 4, 5)), ("ij->ji", f(2, 3)),
        ("ij->", f(2, 3)), ("ij->j", f(2, 3)), ("ii->i", f(3, 3)), ("i,j->ij", f(2), f(3)),
        ("...ij,...jk", f(2, 3, 4), f(2, 4, 5)), ("bhwd,hkd->bhwk", f(2, 3, 4, 5), f(3, 6, 5)),
        ("ab,bc,cd->ad", f(2, 3), f(3, 4), f(4, 5)), ("nhwpqc->nchpwq", f(1, 2, 3, 2, 2, 2)),
        ("i,i->", f(4), f(4)))],
]  # fmt: skip

_SCALE, _ZERO = scalar(0.05), scalar(120, np.uint8)
_ROUNDED = [
    Case("QuantizeLinear", [X, _SCALE, _ZERO]),
    Case("QuantizeLinear", [X, _SCALE]),
    Case("QuantizeLinear", [X, f(3, low=0.1), i8(3)]),
    Case("QuantizeLinear", [X, f(2, 3, 2, low=0.1), u8(2, 3, 2)], {"axis": 2, "block_size": 2}, opset=21),
    Case("DequantizeLinear", [u8(2, 3, 4), _SCALE, _ZERO]),
    Case("DequantizeLinear", [i8(2, 3, 4), f(4, low=0.1)], {"axis": -1}),
    Case("DynamicQuantizeLinear", [X], outputs=3),
    *[Case(op, [u8(2, 3), _SCALE, _ZERO, u8(2, 3), _SCALE, _ZERO, scalar(0.1), _ZERO], domain=CONTRIB)
      for op in ("QLinearAdd",)],
    Case("QLinearMul", [u8(2, 3), _SCALE, _ZERO, u8(2, 3), _SCALE, _ZERO, scalar(0.4), _ZERO],
         domain=CONTRIB),
    Case("QLinearSigmoid", [u8(2, 3), _SCALE, _ZERO, scalar(0.01), scalar(0, np.uint8)],
         fixed=(1, 2, 3, 4), domain=CONTRIB),
    Case("QLinearLeakyRelu", [u8(2, 3), _SCALE, _ZERO, _SCALE, _ZERO], {"alpha": 0.1},
         fixed=(1, 2, 3, 4), domain=CONTRIB),
    Case("QLinearConcat", [_SCALE, _ZERO, u8(2, 3), _SCALE, _ZERO, u8(2, 3), scalar(0.1), _ZERO],
         {"axis": 1}, fixed=(0, 1, 3, 4, 6, 7), domain=CONTRIB),
    Case("QLinearConv", [u8(1, 2, 4, 4), _SCALE, _ZERO, u8(3, 2, 2, 2), _SCALE, _ZERO, scalar(1.0), _ZERO,
         i(3, type=np.int32)]),
    Case("QLinearMatMul", [u8(3, 4), _SCALE, _ZERO, u8(4, 5), _SCALE, _ZERO, scalar(0.5), _ZERO]),
    Case("QLinearAveragePool", [u8(1, 2, 4, 4), _SCALE, _ZERO, _SCALE, _ZERO],
         {"kernel_shape": [2, 2]}, fixed=(1, 2, 3, 4), domain=CONTRIB),
    Case("QLinearGlobalAveragePool", [u8(1, 2, 4, 4), _SCALE, _ZERO, _SCALE, _ZERO],
         fixed=(1, 2, 3, 4), domain=CONTRIB),
    Case("QLinearAveragePool", [u8(1, 5, 6, 2), _SCALE, _ZERO, _SCALE, _ZERO],
         {"kernel_shape": [2, 3], "channels_last": 1}, fixed=(1, 2, 3, 4), domain=CONTRIB),
    Case("QLinearGlobalAveragePool", [u8(1, 5, 6, 2), _SCALE, _ZERO, _SCALE, _ZERO],
         {"channels_last": 1}, domain=CONTRIB),
]  # fmt: skip

# A peer may round a tie otherwise.
QUANTISED = [replace(case, tolerance=1.0 if case.op[0] == "Q" else 1e-4) for case in _ROUNDED]

NORMALISED = [
    Case("BatchNormalization", [IMAGE, f(4), f(4), f(4), f(4, low=0.1)]),
    Case("BatchNormalization", [f(3, 4), f(4), f(4), f(4), f(4, low=0.1)], {"epsilon": 0.1}),
    Case("InstanceNormalization", [IMAGE, f(4), f(4)]),
    Case("LayerNormalization", [X, f(4), f(4)]),
    Case("LayerNormalization", [X, f(3, 4)], {"axis": 1}),
    Case("LayerNormalization", [X, f(4)], outputs=3),
    Case("GroupNormalization", [IMAGE, f(2), f(2)], {"num_groups": 2}, opset=18),
    Case("GroupNormalization", [IMAGE, f(4), f(4)], {"num_groups": 2}, opset=21),
    Case("MeanVarianceNormalization", [IMAGE]),
    Case("SimplifiedLayerNormalization", [X, f(4)]),
    Case("SkipLayerNormalization", [X, f(2, 3, 4), f(4), f(4), f(4)], domain=CONTRIB),
    Case("SkipSimplifiedLayerNormalization", [X, f(2, 3, 4), f(4)], domain=CONTRIB),
    Case("SoftmaxCrossEntropyLoss", [f(3, 5), n(1, 0, 4)]),
    Case("SoftmaxCrossEntropyLoss", [f(3, 5), n(1, -1, 4), f(5, low=0.1)],
         {"reduction": "sum", "ignore_index": -1}),
    Case("SoftmaxCrossEntropyLoss", [f(2, 3, 4), i(2, 4, low=0, high=3)], {"reduction": "none"}, outputs=2),
    Case("NegativeLogLikelihoodLoss", [f(3, 5), n(1, 0, 4), f(5, low=0.1)]),
]  # fmt: skip

_BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]], F)
SAMPLED = [
    Case("Resize", [IMAGE, None, n(1, 1, 2, 2, type=F)], fixed=(2,)),
    Case("Resize", [IMAGE, None, None, n(2, 4, 3, 9)],
         {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, fixed=(3,)),
    Case("Resize", [IMAGE, None, None, n(2, 4, 12, 14)], {"mode": "linear"}, fixed=(3,)),
    Case("Resize", [IMAGE, None, None, n(2, 4, 11, 9)],
         {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, fixed=(3,)),
    Case("Resize", [IMAGE, None, n(1, 1, 2, 2, type=F)], {"mode": "cubic"}, fixed=(2,)),
    Case("Resize", [IMAGE, None, None, n(12, 14)], {"axes": [2, 3]}, fixed=(3,)),
    Case("Resize", [IMAGE, n(1, 1, 2, 2, type=F)], opset=10, fixed=(1,)),
    Case("Upsample", [IMAGE, n(1, 1, 2, 2, type=F)], opset=9, fixed=(1,)),
    Case("Upsample", [IMAGE, n(1, 1, 2, 2, type=F)], {"mode": "linear"}, opset=9, fixed=(1,)),
    *[Case("GridSample", [f(2, 2, 4, 5), f(2, 3, 3, 2, low=-1.3, high=1.3)],
           {"mode": mode, "padding_mode": border, "align_corners": align})
      for mode in ("nearest", "linear", "cubic") for border in ("zeros", "border", "reflection")
      for align in (0, 1)],
    Case("RoiAlign", [f(1, 2, 8, 8), n((0, 0, 4, 4), (1, 2, 7, 6), type=F), n(0, 0)],
         {"output_height": 3, "output_width": 2, "sampling_ratio": 2}),
    Case("RoiAlign", [f(1, 2, 8, 8), n((0, 0, 4, 4), (1, 2, 7, 6), type=F), n(0, 0)],
         {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}, opset=10),
    Case("NonMaxSuppression", [_BOXES, n(0.9, 0.75, 0.6, type=F).reshape(1, 1, 3), scalar(3, L),
         scalar(0.5), scalar(0.0)], fixed=(2, 3, 4)),
]  # fmt: skip

_MASK = n((1, 1, 1), (1, 1, 0), type=np.int32)
_COS, _SIN = f(8, 4, low=-1, high=1), f(8, 4, low=-1, high=1)
ATTENDED = [
    Case("Attention", [f(2, 3, 8), f(8, 24), f(24)], {"num_heads": 2}, fixed=(1, 2), domain=CONTRIB),
    Case("Attention", [f(2, 3, 8), f(8, 24), f(24), _MASK], {"num_heads": 2}, fixed=(1, 2),
         domain=CONTRIB),
    Case("MultiHeadAttention", [f(2, 3, 8), f(2, 4, 8), f(2, 4, 8)], {"num_heads": 2}, domain=CONTRIB),
    Case("MultiHeadAttention", [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), f(24), _MASK], {"num_heads": 2},
         domain=CONTRIB),
    Case("RotaryEmbedding", [f(2, 3, 16), n((0, 1, 2), (3, 4, 5)), _COS, _SIN], domain=CONTRIB),
    Case("RotaryEmbedding", [f(2, 2, 3, 8), n(2), _COS, _SIN], {"interleaved": 1}, domain=CONTRIB),
    Case("GroupQueryAttention", [f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 2, 6, 8), f(1, 2, 6, 8),
         n(3, type=np.int32), scalar(4, np.int32)], {"num_heads": 4, "kv_num_heads": 2},
         outputs=3, compared=1, domain=CONTRIB),
]  # fmt: skip

TYPED = [
    Case("Where", [f(3) > 0, f(3, type=H), f(3, type=H)]),
    Case("Where", [f(3) > 0, f(3) > 0, np.ones(3, B)]),
    Case("LayerNormalization", [f(2, 4, type=H), f(4, type=H)], tolerance=2e-3),
    Case("InstanceNormalization", [f(2, 4, 5, type=H), f(4, type=H), f(4, type=H)], tolerance=2e-3),
    Case("Gemm", [f(2, 4, type=H), f(4, 3, type=H)], {"alpha": 0.5}, tolerance=2e-3),
]
