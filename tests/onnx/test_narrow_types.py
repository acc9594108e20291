"""Element types that programs hold in wider ones, and blocks of 4-bit floats."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.onnx.models import CONTRIB, Case, imported, model
from workbench.compat.onnx_backend import run_model
from workbench.compiler.errors import ModelError
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

INTEGERS = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]
NARROW = [*INTEGERS, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu]
EDGES = np.array([0.0, 0.3, 0.75, 1.5, 3.0, 5.0, 1000.0, 1e-30, 3e38], np.float32)


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def cast(x, dtype, **attributes):
    """The output of Cast for an array."""
    made = model_of("Cast", [x], [("y", code(dtype))], to=code(dtype), **attributes)
    return run_model(made, [x])[0]


def model_of(op, arrays, outputs, domain="", **attributes):
    names = [f"x{i}" for i in range(len(arrays))]
    node = helper.make_node(op, names, [n for n, _ in outputs], domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(n, code(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    results = [helper.make_tensor_value_info(n, c, None) for n, c in outputs]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", [np.int32, np.float32, np.int8])
def test_integers_keep_their_low_bits(dtype, source):
    x = np.arange(-20, 20).astype(source)
    np.testing.assert_array_equal(cast(x, dtype), x.astype(np.int32).astype(dtype))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("target", [np.float32, np.float16, np.int8, np.uint8, ml_dtypes.bfloat16])
def test_every_value_of_a_narrow_type_is_read(dtype, target):
    x = np.arange(16 if np.dtype(dtype) not in {np.dtype(t) for t in INTEGERS[2:]} else 4)
    x = x.astype(np.uint8).view(dtype)
    if dtype is ml_dtypes.float8_e8m0fnu:
        x = np.array([0.25, 0.5, 1, 2, 4], np.float32).astype(dtype)
    if target is np.uint8:
        x = np.abs(x.astype(np.float32)).astype(dtype)
    found = cast(x, target)
    assert found.dtype == target
    np.testing.assert_array_equal(found, x.astype(target))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("length", [5, 8])
def test_initialisers_of_narrow_types_are_read(dtype, length):
    weights = np.array([1, 0, 1, 1, 0, 0, 1, 0], np.float32)[:length].astype(dtype)
    node = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)
    made = model([node], [], ["y"], [numpy_helper.from_array(weights, "w")], opset=25)
    (found,) = reference.run(parse_onnx(made))
    np.testing.assert_array_equal(found, weights.astype(np.float32))


def test_4_bit_initialisers_stay_packed():
    weights = numpy_helper.from_array(np.arange(8).reshape(2, 4).astype(ml_dtypes.uint4), "w")
    text = imported(model([helper.make_node("Identity", ["w"], ["y"])], [], ["y"], [weights]))
    assert "uint8_type, {2, 2}, {2, 1}" in text
    assert "unpack_int4[axis=-1](" in text


@pytest.mark.parametrize(
    ("mode", "exponents"),
    [
        ("up", [-127, -1, 0, 1, 2, 3, 10, -99, 127]),
        ("down", [-127, -2, -1, 0, 1, 2, 9, -100, 127]),
        ("nearest", [-127, -2, 0, 1, 2, 2, 10, -100, 127]),
    ],
)
def test_powers_of_two_are_rounded_as_the_mode_says(mode, exponents):
    found = cast(EDGES, ml_dtypes.float8_e8m0fnu, round_mode=mode)
    np.testing.assert_array_equal(found.astype(np.float64), 2.0 ** np.array(exponents))


def test_what_no_power_of_two_is_near_is_no_number_without_saturation():
    x = np.array([0.0, 1.0, np.inf, np.nan, 3.4e38], np.float32)
    found = cast(x, ml_dtypes.float8_e8m0fnu, round_mode="nearest", saturate=0)
    np.testing.assert_array_equal(found.astype(np.float32), [np.nan, 1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz])
def test_infinities_become_the_largest_number(dtype):
    found = cast(np.array([np.inf, -np.inf, np.nan], np.float32), dtype).astype(np.float32)
    most = float(ml_dtypes.finfo(dtype).max)
    np.testing.assert_array_equal(found, [most, -most, np.nan])


def test_a_narrow_type_is_known_behind_a_reshape():
    nodes = [
        helper.make_node("Reshape", ["w", "shape"], ["r"]),
        helper.make_node("CastLike", ["x", "r"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones((2, 2), ml_dtypes.int4), "w"),
        numpy_helper.from_array(np.array([4]), "shape"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    program = parse_onnx(model(nodes, [x], ["y"], weights, opset=25))
    (found,) = reference.run(program, {"x": np.array([7, 8, -9], np.float32)})
    np.testing.assert_array_equal(found, np.array([7, -8, 7], np.int8))


def test_casts_of_text_are_refused():
    made = model_of("Cast", [EDGES], [("y", TensorProto.STRING)], to=TensorProto.STRING)
    with pytest.raises(ModelError, match="strings are not supported"):
        parse_onnx(made)


QUANTISED = [*NARROW[:5], np.int8, np.uint16, np.int16, ml_dtypes.float8_e4m3fn]


@pytest.mark.parametrize("dtype", QUANTISED)
@pytest.mark.parametrize("form", ["tensor", "axis", "block", "half", "precision"])
def test_quantisation_and_back(dtype, form):
    random = np.random.default_rng(3)
    type = np.float16 if form == "half" else np.float32
    lens = {"axis": (6,), "block": (4, 3)}.get(form, ())
    x = random.uniform(-9, 9, (4, 6)).astype(type)
    scale = (2.0 ** random.integers(-3, 2, lens)).astype(type)
    more = {"axis": 1, "block_size": 2} if form == "block" else {}
    exact = {"precision": TensorProto.FLOAT} if form == "precision" else {}
    target = code(dtype)
    made = model_of(
        "QuantizeLinear", [x, scale], [("y", target)], output_dtype=target, **more, **exact
    )
    (codes,) = run_model(made, [x, scale])
    (wanted,) = ReferenceEvaluator(made).run(None, {"x0": x, "x1": scale})
    np.testing.assert_array_equal(codes.astype(np.float32), wanted.astype(np.float32))
    back = model_of("DequantizeLinear", [codes, scale], [("y", code(type))], **more)
    (found,) = run_model(back, [codes, scale])
    (wanted,) = ReferenceEvaluator(back).run(None, {"x0": codes, "x1": scale})
    np.testing.assert_array_equal(found, wanted)


def test_scales_that_are_powers_of_two_give_the_type_that_is_asked_for():
    x, scale = np.array([3, -2], np.int8), np.array([0.5, 4], np.float32)
    scale = scale.astype(ml_dtypes.float8_e8m0fnu)
    half = TensorProto.FLOAT16
    made = model_of("DequantizeLinear", [x, scale], [("y", half)], axis=0, output_dtype=half)
    (found,) = run_model(made, [x, scale])
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, [1.5, -8])


def microscaled(x, axis):
    """A tensor as blocks of 32 4-bit floats hold it, and the scales of the blocks."""
    moved = np.moveaxis(x, axis, -1)
    length = moved.shape[-1]
    padded = np.pad(moved, [(0, 0)] * (x.ndim - 1) + [(0, -length % 32)])
    blocks = padded.reshape(*padded.shape[:-1], -1, 32)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = 2.0 ** np.floor(np.log2(np.abs(blocks).max(-1))) / 4
        codes = np.nan_to_num(blocks / scales[..., None]).astype(ml_dtypes.float4_e2m1fn)
    held = (codes.astype(np.float64) * scales[..., None]).reshape(padded.shape)[..., :length]
    return (np.moveaxis(v, -1, axis).astype(np.float32) for v in (held, scales))


@pytest.mark.parametrize("lens", [(2, 64), (3, 45), (33, 5)])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_of_4_bit_floats(lens, axis):
    x = np.random.default_rng(1).normal(size=lens).astype(np.float32) * 5
    x[:, 0] = 0
    held, scales = microscaled(x, axis)
    for op in ("MXQuantizeDequantize", "MXFixNeuron"):
        Case(op, [x], {"axis": axis}, expected=[held], domain=CONTRIB).check()
    attributes = {"group_dim": axis, "group_size": 32, "output_dtype": 23}
    Case("DynamicScale", [x], attributes, expected=[scales], domain=CONTRIB).check()


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        (
            "MXFixNeuron",
            {"axis": 0, "block_size": 16},
            "block_size=16 is not supported; expected 32",
        ),
        ("MXFixNeuron", {"axis": 0, "element_dtype": "fp8"}, "element_dtype='fp8'"),
        ("DynamicScale", {"group_dim": 0, "scale_selection_method": "ceil"}, "expected 'floor'"),
    ],
)
def test_other_blocks_are_refused(op, attributes, message):
    made = Case(op, [np.ones((32,), np.float32)], attributes, domain=CONTRIB).model()
    with pytest.raises(ModelError, match=message):
        parse_onnx(made)
