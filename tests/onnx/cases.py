"""Single nodes: at least one for each operator with a handler."""

import numpy as np
from onnx import TensorProto, helper

from tests.onnx.models import CONTRIB, Case
from tests.onnx.peer_bytes import weight_limits

F, H, L, B = np.float32, np.float16, np.int64, np.bool_
_random = np.random.default_rng(7)


def f(*lens, low=-2.0, high=2.0, type=F):
    return _random.uniform(low, high, lens).astype(type)


def i(*lens, low=-5, high=5, type=L):
    return _random.integers(low, high, lens).astype(type)


def n(*values, type=L):
    return np.array(values, type)


def u8(*lens):
    return i(*lens, low=0, high=255, type=np.uint8)


def i8(*lens):
    return i(*lens, low=-128, high=127, type=np.int8)


def w8(*lens):
    low, high = weight_limits(np.int8)
    return i(*lens, low=low, high=high, type=np.int8)


def scalar(value, type=F):
    return np.array(value, type)


X = f(2, 3, 4)
IMAGE = f(2, 4, 6, 7)

PLAIN = """
    Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Tan Tanh
    Identity Elu LeakyRelu Selu Celu Softplus Softsign HardSigmoid HardSwish ThresholdedRelu Shrink Gelu
    Mish Size Flatten Transpose
"""
UNARY = [Case(op, [X]) for op in PLAIN.split()]
UNARY += [
    Case("Acosh", [f(3, 4, low=1, high=5)]),
    Case("Acos", [f(5, low=-1, high=1)]),
    Case("Asin", [f(5, low=-1, high=1)]),
    Case("Atanh", [f(5, low=-0.9, high=0.9)]),
    Case("Log", [f(5, low=0.1)]),
    Case("Sqrt", [f(5, low=0.1)]),
    Case("Not", [X > 0]),
    Case("Elu", [X], {"alpha": 0.3}),
    Case("LeakyRelu", [X], {"alpha": 0.3}),
    Case("Celu", [X], {"alpha": 0.7}),
    Case("Selu", [n(-200.0, -1.0, 0.0, 1.0, 200.0, type=F)]),
    Case("Softplus", [n(-200.0, -1.0, 0.0, 1.0, 200.0, type=F)]),
    Case("HardSigmoid", [X], {"alpha": 0.4, "beta": 0.1}),
    Case("ThresholdedRelu", [X], {"alpha": 0.5}),
    Case("Shrink", [X], {"bias": 0.2, "lambd": 0.7}),
    Case("Gelu", [X], {"approximate": "tanh"}),
    Case("IsNaN", [n(1.0, np.nan, np.inf, type=F)]),
    Case("IsInf", [n(1.0, np.nan, np.inf, -np.inf, type=F)]),
    Case("IsInf", [n(1.0, np.nan, np.inf, -np.inf, type=F)], {"detect_negative": 0}),
    Case("IsInf", [n(1.0, np.nan, np.inf, -np.inf, type=F)], {"detect_positive": 0}),
    Case("FastGelu", [X, f(4)], domain=CONTRIB),
    Case("BiasGelu", [X, f(4)], domain=CONTRIB),
    Case("QuickGelu", [X], {"alpha": 1.702}, domain=CONTRIB),
]

BINARY = [Case(op, [X, f(3, 1)]) for op in ("Add", "Sub", "Mul", "Div", "PRelu")]
BINARY += [Case(op, [X > 0, f(3, 1) > 0]) for op in ("And", "Or", "Xor")]
BINARY += [
    Case(op, [i(2, 3), i(3)])
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
]
BINARY += [
    Case(op, [n(1.0, np.nan, 2.0, type=F), n(1.0, 1.0, np.nan, type=F)])
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
]
BINARY += [
    Case("Add", [X[0], X[0, :, 0]], {"broadcast": 1, "axis": 0}, opset=6, expected=[X[0] + X[0, :, :1]]),
    Case("BitwiseAnd", [i(4), i(4)]),
    Case("BitwiseOr", [i(4), i(4)], fixed=(0, 1)),
    Case("BitwiseXor", [i(4), i(4)], fixed=(0, 1)),
    Case("BitwiseNot", [i(4)], fixed=(0,)),
    Case("BitShift", [n(1, 2, 4, type=np.uint8), n(1, 2, 3, type=np.uint8)], {"direction": "LEFT"},
         fixed=(0, 1)),
    Case("Mod", [i(2, 3), n(3, -2, 4)]),
    Case("Mod", [X, f(4, low=1)], {"fmod": 1}),
    Case("Pow", [f(2, 3, low=0.1), scalar(2.5)]),
    Case("Pow", [i(2, 3), n(1.0, 2.0, 3.0, type=F)]),
    Case("Where", [X > 0, X, f(4)]),
    Case("Where", [scalar(True, B), X, scalar(0.0)]),
    Case("Sum", [X, f(4), f(3, 1)]),
    Case("Sum", [X]),
    Case("Max", [X, f(4), f(3, 1)]),
    Case("Min", [X, f(4)]),
    Case("Max", [i(2, 3), i(3)]),
    Case("Mean", [X, f(4), f(3, 1)]),
    Case("Clip", [X, scalar(-0.5), scalar(0.5)]),
    Case("Clip", [X, None, scalar(0.5)]),
    Case("Clip", [X, scalar(0.5)]),
    Case("Clip", [X], {"min": -1.0, "max": 0.5}, opset=6),
    Case("Cast", [X], {"to": TensorProto.INT32}),
    Case("Cast", [X], {"to": TensorProto.BOOL}),
    Case("CastLike", [X, i(1)]),
    Case("Dropout", [X], outputs=2, used=(0,)),
    Case("BiasAdd", [X, X[0, 0], X], domain=CONTRIB, expected=[2 * X + X[0, 0]]),
]  # fmt: skip

