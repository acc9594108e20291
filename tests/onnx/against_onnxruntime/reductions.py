"""Generators of reductions, normalisations and what else works along axes."""

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.onnx.against_onnxruntime.pick import FLOATS, Example, Pick, covers, ints, is_float

PLAIN = {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean"}
AXES_AS_INPUT = {"ReduceSum": 13}
"""The operator set from which on axes are an input; 18 for the others."""


@covers("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")  # fmt: skip
def reduce(pick: Pick) -> Example:
    # log Σ exp x of integers depends on what is rounded when; ONNX does not say.
    type = pick.type("T", FLOATS if pick.op == "ReduceLogSumExp" else None)
    low = 0.1 if pick.op == "ReduceLogSum" else -2
    # A sum over nothing is 0 and a product 1; onnxruntime refuses the others, or differs by type.
    attributes = pick.some(keepdims=pick.integer(0, 1))
    lens = pick.lens(empty=pick.op == "ReduceSum" and pick.opset >= 13)
    special = pick.op in {"ReduceMax", "ReduceMin"} and not is_float(type)
    special |= pick.op == "ReduceLogSumExp"  # where onnxruntime loses a NaN beside an infinity
    x = pick.array(type, lens, low, 2, special=special)
    if pick.op == "ReduceLogSumExp":
        x = np.where(np.isnan(x.astype(np.float64)), 1, x * 20).astype(x.dtype)
    axes = pick.axes(x.ndim)
    if not x.size:
        # Where there is nothing to add, onnxruntime forgets axes that count from the end.
        axes = [a % x.ndim for a in axes]
    if pick.opset < AXES_AS_INPUT.get(pick.op, 18):
        if pick.opset < 11:
            axes = sorted(a % x.ndim for a in axes)
        return Example([x], attributes | ({"axes": axes} if axes else {}), summed=True)
    # Without axes, onnxruntime then returns the input as it is; ONNX still takes |x|, x² or log x.
    noop = pick.integer(0, 1) if axes or pick.op in PLAIN else 0
    attributes |= {"noop_with_empty_axes": noop} if noop or pick.flag() else {}
    given = None if not axes and pick.flag() else ints(*axes)
    return Example([x, given], attributes, fixed=(1,) if pick.flag() else (), summed=True)


@covers("ArgMax", "ArgMin")
def arg(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(1, empty=False), -3, 3)
    axis = pick.axis(x.ndim)
    attributes = pick.some(keepdims=pick.integer(0, 1))
    attributes |= pick.some(axis=axis if pick.opset >= 11 else axis % x.ndim)
    if pick.opset >= 12:
        # Ties are what these integers are for.
        attributes |= pick.some(select_last_index=pick.integer(0, 1))
    return Example([np.round(x.astype(np.float64)).astype(x.dtype)], attributes)


@covers("Softmax", "LogSoftmax", "Hardmax")
def softmax(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(1, empty=pick.op != "Hardmax"), -20, 20)
    axis = pick.axis(x.ndim)
    return Example(
        [x], pick.some(axis=axis if pick.opset >= 11 else axis % x.ndim) or default(x, pick)
    )


def default(x: Any, pick: Pick) -> dict[str, Any]:
    """Before operator set 13 the axis is 1 where nothing else is said, which a vector does not have."""
    return {"axis": 0} if x.ndim < 2 and pick.opset < 13 else {}


@covers("LpNormalization")
def lp_normalization(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(1, empty=False), 0.5, 3)
    return Example([x], pick.some(axis=pick.axis(x.ndim), p=pick.integer(1, 2)), summed=True)


@covers("BatchNormalization")
def batch_normalization(pick: Pick) -> Example:
    type = pick.type("T")
    lens = (pick.integer(1, 3), pick.integer(1, 4), *pick.lens(0, 3, empty=False))
    second = pick.type("T1", [type]) if pick.opset >= 15 else type
    third = pick.type("T2" if pick.opset >= 15 else "U", [type]) if pick.opset >= 14 else type
    values = [pick.array(t, lens[1:2], 0.5, 2) for t in (second, second, third, third)]
    # Its default, 1e-5, is less than half a unit in the last place of a variance in float16.
    attributes = {"epsilon": pick.number(0.01, 0.1)} if pick.flag() else {}
    if pick.opset >= 14 and np.prod(lens) > lens[1] and pick.rarely():
        attributes |= {"training_mode": 1} | pick.some(momentum=pick.number(0.1, 0.9))
        return Example(
            [pick.array(type, lens), *values], attributes, outputs=3, summed=True, slack=10
        )
    return Example([pick.array(type, lens), *values], attributes, summed=True)


@covers("InstanceNormalization")
def instance_normalization(pick: Pick) -> Example:
    type = pick.type()
    lens = (pick.integer(1, 2), pick.integer(1, 4), *pick.lens(1, 3, empty=False))
    values = [pick.array(type, lens[1:2], 0.5, 2) for _ in range(2)]
    return Example([pick.array(type, lens), *values], epsilon(pick), summed=True, slack=10)


def epsilon(pick: Pick) -> dict[str, float]:
    """An epsilon that float16 can hold beside a variance."""
    return {"epsilon": pick.number(0.01, 0.1)}


@covers("GroupNormalization")
def group_normalization(pick: Pick) -> Example:
    type = pick.type()
    groups = pick.integer(1, 3)
    channels = groups * pick.integer(1, 3)
    x = pick.array(type, (pick.integer(1, 2), channels, *pick.lens(1, 2, empty=False)))
    count = groups if pick.opset < 21 else channels
    values = [pick.array(type, (count,), 0.5, 2) for _ in range(2)]
    return Example([x, *values], epsilon(pick) | {"num_groups": groups}, summed=True, slack=10)


@covers("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(pick: Pick) -> Example:
    type = pick.type("T", ["float", "double", "float16"])
    lens = pick.lens(1, empty=False)
    axis = pick.axis(len(lens))
    normal = lens[axis:] if axis >= 0 else lens[len(lens) + axis :]
    x, gamma = pick.array(type, lens), pick.array(type, normal, 0.5, 2)
    attributes: dict[str, Any] = epsilon(pick) | {"axis": axis}
    if pick.op != "LayerNormalization":
        return Example([x, gamma], attributes, summed=True, slack=10)
    bias = pick.array(type, normal) if pick.flag() else None
    # The mean and the reciprocal of the deviation are float32, whatever the type.
    outputs = pick.one_of([1, 3]) if type == "float" else 1
    return Example([x, gamma, bias], attributes, outputs=outputs, summed=True, slack=10)


@covers("MeanVarianceNormalization")
def mean_variance_normalization(pick: Pick) -> Example:
    # The function that onnxruntime expands is for float alone.
    lens = tuple(pick.integer(2, 4) for _ in range(4))
    attributes = {"axes": pick.one_of([[0, 2, 3], [0, 1, 2, 3], [2, 3], [0, 3, 2]])}
    return Example(
        [pick.array("float", lens)], attributes if pick.flag() else {}, summed=True, slack=20
    )


@covers("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_normalization(pick: Pick) -> Example:
    type = pick.type("T", ["float", "float16"])
    lens = (pick.integer(1, 2), pick.integer(1, 3), pick.integer(2, 6))
    simple = "Simplified" in pick.op
    x, skip = pick.array(type, lens), pick.array(type, lens)
    vectors = [pick.array(type, lens[-1:]) for _ in range(2 if simple else 3)]
    given: list[Any] = [x, skip, vectors[0]]
    given += [v if pick.flag() else None for v in vectors[1:]]
    sums = not simple and pick.flag()
    used = [0, 3] if sums else [0]
    return Example(given, epsilon(pick), outputs=max(used) + 1, used=used, summed=True, slack=10)


@covers("CumSum")
def cumsum(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(1))
    axis = np.array(pick.axis(x.ndim), pick.one_of([np.int32, np.int64]))
    attributes = pick.some(exclusive=pick.integer(0, 1), reverse=pick.integer(0, 1))
    return Example([x, axis], attributes, fixed=(1,) if pick.flag() else (), summed=True)


@covers("TopK")
def topk(pick: Pick) -> Example:
    lens = pick.lens(1, empty=False)
    count = int(np.prod(lens))
    type = pick.type()
    values = pick.generator().permutation(count).reshape(lens)
    x = values.astype(np.float64) if is_float(type) else values % 120
    if not is_float(type) and count > 120:
        return Example([np.arange(4).astype(x.dtype), ints(2)], outputs=2)
    x = x.astype(pick.array(type, ()).dtype)
    axis = pick.axis(len(lens))
    axis = axis % len(lens) if pick.opset < 11 else axis
    k = pick.integer(1, lens[axis])
    attributes: dict[str, Any] = {"axis": axis}
    if pick.opset >= 11:
        attributes |= pick.some(largest=pick.integer(0, 1))  # sorted=0 leaves the order open
    if pick.opset < 10:
        return Example([x], attributes | {"k": k}, outputs=2)
    return Example([x, ints(k)], attributes, outputs=2)


@covers("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(pick: Pick) -> Example:
    type = pick.type("T", ["float", "double"])
    batch, classes, more = pick.integer(1, 3), pick.integer(2, 4), pick.lens(0, 2, empty=False)
    x = pick.array(type, (batch, classes, *more))
    labels = pick.array(pick.type("Tind"), (batch, *more), 0, classes - 1)
    weights = pick.array(type, (classes,), 0.5, 2) if pick.flag() else None
    attributes = pick.some(reduction=pick.one_of(["none", "sum", "mean"]))
    if pick.flag():
        ignored = pick.integer(0, classes - 1)
        attributes["ignore_index"] = ignored
        labels.reshape(-1)[0] = (ignored + 1) % classes  # a mean over nothing is 0 / 0
    outputs = 2 if pick.op == "SoftmaxCrossEntropyLoss" and pick.flag() else 1
    return Example([x, labels, weights], attributes, outputs=outputs, summed=True, slack=5)


@covers("BlackmanWindow", "HammingWindow", "HannWindow")
def signal_window(pick: Pick) -> Example:
    attributes = pick.some(periodic=pick.integer(0, 1))
    if pick.flag():
        attributes["output_datatype"] = pick.one_of([TensorProto.FLOAT, TensorProto.DOUBLE])
    size = np.array(pick.integer(2, 9), pick.one_of([np.int32, np.int64]))
    return Example([size], attributes, fixed=(0,) if pick.flag() else ())
