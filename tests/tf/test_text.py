"""MIGraphX's 46 operators as text: golden/tf_operators.txt has the programs."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.tf.graphs import Graph, Type
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.run import reference
from workbench.compiler.text.parsing import parse
from workbench.compiler.tf import operators, parse_tf

MIGRAPHX = {
    "Add", "AddN", "AddV2", "All", "ArgMax", "ArgMin", "AvgPool", "BatchMatMul", "BatchMatMulV2",
    "BiasAdd", "Cast", "ConcatV2", "Const", "Conv2D", "DepthwiseConv2dNative", "ExpandDims",
    "FusedBatchNorm", "FusedBatchNormV3", "GatherV2", "Identity", "LessEqual", "MatMul",
    "MaxPool", "Mean", "Mul", "OneHot", "Pack", "Pad", "Pow", "Relu", "Relu6", "Reshape",
    "Rsqrt", "Shape", "Sigmoid", "Slice", "Softmax", "Split", "SplitV", "SquaredDifference",
    "Squeeze", "StopGradient", "StridedSlice", "Sub", "Tanh", "Transpose",
}  # fmt: skip
CLEANED = ("simplify_reshapes", "dead_code_elimination", "eliminate_identity")
F32 = {"T": Type("float32")}

Case = tuple[str, bool, Callable[[Graph], object]]


def elementwise(op: str, *names: str) -> Callable[[Graph], object]:
    """An operator on inputs of equal lens."""

    def build(graph: Graph) -> None:
        graph.node("made", op, *[graph.given(name, 1, 4, 5, 3) for name in names], **F32)

    return build


def window(op: str, **attributes: object) -> Callable[[Graph], object]:
    """A pooling, two by two."""

    def build(graph: Graph) -> None:
        pair = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "data_format": "NHWC"}
        graph.node("made", op, graph.given("x", 1, 7, 8, 3), **pair | attributes)

    return build


def convolution(op: str, *kernel: int, **attributes: object) -> Callable[[Graph], object]:
    """A convolution with a constant kernel."""

    def build(graph: Graph) -> None:
        x = graph.given("x", 1, 9, 8, kernel[2])
        more = {"strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "padding": "SAME"}
        graph.node("made", op, x, graph.filled("kernel", 1.0, *kernel), **more | attributes)

    return build


def with_constants(
    op: str, lens: tuple[int, ...], *constants: object, **attributes: object
) -> Callable[[Graph], object]:
    """An operator on an input and some constants."""

    def build(graph: Graph) -> None:
        given = [graph.const(f"c{i}", value) for i, value in enumerate(constants)]
        graph.node("made", op, graph.given("x", *lens), *given, **attributes)

    return build


def batch_norm(op: str, type: str = "float32") -> Callable[[Graph], object]:
    """A normalisation whose scale is a constant."""

    def build(graph: Graph) -> None:
        names = [graph.given("x", 1, 4, 5, 6, type=type), graph.filled("scale", 1.0, 6)]
        names += [graph.given(name, 6) for name in ("offset", "mean", "variance")]
        graph.node("made", op, *names, epsilon=0.001, is_training=False)

    return build


def matmul(op: str, *outer: int, **attributes: object) -> Callable[[Graph], object]:
    """A product of transposed matrices."""

    def build(graph: Graph) -> None:
        graph.node(
            "made", op, graph.given("a", *outer, 5, 3), graph.given("b", *outer, 4, 5), **attributes
        )

    return build


def add_n(count: int) -> Callable[[Graph], object]:
    """A sum of so many."""
    return lambda g: g.node(
        "made", "AddN", *[g.given(f"x{i}", 2, 3) for i in range(count)], N=count
    )


def asserted(graph: Graph) -> None:
    """A sum, and an assertion about its inputs."""
    x, y = graph.given("x", 2, 3), graph.given("y", 2, 3)
    both = graph.const("check/Const", [0, 1])
    graph.node("check/LessEqual", "LessEqual", x, y)
    graph.node("check/All", "All", "check/LessEqual", both, keep_dims=False)
    graph.node("check/Assert/Assert", "Assert", "check/All")
    graph.node("sum", "Add", x, y, "^check/Assert/Assert")


def one_hot(graph: Graph) -> None:
    """Rows of the identity matrix."""
    graph.const("i", [1, 0, 2])
    graph.const("depth", 3)
    graph.filled("on", 1.0)
    graph.filled("off", 0.0)
    graph.node("made", "OneHot", "i", "depth", "on", "off", axis=-1)


def packed(axis: int, *lens: int) -> Callable[[Graph], object]:
    """Three values along a new axis."""
    return lambda g: g.node("made", "Pack", *[g.given(n, *lens) for n in "xyz"], axis=axis)


def joined(graph: Graph) -> None:
    """Two values after each other."""
    graph.node(
        "made",
        "ConcatV2",
        graph.given("x", 2, 3),
        graph.given("y", 2, 5),
        graph.const("axis", 1),
        N=2,
    )


def split(
    op: str, *given: object, x_first: bool = False, **attributes: object
) -> Callable[[Graph], object]:
    """A value in parts, of which two are added."""

    def build(graph: Graph) -> None:
        constants = [graph.const(f"c{i}", value) for i, value in enumerate(given)]
        x = graph.given("x", 4, 6)
        inputs = [x, *constants] if x_first else [*constants, x]
        graph.node("cut", op, *inputs, **attributes)
        graph.node("made", "ConcatV2", "cut:1", "cut", graph.const("axis", 1), N=2)

    return build


def two_outputs(graph: Graph) -> None:
    """Two nodes that nobody takes."""
    x = graph.given("x", 1, 3, 4, 4)
    graph.node("relu", "Relu", x)
    graph.node("tanh", "Tanh", x)


def bias(*lens: int) -> Callable[[Graph], object]:
    """A vector along the channels."""
    return lambda g: g.node("made", "BiasAdd", g.given("x", *lens), g.given("b", lens[-1]))


def broadcast(graph: Graph) -> None:
    """A column on a matrix."""
    graph.node("made", "AddV2", graph.given("x", 2, 3), graph.given("y", 2, 1))


def halves(graph: Graph) -> None:
    """A clip in half precision."""
    graph.node("made", "Relu6", graph.given("x", 2, 3, type="float16"))


def literal(graph: Graph) -> None:
    """A constant that nobody takes."""
    graph.filled("alone", 1.0)


BINARY = ("Add", "AddV2", "Mul", "Pow", "SquaredDifference", "Sub")
UNARY = ("Identity", "Relu", "Rsqrt", "Sigmoid", "StopGradient", "Tanh")
CASES: list[Case] = [
    *((op, False, elementwise(op, "x", "y")) for op in BINARY),
    *((op, False, elementwise(op, "x")) for op in (*UNARY, "Relu6", "Shape")),
    ("Relu, laid out", True, elementwise("Relu", "x")),
    ("Mul, laid out", True, elementwise("Mul", "x", "y")),
    ("AddV2 of a column", False, broadcast),
    ("Relu6 of halves", False, halves),
    ("AddN of three", False, add_n(3)),
    ("AddN of six", False, add_n(6)),
    ("AvgPool", True, window("AvgPool", padding="VALID")),
    ("MaxPool", True, window("MaxPool", padding="SAME")),
    ("BiasAdd", True, bias(1, 1, 1, 5)),
    ("BiasAdd of rank 2", True, bias(2, 5)),
    ("Conv2D", True, convolution("Conv2D", 3, 3, 3, 4, data_format="NHWC")),
    ("Conv2D, NCHW", False, lambda g: g.node(
        "made", "Conv2D", g.given("x", 1, 3, 9, 8), g.filled("kernel", 1.0, 3, 3, 3, 4),
        strides=[1, 1, 2, 1], padding="VALID", data_format="NCHW",
    )),
    ("DepthwiseConv2dNative", True, convolution("DepthwiseConv2dNative", 3, 3, 3, 1)),
    ("DepthwiseConv2dNative, uneven", True, convolution(
        "DepthwiseConv2dNative", 3, 3, 3, 1, strides=[1, 2, 2, 1]
    )),
    ("FusedBatchNorm", True, batch_norm("FusedBatchNorm")),
    ("FusedBatchNormV3 of halves", True, batch_norm("FusedBatchNormV3", "float16")),
    ("MatMul", False, matmul("MatMul", transpose_a=True, transpose_b=True)),
    ("BatchMatMul", False, matmul("BatchMatMul", 1, 2, adj_x=True, adj_y=True)),
    ("BatchMatMulV2", False, matmul("BatchMatMulV2", 1, 2, adj_x=True, adj_y=True)),
    ("All and LessEqual of an assertion", False, asserted),
    ("ArgMax", False, with_constants("ArgMax", (3, 4, 5, 6), 2)),
    ("ArgMin", False, with_constants("ArgMin", (3, 4, 5, 6), 2)),
    ("Cast", False, with_constants("Cast", (2, 3), DstT=Type("int32"))),
    ("ConcatV2", False, joined),
    ("Const", False, literal),
    ("ExpandDims", False, with_constants("ExpandDims", (2, 3, 4), -1)),
    ("GatherV2", False, with_constants("GatherV2", (2, 4), [1, 1], 1)),
    ("Mean", False, with_constants("Mean", (1, 3, 4, 4), [2, 3], keep_dims=True)),
    ("Mean, laid out", True, with_constants("Mean", (1, 4, 4, 3), [1, 2], keep_dims=False)),
    ("OneHot", False, one_hot),
    ("Pack", False, packed(1, 2)),
    ("Pack of rank 4", True, packed(3, 1, 1, 1, 2)),
    ("Pad", False, with_constants("Pad", (2, 4), [[1, 1], [2, 2]])),
    ("Pad, laid out", True, with_constants("Pad", (1, 4, 4, 3), [[0, 0], [1, 2], [3, 4], [0, 0]])),
    ("Reshape", False, with_constants("Reshape", (16,), [1, 1, 1, 16])),
    ("Slice", False, with_constants("Slice", (5, 10), [1, 0], [2, -1])),
    ("Softmax", False, with_constants("Softmax", (1, 3))),
    ("Split", False, split("Split", 1, num_split=3)),
    ("SplitV", False, split("SplitV", [2, 3, 1], 1, x_first=True, num_split=3)),
    ("Squeeze", False, with_constants("Squeeze", (1, 2, 3, 1), squeeze_dims=[])),
    ("StridedSlice", True, with_constants(
        "StridedSlice", (1, 1, 1, 10), [0, 0, 0, 0], [1, 1, 1, 5], [1, 1, 1, 1], shrink_axis_mask=2
    )),
    ("StridedSlice, masked", True, with_constants(
        "StridedSlice", (1, 3, 3, 10), [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1],
        begin_mask=9, end_mask=15,
    )),
    ("Transpose", False, with_constants("Transpose", (1, 3, 4, 4), [0, 2, 3, 1])),
    ("two outputs", False, two_outputs),
    ("an open batch", False, lambda g: g.node("made", "Identity", g.given("x", -1, 3, 4, 4))),
]  # fmt: skip


def imported(case: Case) -> Program:
    """The program of a case."""
    graph = Graph()
    case[2](graph)
    return parse_tf(graph.bytes(), is_nhwc=case[1], strict=True)


def cleaned(program: Program) -> Program:
    """The program after the passes that take out what layouts left."""
    for name in CLEANED:
        run_pass(pass_named(name), program)
    return program


def test_each_operator(golden: Callable[[str, str], None]) -> None:
    parts: list[str] = []
    for case in CASES:
        program = imported(case)
        parts.append(f"# {case[0]}\n{str(program).strip()}")
        if case[1]:
            parts.append(f"cleaned:\n{str(cleaned(program)).strip()}")
    golden("tf_operators", "\n\n".join(parts))


def test_every_operator_has_a_case() -> None:
    used: set[str] = set()
    for case in CASES:
        graph = Graph()
        case[2](graph)
        used |= {node.op for node in graph.message.node}
    assert used >= MIGRAPHX
    assert set(operators()) >= MIGRAPHX


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_text_parses_back(case: Case) -> None:
    program = imported(case)
    assert str(parse(str(program), fill_seed=0)) == str(program)


def test_nothing_to_compute_makes_an_empty_program() -> None:
    graph = Graph()
    graph.node("nothing", "NoOp")
    assert len(parse_tf(graph.bytes()).main) == 0


def test_outputs_are_sorted_by_name_and_named() -> None:
    graph = Graph()
    x = graph.given("x", 3)
    for name in ("b", "B", "a"):
        graph.node(name, "Relu", x)
    assert parse_tf(graph.bytes()).output_names == ("B", "a", "b")
    assert parse_tf(graph.bytes(), output_names=["b", "a"]).output_names == ("b", "a")


def test_lens_that_are_given_are_those_of_the_program() -> None:
    graph = Graph()
    graph.node("made", "Relu", graph.given("x", -1, 8, 8, 3))
    program = parse_tf(graph.bytes(), map_input_dims={"x": [2, 3, 6, 4]})
    assert program.main.parameters["x"].shape.lens == (2, 3, 6, 4)
    program = parse_tf(graph.bytes(), batch_size=5)
    assert program.main.parameters["x"].shape.lens == (5, 3, 8, 8)
    program = parse_tf(graph.bytes(), batch_size=5, is_nhwc=False)
    assert program.main.parameters["x"].shape.lens == (5, 8, 8, 3)


def test_every_instruction_names_its_node() -> None:
    program = imported(CASES[0])
    assert {s for i in program.main for s in i.sources} <= set(program.source_nodes)
    made = program.source_nodes["made"]
    assert (made.op_type, made.inputs) == ("Add", ("x", "y"))


def test_constants_come_in_each_type() -> None:
    graph = Graph()
    types = [
        "float32",
        "float64",
        "int32",
        "uint8",
        "int16",
        "int8",
        "int64",
        "bool",
        "uint16",
        "float16",
    ]
    for type in types:
        graph.const(type, [[1, 0, 1]], type)
        graph.const(f"{type}_one", 1, type)
    names = [name for type in types for name in (type, f"{type}_one")]
    program = parse_tf(graph.bytes(), is_nhwc=False, output_names=names)
    for name, value in zip(names, program.main.outputs, strict=True):
        assert value.shape.type.numpy == np.dtype(name.removesuffix("_one"))
        wanted = [1] if name.endswith("_one") else [1, 0, 1]
        assert value.literal is not None
        assert value.literal.numpy().reshape(-1).tolist() == wanted


def test_values_that_a_file_leaves_out_repeat_the_last_one() -> None:
    graph = Graph()
    graph.filled("a", 2.0, 5)
    graph.message.node[-1].attr["value"].tensor.float_val.append(3.0)
    graph.filled("b", 0.0, 3)
    del graph.message.node[-1].attr["value"].tensor.float_val[:]
    program = parse_tf(graph.bytes(), is_nhwc=False, output_names=["a", "b"])
    found = [value.literal.numpy().tolist() for value in program.main.outputs if value.literal]
    assert found == [[2, 3, 3, 3, 3], [0, 0, 0]]


def test_one_element_with_a_dimension_is_none_without() -> None:
    graph = Graph()
    graph.given("x")
    one = graph.const("one", [1])
    graph.node("packed", "Pack", one, one, axis=1, N=2)
    graph.node("scalars", "Pack", "x", "x", axis=0, N=2)
    graph.node("made", "Neg", "x", **F32)
    program = parse_tf(graph.bytes(), output_names=["packed", "scalars", "made"])
    assert [value.shape.lens for value in program.outputs] == [(1, 2), (2,), ()]
    found = reference.run(program, {"x": np.float32(3)})
    assert [value.tolist() for value in found] == [[[1, 1]], [3, 3], -3]