CREATED = [
    Case("Constant", [], {"value": helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0])}),
    Case("Constant", [], {"value_float": 1.5}),
    Case("Constant", [], {"value_floats": [1.5, 2.0]}),
    Case("Constant", [], {"value_int": 3}),
    Case("Constant", [], {"value_ints": [3, 4]}),
    Case("ConstantOfShape", [n(2, 3)], fixed=(0,)),
    Case("ConstantOfShape", [n(2, 3)], {"value": helper.make_tensor("v", TensorProto.INT64, [1], [7])},
         fixed=(0,)),
    Case("ConstantFill", [], {"shape": [2, 2], "value": 3.0}, expected=[np.full((2, 2), 3, F)]),
    Case("EyeLike", [X[0]], {"k": 1}),
    Case("Range", [scalar(1, L), scalar(10, L), scalar(3, L)], fixed=(0, 1, 2)),
    Case("Range", [scalar(1.0), scalar(-2.0), scalar(-0.5)], fixed=(0, 1, 2)),
    Case("Shape", [X]),
    Case("Shape", [X], {"start": -2}),
    Case("Shape", [X], {"start": 0, "end": 1}),
    Case("OneHot", [i(2, 3, low=-4, high=4), scalar(5, L), n(0.0, 2.0, type=F)], fixed=(1,)),
    Case("OneHot", [i(2, 3), scalar(5, L), n(0.0, 2.0, type=F)], {"axis": 1}, fixed=(1,)),
    Case("NonZero", [n(0, 3, 0, 4)], fixed=(0,)),
]  # fmt: skip

