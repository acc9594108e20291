"""Layers that keep their type: what selectors choose, what is computed there, and what is refused."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import select
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run


@cache
def encoder() -> Program:
    return wb.parse_onnx(MODELS["small_encoder"].path)


def error(outputs: Any) -> float:
    wanted = run(encoder(), MODELS["small_encoder"].inputs(), float64=True)
    joined = [np.concatenate([np.ravel(v) for v in values]) for values in (outputs, wanted)]
    return float(np.linalg.norm(joined[0] - joined[1]) / np.linalg.norm(joined[1]))


def network() -> Program:
    """Three nodes in two scopes, one of which only the model knows, and an operation without a node."""
    program = Program()
    program.source_nodes["linear"] = SourceNode("linear", "Gemm", ("model", "layer", "0"))
    program.source_nodes["/block/ln1/Mul"] = SourceNode("/block/ln1/Mul", "Mul", ("block", "ln1"))
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (2, 4)))
    with program.source("weight"):
        w = main.add_literal(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    with program.source("linear"):
        y = main.add("dot", x, w)
    with program.source("/block/ln1/Mul"):
        y = main.add("mul", y, y)
    with program.source("/block/ln10/Exp"):
        y = main.add("exp", y)
    main.add_return(main.add("tanh", y))
    return program


def chosen(program: Program, selectors: Any) -> list[str]:
    return [program.instruction(id).name for id in sorted(select(program, selectors))]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("linear", ["dot"]),
        ("/block/ln1/Mul", ["mul"]),
        ("block/ln1/Mul", ["mul"]),
        ("/block", ["mul", "exp"]),
        ("block/", ["mul", "exp"]),
        ("block.ln1", ["mul"]),
        ("model.layer", ["dot"]),
        ("model/layer/0", ["dot"]),
        ("op:tanh", ["tanh"]),
        ("op:Gemm", ["dot"]),
        ("re:ln1\\b", ["mul"]),
        (re.compile("ln1"), ["mul", "exp"]),
        (["linear", "op:exp"], ["dot", "exp"]),
        pytest.param({"linear", "op:exp"}, ["dot", "exp"], id="a set"),
        ((), []),
    ],
    ids=str,
)
def test_a_selector_chooses(selector: Any, names: list[str]):
    assert chosen(network(), selector) == names


def test_an_id_chooses_one_instruction():
    program = network()
    exp = next(i for i in program.main if i.name == "exp")
    assert select(program, exp.id) == {exp.id}


def test_residual_sums_are_those_that_go_on():
    program = Program()
    add = program.main.add
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (2, 4)))
    table = program.main.add_literal(np.ones((2, 4), np.float32))
    start = add("add", add("exp", x), table)  # a position's embedding, where the sums begin
    bias = add("add", add("tanh", start), table)  # read once
    middle = add("add", start, bias)
    norm = add("add", add("mul", middle, middle), table)  # read twice, but not summed up
    last = add("add", middle, add("mul", norm, norm))  # read once
    program.main.add_return(add("relu", last))
    assert select(program, "is:residual") == {start.id, middle.id}


def test_a_name_means_the_node_and_a_slash_its_scope():
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (2,)))
    with program.source("/a"):
        y = program.main.add("exp", x)
    with program.source("/a/b"):
        program.main.add_return(program.main.add("tanh", y))
    assert chosen(program, "/a") == ["exp"]
    assert chosen(program, "/a/") == ["exp", "tanh"]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("/block/ln1/Mull", "'/block/ln1/Mull' chooses no.*did you mean '/block/ln1/Mul'"),
        ("bloc", "did you mean 'block'"),
        ("op:tanhh", "did you mean 'op:tanh'"),
        ("op:gem", "did you mean 'op:Gemm'"),
        ("is:residual", "no sum of two computed values is read by several"),
        ("weight", "names a parameter, a constant"),
        ("x", "names a parameter"),
        (9999, "9999 chooses no instruction"),
        (["linear", "nowhere"], "'nowhere' chooses no instruction"),
        ("re:(", r"'re:\(': not a regular expression"),
        ("", "selector ''; expected"),
        (True, "selector True; expected"),
        ([1.5], "selector 1.5; expected"),
        (2.5, "selector 2.5; expected"),
        (re.compile(b"ln"), "matches bytes"),
    ],
    ids=str,
)
def test_what_chooses_nothing_is_refused(selector: Any, message: str):
    with pytest.raises(OperationError, match=message):
        wb.compile(network(), "ref", precision="fp16", keep=selector)


def test_keep_needs_a_precision_to_keep_from():
    with pytest.raises(OperationError, match="without a precision"):
        wb.compile(network(), "ref", keep="linear")


@pytest.mark.parametrize(
    "options", [{"target": "ref"}, {"target": "cpu", "passes": "gpu"}], ids=str
)
def test_softmax_stays_in_float(options: dict[str, Any]):
    build = wb.compile(encoder(), precision="fp16", keep=["op:Softmax"], **options)
    nodes = build.program.source_nodes
    powers = [i for i in build.program.instructions if i.name in ("softmax", "exp")]
    kept = [i for i in powers if "Softmax" in {nodes[n].op_type for n in i.sources}]
    dots = [i for i in build.program.instructions if i.name == "dot"]
    assert len(kept) == 2
    assert {i.shape.type for i in kept} == {DType.FLOAT}
    assert {i.shape.type for i in dots} == {DType.HALF}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_scope_that_stays_brings_the_outputs_closer(precision: str):
    inputs = MODELS["small_encoder"].inputs()
    errors = []
    for keep in ((), "encoder/layer.0", ["encoder", "embeddings"]):
        build = wb.compile(encoder(), "ref", precision=precision, keep=keep)
        errors.append(error(build.run(inputs).outputs))
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < errors[0] / 2


def test_all_that_stays_is_the_program_itself():
    program, inputs = network(), {"x": np.eye(2, 4, dtype=np.float32)}
    ids = [i.id for i in program.main if i.inputs and not i.name.startswith("@")]
    build = wb.compile(program, "ref", precision="fp16", keep=ids)
    assert build.program.operations == program.operations
    np.testing.assert_array_equal(build.run(inputs)[0], run(program, inputs)[0])


def test_a_layer_that_stays_computes_in_float_from_rounded_inputs():
    x = np.random.default_rng(0).standard_normal((2, 4), np.float32)
    build = wb.compile(network(), "ref", precision="fp16", keep="/block/ln10/Exp")
    half = x.astype(np.float16)
    seen: dict[str, Any] = {}
    build.evaluator().run(
        {"x": x}, hook=lambda i, value, given: seen.update({i.name: (value, given)})
    )
    value, (given,) = seen["exp"]
    assert value.dtype == given.dtype == np.float32
    assert half.dtype == seen["dot"][0].dtype == seen["tanh"][0].dtype
    np.testing.assert_array_equal(given, seen["mul"][0].astype(np.float32))
    np.testing.assert_array_equal(value, np.exp(given))


def test_the_pass_takes_selectors_too():
    program = network()
    passes = [("quantize_float", {"type": "bf16", "keep": "op:exp"})]
    types = {i.name: i.shape.type for i in wb.compile(program, "ref", passes=passes).program.main}
    assert (types["exp"], types["mul"], types["tanh"]) == (DType.FLOAT, DType.BF16, DType.BF16)


def test_a_branch_that_stays_keeps_its_bodies():
    program = wb.parse_onnx(MODELS["small_branches"].path)
    build = wb.compile(program, "ref", precision="fp16", keep="op:If")
    types = {i.name: i.shape.type for i in build.program.instructions}
    assert (types["exp"], types["sub"], types["neg"]) == (DType.FLOAT,) * 3
    assert types["add"] is DType.HALF


# Quantization


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_quantize_keeps_an_instruction_in_float(precision: Any):
    made = wb.quantize(network(), precision, keep=["op:exp", "linear"])
    types = {i.name: i.shape.type for i in made.main}
    narrow = DType.of({"fp16": "half", "bf16": "bf16"}[precision])
    assert (types["exp"], types["dot"], types["tanh"]) == (DType.FLOAT, DType.FLOAT, narrow)


@pytest.mark.parametrize(("precision", "ops"), [("int8", None), ("fp8", ["dot", "tanh"])])
def test_quantize_rounds_no_argument_of_what_is_kept(precision: Any, ops: Any):
    inputs = {"x": np.ones((2, 4), np.float32)}
    rows = [
        wb.quantize(network(), precision, inputs, ops, keep=k).calibration for k in ((), "linear")
    ]
    assert [r.op for r in rows[0]] == ["dot", "dot", *(["tanh"] if ops else [])]
    assert [r.op for r in rows[1]] == (["tanh"] if ops else [])
    assert [r.index for r in rows[1]] == list(range(len(rows[1])))


def test_quantize_to_int4_leaves_weights_of_what_is_kept():
    names = [[i.name for i in wb.quantize(network(), "int4", keep=k).main] for k in ((), "linear")]
    assert "pack_int4" in names[0]
    assert "pack_int4" not in names[1]


@pytest.mark.parametrize("by_id", [False, True])
def test_what_simplification_makes_of_a_kept_instruction_is_kept(by_id: bool):
    """``conv(x, w) * c`` becomes ``conv(x, w * c)``: neither instruction of the program is left."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape(DType.FLOAT, (1, 2, 4, 4)))
    with program.source("conv"):
        y = main.add("convolution", x, main.add_literal(np.ones((3, 2, 1, 1), np.float32)))
    with program.source("scale"):
        c = main.add_literal(np.arange(1, 4, dtype=np.float32))
        y = main.add("mul", y, main.add("broadcast", c, axis=1, out_lens=(1, 3, 4, 4)))
    main.add_return(main.add("relu", y))
    made = wb.quantize(program, "fp16", keep=y.id if by_id else "scale")
    assert "mul" not in {i.name for i in made.main}
    types = {i.name: i.shape.type for i in made.main}
    assert (types["convolution"], types["relu"]) == (DType.FLOAT, DType.HALF)


def test_quantize_refuses_a_selector_before_it_calibrates():
    with pytest.raises(OperationError, match="did you mean 'linear'"):
        wb.quantize(network(), "int8", {"x": np.ones((3, 3))}, keep="linea")


@pytest.mark.parametrize("passes", [None, "gpu"])
def test_a_range_of_lengths_keeps_its_layers(passes: str | None):
    program = wb.parse(
        'module: "main"\nx = @param:x -> dynamic, float_type, {[1..4], 2}\n'
        "a = exp(x)\nb = log(a)\nc = neg(b)\nr = @return(c)\n"
    )
    keep = ["op:exp", "op:log"]
    build = wb.compile(program, "cpu", passes=passes, precision="fp16", keep=keep)
    for rows in (1, 4):
        x = np.full((rows, 2), 12, np.float32)  # exp(12) is infinite in half
        np.testing.assert_allclose(build.run({"x": x})[0], -x, rtol=1e-3)
