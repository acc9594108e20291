"""Strict import of operators from M to Q: MIGraphX's instructions, in its order."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.compat import migraphx
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8
BYTE, MIDDLE = np.array(0, np.uint8), np.array(128, np.uint8)
CONTRIB = "com.microsoft"


def model(op, *inputs, domain="", opset=18, **attributes):
    """A model of one node; an input is its lens, a type and lens, or an array: an initialiser."""
    given, weights = [], []
    names = [f"x{i}" for i in range(len(inputs))]
    for name, found in zip(names, inputs, strict=True):
        if isinstance(found, np.ndarray):
            weights.append(numpy_helper.from_array(found, name))
            continue
        type, lens = found if isinstance(found, tuple) else (TensorProto.FLOAT, found)
        given.append(helper.make_tensor_value_info(name, type, lens))
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIB, 1)]
    made = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "g", given, made, weights)
    return helper.make_model(graph, opset_imports=sets)


def lines(made, *, full=False, **options):
    """The instructions of a strict import, without parameters and, unless ``full``, shapes."""
    text = str(parse_onnx(made, strict=True, **options)).splitlines()[1:]
    kept = [line for line in text if line and "@param" not in line]
    return kept if full else [line.split(" -> ")[0] for line in kept]


def refused(made, part, **options):
    """Strict import refuses the model, the drop-in with an error of its own."""
    with pytest.raises(ModelError, match=part):
        parse_onnx(made, strict=True, **options)
    ranges = {k: migraphx.shape.dynamic_dimension(v.min, v.max) for k, v in options.items()}
    with pytest.raises(migraphx.Error, match=part):
        migraphx.parse_onnx_buffer(made.SerializeToString(), **ranges)


def test_products_of_ranges_align_both_operands():
    made = model("MatMul", [7], [5, 7, None])
    assert lines(made, default_dyn_dim_value=Dim(4, 8)) == [
        "@2 = unsqueeze[axes={0},steps={}](x0)",
        "@3 = broadcast_for_dot(@2,x1)",
        "@4 = broadcast_for_dot(x1,@2)",
        "@5 = dot(@3,@4)",
        "@6 = squeeze[axes={1}](@5)",
        "@7 = @return(@6)",
    ]


def test_integer_products_subtract_zero_points_in_int8():
    ones = np.array(1, np.int8), np.array(1, np.uint8)
    assert lines(model("MatMulInteger", (INT8, [4, 3]), (UINT8, [3, 2]), *ones)) == [
        "@0 = @literal{-128}",
        "@3 = @literal{1}",
        "@4 = @literal{1}",
        "@5 = multibroadcast[out_lens={4, 3},out_dyn_dims={}](@4)",
        "@6 = sub(x0,@5)",
        "@7 = convert[target_type=1](x1)",
        "@8 = multibroadcast[out_lens={3, 2},out_dyn_dims={}](@0)",
        "@9 = add(@7,@8)",
        "@10 = convert[target_type=5](@9)",
        "@11 = convert[target_type=1](@3)",
        "@12 = add(@11,@0)",
        "@13 = convert[target_type=5](@12)",
        "@14 = multibroadcast[out_lens={3, 2},out_dyn_dims={}](@13)",
        "@15 = sub(@10,@14)",
        "@16 = quant_dot(@6,@15)",
        "@17 = @return(@16)",
    ]


def test_integer_products_keep_what_onnx_says_unless_strict():
    made = model("MatMulInteger", (UINT8, [1, 2]), (UINT8, [2, 1]), BYTE, BYTE)
    a, b = np.array([[200, 255]], np.uint8), np.array([[250], [3]], np.uint8)
    result = reference.run(parse_onnx(made), {"x0": a, "x1": b})
    assert result[0].tolist() == [[200 * 250 + 255 * 3]]


def test_integer_products_refuse_ranges_and_other_types():
    ranges = {"default_dyn_dim_value": Dim(1, 4)}
    made = model("MatMulInteger", (INT8, [None, 6, 16]), (INT8, [None, 16, 8]))
    refused(made, "expected fixed dimensions", **ranges)
    assert parse_onnx(made, **ranges)
    refused(model("MatMulInteger", (INT8, [4, 3]), (TensorProto.INT16, [3, 2])), "int16_type")


def test_integer_products_as_floats_subtract_the_bias():
    scales = ([3], [2])
    zeros = (np.array(0, np.int8), MIDDLE)
    made = model("MatMulIntegerToFloat", (INT8, [4, 3]), (UINT8, [3, 2]), *scales, *zeros, [2])
    assert lines(made) == [
        "@5 = @literal{128}",
        "@6 = @literal{0}",
        "@7 = unsqueeze[axes={0},steps={}](x2)",
        "@8 = multibroadcast[out_lens={4, 3},out_dyn_dims={}](@7)",
        "@9 = dequantizelinear(x0,@8)",
        "@10 = unsqueeze[axes={0},steps={}](x3)",
        "@11 = multibroadcast[out_lens={3, 2},out_dyn_dims={}](@10)",
        "@12 = dequantizelinear(x1,@11)",
        "@13 = dot(@9,@12)",
        "@14 = multibroadcast[out_lens={4, 2},out_dyn_dims={}](x6)",
        "@15 = sub(@13,@14)",
        "@16 = @return(@15)",
    ]
    relaxed = str(parse_onnx(made))
    assert "sub(" not in relaxed
    assert "dequantizelinear(x0,@8,@10)" in relaxed


@pytest.mark.parametrize(
    ("rest", "part"),
    [
        (((INT8, [3]), [2]), "expected both scales float, or both half"),
        (([4, 3], [3, 2]), "expected a scalar or a list"),
        (((TensorProto.FLOAT16, [3]), [2]), "both scales float, or both half"),
        (([3], [7]), "7 scales"),
        (([3], [2], (INT8, [3]), (INT8, [2]), (UINT8, [2])), "bias"),
    ],
)
def test_integer_products_as_floats_refuse_other_scales(rest, part):
    refused(model("MatMulIntegerToFloat", (INT8, [4, 3]), (INT8, [3, 2]), *rest), part)


def four_bits(a, packed, largest, **changed):
    attributes = {"N": 4, "K": 8, "block_size": 16, "quant_type": 0} | changed
    attributes = {k: v for k, v in attributes.items() if v is not None}
    return model("MatMulBnb4", a, (UINT8, packed), largest, domain=CONTRIB, **attributes)


def test_products_of_four_bit_floats_take_low_halves_first():
    assert lines(four_bits([2, 3, 8], [16], [2])) == [
        "@0 = @literal{8}",
        "@4 = unpack_int4[axis=-1](x1)",
        "@5 = reshape[dims={4, 8}](@4)",
        "@6 = unsqueeze[axes={1},steps={}](x2)",
        "@7 = multibroadcast[out_lens={2, 16},out_dyn_dims={}](@6)",
        "@8 = reshape[dims={32}](@7)",
        "@9 = reshape[dims={4, 8}](@8)",
        "@10 = convert[target_type=2](@5)",
        "@11 = multibroadcast[out_lens={4, 8},out_dyn_dims={}](@0)",
        "@12 = div(@10,@11)",
        "@13 = mul(@12,@9)",
        "@14 = transpose[permutation={1, 0}](@13)",
        "@15 = multibroadcast[out_lens={2, 8, 4},out_dyn_dims={}](@14)",
        "@16 = dot(x0,@15)",
        "@17 = @return(@16)",
    ]
    normal = lines(four_bits([2, 8], [16], [2], quant_type=1))
    assert "@9 = convert[target_type=9](@5)" not in normal
    assert any(line.endswith("gather[axis=0](@0,@10)") for line in normal)


@pytest.mark.parametrize(
    "made",
    [
        four_bits([2, 8], [16], [2], quant_type=2),
        four_bits([2, 8], [16], [4], block_size=8),
        four_bits([2, 8], [16], [2], block_size=20),
        four_bits([2, 9], [16], [2]),
        four_bits([2, 8], [10], [2]),
        four_bits([2, 8], [16], [5]),
        four_bits([2, 8], [16], [2], N=None),
    ],
)
def test_products_of_four_bit_floats_refuse_what_does_not_fit(made):
    refused(made, "expected|requires")


@pytest.mark.parametrize(("lens", "part"), [([4, 2, 8], "weights"), ([3], "scales"), ([5], "zero")])
def test_products_of_packed_integers_refuse_what_does_not_fit(lens, part):
    given = {"weights": [4, 1, 8], "scales": [4], "zero": [4]} | {part: lens}
    packed, scales, zeros = (given[k] for k in ("weights", "scales", "zero"))
    options = {"N": 4, "K": 16, "block_size": 16, "bits": 4, "domain": CONTRIB}
    inputs = ([2, 16], (UINT8, packed), scales, (UINT8, zeros))
    refused(model("MatMulNBits", *inputs, **options), part)


def test_means_of_bfloat16_are_divided_last():
    small = (TensorProto.BFLOAT16, [2])
    assert lines(model("Mean", small, small)) == [
        "@0 = @literal{2}",
        "@3 = add(x0,x1)",
        "@4 = multibroadcast[out_lens={2},out_dyn_dims={}](@0)",
        "@5 = div(@3,@4)",
        "@6 = @return(@5)",
    ]


def test_mod_of_floats_needs_its_attribute():
    refused(model("Mod", [3], [3]), "expected fmod=1")
    assert "@2 = fmod(x0,x1)" in lines(model("Mod", [3], [3], fmod=1))


@pytest.mark.parametrize(("lens", "axes"), [([2] * 5, [0, 2, 3]), ([2] * 3, [0]), ([2], [0])])
def test_mean_variance_normalization_leaves_one_axis(lens, axes):
    made = model("MeanVarianceNormalization", lens, axes=axes)
    refused(made, "expected all dimensions but one")
    assert parse_onnx(made)


def test_attention_splits_before_it_turns():
    made = model("MultiHeadAttention", [1, 2, 4], [1, 2, 2, 2, 2], domain=CONTRIB, num_heads=2)
    assert lines(made)[1:9] == [
        "@3 = reshape[dims={1, 2, 2, 2}](x0)",
        "@4 = transpose[permutation={3, 0, 1, 2, 4}](x1)",
        "@5 = slice[axes={0},starts={0},ends={1}](@4)",
        "@6 = squeeze[axes={0}](@5)",
        "@7 = slice[axes={0},starts={1},ends={2}](@4)",
        "@8 = squeeze[axes={0}](@7)",
        "@9 = transpose[permutation={0, 2, 1, 3}](@3)",
        "@10 = transpose[permutation={0, 2, 1, 3}](@6)",
    ]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ([[1, 1]], "expected rank 3"),
        ([[1, 1, 1, 1, 1]], "query"),
        ([[1, 1, 1], [1, 1, 1, 1, 1]], "keys and values"),
        ([[1, 1, 1], [1, 1, 2], [1, 1, 1]], "keys"),
        ([[1, 1, 1], [1, 1, 1]], "values are omitted"),
        ([[1, 1, 1], [1, 1, 1], [2, 1, 1]], "values"),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1, 1]], "values"),
        ([[1, 1, 1], [1, 2, 1, 1], [1, 1, 1, 1]], "keys"),
        ([[1, 1, 1], [1, 1, 1, 1], [1, 1, 2, 1]], "values"),
    ],
)
def test_attention_refuses_heads_that_do_not_fit(given, part):
    refused(model("MultiHeadAttention", *given, domain=CONTRIB, num_heads=1), part)


HEADS = {"domain": CONTRIB, "num_heads": 2}
INT32 = TensorProto.INT32


def operations(made):
    return [line.split(" = ")[1].split("(")[0] for line in lines(made) if "literal" not in line]


def test_attention_adds_its_bias_before_it_turns():
    found = operations(model("MultiHeadAttention", *[[2, 3, 8]] * 3, [24], **HEADS))
    parts = [
        step
        for k in (0, 8, 16)
        for step in (
            f"slice[axes={{2}},starts={{{k}}},ends={{{k + 8}}}]",
            "multibroadcast[out_lens={2, 3, 8},out_dyn_dims={}]",
        )
    ]
    assert found[3:20] == [
        *["unsqueeze[axes={0},steps={}]"] * 2,
        *parts,
        *["reshape[dims={2, 3, 8}]"] * 3,
        *["add"] * 3,
        *["reshape[dims={2, 3, 2, 4}]"] * 3,
    ]


def test_attention_ignores_a_bias_that_is_no_vector():
    plain = operations(model("MultiHeadAttention", *[[2, 3, 8]] * 3, **HEADS))
    assert operations(model("MultiHeadAttention", *[[2, 3, 8]] * 3, [2, 3], **HEADS)) == plain


@pytest.mark.parametrize(
    ("mask", "more"), [([1, 3], []), ([1], ["less", "convert[target_type=8]"])]
)
def test_attention_masks_before_it_scales(mask, more):
    given = [*[[1, 3, 8]] * 3, [24], (INT32, mask), [1, 2, 3, 3]]
    found = operations(model("MultiHeadAttention", *given, **HEADS))[23:]
    views = ("multibroadcast", "reshape", "transpose")
    assert [n for n in found if not n.startswith(views)] == [
        *more,
        "convert[target_type=8]",
        "equal",
        "convert[target_type=0]",
        "where",
        "dot",
        "add",
        "add",
        "mul",
        "softmax[axis=-1]",
        "dot",
        "@return",
    ]


def test_attention_without_use_for_a_mask():
    plain = operations(model("MultiHeadAttention", *[[2, 3, 8]] * 3, [24], **HEADS))
    given = [*[[2, 3, 8]] * 3, [24], (INT32, [8])]
    assert operations(model("MultiHeadAttention", *given, **HEADS)) == plain


def test_attention_writes_new_keys_over_the_first_place_of_a_past():
    past = [[1, 2, 5, 4]] * 2
    made = model(
        "MultiHeadAttention", *[[1, 1, 8]] * 3, [24], (INT32, [1, 1]), [1, 2, 1, 1], *past, **HEADS
    )
    made.graph.node[0].output[:] = ["y", "key", "value"]
    made.graph.output.append(helper.make_empty_tensor_value_info("key"))
    program = parse_onnx(made, strict=True)
    shapes = {n: s.lens for n, s in program.parameters.items()}
    given = {n: np.full(s, k + 1, np.float32) for k, (n, s) in enumerate(shapes.items())}
    given["x4"] = given["x4"].astype(np.int32)
    _, keys = reference.run(program, given)
    assert (keys[:, :, 0] == given["x1"][0, 0, 0] + given["x3"][0]).all()
    assert (keys[:, :, 1:] == given["x6"][0, 0, 0, 0]).all()


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ([[23]], "expected 24 elements"),
        ([[24], [2, 3]], "mask .* expected int32_type"),
        ([[24], (INT32, [3, 3])], "mask"),
        ([[24], (INT32, [2]), [2, 3, 3]], "a bias of the scores"),
        ([[24], (INT32, [8]), [2, 2, 3, 3], [2, 2, 5], [2, 2, 5]], "past_key"),
        ([[24], (INT32, [8]), [2, 2, 3, 3], [2, 2, 5, 4], [2, 2, 5, 3]], "past_value"),
        ([[24], (INT32, [8]), [2, 2, 3, 3], [2, 2, 5, 4], [2, 2, 6, 4]], "differ in length"),
        ([[24], (INT32, [8]), [2, 2, 3, 3], *[[2, 2, 5, 4]] * 2, [2]], "past_sequence_length"),
    ],
)
def test_attention_refuses_what_does_not_belong_to_it(more, part):
    refused(model("MultiHeadAttention", *[[2, 3, 8]] * 3, *more, **HEADS), part)


def test_a_run_measures_the_rows_to_draw_for():
    made = model("Multinomial", [None, 3], sample_size=4, seed=1.5)
    ranges = {"default_dyn_dim_value": Dim(1, 5)}
    found = lines(made, full=True, **ranges)
    assert found[:3] == [
        "@0 = @literal{0, 4} -> int64_type, {2}, {1}",
        "@1 = @literal{1, 0} -> int64_type, {2}, {1}",
        "@2 = @literal{1.5} -> float_type, {1}, {1}",
    ]
    shape = "dynamic, float_type, {[1..5], 4}"
    assert f"@13 = allocate[shape={shape},buf_type=nullopt](@12) -> {shape}" in found
    rows = np.log(np.array([[1e-9, 1, 1e-9]] * 5, np.float32))
    drawn = reference.run(parse_onnx(made, **ranges), {"x0": rows})[0]
    assert drawn.tolist() == [[1] * 4] * 5


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_axes_of_a_margin_may_follow_the_pads(mode):
    pads, axes = np.array([2, 1]), np.array([1])
    number = {"reflect": 1, "edge": 2}[mode]
    assert lines(model("Pad", [2, 3], pads, axes, mode=mode)) == [
        "@1 = @literal{1}",
        "@2 = @literal{2, 1}",
        f"@3 = pad[mode={number},pads={{0, 2, 0, 1}},value=0](x0)",
        "@4 = @return(@3)",
    ]
    assert "pads={1, 2}" in str(parse_onnx(model("Pad", [3], pads[::-1].copy(), axes, mode=mode)))


def test_margins_of_ranges_are_constant():
    made = model("Pad", [None, 2], np.array([0, 1, 0, 1]), mode="reflect")
    refused(made, "expected fixed dimensions", default_dyn_dim_value=Dim(2, 4))
    assert parse_onnx(made, default_dyn_dim_value=Dim(2, 4))


def test_a_product_of_quantised_vectors_has_one_element():
    scale = np.array(0.5, np.float32)
    given = ((UINT8, [8]), scale, BYTE, (UINT8, [8]), scale, BYTE, scale, BYTE)
    found = lines(model("QLinearMatMul", *given), full=True)
    assert [line.split(" -> ")[1] for line in found[-6:-1]] == [
        "float_type, {1, 1}, {1, 1}",
        "float_type, {1}, {1}",
        "float_type, {1}, {0}",
        "uint8_type, {1}, {0}",
        "uint8_type, {1}, {1}",
    ]
    assert found[-5].startswith("@17 = squeeze[axes={0}](@16)")


def test_scales_of_channels_are_broadcast_along_them():
    scale, scales = np.array(0.5, np.float32), np.array([1, 0.5], np.float32)
    weights = np.ones((2, 1, 3, 3), np.uint8)
    zeros = np.zeros(2, np.uint8)
    made = model(
        "QLinearConv", (UINT8, [1, 1, 5, 5]), scale, BYTE, weights, scales, zeros, scale, BYTE
    )
    assert lines(made)[-9:-5] == [
        "@10 = dequantizelinear(x0,@8,@9)",
        "@11 = broadcast[axis=0,out_lens={2, 1, 3, 3},out_dyn_dims={}](@4)",
        "@12 = broadcast[axis=0,out_lens={2, 1, 3, 3},out_dyn_dims={}](@3)",
        "@13 = dequantizelinear(@5,@11,@12)",
    ]


def test_an_approximate_gelu_names_its_factor():
    refused(model("QuickGelu", [2], domain=CONTRIB), "alpha")
    assert parse_onnx(model("QuickGelu", [2], domain=CONTRIB))


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_quantisation_refuses_zero_points_and_blocks_that_do_not_fit(op):
    x = (INT8, [4, 4]) if op == "DequantizeLinear" else [4, 4]
    refused(model(op, x, [4], (INT8, [1])), "expected equal lens")
    refused(model(op, x, [1, 4], opset=21, axis=0, block_size=4), "more than one along axis 0")
    assert parse_onnx(model(op, x, [1, 4], opset=21, axis=0, block_size=4))


def test_quantisation_refuses_a_scale_of_another_type():
    half = (TensorProto.FLOAT16, [1])
    refused(model("QuantizeLinear", [4], half, opset=19), "expected one type")
    assert lines(model("QuantizeLinear", [4], half, opset=23))