MOVED = [
    Case("Reshape", [X, n(0, -1)], fixed=(1,)),
    Case("Reshape", [X, n(4, 6)], {"allowzero": 1}, fixed=(1,)),
    Case("Reshape", [X], {"shape": [4, 6]}, opset=1, expected=[X.reshape(4, 6)]),
    Case("Reshape", [f(1), np.zeros(0, L)], fixed=(1,)),
    Case("Squeeze", [f(1, 3, 1)]),
    Case("Squeeze", [f(1, 3, 1), n(-1)], fixed=(1,)),
    Case("Squeeze", [f(1, 3, 1)], {"axes": [0]}, opset=11),
    Case("Unsqueeze", [X, n(-1, 0)], fixed=(1,)),
    Case("Unsqueeze", [scalar(2.0), n(0, 1)], fixed=(1,)),
    Case("Unsqueeze", [X], {"axes": [1]}, opset=11),
    Case("Flatten", [X], {"axis": 2}),
    Case("Flatten", [X], {"axis": -1}),
    Case("Transpose", [X], {"perm": [1, 2, 0]}),
    Case("Expand", [f(3, 1), n(2, 1, 4)], fixed=(1,)),
    Case("Tile", [f(2, 3), n(2, 3)], fixed=(1,)),
    Case("Concat", [X, f(2, 1, 4)], {"axis": -2}),
    Case("DepthToSpace", [f(1, 8, 2, 3)], {"blocksize": 2}),
    Case("DepthToSpace", [f(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", [f(1, 2, 4, 6)], {"blocksize": 2}),
    Case("Pad", [X, n(0, 1, 0, 0, 0, 2), scalar(1.5)], fixed=(1, 2)),
    Case("Pad", [X, n(1, 2), None, n(-1)], fixed=(1, 3)),
    Case("Pad", [X, n(0, 1, 1, 0, 1, 2)], {"mode": "reflect"}, fixed=(1,)),
    Case("Pad", [X, n(0, 1, 1, 0, 1, 2)], {"mode": "edge"}, fixed=(1,)),
    Case("Pad", [X], {"pads": [0, 0, 1, 0, 0, 1], "value": 2.0}, opset=2),
    Case("Pad", [X, n(0, -1, 0, 0, 0, -1)], fixed=(1,)),
    Case("Pad", [X, n(0, 0, 0, 0, 0, 0)], fixed=(1,)),
    Case("Slice", [X, n(1, -3), n(2, 1000), n(1, 2)], fixed=(1, 2, 3)),
    Case("Slice", [X, n(0, 0, 0), n(1, 2, 3)], fixed=(1, 2)),
    Case("Slice", [X, n(-1), n(-1000), n(2), n(-1)], fixed=(1, 2, 3, 4)),
    Case("Slice", [X, n(3), n(0), n(2), n(-2)], fixed=(1, 2, 3, 4)),
    Case("Slice", [X, n(3), n(-1), n(2), n(-1)], fixed=(1, 2, 3, 4)),
    Case("Slice", [X, n(0), n(4), n(2), n(2)], fixed=(1, 2, 3, 4)),
    Case("Slice", [X], {"starts": [1], "ends": [3], "axes": [2]}, opset=9),
    Case("Slice", [X], {"starts": [1, 0], "ends": [3, 2]}, opset=9),
    Case("Split", [f(6, 2)], outputs=3, opset=13),
    Case("Split", [f(2, 7)], {"axis": 1, "num_outputs": 3}, outputs=3),
    Case("Split", [f(6, 2), n(1, 5)], outputs=2, fixed=(1,)),
    Case("Split", [f(6, 2)], {"split": [4, 2]}, outputs=2, opset=11),
]

INDEXED = [
    Case("Gather", [X, i(2, 2, low=-3, high=3)], {"axis": 1}),
    Case("Gather", [X, scalar(1, L)], {"axis": 0}),
    Case("GatherND", [X, n((0, 1), (1, 2))]),
    Case("GatherND", [X, n((1,), (0,))], {"batch_dims": 1}),
    Case("GatherElements", [X, i(2, 3, 4, low=-2, high=2)], {"axis": 0}),
    Case("GatherElements", [X, i(2, 2, 4, low=0, high=3)], {"axis": 1}, fixed=(1,)),
    Case("ScatterElements", [X, n([[0, 2, 1, 3]]), f(1, 1, 4)], {"axis": 2}),
    Case("ScatterElements", [X, n([[0, 2, 1, 1]]), f(1, 1, 4)], {"axis": 2, "reduction": "add"}),
    Case("Scatter", [X, n([[0, 2, 1, 3]]), f(1, 1, 4)], {"axis": 2}, opset=10),
    Case("ScatterND", [X, n((0, 1), (1, 2)), f(2, 4)]),
    Case("ScatterND", [X, n((0, 1), (0, 1)), f(2, 4)], {"reduction": "add"}),
    Case("ArgMax", [X], {"axis": -1, "keepdims": 0}),
    Case("ArgMin", [X], {"axis": 1}),
    Case("TopK", [X, n(2)], {"axis": -1}, outputs=2, fixed=(1,)),
    Case("TopK", [X, n(2)], {"axis": 1, "largest": 0}, outputs=2, fixed=(1,)),
    Case("Unique", [n(3, 1, 3, 2)], outputs=4),
    Case("Trilu", [f(3, 4)]),
    Case("Trilu", [np.full((2, 3, 3), -np.inf, F), scalar(1, L)], {"upper": 1}, fixed=(1,)),
    Case("Trilu", [X, scalar(-1, L)], {"upper": 0}, fixed=(1,)),
    Case("CumSum", [X, scalar(1, L)], fixed=(1,)),
    Case("CumSum", [X, scalar(-1, L)], {"exclusive": 1, "reverse": 1}, fixed=(1,)),
    Case("ReverseSequence", [f(4, 3, 2), n(1, 2, 4)], fixed=(1,)),
    Case("ReverseSequence", [f(3, 4), n(1, 2, 4)], {"batch_axis": 0, "time_axis": 1}, fixed=(1,)),
]

REDUCED = [
    Case(f"Reduce{kind}", [f(2, 3, 4, low=0.1), n(-1, 0)], keep, fixed=(1,))
    for kind in [
        "L1",
        "L2",
        "LogSum",
        "LogSumExp",
        "Max",
        "Mean",
        "Min",
        "Prod",
        "Sum",
        "SumSquare",
    ]
    for keep in ({}, {"keepdims": 0})
]
REDUCED += [
    Case("ReduceSum", [X, np.zeros(0, L)], {"noop_with_empty_axes": 1}, fixed=(1,)),
    Case("ReduceSum", [X], {"keepdims": 0}),
    Case("ReduceMax", [X], {"axes": [1]}, opset=13),
    Case("Softmax", [X]),
    Case("Softmax", [X], {"axis": 1}),
    Case("Softmax", [X], {"axis": 1}, opset=11),
    Case("Softmax", [f(1, 5, 1, 1)], opset=9),
    Case("LogSoftmax", [X]),
    Case("LogSoftmax", [X], opset=11),
    Case("Hardmax", [X]),
    Case("Hardmax", [X], opset=11),
    Case("LpNormalization", [X], {"p": 1}),
    Case("LpNormalization", [X], {"axis": 1}),
]
