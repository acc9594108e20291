"""Programs as models: names, lengths, constants, functions, broadcasts, files, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench as wb
from tests.onnx.write.test_operations import evaluated, expect_read_back
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import write

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = Shape("float", (2, 3))


def operators(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


# Names


def test_nodes_tensors_and_outputs_keep_the_names_of_the_model():
    nodes = [
        helper.make_node("Relu", ["x"], ["hidden"], name="/layer/relu"),
        helper.make_node("LayerNormalization", ["hidden", "w"], ["y"], name="/layer/norm"),
    ]
    values = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in ("x", "y")]
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [weight])
    model = wb.to_onnx(wb.parse_onnx(helper.make_model(graph)))
    assert [i.name for i in model.graph.input] == ["x"]
    assert [o.name for o in model.graph.output] == ["y"]
    assert "w" in {i.name for i in model.graph.initializer}
    named = {n.name: n for n in model.graph.node}
    assert len(named) == len(model.graph.node)
    assert named["/layer/relu"].output == ["hidden"]
    assert named["/layer/norm"].output == ["y"]
    assert {n.split("/")[2] for n in named} == {"relu", "norm"}


def test_a_node_of_several_sources_lists_them():
    program = wb.parse_onnx(
        model_of("g (float[2, 3] x) => (float[2, 3] y) { a = Exp(x) y = Neg(a) }")
    )
    fused = wb.compile(program, "cpu").program
    (node,) = wb.to_onnx(fused).graph.node
    (listed,) = node.metadata_props
    assert listed.key == "workbench.sources"
    assert listed.value.split("\n") == list(program.source_nodes)


HOSTILE = ["", " ", "x", "y_1", "a/b:c", "ä\n", "Add", "constant", "output"]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_parameter_is_kept_and_clashes_with_none(name: str):
    if not name:
        return  # a program has no parameter without a name
    program = Program(name)
    x = program.main.add_parameter(name, ROWS)
    two = program.main.add_literal(np.full((2, 3), 2, np.float32))
    program.main.add_return(program.main.add("add", x, two), x, x, two)
    program.output_names = (name, name, "y", "y")
    expect_read_back(program, {name: X})
    model = wb.to_onnx(program)
    names = [v.name for v in [*model.graph.input, *model.graph.output]]
    assert names[0] == name
    assert len(set(names)) == 5


def test_modules_whose_names_read_alike_are_two_functions():
    program = Program()
    x = program.main.add_parameter("x", ROWS)
    for name in ("main:f.0", "main:f_0"):
        body = program.create_module(name, bypass=True)
        one = body.add_parameter("x0", Shape("float"))
        body.add_return(body.add("exp" if "." in name else "neg", one))
        x = program.main.add("pointwise", x, modules=[body])
    program.main.add_return(x)
    assert len({f.name for f in wb.to_onnx(program).functions}) == 2
    expect_read_back(program, {"x": X})


# Lengths and constants


def test_open_lengths_keep_their_names():
    text = "g (float[n, 3] x, float[n, m] z) => (float[n, 3] y) { s = Shape(z) y = Relu(x) }"
    model = wb.to_onnx(wb.parse_onnx(model_of(text)))
    dims = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in (*model.graph.input, *model.graph.output)]  # fmt: skip
    assert dims == [["n", 3], ["n", "m"], ["n", 3]]
    again = wb.parse_onnx(model)
    np.testing.assert_array_equal(evaluated(again, {"x": X, "z": X})[0], X)


@pytest.mark.parametrize("lens", [(), (0,), (2, 0, 3), (1,)])
def test_any_lens_of_inputs_and_constants(lens: tuple[int, ...]):
    program = Program()
    array = np.ones(lens, np.float32)
    x = program.main.add_parameter("x", Shape("float", lens))
    y = program.main.add_literal(array * 3)
    made = program.main.add("add", x, y)
    program.main.add_return(
        made, y, program.main.add("reshape", made, dims=(*lens[:0], -1) if array.size else lens)
    )
    expect_read_back(program, {"x": array})


@pytest.mark.parametrize("type", ["bool", "half", "bf16", "fp8e5m2", "uint64", "double"])
def test_constants_keep_their_bits(type: str):
    kind = wb.DType.of(type).numpy
    program = Program()
    x = program.main.add_parameter("x", Shape(type, (4,)))
    values = np.array([0, 1, 2.5, -1]).astype(kind)
    values[1:2] = np.array([np.nan]).astype(kind) if wb.DType.of(type).is_float else values[1:2]
    program.main.add_return(program.main.add("concat", x, program.main.add_literal(values), axis=0))
    expect_read_back(program, {"x": values})


def test_a_large_constant_of_equal_elements_takes_the_room_of_one():
    program = Program()
    lens = (1 << 12, 1 << 12)
    x = program.main.add_parameter("x", Shape("float", lens))
    ones = wb.Argument(Shape("float", lens, (0, 0)), np.broadcast_to(np.float32(1), lens))
    program.main.add_return(program.main.add("add", x, program.main.add_literal(ones)))
    assert wb.to_onnx(program).ByteSize() < 1000


def test_large_constants_are_stored_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(write, "LARGE", 1 << 12)
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 64)))
    program.main.add_return(program.main.add("dot", x, program.main.add_literal(weights)))
    for at, path in enumerate((tmp_path / "a.onnx", str(tmp_path / "b.onnx"))):
        wb.to_onnx(program, path)
        assert (
            sorted(p.name for p in tmp_path.iterdir())
            == ["a.onnx", "a.onnx.data", "b.onnx", "b.onnx.data"][: 2 * at + 2]
        )
        data = {"x": weights[:2]}
        assert np.array_equal(evaluated(wb.parse_onnx(path), data), evaluated(program, data))
    small = Program()
    small.main.add_return(small.main.add("neg", small.main.add_parameter("x", ROWS)))
    wb.to_onnx(small, tmp_path / "c.onnx")
    assert not (tmp_path / "c.onnx.data").exists()


# Operators


def test_a_bias_is_an_operand_of_its_convolution():
    text = """g (float[1, 2, 4, 4] x, float[3, 2, 1, 1] w, float[3] b) => (float[1, 3, 4, 4] y) {
        y = Conv(x, w, b) }"""
    program = wb.parse_onnx(model_of(text))
    assert operators(wb.to_onnx(program)) == ["Conv"]
    (conv,) = (i for i in program.main if i.name == "convolution")
    program.main.set_inputs(
        program.main.last, [*program.outputs, conv]
    )  # now it has another reader
    program.output_names = ()
    assert operators(wb.to_onnx(program)).count("Conv") == 1
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    inputs = {"x": x, "w": np.ones((3, 2, 1, 1), np.float32), "b": np.arange(3, dtype=np.float32)}
    expect_read_back(program, inputs)


@pytest.mark.parametrize("name", ["add", "prelu", "clip", "where", "mod", "equal", "logical_and"])
@pytest.mark.parametrize("whole", ["first", "last", "none"])
def test_elementwise_operators_broadcast_by_themselves_if_that_gives_the_lens(
    name: str, whole: str
):
    program = Program()
    main = program.main
    count = {"clip": 3, "where": 3}.get(name, 2)
    shapes = [Shape("float", (3,)), Shape("float", (2, 1)), Shape("float", (1, 3))][:count]
    at = {"first": 0, "last": count - 1}.get(whole)
    if whole == "none":
        shapes = [Shape("float", (3,))] * count
    given = [main.add_parameter(f"x{i}", ROWS if i == at else s) for i, s in enumerate(shapes)]
    spread = [
        x if x.shape == ROWS else main.add("multibroadcast", x, out_lens=(2, 3)) for x in given
    ]
    main.add_return(main.add(name, *spread))
    inputs = {f"x{i}": np.arange(1, 1 + p.shape.elements, dtype=np.float32).reshape(p.shape.lens) - 2 * i
              for i, p in enumerate(given)}  # fmt: skip
    expect_read_back(program, inputs)
    if name != "prelu":
        assert ("Expand" in operators(wb.to_onnx(program))) == (whole == "none")


@pytest.mark.parametrize("lens", [(3,), (1,), (2, 3)])
def test_results_of_bodies_have_the_lens_of_the_operands(lens: tuple[int, ...]):
    program = Program()
    main = program.main
    x, y = main.add_parameter("x", Shape("float", lens)), main.add_parameter("y", ROWS)
    body = program.create_module("main:pointwise0", bypass=True)
    a, b = (body.add_parameter(n, Shape("float")) for n in ("x0", "x1"))
    five = body.add_literal(np.array([5], np.float32))
    body.add_return(body.add("exp", a), body.add("neg", five), body.add("add", a, b))
    spread = x if lens == (2, 3) else main.add("multibroadcast", x, out_lens=(2, 3))
    made = main.add("pointwise", spread, y, modules=[body])
    main.add_return(*(main.add("get_tuple_elem", made, index=i) for i in range(3)))
    expect_read_back(program, {"x": np.ones(lens, np.float32), "y": X})


def test_bodies_quantize_elements():
    program = Program()
    main, body = program.main, program.create_module("main:pointwise0", bypass=True)
    x = main.add_parameter("x", ROWS)
    scale = main.add(
        "multibroadcast", main.add_parameter("s", Shape("float", (1, 3))), out_lens=(2, 3)
    )
    a, b = (body.add_parameter(n, Shape("float")) for n in ("x0", "x1"))
    zero = body.add_literal(np.array(3, np.int8))
    codes = body.add("quantizelinear", a, b, zero)
    body.add_return(body.add("dequantizelinear", codes, b, zero))
    main.add_return(main.add("pointwise", x, scale, modules=[body]))
    expect_read_back(program, {"x": X * 100, "s": np.array([[0.1, 0.5, 2]], np.float32)})


@pytest.mark.parametrize(("lens", "axis", "attributes"), [
    ((), None, {}), ((1,), None, {}), ((3,), 1, {"axis": 1}), ((2, 1), None, {"axis": 0}),
    ((2, 3), None, {"axis": 1, "block_size": 1}),
])  # fmt: skip
def test_scales_are_per_tensor_per_axis_or_per_element(
    lens: tuple[int, ...], axis: int | None, attributes: dict[str, int]
):
    program = Program()
    main = program.main
    given = [
        main.add_parameter("s", Shape("float", lens)),
        main.add_parameter("z", Shape("int8", lens)),
    ]
    spread = {"broadcast": {"axis": axis}, "multibroadcast": {}}[
        "multibroadcast" if axis is None else "broadcast"
    ]
    name = "multibroadcast" if axis is None else "broadcast"
    if lens != (2, 3):
        given = [main.add(name, v, out_lens=(2, 3), **spread) for v in given]
    main.add_return(main.add("quantizelinear", main.add_parameter("x", ROWS), *given))
    (node,) = (n for n in wb.to_onnx(program).graph.node if n.op_type == "QuantizeLinear")
    assert {a.name: a.i for a in node.attribute} == attributes
    scale = np.linspace(0.5, 2, int(np.prod(lens)), dtype=np.float32).reshape(lens)
    expect_read_back(program, {"x": X, "s": scale, "z": np.full(lens, 2, np.int8)})


SEQUENCES = """g (float[4, 3] x) => (float[4, 3] y, int64 n, seq(float[a, 3]) more) {
    two = Constant <value_int=2> ()
    last = Constant <value_int=-1> ()
    parts = SplitToSequence <axis=0> (x, two)
    turned = SequenceErase(parts, last)
    more = SequenceInsert(turned, x, last)
    n = SequenceLength(more)
    y = SequenceAt(more, last)
    }"""
LOOPS = """g (int64 count, float[3] x) => (float[3] last, float[k, 3] rows) {
    yes = Constant <value = bool {1}> ()
    last, rows = Loop (count, yes, x) <body = b (int64 i, bool go, float[3] v)
        => (bool more, float[3] w, float[3] row) {
            step = Constant <value_float = 2.0> ()
            w = Mul(v, step) row = Add(w, x) more = Identity(go) }>
    }"""
SCAN = """g (float[2] start, float[4, 2] rows) => (float[2] last, float[4, 2] sums) {
    last, sums = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
        body = b (float[2] s, float[2] r) => (float[2] t, float[2] u) { t = Add(s, r) u = Identity(t) }>
        (start, rows)
    }"""


@pytest.mark.parametrize(("text", "inputs"), [
    (SEQUENCES, {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}),
    (LOOPS, {"count": np.array(3), "x": X[0]}),
    (LOOPS, {"count": np.array(0), "x": X[0]}),
    (SCAN, {"start": X[0, :2], "rows": np.arange(8, dtype=np.float32).reshape(4, 2)}),
])  # fmt: skip
def test_sequences_and_loops_give_the_same(text: str, inputs: dict[str, np.ndarray]):
    program = wb.parse_onnx(model_of(text))
    model = wb.to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    wanted, found = (wb.compile(p, "ref").run(inputs) for p in (program, wb.parse_onnx(model)))
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        a, b = (list(v) if isinstance(v, list | tuple) else [v] for v in (value, found[name]))
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(one, other)


# Refusals


def test_a_refusal_names_the_instruction_its_node_and_a_way_out(tmp_path: Path):
    program = Program()
    with program.source("/sampler"):
        seed = program.main.add_literal(np.array([7], np.uint64))
        like = program.main.add_literal(X)
        made = program.main.add("random_uniform", seed, like)
    program.main.add_return(made)
    with pytest.raises(ModelError) as refusal:
        wb.to_onnx(program, tmp_path / "model.onnx")
    for words in (
        f"@{made.id} random_uniform",
        "'/sampler'",
        "other random numbers",
        "workbench.save",
    ):
        assert words in str(refusal.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("is_parameter", [True, False])
def test_a_type_that_onnx_lacks_is_refused(is_parameter: bool):
    program = Program()
    shape = Shape("fp4x2", (2, 3))
    packed = wb.Argument(shape, np.zeros((2, 3), np.uint8))
    x = program.main.add_parameter("x", shape) if is_parameter else program.main.add_literal(packed)
    program.main.add_return(program.main.add("transpose", x, permutation=(1, 0)))
    with pytest.raises(ModelError, match="fp4x2_type"):
        wb.to_onnx(program)


def test_an_operator_that_is_not_known_is_refused():
    program = Program()
    x = program.main.add_parameter("x", ROWS)
    program.main.add_return(program.main.add(make("unknown:", op="Foo"), x))
    with pytest.raises(ModelError, match="operator is not known"):
        wb.to_onnx(program)


# Reductions


@pytest.mark.parametrize(
    ("lens", "axes", "wanted"),
    [
        ((1, 9, 1, 1), (1,), [1, 2, 3]),
        ((2, 9, 1, 1), (-3,), [-3, 2, 3]),
        ((2, 9, 3, 1), (1, 2), [1, 2, 3]),
        ((2, 9, 3, 1), (1,), [1]),
        ((2, 9), (1,), [1]),
    ],
)
def test_a_row_is_reduced_over_the_axes_of_one_element_behind_it_too(
    lens: tuple[int, ...], axes: tuple[int, ...], wanted: list[int]
):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", lens))
    program.main.add_return(program.main.add("reduce_sum", x, axes=axes))
    expect_read_back(program, {"x": np.random.default_rng(0).standard_normal(lens, np.float32)})
    (given,) = wb.to_onnx(program).graph.initializer
    assert onnx.numpy_helper.to_array(given).tolist() == wanted


def test_onnxruntime_adds_up_a_row_of_channels_in_parts():
    import onnxruntime

    lens = (1, 1000, 1, 1)
    program = Program()
    x = program.main.add_parameter("x", Shape("float", lens))
    program.main.add_return(program.main.add("reduce_sum", x, axes=(1,)))
    made = wb.to_onnx(program).SerializeToString()
    peer = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    values = random.lognormal(0, 1.5, (32, *lens)).astype(np.float32)
    found = np.array([peer.run(None, {"x": value})[0].item() for value in values])
    errors = found / values.sum((1, 2, 3, 4), dtype=np.float64) - 1
    assert np.sqrt(np.mean(errors**2)) < 2.0**-22  # 7e-8; in turn it is 5e-7
