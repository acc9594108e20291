"""Strict import of operators from A to C: MIGraphX's instructions, in its order."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.compat import migraphx
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx

RANGE = Dim(1, 4)


def model(op, inputs, outputs=("y",), fixed=None, domain="", opset=18, **attributes):
    """A model of one node; ``inputs`` are lens by name, or a type and lens."""
    fixed = fixed or {}
    given = []
    for name, found in inputs.items():
        type, lens = found if isinstance(found, tuple) else (TensorProto.FLOAT, found)
        given.append(helper.make_tensor_value_info(name, type, lens))
    node = helper.make_node(op, [*inputs, *fixed], outputs, domain=domain, **attributes)
    made = [helper.make_empty_tensor_value_info(o) for o in outputs]
    weights = [numpy_helper.from_array(v, n) for n, v in fixed.items()]
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", given, made, weights)
    return helper.make_model(graph, opset_imports=sets)


def lines(made, **options):
    """The instructions of a strict import, without parameters, shapes and numbers of literals."""
    text = str(parse_onnx(made, strict=True, **options)).splitlines()[1:]
    return [line.split(" -> ")[0] for line in text if line and "@param" not in line]


def test_lengths_that_are_ranges_broadcast_every_operand():
    found = lines(model("Mul", {"a": [None, 3, 5], "b": [3, 1]}), default_dyn_dim_value=RANGE)
    assert found == [
        "@2 = multibroadcast[out_lens={},out_dyn_dims={[1..4], 3, 5}](a,b)",
        "@3 = multibroadcast[out_lens={},out_dyn_dims={[1..4], 3, 5}](b,@2)",
        "@4 = mul(@2,@3)",
        "@5 = @return(@4)",
    ]
    relaxed = str(parse_onnx(model("Mul", {"a": [None, 3], "b": [3]}), default_dyn_dim_value=RANGE))
    assert relaxed.count("multibroadcast") == 1


def test_attention_adds_the_mask_before_it_scales():
    made = model(
        "Attention",
        {"x": [2, 3, 4], "w": [4, 12], "b": [12], "mask": (TensorProto.INT32, [2, 3])},
        domain="com.microsoft",
        num_heads=2,
        mask_filter_value=-5000.0,
    )
    assert lines(made) == [
        "@0 = @literal{2}",
        "@1 = @literal{-5000}",
        "@2 = @literal{0}",
        "@7 = unsqueeze[axes={0},steps={}](w)",
        "@8 = multibroadcast[out_lens={2, 4, 12},out_dyn_dims={}](@7)",
        "@9 = dot(x,@8)",
        "@10 = multibroadcast[out_lens={2, 3, 12},out_dyn_dims={}](b)",
        "@11 = add(@9,@10)",
        "@12 = slice[axes={2},starts={0},ends={4}](@11)",
        "@13 = slice[axes={2},starts={4},ends={8}](@11)",
        "@14 = slice[axes={2},starts={8},ends={12}](@11)",
        "@15 = multibroadcast[out_lens={2, 2, 3, 3},out_dyn_dims={}](@2)",
        "@16 = multibroadcast[out_lens={2, 2, 3, 3},out_dyn_dims={}](@1)",
        "@17 = reshape[dims={2, 1, 1, 3}](mask)",
        "@18 = multibroadcast[out_lens={2, 2, 3, 3},out_dyn_dims={}](@17)",
        "@19 = reshape[dims={2, 2, 3, 3}](@18)",
        "@20 = convert[target_type=8](@15)",
        "@21 = equal(@19,@20)",
        "@22 = convert[target_type=0](@21)",
        "@23 = where(@22,@16,@15)",
        "@24 = sqrt(@0)",
        "@25 = recip(@24)",
        "@26 = reshape[dims={2, 3, 2, 2}](@12)",
        "@27 = reshape[dims={2, 3, 2, 2}](@13)",
        "@28 = reshape[dims={2, 3, 2, 2}](@14)",
        "@29 = transpose[permutation={0, 2, 1, 3}](@26)",
        "@30 = transpose[permutation={0, 2, 1, 3}](@27)",
        "@31 = transpose[permutation={0, 2, 1, 3}](@28)",
        "@32 = transpose[permutation={0, 1, 3, 2}](@30)",
        "@33 = dot(@29,@32)",
        "@34 = add(@33,@23)",
        "@35 = multibroadcast[out_lens={2, 2, 3, 3},out_dyn_dims={}](@25)",
        "@36 = mul(@34,@35)",
        "@37 = softmax[axis=3](@36)",
        "@38 = dot(@37,@31)",
        "@39 = transpose[permutation={0, 2, 1, 3}](@38)",
        "@40 = reshape[dims={2, 3, 4}](@39)",
        "@41 = @return(@40)",
    ]


def test_attention_with_a_scale_and_no_mask():
    inputs = {"x": [1, 2, 4], "w": [4, 12]}
    found = lines(model("Attention", inputs, domain="com.microsoft", num_heads=1, scale=0.25))
    assert found[0] == "@0 = @literal{0.25}"
    assert not [line for line in found if "sqrt" in line or "where" in line]


BATCHED = {"x": [2, 3, 4], "w": [4, 12], "b": [12]}


@pytest.mark.parametrize(
    ("more", "attributes", "message"),
    [
        ({}, {"unidirectional": 1}, "unidirectional=1 is not supported by strict import"),
        ({}, {"rotary_embedding_dim": 32}, "rotary_embedding_dim=32 is not supported"),
        ({}, {"do_rotary": 1}, "do_rotary=1"),
        ({"mask": (TensorProto.INT32, [2])}, {}, "expected int32_type, \\[2, 3\\]"),
        ({"mask": (TensorProto.INT32, [2, 3, 3])}, {}, "expected int32_type, \\[2, 3\\]"),
        ({"mask": (TensorProto.FLOAT, [2, 3])}, {}, "expected int32_type, \\[2, 3\\]"),
        (
            {"mask": (TensorProto.INT32, [2, 3]), "past": [2, 2, 2, 1, 2]},
            {},
            "a past is not supported by strict import",
        ),
    ],
)
def test_attention_that_is_refused(more, attributes, message):
    made = model("Attention", BATCHED | more, domain="com.microsoft", num_heads=2, **attributes)
    with pytest.raises(ModelError, match=message):
        parse_onnx(made, strict=True)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ({"x": [2, 3, 4], "w": [5, 12]}, {}, "expected 4 rows"),
        ({"x": [2, 3, 4], "w": [4, 13]}, {}, "a width that is not a multiple of 3"),
        ({"x": [2, 3, 4], "w": [4, 12], "b": [11]}, {}, "expected 12 elements"),
        (BATCHED, {"qkv_hidden_sizes": [4, 5, 3]}, "expected three that sum to 12"),
    ],
)
def test_projections_that_are_refused(inputs, attributes, message):
    made = model("Attention", inputs, domain="com.microsoft", num_heads=2, **attributes)
    with pytest.raises(ModelError, match=message):
        parse_onnx(made, strict=True)


def test_integer_convolution_without_zero_points_takes_the_middle():
    byte = TensorProto.UINT8
    made = model("ConvInteger", {"x": (byte, [1, 3, 5, 5]), "w": (byte, [1, 3, 2, 2])})
    names = [line.split(" = ")[1].split("[")[0].split("(")[0] for line in lines(made)]
    assert names == [
        "@literal{-128}", "@literal{128}", "@literal{128}", "convert", "multibroadcast", "add",
        "convert", "convert", "multibroadcast", "add", "convert", "quant_convolution", "@return",
    ]  # fmt: skip


def test_padding_of_a_pooling_is_left_to_a_run_where_lengths_are_ranges():
    made = model("AveragePool", {"x": [None, 3, 5, 5]}, kernel_shape=[3, 3], auto_pad="SAME_UPPER")
    found = lines(made, default_dyn_dim_value=RANGE)
    assert "padding={0, 0, 0, 0},padding_mode=2" in found[0]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("AveragePool", {"x": [None, 3, 5, 5]}, {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1]}),
        ("AveragePool", {"x": [None, 3, 5, 5]}, {"kernel_shape": [1, 1], "count_include_pad": 1}),
        ("ConvTranspose", {"x": [None, 1, 3, 3], "w": [1, 2, 3, 3]}, {"pads": [0, 0, 1, 1]}),
        ("ConvTranspose", {"x": [None, 1, 3, 3], "w": [1, 2, 3, 3]}, {"output_shape": [10, 8]}),
        ("ConvTranspose", {"x": [None, 1, 3, 3], "w": [1, 2, 3, 3]}, {"auto_pad": "SAME_UPPER"}),
        ("Celu", {"x": (TensorProto.FLOAT16, [3])}, {}),
    ],
)
def test_what_only_strict_import_refuses(op, inputs, attributes):
    made = model(op, inputs, **attributes)
    parse_onnx(made, default_dyn_dim_value=RANGE)
    with pytest.raises(ModelError, match="strict import"):
        parse_onnx(made, default_dyn_dim_value=RANGE, strict=True)


def test_padding_that_counts_is_always_made_explicit():
    made = model("AveragePool", {"x": [1, 1, 5, 5]}, kernel_shape=[2, 2], count_include_pad=1)
    assert lines(made)[0] == "@1 = pad[mode=0,pads={0, 0, 0, 0, 0, 0, 0, 0},value=0](x)"


def test_same_alone_pads_like_same_lower():
    made = model("Conv", {"x": [1, 3, 8, 8], "w": [1, 3, 2, 2]}, auto_pad="SAME")
    assert "padding={1, 1, 0, 0}" in lines(made)[0]
    with pytest.raises(ModelError, match="auto_pad='SAME'"):
        parse_onnx(made)


def test_constants_without_elements_have_no_dimensions():
    empty = numpy_helper.from_array(np.zeros([0, 3], np.int64))
    made = model("Constant", {}, value=empty)
    assert "@0 = @literal{} -> int64_type, {}, {}" in str(parse_onnx(made, strict=True))
    assert "int64_type, {0, 3}" in str(parse_onnx(made))


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"value_float": 1.0}, "float_type, {}, {}"),
        ({"value_float": [1.0]}, "float_type, {1}, {1}"),
        ({"value_int": [1]}, "int64_type, {1}, {1}"),
        ({"value_ints": [1, 2]}, "int64_type, {2}, {1}"),
    ],
)
def test_numbers_of_a_constant_may_be_lists(attributes, shape):
    assert shape in str(parse_onnx(model("Constant", {}, **attributes)))


@pytest.mark.parametrize("lens", [[3, 4], [2, 3, 4]])
def test_features_are_gathered_along_the_last_axis(lens):
    made = model("ArrayFeatureExtractor", {"x": lens, "i": (TensorProto.INT64, [2])})
    for strict in (True, False):
        text = str(parse_onnx(made, strict=strict))
        assert f"@2 = gather[axis={len(lens) - 1}](x,i)" in text


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("ArrayFeatureExtractor", {"x": [], "i": (TensorProto.INT64, [1])}),
        ("BatchNormalization", {"x": [], "s": [8], "b": [8], "m": [8], "v": [8]}),
    ],
)
def test_a_number_has_no_axes_to_work_on(op, inputs):
    with pytest.raises(ModelError, match="without dimensions"):
        parse_onnx(model(op, inputs))


def test_lengths_that_nothing_is_known_of_are_concatenated():
    shape = (TensorProto.INT64, [2])
    nodes = [
        helper.make_node("Expand", ["x", "s"], ["e"]),
        helper.make_node("Concat", ["e", "y"], ["z"], axis=0),
    ]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1]),
        helper.make_tensor_value_info("s", *shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None]),
    ]
    out = [helper.make_empty_tensor_value_info("z")]
    made = helper.make_model(helper.make_graph(nodes, "g", given, out))
    program = parse_onnx(made, default_dyn_dim_value=RANGE, strict=True)
    assert [i.op.name for i in program.main][-3:] == ["broadcast_with_dims", "concat", "@return"]
    assert program.outputs[0].shape.ndim == 2


def test_the_drop_in_imports_strictly():
    made = model("ConvInteger", {n: (TensorProto.UINT8, [1, 1, 2, 2]) for n in "xw"})
    program = migraphx.parse_onnx_buffer(made.SerializeToString())
    assert "@literal{128}" in str(program)
    assert program.core.strict


def test_the_drop_in_says_what_imports_otherwise():
    made = model("Celu", {"x": (TensorProto.FLOAT16, [3])}).SerializeToString()
    with pytest.raises(RuntimeError, match="strict=False imports the model"):
        migraphx.parse_onnx_buffer(made)
    assert not migraphx.parse_onnx_buffer(made, strict=False).core.strict


def test_attention_is_onnxruntimes_where_onnx_has_none():
    inputs = {"x": [2, 3, 4], "w": [4, 12], "b": [12]}
    old = model("Attention", inputs, num_heads=2, opset=18)
    own = model("Attention", inputs, num_heads=2, domain="com.microsoft")
    assert lines(old) == lines(own)
    assert lines(old, skip_unknown_operators=True) == lines(own)
    with pytest.raises(ModelError, match="Attention"):
        parse_onnx(old)
    given = {n: [1, 2, 3, 4] for n in ("q", "k", "v")}
    assert len(lines(model("Attention", given, opset=23))) > 5


def test_a_constant_of_no_elements_is_undefined():
    made = model("ConstantOfShape", {}, fixed={"s": np.array([2, 0], np.int64)})
    assert lines(made)[1:] == ["@1 = undefined", "@2 = @return(@1)"]
    assert "undefined" not in str(parse_onnx(made))
