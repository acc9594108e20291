"""Models with values without dimensions, on every target, against their peers: shapes included."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
from tests.onnx.models import declared, model, peer, same
from workbench.compiler.ir.shape import Dim

node = helper.make_node
F = np.float32
X, V, ONE = np.arange(6, dtype=F).reshape(2, 3), np.arange(5, dtype=F), np.array(3, F)
INDEX, ZERO, AXIS = np.array(1), np.array(0), np.array([0])
ROWS = {"x": [Dim(1, 8), 3]}


def gives(name, *, shape=(), type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def takes(name, type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, [])


THEN = helper.make_graph([node("Identity", ["x"], ["a"])], "then", [], [gives("a")])
ELSE = helper.make_graph([node("Neg", ["x"], ["b"])], "else", [], [gives("b")])
BODY = helper.make_graph(
    [
        node("Add", ["s", "s"], ["t"]),
        node("Identity", ["t"], ["u"]),
        node("Identity", ["c"], ["d"]),
    ],
    "body",
    [takes("i", TensorProto.INT64), takes("c", TensorProto.BOOL), takes("s")],
    [gives("d", type=TensorProto.BOOL), gives("t"), gives("u")],
)
LENGTHS = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"])]
LIST = [*LENGTHS, node("Unsqueeze", ["n", "axis"], ["u"])]

# Nodes, inputs, initializers, outputs, ranges of inputs.
CASES = {
    "a vector of one reduced to a value, and a vector again": (
        [
            node("ArgMin", ["x"], ["a"], keepdims=0), node("Add", ["a", "a"], ["b"]),
            node("Reshape", ["b", "d"], ["y"]),
        ],
        {"x": V[:1]}, {"d": np.array([1])}, "y", {},
    ),
    "a row of what has no element": (
        [node("Gather", ["x", "i"], ["y"])], {"x": np.zeros((3, 1, 0), F)}, {"i": INDEX}, "y", {},
    ),
    "an input and an output": ([node("Exp", ["x"], ["y"])], {"x": ONE}, {}, "y", {}),
    "the shape of an expanded value": (
        [node("Expand", ["x", "d"], ["y"]), node("Shape", ["y"], ["s"])],
        {"x": ONE}, {"d": np.array([1])}, "ys", {},
    ),
    "its shape and size": (
        [node("Shape", ["x"], ["s"]), node("Size", ["x"], ["n"])], {"x": ONE}, {}, "sn", {},
    ),
    "a sum with a vector, multiplied": (
        [node("Add", ["x", "v"], ["s"]), node("Relu", ["s"], ["r"]), node("MatMul", ["r", "m"], ["y"])],
        {"x": ONE, "v": np.array([2], F)}, {"m": np.ones((1, 4), F)}, "y", {},
    ),
    "an index": (
        [node("Gather", ["x", "i"], ["y"]), node("Gather", ["y", "j"], ["z"]), node("Shape", ["z"], ["s"])],
        {"x": X, "i": INDEX}, {"j": ZERO}, "yzs", {},
    ),
    "a vector of one index": (
        [node("Expand", ["i", "d"], ["v"]), node("Gather", ["x", "v"], ["y"])],
        {"x": X, "i": INDEX}, {"d": np.array([1])}, "y", {},
    ),
    "whole reductions": (
        [node("ReduceSum", ["x"], ["a"], keepdims=0), node("ArgMax", ["v"], ["b"], keepdims=0),
         node("Gather", ["v", "b"], ["c"]), node("Sub", ["a", "c"], ["d"]), node("Mul", ["x", "d"], ["e"])],
        {"x": X, "v": V}, {}, "abcde", {},
    ),
    "reductions of it": (
        [node("ReduceSum", ["x"], ["a"]), node("ReduceMean", ["x"], ["b"], keepdims=0),
         node("ReduceL2", ["x"], ["c"]), node("ReduceMax", ["x"], ["d"])],
        {"x": ONE}, {}, "abcd", {},
    ),
    "reshapes": (
        [node("Unsqueeze", ["x", "ab"], ["a"]), node("Squeeze", ["a", "ab"], ["b"]),
         node("Reshape", ["a", "e"], ["c"]), node("Reshape", ["c", "ones"], ["d"]),
         node("Flatten", ["x"], ["f"], axis=0), node("Transpose", ["x"], ["g"])],
        {"x": ONE}, {"ab": np.array([0, 1]), "e": np.zeros(0, np.int64), "ones": np.array([1, 1, 1])},
        "abcdfg", {},
    ),
    "a choice and casts": (
        [node("Greater", ["x", "o"], ["a"]), node("Where", ["a", "x", "o"], ["b"]),
         node("Cast", ["b"], ["c"], to=TensorProto.INT64), node("Clip", ["m", "o", "x"], ["d"])],
        {"x": ONE, "m": X}, {"o": np.array(1, F)}, "abcd", {},
    ),
    "quantised": (
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        {"x": ONE}, {"s": np.array(0.5, F), "z": np.array(3, np.uint8)}, "qy", {},
    ),
    "products of vectors": (
        [node("MatMul", ["v", "v"], ["a"]), node("Einsum", ["v", "v"], ["b"], equation="i,i->"),
         node("Einsum", ["b", "v"], ["c"], equation=",i->i"), node("Add", ["a", "v"], ["d"])],
        {"v": V}, {}, "abcd", {},
    ),
    "branches": ([node("If", ["c"], ["y"], then_branch=THEN, else_branch=ELSE)],
                 {"x": ONE, "c": np.array(False)}, {}, "y", {}),
    "a loop": ([node("Loop", ["n", "c", "x"], ["y", "z"], body=BODY)],
               {"x": ONE}, {"n": np.array(3), "c": np.array(True)}, "yz", {}),
    "a shape made of its parts": (
        [*LIST, node("Concat", ["u", "three"], ["l"], axis=0), node("ConstantOfShape", ["l"], ["z"]),
         node("Add", ["z", "x"], ["y"])],
        {"x": X}, {"zero": ZERO, "axis": AXIS, "three": np.array([3])}, "y", ROWS,
    ),
    "numbers of a length": (
        [*LIST, node("Range", ["zero", "n", "step"], ["r"]), node("Cast", ["n"], ["f"], to=1),
         node("Div", ["x", "f"], ["q"]), node("Expand", ["f", "u"], ["e"])],
        {"x": X}, {"zero": ZERO, "axis": AXIS, "step": INDEX}, "nrqe", ROWS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["ref", "cpu", "gpu"])
@pytest.mark.parametrize("name", CASES)
def test_a_model_computes_what_its_peers_compute(name: str, target: str):
    nodes, inputs, weights, outputs, ranges = CASES[name]
    named = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    made = model(nodes, [declared(k, v) for k, v in inputs.items()], list(outputs), named)
    program = wb.parse_onnx(made, map_dyn_input_dims=ranges)
    found = wb.compile(program, target).run(inputs).values()
    for have, want in zip(found, peer(made, inputs), strict=True):
        same(have, want)


def test_strict_import_holds_it_in_migraphxs_scalar():
    made = model(
        [node("Gather", ["v", "i"], ["y"])], [declared("v", V), declared("i", INDEX)], ["y"]
    )
    plain, strict = (wb.parse_onnx(made, strict=s).main for s in (False, True))
    assert [str(m.outputs[0].shape) for m in (plain, strict)] == [
        "float_type, {}, {}", "float_type, {1}, {0}",
    ]  # fmt: skip
