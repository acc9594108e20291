"""Quantization in place: MIGraphX's functions, their defaults, and what they refuse."""

import numpy as np
import pytest

import workbench as wb
from workbench.compat import migraphx


def network() -> migraphx.program:
    """The product of a parameter and weights, and an activation."""
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape(type="float_type", lens=[2, 4]))
    weights = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    product = main.add_instruction(migraphx.op("dot"), [x, main.add_literal(weights)])
    main.add_return([main.add_instruction(migraphx.op("relu"), [product])])
    return program


def given() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)}


def names(program: migraphx.program) -> set[str]:
    return {i.name() for i in program.get_main_module()}


def result(program: migraphx.program, target: str = "ref") -> np.ndarray:
    program.compile(migraphx.get_target(target))
    return np.array(program.run(given())[0])


@pytest.mark.parametrize(("function", "code"), [("quantize_fp16", 1), ("quantize_bf16", 15)])
def test_floats_are_narrowed_in_place(function, code):
    program = network()
    assert getattr(migraphx, function)(program) is None
    text = str(program)
    assert f"convert[target_type={code}](x)" in text
    assert "convert[target_type=2]" in text
    np.testing.assert_allclose(result(program), result(network()), atol=0.05)


def test_some_operations_alone_are_narrowed():
    program = network()
    migraphx.quantize_fp16(program, ["relu"])
    assert "dot(x" in str(program)
    other = network()
    migraphx.quantize_fp16(prog=other, ins_names=[])
    assert "convert" not in names(other)


def test_int8_by_what_the_data_say():
    program = network()
    calibration = [{"x": migraphx.argument(given()["x"])}]
    migraphx.quantize_int8(program, migraphx.get_target("ref"), calibration, {"dot", "convolution"})
    assert {"quantizelinear", "dequantizelinear"} <= names(program)
    assert "capture" not in names(program)
    first = program.calibration[0]
    assert first.max_abs == np.abs(given()["x"]).max()
    np.testing.assert_allclose(result(program), result(network()), atol=0.05)


def test_the_core_quantizes_alike():
    program = network()
    calibration = [given(), {"x": given()["x"] * 2}]
    wanted = wb.quantize(program.core, "int8", calibration)
    migraphx.quantize_int8(program, migraphx.get_target("ref"), calibration)
    assert str(program) == str(wanted)


def test_int8_without_data_takes_steps_of_a_64th():
    program = network()
    migraphx.quantize_int8(program, migraphx.get_target("cpu"))
    assert "@literal{0.015625} -> float_type, {1}, {0}" in str(program)


@pytest.mark.parametrize("ins_names", [{"dot"}, {"dot", "convolution", "add"}, set()])
def test_int8_is_for_products_and_convolutions_alone(ins_names):
    program = network()
    with pytest.raises(RuntimeError, match=r"only support DOT and CONVOLUTION.*expected exactly"):
        migraphx.quantize_int8(program, migraphx.get_target("ref"), [], ins_names)
    assert str(program) == str(network())


def test_fp8_rounds_what_every_operation_reads():
    program = network()
    migraphx.quantize_fp8(program, migraphx.get_target("ref"), [given()])
    assert [r.op for r in program.calibration] == ["dot", "dot", "relu"]
    assert "fp8e4m3fn_type" in str(program)
    np.testing.assert_allclose(result(program, "cpu"), result(network()), atol=0.4)


def test_weights_in_four_bits():
    program = network()
    migraphx.quantize_int4(program)
    assert {"pack_int4", "unpack_int4"} <= names(program)
    assert program.calibration[0].precision == "int4"


def test_data_that_do_not_fit_are_refused():
    data = [{"x": np.zeros(3, np.float32)}]
    with pytest.raises(RuntimeError, match="input 'x': expected shape"):
        migraphx.quantize_int8(network(), migraphx.get_target("ref"), data)
    with pytest.raises(TypeError, match=r"calibration\[0\]\['x'\]: expected a buffer"):
        migraphx.quantize_fp8(network(), migraphx.get_target("ref"), [{"x": "three"}])
    with pytest.raises(TypeError, match="incompatible arguments"):
        migraphx.quantize_int8(network())


def test_data_that_lack_a_parameter_are_warned_of():
    p = network()
    with pytest.warns(UserWarning, match=r"calibration\[0\] has no .*zeros stand in; it has other"):
        migraphx.quantize_int8(p, migraphx.get_target("ref"), [{"other": np.zeros(3, np.float32)}])


def test_handles_stay_good():
    program = network()
    main = program.get_main_module()
    migraphx.quantize_fp16(program)
    assert str(main) in str(program)


def fp8(cast: bool) -> migraphx.program:
    """A sum of two parameters of fp8, or what casts to and from it."""
    program = migraphx.program()
    main = program.get_main_module()
    kind = migraphx.shape.type_t.fp8e4m3fnuz_type
    if cast:
        float_ = migraphx.shape.type_t.float_type
        y, x = (main.add_parameter(n, migraphx.shape(type="float_type")) for n in "yx")
        to_fp8 = migraphx.op("convert", target_type=kind)
        y, x = (main.add_instruction(to_fp8, [v]) for v in (y, x))
        total = main.add_instruction(migraphx.op("add"), [x, y])
        total = main.add_instruction(migraphx.op("convert", target_type=float_), [total])
    else:
        x, y = (main.add_parameter(n, migraphx.shape(type="fp8e4m3fnuz_type")) for n in "xy")
        total = main.add_instruction(migraphx.op("add"), [x, y])
    main.add_return([total])
    return program


def test_autocast_lets_callers_see_floats():
    program = fp8(cast=False)
    assert migraphx.autocast_fp8(program) is None
    assert program == fp8(cast=True)
    assert {s.type_string() for s in program.get_parameter_shapes().values()} == {"float_type"}


def test_autocast_leaves_floats_alone():
    program = network()
    migraphx.autocast_fp8(program)
    assert program == network()


def test_passes_take_types_in_any_form():
    half = migraphx.shape.type_t.half_type
    texts = []
    for form in (half, int(half), "half_type", "half"):
        program = network()
        migraphx.run_passes(program, [("truncate_float", {"float_type": form})])
        texts.append(str(program))
    assert len(set(texts)) == 1
    migraphx.run_passes(program, [("capture_arguments", {"ins_names": {"dot"}})])
    options = {"precision": migraphx.shape.type_t.int8_type, "quant_params": [[1.0, 0], (2.0, 0)]}
    migraphx.run_passes(program, [("quantize_8bits", options)])
    assert "int8_type" in str(program)
    wrong = {"float_type": migraphx.shape.type_t.int8_type}
    with pytest.raises(RuntimeError, match="float_type 'int8_type'"):
        migraphx.run_passes(program, [("truncate_float", wrong)])


def test_names_of_no_operation_are_warned_of():
    program = network()
    before = str(program)
    with pytest.warns(
        UserWarning, match=r"no instruction is called 'dott'; the program has dot, relu"
    ):
        migraphx.quantize_fp16(program, ["dott"])
    assert str(program) == before
