"""The products of an import: text, provenance, subgraphs, functions, types, shared memory."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
from tests.onnx.models import CONTRIB, floats, imported, model, peer, same
from workbench.compiler.errors import EvaluationError, ModelError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.onnx.broadcast import common_type
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.run import reference


def node(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def weight(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def agrees(made, **arrays):
    """The import computes what onnxruntime computes; returns the program."""
    program = parse_onnx(made)
    for have, want in zip(reference.run(program, arrays), peer(made, arrays), strict=True):
        same(have, want)
    return program


# The text


def test_literals_come_first_the_last_made_in_front_and_parameters_in_the_models_order():
    nodes = [node("Add", ["a", "w"], ["s"]), node("HardSigmoid", ["s"], ["y"])]
    made = model(
        nodes, [floats("a", 3), floats("b", 3)], ["y"], [weight("w", np.float32([1, 2, 3]))]
    )
    assert (
        imported(made).strip()
        == """\
module: "main"
@0 = @literal{1} -> float_type, {}, {}
@1 = @literal{0} -> float_type, {}, {}
@2 = @literal{0.5} -> float_type, {}, {}
@3 = @literal{0.2} -> float_type, {}, {}
a = @param:a -> float_type, {3}, {1}
b = @param:b -> float_type, {3}, {1}
@6 = @literal{1, 2, 3} -> float_type, {3}, {1}
@7 = add(a,@6) -> float_type, {3}, {1}
@8 = multibroadcast[out_lens={3},out_dyn_dims={}](@3) -> float_type, {3}, {0}
@9 = multibroadcast[out_lens={3},out_dyn_dims={}](@2) -> float_type, {3}, {0}
@10 = multibroadcast[out_lens={3},out_dyn_dims={}](@1) -> float_type, {3}, {0}
@11 = multibroadcast[out_lens={3},out_dyn_dims={}](@0) -> float_type, {3}, {0}
@12 = mul(@8,@7) -> float_type, {3}, {1}
@13 = add(@9,@12) -> float_type, {3}, {1}
@14 = clip(@13,@10,@11) -> float_type, {3}, {1}
@15 = @return(@14)"""
    )


def test_a_convolution_with_bias():
    inputs = [floats("x", 1, 3, 8, 8), floats("w", 4, 3, 3, 3), floats("b", 4)]
    made = model([node("Conv", ["x", "w", "b"], ["y"], strides=[2, 2])], inputs, ["y"])
    text = imported(made)
    assert (
        "convolution[padding={0, 0},stride={2, 2},dilation={1, 1},group=1,padding_mode=0](x,w)"
        in text
    )
    assert "broadcast[axis=1,out_lens={1, 4, 3, 3},out_dyn_dims={}](b)" in text


def test_inputs_are_broadcast_then_converted_one_by_one():
    inputs = [floats("x", 2, 1), helper.make_tensor_value_info("z", TensorProto.INT32, [3])]
    text = imported(model([node("Mul", ["x", "z"], ["y"])], inputs, ["y"]))
    found = [line.split(" = ")[1].split(" ->")[0] for line in text.splitlines()[3:7]]
    assert found == [
        "multibroadcast[out_lens={2, 3},out_dyn_dims={}](x)",
        "multibroadcast[out_lens={2, 3},out_dyn_dims={}](z)",
        "convert[target_type=2](@3)",
        "mul(@2,@4)",
    ]


def test_a_shape_computed_by_nodes_is_known_at_import():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i"], ["n"]),
        node("Concat", ["n", "m"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = [weight("i", np.int64([1])), weight("m", np.int64([-1]))]
    text = imported(model(nodes, [floats("x", 2, 3, 4)], ["y"], weights))
    assert "reshape[dims={3, -1}](x) -> float_type, {3, 8}, {8, 1}" in text


def test_nodes_out_of_order_are_sorted():
    nodes = [node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])]
    agrees(model(nodes, [floats("x", 3)], ["y"]), x=np.float32([-1, 0, 2]))


# Dimensions


def dims(**options):
    made = model([node("Relu", ["x"], ["y"])], [floats("x", "batch", None, 3)], ["y"])
    return parse_onnx(made, **options).parameters["x"]


def test_open_dimensions():
    assert str(dims()) == "dynamic, float_type, {[1..4096], [1..4096], 3}"
    assert dims(strict=True).lens == (1, 1, 3)
    assert dims(default_dim_value=4).lens == (4, 4, 3)
    assert dims(map_input_dims={"x": [2, 5, 3]}).lens == (2, 5, 3)
    assert dims(dim_params={"batch": 7}, default_dim_value=1).lens == (7, 1, 3)
    ranged = dims(dim_params={"batch": Dim(1, 4)}, default_dim_value=1)
    assert str(ranged) == "dynamic, float_type, {[1..4], 1, 3}"
    assert dims(map_dyn_input_dims={"x": [Dim(1, 2), 4, 3]}).dims[0] == Dim(1, 2)
    assert dims(default_dyn_dim_value=Dim(1, 9)).dims[1] == Dim(1, 9)


def test_open_lengths_of_one_name_are_equal_and_any_length_runs():
    nodes = [node("Add", ["x", "y"], ["z"])]
    inputs = [floats("x", "batch", "width", 3), floats("y", "batch", None, 3)]
    program = parse_onnx(model(nodes, inputs, ["z"]))
    x, y = (program.parameters[name].dims for name in "xy")
    assert x[0].name == y[0].name == "batch"
    assert len({d.name for d in (x[0], x[1], y[1])}) == 3
    build = wb.compile(program, "cpu")
    for lens in ((1, 1, 3), (2, 5, 3)):
        given = {name: np.ones(lens, np.float32) for name in "xy"}
        assert np.asarray(build.run(given)["z"]).shape == lens


def test_open_lengths_of_any_number_are_no_claim_of_size():
    made = model([node("Relu", ["x"], ["y"])], [floats("x", "a", "b", "c", "d", "e")], ["y"])
    assert all(d.max == 4096 for d in parse_onnx(made).parameters["x"].dims)


def test_an_error_about_an_open_length_says_how_to_give_it():
    made = model([node("Squeeze", ["x"], ["y"])], [floats("x", "batch", None, 3)], ["y"])
    with pytest.raises(ModelError) as caught:
        parse_onnx(made)
    for words in (
        "batch (axis 0 of 'x')", "a length (axis 1 of 'x')", "from 1 to 4096",
        "dim_params={'batch': 1}", "default_dim_value=1",
    ):  # fmt: skip
        assert words in str(caught.value)
    assert parse_onnx(made, default_dim_value=1).main
    with pytest.raises(ModelError) as caught:
        parse_onnx(model([node("Conv", ["x"], ["y"])], [floats("x", "batch", 3)], ["y"]))
    assert "leaves open" not in str(caught.value)


# Provenance


def test_instructions_know_their_nodes():
    nodes = [
        node("Relu", ["x"], ["a"], "/block/act/Relu"),
        node("Neg", ["a"], ["b"], "/block/act/Relu"),
        node("Add", ["b", "block.act.weight"], ["y"]),
    ]
    made = model(nodes, [floats("x", 2)], ["y"], [weight("block.act.weight", np.float32([1, 2]))])
    program = parse_onnx(made)
    sources = {i.name: i.sources for i in program.main}
    assert sources["relu"] == ("/block/act/Relu",)
    assert sources["neg"] == ("/block/act/Relu_1",)
    assert sources["add"] == ("Add_2",)
    assert sources["@literal"] == ("block.act.weight",)
    relu = program.source_nodes["/block/act/Relu"]
    assert (relu.op_type, relu.scope, relu.inputs, relu.outputs) == (
        "Relu", ("block", "act"), ("x",), ("a",)
    )  # fmt: skip
    given = program.source_nodes["block.act.weight"]
    assert (given.op_type, given.scope) == ("Initializer", ("block", "act"))
    assert program.output_names == ("y",)


def test_scopes_noted_by_pytorch():
    relu = node("Relu", ["x"], ["y"], "node_relu")
    scopes = ["", "model", "model.layer.0", "model.layer.0.act", "relu"]
    relu.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(scopes))
    program = parse_onnx(model([relu], [floats("x", 2)], ["y"]))
    assert program.source_nodes["node_relu"].scope == ("model", "layer", "0", "act")


@pytest.mark.parametrize("text", ["['", "[" * 5000, "__import__('os')", "3", "[1, 2]", ""])
def test_scopes_that_are_damaged_are_ignored(text):
    relu = node("Relu", ["x"], ["y"], "a/b")
    relu.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=text)
    program = parse_onnx(model([relu], [floats("x", 2)], ["y"]))
    assert program.source_nodes["a/b"].scope in {("a",), ()}


def test_the_program_is_called_after_its_file(tmp_path):
    made = model([node("Relu", ["x"], ["y"])], [floats("x", 2)], ["y"])
    onnx.save(made, tmp_path / "net.onnx")
    assert parse_onnx(tmp_path / "net.onnx").name == "net.onnx"
    assert parse_onnx(made).name == "the graph"


# Subgraphs


def graph(nodes, inputs, outputs, weights=()):
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    return helper.make_graph(nodes, "inner", inputs, results, list(weights))


def branches(condition, weights=()):
    then = graph([node("Add", ["x", "one"], ["t"])], [], ["t"], [weight("one", np.float32([1]))])
    other = graph([node("Transpose", ["x"], ["e"]), node("Transpose", ["e"], ["f"])], [], ["f"])
    taken = node("If", [condition], ["y"], then_branch=then, else_branch=other)
    return taken, list(weights)


@pytest.mark.parametrize("flag", [True, False])
def test_if_by_a_value(flag):
    taken, _ = branches("c")
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    made = model([taken], [floats("x", 3, 3), condition], ["y"])
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    program = agrees(made, x=x, c=np.array(flag))
    assert {"If_2_if", "If_2_else"} < set(program.modules)


@pytest.mark.parametrize("flag", [True, False])
def test_if_by_a_constant_is_inlined(flag):
    taken, weights = branches("c", [weight("c", np.array(flag))])
    made = model([taken], [floats("x", 3, 3)], ["y"], weights)
    program = agrees(made, x=np.ones((3, 3), np.float32))
    assert list(program.modules) == ["main"]


def loop_body():
    step = helper.make_tensor_value_info("step", TensorProto.INT64, [])
    go = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    nodes = [
        node("Identity", ["go"], ["go_on"]),
        node("Add", ["state", "outer"], ["next"]),
        node("Cast", ["step"], ["scalar"], to=TensorProto.FLOAT),
        node("Identity", ["next"], ["scanned"]),
    ]
    return graph(nodes, [step, go, floats("state", 2)], ["go_on", "next", "scanned", "scalar"])


def test_loop_with_states_scans_and_an_outer_value():
    nodes = [
        node("Neg", ["x"], ["outer"]),
        node("Loop", ["n", "", "x"], ["y", "s", "k"], body=loop_body()),
    ]
    made = model(nodes, [floats("x", 2)], ["y", "s", "k"], [weight("n", np.array(4))])
    program = agrees(made, x=np.float32([1, 2]))
    assert "Loop_4_loop" in program.modules


def test_loop_of_unknown_length_has_room_as_the_option_says():
    nodes = [
        node("Neg", ["x"], ["outer"]),
        node("Loop", ["n", "", "x"], ["y", "s", "k"], body=loop_body()),
    ]
    count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    made = model(nodes, [count, floats("x", 2)], ["y", "s", "k"])
    inputs = {"n": np.array(2), "x": np.float32([1, 2])}
    program = parse_onnx(made, max_loop_iterations=3)
    assert [r.shape for r in reference.run(program, inputs)] == [(2,), (2, 2), (2,)]
    with pytest.raises(EvaluationError, match="max_loop_iterations"):
        reference.run(program, inputs | {"n": np.array(4)})
    padded = parse_onnx(made, max_loop_iterations=3, use_dyn_output=False)
    assert [r.shape for r in reference.run(padded, inputs)] == [(2,), (3, 2), (3,)]


@pytest.mark.parametrize(("axis", "backwards"), [(0, 0), (1, 0), (1, 1)])
def test_scan(axis, backwards):
    nodes = [node("Add", ["state", "item"], ["next"]), node("Mul", ["next", "item"], ["out"])]
    body = graph(nodes, [floats("state", 3), floats("item", 3)], ["next", "out"])
    scan = node(
        "Scan", ["s", "x"], ["y", "z"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[backwards], scan_output_axes=[axis], scan_output_directions=[backwards],
    )  # fmt: skip
    lens = (4, 3) if axis == 0 else (3, 4)
    made = model([scan], [floats("s", 3), floats("x", *lens)], ["y", "z"])
    x = np.arange(12, dtype=np.float32).reshape(lens)
    agrees(made, s=np.ones(3, np.float32), x=x)


# Functions


def test_functions_are_expanded_with_their_names_and_attributes():
    scaled = node("LeakyRelu", ["a"], ["b"], "leak")
    scaled.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body = [scaled, node("Neg", ["b"], ["c"], "flip")]
    function = helper.make_function(
        "my", "Block", ["a", "unused"], ["c"], body, [helper.make_opsetid("", 20)], ["slope"]
    )
    nodes = [node("Block", ["x"], ["y"], "/net/Block", domain="my", slope=0.25)]
    made = model(nodes, [floats("x", 2)], ["y"], functions=[function])
    program = agrees(made, x=np.float32([-4, 4]))
    assert "/net/Block/leak" in program.source_nodes
    assert program.source_nodes["/net/Block/flip"].scope == ("net", "/net/Block")


def test_operators_that_onnx_defines_by_others_need_no_handler():
    agrees(model([node("Mish", ["x"], ["y"])], [floats("x", 3)], ["y"]), x=np.float32([-1, 0, 9]))
    made = model([node("Swish", ["x"], ["y"], alpha=0.5)], [floats("x", 3)], ["y"], opset=24)
    program = parse_onnx(made)
    (result,) = reference.run(program, {"x": np.float32([-1, 0, 9])})
    x = np.float32([-1, 0, 9])
    same(result, (x / (1 + np.exp(-0.5 * x))).astype(np.float32))


# Tensors


@pytest.mark.parametrize("kind", [t for t in DType if t in CODES])
@pytest.mark.parametrize("as_raw", [True, False])
def test_element_types(kind, as_raw):
    values = np.array([0, 1, 1, 0]).astype(kind.numpy)
    code = helper.np_dtype_to_tensor_dtype(kind.numpy)
    given = values.tobytes() if as_raw else values.astype(np.float64)
    tensor = helper.make_tensor("w", code, [4], given, raw=as_raw)
    program = parse_onnx(model([], [], ["w"], [tensor]))
    literal = program.outputs[0].literal
    assert literal.shape.type is kind
    assert literal.numpy().tobytes() == values.tobytes()


@pytest.mark.parametrize(("code", "low"), [(TensorProto.INT4, -8), (TensorProto.UINT4, 0)])
@pytest.mark.parametrize("as_raw", [True, False])
def test_4_bit_elements_take_a_byte_each(code, low, as_raw):
    values = np.arange(low, low + 15).reshape(3, 5)
    packed = numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(code)), "w")
    if not as_raw:
        packed = TensorProto(
            name="w", dims=[3, 5], data_type=code, int32_data=list(packed.raw_data)
        )
    program = parse_onnx(model([], [], ["w"], [packed]))
    assert program.outputs[0].literal.numpy().tolist() == values.tolist()


def test_sparse_initialisers():
    values, places = weight("w", np.float32([5, 7])), weight("i", np.int64([1, 5]))
    made = model([node("Add", ["x", "w"], ["y"])], [floats("x", 2, 3)], ["y"])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
    (result,) = reference.run(parse_onnx(made), {"x": np.zeros((2, 3), np.float32)})
    assert result.tolist() == [[0, 5, 0], [0, 0, 7]]


def test_large_weights_are_not_copied_out_of_the_bytes():
    weights = weight("w", np.arange(4096, dtype=np.uint8))
    data = model([], [], ["w"], [weights]).SerializeToString()
    literal = parse_onnx(data).outputs[0].literal.numpy()
    base = np.frombuffer(data, np.uint8)
    assert np.shares_memory(base, literal)
    assert literal.tolist() == (np.arange(4096) % 256).tolist()


@pytest.mark.parametrize("count", [1, 1000])
def test_a_file_and_its_bytes_and_its_proto_give_one_program(tmp_path, count):
    w = weight("w", np.arange(count, dtype=np.float32))
    made = model([node("Add", ["x", "w"], ["y"])], [floats("x", count)], ["y"], [w])
    onnx.save(made, tmp_path / "m.onnx")
    texts = {imported(m) for m in (made, made.SerializeToString(), tmp_path / "m.onnx")}
    assert len(texts) == 1
    x = np.ones(count, np.float32)
    agrees(made, x=x)
    (result,) = reference.run(parse_onnx(tmp_path / "m.onnx"), {"x": x})
    assert result.tolist() == (x + np.arange(count)).tolist()


# Types and broadcasting


def test_common_types():
    pairs = {
        (DType.INT8, DType.UINT8): DType.INT32,
        (DType.UINT32, DType.INT32): DType.UINT32,
        (DType.INT64, DType.UINT64): DType.UINT64,
        (DType.BOOL, DType.INT64): DType.INT64,
        (DType.HALF, DType.INT8): DType.FLOAT,
        (DType.HALF, DType.BF16): DType.FLOAT,
        (DType.FLOAT, DType.DOUBLE): DType.DOUBLE,
        (DType.HALF, DType.HALF): DType.HALF,
    }
    for pair, want in pairs.items():
        assert common_type(pair) is common_type(pair[::-1]) is want


@st.composite
def broadcastable(draw):
    lens = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        cut = draw(st.integers(0, len(lens) - 1))
        ones = draw(st.lists(st.booleans(), min_size=len(lens), max_size=len(lens)))
        found.append([1 if one else n for n, one in zip(lens, ones, strict=True)][cut:])
    return found


@given(broadcastable())
def test_any_lens_that_broadcast_in_numpy_broadcast_here(lens):
    names = [f"x{k}" for k in range(len(lens))]
    inputs = [floats(n, *x) for n, x in zip(names, lens, strict=True)]
    program = parse_onnx(model([node("Sum", names, ["y"])], inputs, ["y"]))
    arrays = {
        n: np.full(x, 2.0**k, np.float32) for k, (n, x) in enumerate(zip(names, lens, strict=True))
    }
    (result,) = reference.run(program, arrays)
    assert result.shape == np.broadcast_shapes(*lens)
    assert (result == 2 ** len(lens) - 1).all()


def test_contrib_operators_may_stand_in_their_own_domain():
    made = model(
        [node("BiasGelu", ["x", "b"], ["y"], domain=CONTRIB)],
        [floats("x", 2, 3), floats("b", 3)],
        ["y"],
    )
    agrees(made, x=np.ones((2, 3), np.float32), b=np.ones(3, np.float32))
