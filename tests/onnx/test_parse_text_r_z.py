"""Strict import of operators from R to Z: MIGraphX's instructions, in its order."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.models import floats, model
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import onnx_op, parse_onnx
from workbench.compiler.onnx.registry import find, strict_op

X = floats("x", 2, 3)
INT32, INT64, HALF = TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16


def typed(name, type, *lens):
    return helper.make_tensor_value_info(name, type, lens)


def lines(made, **options):
    """The instructions of a strict import, without shapes, the last ``@return`` too."""
    text = str(parse_onnx(made, strict=True, **options))
    found = [line.split(" -> ")[0] for line in text.splitlines() if " = " in line]
    return [line for line in found if "@param" not in line]


def one(op, inputs, weights=(), outputs=1, opset=20, domain="", **attributes):
    """A model of one node; arrays are initialisers, and None leaves an input out."""
    names = [w and w.name for w in [*inputs, *weights]]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [n or "" for n in names], made, domain=domain, **attributes)
    return model([node], [i for i in inputs if i is not None], made, list(weights), opset)


def weight(name, values, type=np.int64):
    return numpy_helper.from_array(np.array(values, type), name)


def check(made, expected, **options):
    """Compare with lines; those that start with a space were broken."""
    wanted = [line.strip() for line in expected.strip().splitlines()]
    assert lines(made, **options) == wanted


def refused(made, message, **options):
    with pytest.raises(ModelError, match=message):
        parse_onnx(made, strict=True, **options)


def test_log_sum_exp_is_what_it_says():
    made = one("ReduceLogSumExp", [X], axes=[-1], keepdims=0, opset=13)
    check(
        made,
        """
        @1 = exp(x)
        @2 = reduce_sum[axes={-1}](@1)
        @3 = squeeze[axes={-1}](@2)
        @4 = log(@3)
        @5 = @return(@4)
        """,
    )


def test_axes_of_unknown_number_choose_between_two_reductions():
    made = one("ReduceSum", [X, typed("axes", INT64, None)])
    check(
        made,
        """
        @0 = @literal{0}
        @1 = @literal{0, 1}
        @4 = reduce_sum[axes={}](x,axes)
        @5 = reduce_sum[axes={}](x,@1)
        @6 = dimensions_of[start=0,end=1](axes)
        @7 = equal(@6,@0)
        @8 = where(@7,@5,@4)
        @9 = @return(@8)
        """,
        map_dyn_input_dims={"axes": [Dim(0, 2)]},
    )


def test_computed_lens_go_through_a_buffer():
    made = one("Reshape", [X, typed("lens", INT64, 2)])
    check(
        made,
        """
        @2 = allocate[shape=nullopt,buf_type=2](lens)
        @3 = reshape[dims={}](x,@2)
        @4 = @return(@3)
        """,
    )


NEAREST = "mode=nearest,coordinate_transformation_mode=half_pixel,cubic_coeff_a=-0.75"


def test_resize_is_one_operation_by_scales_or_sizes():
    image = floats("x", 1, 1, 2, 2)
    none = weight("roi", [], np.float32)
    scaled = one("Resize", [image], [none, weight("s", [1, 1, 0.6, 2], np.float32)], mode="linear")
    found = lines(scaled)
    assert found[-2].startswith(
        "@3 = resize[scales={1, 1, 0.6, 2},sizes={},nearest_mode=floor,mode=linear"
    )
    made = one("Resize", [image, None, None, typed("sizes", INT64, 4)])
    node = f"resize[scales={{}},sizes={{}},nearest_mode=round_prefer_floor,{NEAREST}](x,sizes)"
    assert lines(made)[-2].endswith(node)


def test_upsample_is_a_resize_with_its_defaults():
    made = one("Upsample", [floats("x", 1, 1, 2, 2)], scales=[1.0, 1.0, 2.0, 3.0], opset=7)
    node = f"resize[scales={{1, 1, 2, 3}},sizes={{}},nearest_mode=round_prefer_floor,{NEAREST}](x)"
    check(made, f"@0 = @literal{{1, 1, 2, 3}}\n@2 = {node}\n@3 = @return(@2)")


@pytest.mark.parametrize(
    ("weights", "attributes", "message"),
    [
        ([weight("s", [1, 1, 2, 2], np.float16)], {}, "half_type"),
        ([weight("s", [2], np.float32)], {}, "expected 4"),
        ([weight("s", [1, 1, 2, 2], np.float32)], {"exclude_outside": 1}, "exclude_outside"),
        ([], {}, "neither"),
    ],
)
def test_resize_refuses_what_the_operation_has_no_word_for(weights, attributes, message):
    roi = weight("roi", [], np.float32)
    refused(one("Resize", [floats("x", 1, 1, 2, 2)], [roi, *weights], **attributes), message)


def test_selu_by_signs():
    check(
        one("Selu", [floats("x", 4)], alpha=0.5, gamma=3.0),
        """
        @0 = @literal{1.5}
        @1 = @literal{0.5}
        @3 = multibroadcast[out_lens={4},out_dyn_dims={}](@1)
        @4 = multibroadcast[out_lens={4},out_dyn_dims={}](@0)
        @5 = sign(x)
        @6 = exp(x)
        @7 = mul(@3,@6)
        @8 = sub(@7,@3)
        @9 = add(@8,x)
        @10 = sub(@8,x)
        @11 = mul(@5,@10)
        @12 = sub(@9,@11)
        @13 = mul(@12,@4)
        @14 = @return(@13)
        """,
    )


def test_softplus_as_its_formula():
    check(
        one("Softplus", [floats("x", 4)]),
        """
        @0 = @literal{1}
        @2 = multibroadcast[out_lens={4},out_dyn_dims={}](@0)
        @3 = exp(x)
        @4 = add(@3,@2)
        @5 = log(@4)
        @6 = @return(@5)
        """,
    )


def test_thresholds_are_compared_without_a_cast():
    found = lines(one("ThresholdedRelu", [floats("x", 4)], alpha=3.0))
    assert found[-3:] == ["@5 = greater(x,@4)", "@6 = where(@5,x,@3)", "@7 = @return(@6)"]


def test_shrink_keeps_what_is_not_below_and_above():
    found = [line.split(" = ")[1].split("[")[0] for line in lines(one("Shrink", [floats("x", 4)]))]
    names = [f.split("(")[0] for f in found if "literal" not in f and "broadcast" not in f]
    steps = "add sub less not greater convert convert logical_and mul mul add"
    expected = [n for n in steps.split() if n != "convert"]
    assert [n for n in names if n not in {"convert", "@return"}] == expected


@pytest.mark.parametrize(("opset", "axis"), [(12, 1), (13, -1)])
def test_softmax_keeps_to_one_axis(opset, axis):
    found = lines(one("Softmax", [floats("x", 2, 3, 4)], opset=opset))
    assert found == [f"@1 = softmax[axis={axis}](x)", "@2 = @return(@1)"]


def test_shapes_of_ranges_are_computed_also_where_they_are_known():
    x, ranges = floats("x", "n", 4), {"x": [Dim(1, 3), 4]}
    made = one("Shape", [x], start=1)
    check(made, "@1 = dimensions_of[start=1,end=2](x)\n@2 = @return(@1)", map_dyn_input_dims=ranges)
    refused(one("Shape", [x], start=2, end=1), "expected one at least")


def test_a_bias_is_added_behind_the_norm():
    inputs = [typed(n, HALF, *d) for n, d in (("x", (2, 2, 4)), ("s", (2, 2, 4)), ("g", (4,)))]
    made = one(
        "SkipSimplifiedLayerNormalization",
        [*inputs, typed("b", HALF, 4)],
        outputs=4,
        domain="com.microsoft",
    )
    spread = "multibroadcast[out_lens={2, 2, 4},out_dyn_dims={}](b)"
    assert lines(made)[-5:] == [
        f"@17 = {spread}",
        "@18 = add(@16,@17)",
        f"@19 = {spread}",
        "@20 = add(@5,@19)",
        "@21 = @return(@18,@9,@12,@20)",
    ]


@pytest.mark.parametrize(
    ("lens", "gamma"), [([(2, 2, 2, 4), (2, 2, 4)], (2, 4)), ([(2, 2, 4), (2, 2, 4)], (1, 4))]
)
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skipped_norms_have_three_dimensions(op, lens, gamma):
    inputs = [floats(n, *d) for n, d in zip(("x", "s", "g"), (*lens, gamma), strict=True)]
    refused(one(op, inputs, domain="com.microsoft"), "expected 3 dimensions")


def test_a_loss_negates_its_weights_first():
    made = one(
        "SoftmaxCrossEntropyLoss",
        [floats("x", 2, 3), typed("t", INT32, 2), floats("w", 3)],
        reduction="mean",
    )
    check(
        made,
        """
        @0 = @literal{0, 1}
        @1 = @literal{1}
        @5 = multibroadcast[out_lens={3},out_dyn_dims={}](@1)
        @6 = neg(w)
        @7 = softmax[axis=1](x)
        @8 = unsqueeze[axes={-1},steps={}](t)
        @9 = unsqueeze[axes={1},steps={}](@0)
        @10 = multibroadcast[out_lens={2, 1},out_dyn_dims={}](@9)
        @11 = concat[axis=-1](@10,@8)
        @12 = gathernd[batch_dims=0](@7,@11)
        @13 = unsqueeze[axes={0},steps={}](@6)
        @14 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@13)
        @15 = gathernd[batch_dims=0](@14,@11)
        @16 = log(@12)
        @17 = mul(@16,@15)
        @18 = reduce_sum[axes={0}](@17)
        @19 = reduce_sum[axes={0}](@15)
        @20 = neg(@19)
        @21 = div(@18,@20)
        @22 = @return(@21)
        """,
    )


def _loss(ignored, lens=(2, 3), **attributes):
    inputs = [floats("x", *lens), typed("t", INT32, lens[0], *lens[2:])]
    given = {"reduction": "none", "ignore_index": ignored} | attributes
    return one("NegativeLogLikelihoodLoss", inputs, **given)


def test_an_ignored_class_has_no_weight_and_another_label_no_loss():
    inside, outside = lines(_loss(1)), lines(_loss(-1))
    assert [n for n in inside if "scatter_none[axis=0" in n]
    assert not [n for n in inside if "where" in n]
    tail = [line.split(" = ")[1].split("(")[0] for line in outside[-5:]]
    assert tail == [
        "multibroadcast[out_lens={2},out_dyn_dims={}]", "convert[target_type=9]", "equal", "where",
        "@return",
    ]  # fmt: skip


def test_classes_of_more_dimensions_come_last():
    found = lines(_loss(1, (2, 5, 2, 2)))
    assert sum("transpose[permutation={0, 2, 3, 1}]" in n for n in found) == 2


@pytest.mark.parametrize(
    ("scores", "labels", "type", "reduction"),
    [
        ((2,), (2,), INT32, "none"),
        ((2, 4), (1,), INT32, "none"),
        ((2, 4, 2), (2,), INT32, "none"),
        ((2, 4), (2,), TensorProto.INT8, "none"),
        ((2, 4), (2,), INT32, "product"),
    ],
)
def test_losses_refuse_what_does_not_fit(scores, labels, type, reduction):
    inputs = [floats("x", *scores), typed("t", type, *labels)]
    refused(one("SoftmaxCrossEntropyLoss", inputs, reduction=reduction), "expected")


def test_a_range_is_split_into_equal_parts_and_a_rest():
    made = one("Split", [floats("x", "n", 3)], outputs=2, num_outputs=2)
    last = (1 << 63) - 1
    check(
        made,
        f"""
        @0 = @literal{{1}}
        @1 = @literal{{1}}
        @2 = @literal{{0}}
        @3 = @literal{{1}}
        @4 = @literal{{2}}
        @6 = dimensions_of[start=0,end=1](x)
        @7 = add(@6,@3)
        @8 = div(@7,@4)
        @9 = mul(@8,@2)
        @10 = mul(@8,@1)
        @11 = slice[axes={{0}},starts={{}},ends={{}}](x,@9,@10)
        @12 = mul(@8,@0)
        @13 = slice[axes={{0}},starts={{}},ends={{{last}}}](x,@12)
        @14 = @return(@11,@13)
        """,
        map_dyn_input_dims={"x": [Dim(2, 8), 3]},
    )
    cut = one("Split", [floats("x", "n", 3)], [weight("s", [1, 2])], outputs=2)
    refused(cut, "fixed length", map_dyn_input_dims={"x": [Dim(2, 8), 3]})


def test_ranges_are_copied_before_axes_of_one_come_or_go():
    x, ranges = floats("x", "n", 1), {"x": [Dim(2, 8), 1]}
    made = one("Squeeze", [x], [weight("a", [1])])
    found = lines(made, map_dyn_input_dims=ranges)
    assert found[1:] == [
        "@2 = contiguous(x)", "@3 = squeeze[axes={1}](@2)", "@4 = @return(@3)",
    ]  # fmt: skip
    found = lines(one("Unsqueeze", [x], [weight("a", [0])]), map_dyn_input_dims=ranges)
    assert found[1] == "@2 = contiguous(x)"


def test_triangles_are_masks_that_multiply():
    check(
        one("Trilu", [floats("x", 2, 2, 3)], [weight("k", [2])]),
        """
        @0 = @literal{0, 0, 1, 0, 0, 0}
        @2 = @literal{2}
        @3 = multibroadcast[out_lens={2, 2, 3},out_dyn_dims={}](@0)
        @4 = mul(@3,x)
        @5 = @return(@4)
        """,
    )


def test_what_is_undefined_stays_so():
    check(one("Identity", [None]), "@0 = undefined\n@1 = undefined\n@2 = @return(@1)")


def test_lengths_of_zero_are_open():
    made = one("Add", [floats("x", 0, 3), floats("z", -1, 3)])
    assert "x = @param:x -> float_type, {1, 3}, {3, 1}" in str(parse_onnx(made, strict=True))
    assert "x = @param:x -> float_type, {0, 3}, {3, 1}" in str(parse_onnx(made))


def test_choices_of_ranges_are_as_they_are():
    ranges = {n: [Dim(1, 4)] for n in ("c", "x", "z")}
    inputs = [typed("c", TensorProto.BOOL, "n"), floats("x", "n"), floats("z", "n")]
    made = one("Where", inputs)
    check(made, "@3 = where(c,x,z)\n@4 = @return(@3)", map_dyn_input_dims=ranges)
    refused(made, "expected all of them dynamic, or none", map_dyn_input_dims=ranges | {"z": [3]})


ROTARY = {"x": (1, 2, 18), "p": (1, 2), "c": (4, 3), "s": (4, 3)}


@pytest.mark.parametrize(
    ("changed", "attributes"),
    [
        ({"p": (2,)}, {}),
        ({"p": (1, 1, 1)}, {}),
        ({"x": (2, 2, 18), "p": (1, 1)}, {}),
        ({"c": (2, 3)}, {}),
        ({"x": (1, 1, 1, 1, 1)}, {}),
        ({}, {"scale": 0.0}),
        ({}, {"rotary_embedding_dim": 2}),
        ({}, {"num_heads": 3, "rotary_embedding_dim": 8}),
    ],
)
def test_rotations_refuse_lens_that_do_not_fit(changed, attributes):
    lens = ROTARY | changed
    inputs = [typed(n, INT32 if n == "p" else HALF, *d) for n, d in lens.items()]
    refused(one("RotaryEmbedding", inputs, domain="com.microsoft", **attributes), "expected|has")


def test_axes_that_nobody_gives_are_all_of_them():
    axes = helper.make_tensor_value_info("axes", TensorProto.INT64, [0])
    made = one("ReduceSum", [floats("x", 2, 3), axes])
    text = str(parse_onnx(made, strict=True, map_input_dims={"axes": [0]}))
    assert "@literal{0, 1} -> int64_type, {2}, {1}" in text
    assert "reduce_sum[axes={}](x,@" in text


def _scan(**attributes):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "a"], ["t"]),
            helper.make_node("Mul", ["t", "w"], ["u"]),
            helper.make_node("Add", ["u", "b"], ["o"]),
        ],
        "body",
        [floats("s", 2), floats("a", 2), floats("b", 2)],
        [floats("t", 2), floats("o", 2)],
        [weight("w", [2.0], np.float32)],
    )
    inputs = [floats("i", 2), floats("j", 3, 2), floats("k", 2, 3)]
    given = {"scan_input_axes": [0, 1]} | attributes
    return one("Scan", inputs, outputs=2, num_scan_inputs=2, body=body, **given)


def test_a_scan_slices_its_last_input_first():
    text = str(parse_onnx(_scan(scan_output_axes=[-1]), strict=True))
    main, body = text.split('module: "Scan_3_scan"\n')
    body = [line.replace("Scan_3_scan:", "").split(" -> ")[0] for line in body.splitlines() if line]
    assert body == [
        "state_var0 = @param:state_var0",
        "cond = @param:cond",
        "iter = @param:iter",
        "@3 = scan_slice[axis=1,direction=0](k,iter)",
        "@4 = squeeze[axes={1}](@3)",
        "@5 = scan_slice[axis=0,direction=0](j,iter)",
        "@6 = squeeze[axes={0}](@5)",
        "@7 = @literal{2}",
        "@8 = add(state_var0,@6)",
        "@9 = multibroadcast[out_lens={2},out_dyn_dims={}](@7)",
        "@10 = mul(@8,@9)",
        "@11 = add(@10,@4)",
        "@12 = @return(cond,@8,@11)",
    ]
    assert [line.split(" -> ")[0] for line in main.splitlines() if "@8 = " in line] == [
        "@8 = transpose[permutation={1, 0}](@7)"
    ]


@pytest.mark.parametrize(
    "attributes",
    [
        {"scan_input_directions": [2, 0]},
        {"scan_output_directions": [-1]},
        {"scan_input_axes": [0]},
        {"scan_input_axes": [0, 2]},
        {"scan_input_axes": [1, 0]},
        {"scan_output_axes": [-4]},
    ],
)
def test_scans_refuse_axes_and_directions_that_are_none(attributes):
    refused(_scan(**attributes), "Scan")


def _drawn(op, *inputs, **attributes):
    made = parse_onnx(one(op, list(inputs), **attributes), strict=True)
    return made.main.outputs[0].literal.numpy()


def test_random_numbers_are_those_that_c_plus_plus_draws():
    given = {"shape": [3], "seed": 7.0, "dtype": TensorProto.DOUBLE}
    normal = _drawn("RandomNormal", mean=10.0, scale=1.5, **given)
    uniform = _drawn("RandomUniform", low=1.0, high=10.0, **given)
    np.testing.assert_allclose(normal, [8.91978339, 8.37299627, 9.94434966], rtol=1e-8)
    np.testing.assert_allclose(uniform, [3.04605167, 3.87075005, 9.80400607], rtol=1e-8)


@pytest.mark.parametrize("op", ["RandomNormal", "RandomUniform", "RandomNormalLike"])
def test_without_a_seed_other_numbers_come_each_time(op):
    first, second = _drawn(op, X), _drawn(op, X)
    assert first.shape == (2, 3)
    assert (first != second).any()


@pytest.mark.parametrize("attributes", [{"dtype": INT32, "shape": [2]}, {"dtype": 1}])
def test_random_numbers_need_a_float_and_a_shape(attributes):
    refused(one("RandomNormal", [], **attributes), "expected")


def test_a_handler_of_ones_own_goes_before():
    before, exact = find("", "Softplus"), find("", "Softplus", strict=True)
    assert before is not exact
    try:
        onnx_op("Softplus")(lambda node, inputs: node.add("tanh", inputs[0]))
        assert lines(one("Softplus", [X])) == ["@1 = tanh(x)", "@2 = @return(@1)"]
    finally:
        onnx_op("Softplus")(before)
        strict_op("Softplus")(exact)
