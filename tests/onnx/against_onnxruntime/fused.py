"""Generators of what onnxruntime's optimiser and quantiser make of models."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.attention import sizes
from tests.onnx.against_onnxruntime.pick import NUMPY, Example, Pick, covers, limits
from tests.onnx.against_onnxruntime.quantised import BYTES, quantised, result
from tests.onnx.against_onnxruntime.windows import image, scale, window

PARAMETERS = {
    "Relu": [], "Sigmoid": [], "Tanh": [], "LeakyRelu": [0.3], "HardSigmoid": [0.3, 0.4],
    "Clip": [-0.5, 0.75],
}  # fmt: skip
ACTIVATIONS = {
    "Relu": {}, "Sigmoid": {}, "Softsign": {}, "LeakyRelu": {"activation_alpha": 0.3},
    "Elu": {"activation_alpha": 0.7}, "ThresholdedRelu": {"activation_alpha": 0.5},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
}  # fmt: skip


@covers("com.microsoft.FusedConv")
def fused_conv(pick: Pick) -> Example:
    sides, (batch, channels, kernels) = image(pick, 1, 2), (pick.integer(1, 3) for _ in range(3))
    attributes = window(pick, sides)
    name = pick.one_of(list(PARAMETERS))
    attributes |= {"activation": name}
    if PARAMETERS[name]:
        attributes["activation_params"] = PARAMETERS[name]
    x = pick.array("float", (batch, channels, *sides))
    weights = pick.array("float", (kernels, channels, *attributes["kernel_shape"]))
    bias = pick.array("float", (kernels,)) if pick.flag() else None
    return Example([x, weights, bias], attributes, summed=True)


@covers("com.microsoft.FusedGemm")
def fused_gemm(pick: Pick) -> Example:
    rows, inner, columns = (pick.integer(1, 4) for _ in range(3))
    flips = [pick.flag(), pick.flag()]
    attributes: dict[str, Any] = dict(zip(("transA", "transB"), map(int, flips), strict=True))
    attributes |= pick.some(alpha=pick.number(-2, 2), beta=pick.number(-2, 2))
    name = pick.one_of(list(ACTIVATIONS))
    attributes |= {"activation": name, **ACTIVATIONS[name]}
    a = pick.array("float", (inner, rows) if flips[0] else (rows, inner))
    b = pick.array("float", (columns, inner) if flips[1] else (inner, columns))
    c = pick.array("float", pick.broadcastable((rows, columns))) if pick.flag() else None
    return Example([a, b, c], attributes, summed=True)


@covers("com.microsoft.FusedMatMul")
def fused_matmul(pick: Pick) -> Example:
    attributes = pick.some(alpha=pick.number(-2, 2), transA=1, transB=1)
    rows, inner, columns = (pick.integer(1, 4) for _ in range(3))
    outer = tuple(pick.integer(1, 3) for _ in range(pick.integer(0, 2)))
    a = (inner, rows) if "transA" in attributes else (rows, inner)
    b = (columns, inner) if "transB" in attributes else (inner, columns)
    lens = [(*outer, *a), (*outer, *b)]
    for i, side in enumerate("AB"):
        if outer and pick.flag():
            attributes[f"transBatch{side}"] = 1
            lens[i] = (lens[i][-2], *lens[i][:-2], lens[i][-1])
    return Example([pick.array("float", n) for n in lens], attributes, summed=True)


@covers("com.microsoft.TransposeMatMul")
def transpose_matmul(pick: Pick) -> Example:
    x = pick.array("float", (2, 3, 3))
    return Example([x, x], pick.some(transA=1, transB=1, alpha=pick.number(-2, 2)), summed=True)


@covers("com.microsoft.NhwcMaxPool")
def nhwc_max_pool(pick: Pick) -> Example:
    sides = image(pick, 2, 2)
    lens = (pick.integer(1, 2), *sides, pick.integer(1, 3))
    return Example([pick.array(pick.one_of(BYTES), lens, -128, 255)], window(pick, sides))


def words(pick: Pick, count: int) -> tuple[Any, Any, Any]:
    """Numbers of words, of segments or none, and a mask or none."""
    lens = (pick.integer(1, 2), pick.integer(1, 4))
    segments = pick.array("int32", lens, 0, 1) if pick.flag() else None
    mask = pick.array("int32", lens, 0, 1) if pick.flag() else None
    return pick.array("int32", lens, 0, count - 1), segments, mask


@covers("com.microsoft.EmbedLayerNormalization")
def embed_layer_normalization(pick: Pick) -> Example:
    count, width = pick.integer(1, 5), pick.integer(2, 4)
    rows, segments, mask = words(pick, count)
    table = [pick.array("float", (n, width)) for n in (count, 6, 2)]
    given = [rows, segments, *table, *[pick.array("float", (width,)) for _ in range(2)], mask]
    given[4] = given[4] if segments is not None else None
    if pick.flag():
        given.append(pick.array("int32", rows.shape, 0, 5))
    attributes = {"epsilon": 0.01} | pick.some(mask_index_type=1)
    return Example(given, attributes, outputs=3, summed=True, slack=10)


@covers("com.microsoft.QEmbedLayerNormalization")
def qembed_layer_normalization(pick: Pick) -> Example:
    count, width = pick.integer(1, 5), 8
    rows, segments, mask = words(pick, count)
    type = pick.one_of(BYTES)
    lens = [(count, width), (6, width), (2, width), (width,), (width,)]
    tables = [quantised(pick, type, n) for n in lens]
    if segments is None:
        tables[2] = [None, None, None]
    values, scales, zeros = zip(*tables, strict=True)
    given = [rows, segments, *values, mask, *scales, *zeros]
    attributes = {"epsilon": 0.01}
    return Example(given, attributes, outputs=2, fixed=range(8, 18), summed=True, slack=10)


@covers("com.microsoft.MatMulInteger16")
def matmul_integer_16(pick: Pick) -> Example:
    rows, inner, columns = (pick.integer(1, 4) for _ in range(3))
    outer = pick.lens(0, 2, empty=False)
    a = pick.array("int16", (*outer, rows, inner), -9000, 9000)
    return Example([a, pick.array("int16", (*outer, inner, columns), -9000, 9000)])


def per_column(pick: Pick, type: str, columns: int) -> tuple[Any, Any]:
    """A scale and a zero point for all columns, or one for each."""
    lens = (columns,) if pick.flag() else (1,)
    return np.abs(pick.array("float", lens)) / 64 + np.float32(0.01), pick.array(type, lens, 0, 9)


@covers("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(pick: Pick) -> Example:
    type, (inner, columns) = pick.one_of(BYTES), (pick.integer(1, 5), pick.integer(1, 4))
    a = pick.array("float", (*pick.lens(0, 2, empty=False), pick.integer(1, 3), inner))
    a.reshape(-1)[0] += 0.5  # a range of zeros is a matter of DynamicQuantizeLinear
    b = pick.weights(type, (inner, columns))
    scales, zeros = per_column(pick, type, columns)
    bias = pick.array("float", (columns,)) if pick.flag() else None
    given = [a, b, scales, zeros if pick.flag() else None, bias]
    return Example(given, fixed=(1,), summed=True)


@covers("com.microsoft.QGemm")
def qgemm(pick: Pick) -> Example:
    type, (rows, inner, columns) = pick.one_of(BYTES), (pick.integer(1, 4) for _ in range(3))
    flips = [pick.flag(), pick.flag()]
    attributes: dict[str, Any] = dict(zip(("transA", "transB"), map(int, flips), strict=True))
    attributes |= pick.some(alpha=pick.one_of([0.5, 1.5]))
    a = quantised(pick, type, (inner, rows) if flips[0] else (rows, inner))
    lens = (columns, inner) if flips[1] else (inner, columns)
    kinds = pick.one_of(BYTES) if type == "uint8" else "int8"
    b = [pick.weights(kinds, lens), *per_column(pick, kinds, columns)]
    c = pick.array("int32", pick.broadcastable((rows, columns)), -500, 500)
    given = [*a, *b, c if pick.flag() else None]
    if pick.flag():
        given += [np.float32(40.2571), pick.scalar(type, 0, 9)]
    return Example(given, attributes, fixed=(5,), summed=True)


@covers("com.microsoft.QLinearSoftmax")
def qlinear_softmax(pick: Pick) -> Example:
    # Of a single element, onnxruntime makes 0: the sum of its table overflows.
    type, lens = pick.one_of(BYTES), tuple(pick.integer(2, 4) for _ in range(pick.integer(1, 3)))
    attributes = {"axis": pick.axis(len(lens)), "opset": pick.one_of([12, 13])}
    given = [pick.array(type, lens, *limits(NUMPY[type])), scale(pick), pick.scalar(type, 0, 9)]
    zero = np.array(0 if type == "uint8" else -128, NUMPY[type])
    return Example([*given, np.float32(1 / 256), zero], attributes, fixed=(1, 2, 3, 4), steps=1)


@covers("com.microsoft.QLinearWhere")
def qlinear_where(pick: Pick) -> Example:
    type, (a, b, c) = pick.one_of(BYTES), pick.together(3, empty=False)
    chosen = pick.array("bool", a)
    x, y = (quantised(pick, type, n) for n in (b, c))
    return Example([chosen, *x, *y, *result(pick, type)], fixed=(2, 3, 5, 6, 7, 8))


@covers("com.microsoft.QAttention")
def qattention(pick: Pick) -> Example:
    batch, heads, length, size = sizes(pick)
    width, inner, type = heads * size, pick.integer(1, 4), pick.one_of(BYTES)
    x = pick.array("uint8", (batch, length, inner), 0, 255)
    weights = pick.weights(type, (inner, 3 * width))
    scales, zeros = per_column(pick, type, 3 * width)
    mask = np.array(pick.array("int32", (batch, length), 0, 1)) if pick.flag() else None
    if mask is not None:
        mask[:, 0] = 1
    elif pick.flag():
        mask = pick.array("int32", (batch,), 1, length)
    past = (
        pick.array("float", (2, batch, heads, pick.integer(1, 3), size)) if mask is None else None
    )
    bias, ends = pick.array("float", (3 * width,)), [pick.scalar("uint8", 0, 9), zeros]
    given = [x, weights, bias, scale(pick), scales, mask, *ends, past]
    attributes = {"num_heads": heads} | pick.some(unidirectional=1)
    outputs = 2 if past is not None else 1
    return Example(given, attributes, outputs=outputs, fixed=(1,), summed=True, slack=20)


@covers("com.microsoft.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(pick: Pick) -> Example:
    steps, batch, width, hidden = (pick.integer(1, 4) for _ in range(4))
    direction = pick.one_of(["forward", "reverse", "bidirectional"])
    count, is_wide = 2 if direction == "bidirectional" else 1, pick.flag()
    type = "int8" if is_wide else pick.one_of(BYTES)
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}

    def values(*lens: int) -> Any:
        return pick.array("float", lens, -1, 1)

    lens = (count, 4 * hidden) if is_wide else (count,)
    low, high = limits(NUMPY[type])
    middle = (low + high + 1) // 2
    weights = [pick.weights(type, (count, n, 4 * hidden)) for n in (width, hidden)]
    scales = [np.full(lens, 1 / 256, np.float32) + np.abs(values(*lens)) / 512 for _ in range(2)]
    last = middle if is_wide else middle + 9  # it takes no zero points of columns but 0
    zeros = [pick.array(type, lens, middle, last) for _ in range(2)]
    lengths = pick.array("int32", (batch,), 1, steps)
    state = (count, batch, hidden)
    optional = [values(count, 8 * hidden), lengths, values(*state), values(*state)]
    optional.append(values(count, 3 * hidden))
    given = [values(steps, batch, width), *weights, *[v if pick.flag() else None for v in optional]]
    given += [scales[0], zeros[0], scales[1], zeros[1]]
    # It quantises inputs and states at every step, with a step of 1/128 or less.
    return Example(
        given, attributes, outputs=3, fixed=(1, 2, 8, 9, 10, 11), summed=True, slack=1500
    )
