"""Quantization: the programs it makes, how far results move, what calibration keeps, and what it refuses."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import InputError, OperationError, WorkbenchError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import pass_named, passes_of, run_pass
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import parse
from workbench.knobs import knobs
from workbench.numerics.metrics.histogram import BINS, Histogram
from workbench.numerics.precision.calibration import Captured
from workbench.numerics.precision.quantize import Quantized, quantize_in_place

BOUNDS = {"fp16": 2e-3, "bf16": 2e-2, "int8": 3e-2, "fp8": 8e-2, "int4": 3e-1}
"""How far the network below may move, relative to the RMS of its result."""


# The programs that MIGraphX's own passes make


@cache
def cases() -> list[tuple[str, str, str, str]]:
    """Title, steps, and the program before and after; texts are those that MIGraphX prints."""
    text = Path(__file__).with_name("quantized.txt").read_text(encoding="utf-8")
    found = []
    for case in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = case.partition("\n")
        steps, before, after = re.split(r"^(?:before|after):\n", rest, flags=re.MULTILINE)
        found.append((title, steps.removeprefix("run:\n"), before, after))
    return found


@pytest.mark.parametrize("number", range(len(cases())), ids=lambda n: cases()[n][0])
def test_programs_are_those_of_migraphx(number: int):
    _, steps, before, after = cases()[number]
    program = parse(before, fill_seed=0, newest_first=True)
    program.follow_migraphx()
    for line in steps.splitlines():
        step = ast.literal_eval(line.strip())
        if isinstance(step, dict):
            quantize_in_place(program, step["quantize"], ins_names=step["ins_names"])
        else:
            for one in passes_of([step]):
                run_pass(one, program)
    validate(program)
    assert str(program).strip() == after.strip()


# A small network


def network() -> Program:
    """A convolution, an activation, a product and a softmax."""
    random = np.random.default_rng(0)
    program = Program("net")
    main = program.main
    with program.source("conv"):
        x = main.add_parameter("x", Shape(DType.FLOAT, (2, 3, 8, 8)))
        w = main.add_literal(random.standard_normal((8, 3, 3, 4)).astype(np.float32) * 0.2)
        y = main.add("relu", main.add("convolution", x, w, padding=(1, 1, 1, 1)))
    with program.source("fc"):
        y = main.add("reshape", y, dims=(2, 8 * 8 * 7))
        w = main.add_literal(random.standard_normal((8 * 8 * 7, 10)).astype(np.float32) * 0.1)
        main.add_return(main.add("dot", y, w))
    return program


def inputs(seed: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((2, 3, 8, 8)).astype(np.float32)}


def quantized(precision: Any, program: Program | None = None, **options: Any) -> Quantized:
    if precision in ("int8", "fp8"):
        options.setdefault("calibration", [inputs(1), inputs(2)])
    return wb.quantize(program or network(), precision, **options)


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("precision", BOUNDS)
def test_results_move_by_what_the_type_costs(precision: str, target: str):
    program = network()
    text, wanted = str(program), run(program, inputs())[0]
    made = quantized(precision, program)
    validate(made)
    got = wb.compile(made, target).run(inputs())[0]
    assert got.dtype == wanted.dtype
    error = np.sqrt(np.mean((got - wanted) ** 2) / np.mean(wanted**2))
    assert 0 < error < BOUNDS[precision]
    assert str(program) == text


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_products_become_products_of_8_bits(precision: str):
    made = quantized(precision)
    before = run(made, inputs())[0]
    run_pass(pass_named("simplify_qdq"), made)
    names = {i.name for i in made.main}
    assert {"quant_dot", "quant_convolution"} <= names
    assert not {"dot", "convolution", "capture"} & names
    np.testing.assert_allclose(run(made, inputs())[0], before, atol=0.2)


def test_a_step_of_int4_is_kept_packed_by_the_optimiser():
    built = wb.compile(quantized("int4"), "cpu")
    names = [i.name for i in built.program.main]
    assert names.count("unpack_int4") == 2
    assert "pack_int4" not in names


def test_the_recording_tells_every_edit():
    made = quantized("int8")
    names = [step.name.partition("(")[0] for step in made.recording.steps]
    assert "capture_arguments" in names
    edits = made.recording[names.index("quantize_8bits")].edits
    assert len(edits) == 4
    assert str(made.recording.last) == str(made)


def test_an_instruction_keeps_its_id():
    program, made = network(), quantized("int8")
    ids = {i.name: i.id for i in program.main}
    assert {i.name: i.id for i in made.main}["dot"] == ids["dot"]


# Calibration


def test_scales_are_the_largest_value_over_127():
    made = quantized("int8")
    seen = np.stack([inputs(1)["x"], inputs(2)["x"]])
    first = made.calibration[0]
    assert (first.op, first.operand, first.sources) == ("convolution", 0, ("conv",))
    assert first.max_abs == np.abs(seen).max()
    assert first.multiplier == np.float32(127) / np.abs(seen).max()
    assert first.bounds[1] == pytest.approx(first.max_abs)
    assert first.rms == pytest.approx(np.sqrt(np.mean(seen.astype(np.float64) ** 2)))
    assert (first.seen, first.constant) == (2, False)
    assert [r.constant for r in made.calibration] == [False, True, False, True]
    assert made.calibration.quant_params[0] == (first.multiplier, 0.0)


def test_the_table_has_a_row_an_argument():
    table = quantized("int8").calibration.table()
    assert list(table.index) == [0, 1, 2, 3]
    assert table.index.name == "argument"
    assert list(table["op"]) == ["convolution", "convolution", "dot", "dot"]
    assert (table["scale"] > 0).all()
    assert (table["noise"] < 0.1).all()


def test_weights_of_int4_are_in_the_table():
    calibration = quantized("int4").calibration
    weight = calibration[1]
    assert len(calibration) == 2
    assert (weight.precision, weight.op, weight.operand) == ("int4", "dot", 1)
    assert weight.scale == pytest.approx((weight.largest - weight.least) / 15)
    low, high = weight.bounds
    assert low == pytest.approx(weight.least, abs=weight.scale)
    assert high == pytest.approx(weight.largest, abs=weight.scale)


def test_plots_are_axes():
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    calibration = quantized("int8").calibration
    own = plt.figure().subplots()
    assert calibration.plot(0, own) is own
    assert "input 0 of convolution" in own.get_title()
    assert isinstance(calibration.plot(3), Axes)
    ranges = calibration.plot_ranges(top=3)
    assert len(ranges.patches) == 3
    assert "1 not shown" in ranges.get_title()
    plt.close("all")


def test_plots_of_what_was_never_seen():
    import matplotlib.pyplot as plt

    calibration = quantize_in_place(network(), "int8")
    assert all(r.seen == 0 for r in calibration)
    assert calibration.quant_params == [(64.0, 0.0)] * 4
    assert "no value" in calibration.summary
    calibration.plot(0)
    calibration.plot_ranges()
    plt.close("all")


def test_a_calibration_shows_itself():
    calibration = quantized("int8").calibration
    assert repr(calibration) == "<Calibration int8: 4 captured>"
    assert "<table" in calibration._repr_html_()
    assert repr(quantized("fp16").calibration) == "<Calibration fp16: nothing was captured>"


def captured(*values: Any, type: DType = DType.FLOAT) -> Captured:
    row = Captured(0, 0, "dot", 0, "", type, False, (), "int8")
    for value in values:
        row.see(np.asarray(value, np.float32))
    return row


def test_zeros_are_left_as_they_are():
    assert captured([0, 0]).multiplier == 1.0
    assert captured([]).multiplier == 1.0


def test_nan_is_counted_and_ignored():
    row = captured([1, np.nan, -2])
    assert (row.nan, row.inf, row.max_abs) == (1, 0, 2.0)


def test_infinity_asks_for_the_widest_step_there_is():
    row = captured([1, np.inf], type=DType.HALF)
    assert (row.inf, row.multiplier) == (1, 0.0)
    assert row.scale == 65504.0


def test_a_histogram_widens_without_losing_counts():
    histogram = Histogram()
    values = np.random.default_rng(0).standard_normal(1000)
    histogram.add(values, float(np.abs(values).max()))
    assert histogram.bound == 4.0
    histogram.add(np.array([1000.0]), 1000.0)
    whole = Histogram()
    both = np.append(values, 1000.0)
    whole.add(both, 1000.0)
    assert histogram.bound == whole.bound == 1024.0
    assert (histogram.counts == whole.counts).all()
    assert histogram.counts.sum() == 1001
    assert len(histogram.edges) == BINS + 1


def test_values_in_branches_are_seen():
    program = Program()
    main = program.main
    c = main.add_parameter("c", Shape.scalar(DType.BOOL))
    x = main.add_parameter("x", Shape(DType.FLOAT, (2, 2)))
    branches = [program.create_module(n) for n in ("then", "else")]
    for branch in branches:
        branch.add_return(branch.add("dot", x, x))
    main.add_return(main.add("get_tuple_elem", main.add("if", c, modules=branches), index=0))
    given = {"c": np.array([True]), "x": np.full((2, 2), 3, np.float32)}
    calibration = wb.quantize(program, "int8", given).calibration
    assert [r.seen for r in calibration] == [0, 0, 1, 1]
    assert [r.max_abs for r in calibration] == [0.0, 0.0, 3.0, 3.0]


def test_a_range_of_lengths_is_quantized_too():
    program = parse(
        'module: "main"\nw = @literal{1, 2, 3, 4} -> float_type, {2, 2}, {2, 1}\n'
        "x = @param:x -> dynamic, float_type, {[1..4], 2}\nd = dot(x,w)\nr = @return(d)\n"
    )
    made = wb.quantize(program, "int8", {"x": np.array([[1, -2]], np.float32)})
    for rows in (1, 4):
        x = np.ones((rows, 2), np.float32)
        np.testing.assert_allclose(run(made, {"x": x})[0], x @ [[1, 2], [3, 4]], rtol=0.02)


def test_constants_alone_need_no_calibration():
    program = Program()
    a = program.main.add_literal(np.full((2, 2), 0.5, np.float32))
    program.main.add_return(program.main.add("dot", a, a))
    assert wb.compile(wb.quantize(program, "int8"), "ref").run()[0].max() == 0.5


def test_what_is_left_out_is_zeros_in_place():
    program = network()
    calibration = quantize_in_place(program, "int8", [{"ignored": 3}])
    assert calibration[0].max_abs == 0.0
    assert calibration[0].multiplier == 1.0


# Bad input


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"precision": "int9"}, OperationError, "expected one of fp16, bf16, int8, fp8, int4"),
        ({"precision": "int8", "calibration": None}, InputError, "needs calibration inputs"),
        ({"precision": "fp16", "calibration": []}, OperationError, "takes no calibration"),
        ({"precision": "fp8", "calibration": {"y": 1}}, InputError, "lack 'x'.*found 'y'"),
        ({"precision": "int8", "calibration": {"x": 1}}, InputError, "input 'x'"),
        ({"precision": "int8", "ins_names": "add"}, OperationError, "for convolution and dot"),
        ({"precision": "fp16", "ins_names": ["conv"]}, OperationError, "unknown operation 'conv'"),
        ({"precision": "int4", "ins_names": "dot"}, OperationError, "weights of dot and conv"),
        ({"precision": "int8", "target": "moon"}, OperationError, "unknown target 'moon'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    options: dict[str, Any], kind: type[WorkbenchError], message: str
):
    options = {"calibration": inputs()} | options
    if options["precision"] in ("fp16", "int4") and "ins_names" in options:
        del options["calibration"]
    with pytest.raises(kind, match=message):
        wb.quantize(network(), **options)


def test_a_refused_calibration_leaves_no_captures():
    program = network()
    with pytest.raises(InputError):
        quantize_in_place(program, "int8", [{"x": np.zeros(3, np.float32)}])
    assert "capture" not in {i.name for i in program.main}


def test_captures_of_someone_else_are_refused():
    program = network()
    run_pass(pass_named("capture_arguments", ins_names=["dot"]), program)
    with pytest.raises(OperationError, match="already has capture instructions"):
        quantize_in_place(program, "int8")


def test_a_capture_without_parameters_is_refused():
    program = network()
    run_pass(pass_named("capture_arguments", ins_names=["dot"]), program)
    with pytest.raises(OperationError, match=r"ins_index=1\], but quant_params has 1 pairs"):
        run_pass(pass_named("quantize_8bits", quant_params=[(1, 0)]), program)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("quantize_8bits", {"precision": "half"}, "expected one of int8_type"),
        ("truncate_float", {"float_type": "int8"}, "expected a float type"),
        ("truncate_float", {"float_type": "fp4x2"}, "expected a float type"),
    ],
)
def test_types_that_passes_refuse(name: str, options: dict[str, Any], message: str):
    with pytest.raises(OperationError, match=message):
        pass_named(name, **options)


# Traces


def test_passes_and_parameters_are_printed_on_request(capsys: pytest.CaptureFixture[str]):
    with knobs.scope(trace_quantization=True, quantization_params=True):
        quantize_in_place(network(), "int8")
    said = capsys.readouterr().out
    assert "Pass: capture_arguments" in said
    assert "ins_index = 3, scale = 64, shift = 0\n" in said


# Floats of 8 bits for devices that know the fnuz types alone


def test_fnuz_keeps_every_value():
    made = quantized("fp8", calibration=inputs())
    given = inputs()
    given["x"][0, 0, 0, :4] = [-1e-9, -0.0, 1e3, -1e3]
    before = run(made, given)[0]
    run_pass(pass_named("fp8_ocp_to_fnuz"), made)
    assert any(i.shape.type is DType.FP8E4M3FNUZ for i in made.main)
    np.testing.assert_array_equal(run(made, given)[0], before)


# Zero points


def shifted(*values: float) -> Captured:
    row = Captured(0, 1, "dot", 0, "", DType.FLOAT, False, (), "int8", asymmetric=True)
    row.see(np.array(values, np.float32))
    return row


@pytest.mark.parametrize(
    "values", [(0, 6), (-1, 3), (2, 5), (-5, -2), (-1e-3, 1e3), (-np.inf, 1), (0, 0), (np.nan,), ()]
)
def test_codes_with_a_zero_point_cover_the_range_and_have_0(values: tuple[float, ...]):
    row = shifted(*values)
    low, high = row.bounds
    assert -128 <= row.zero_point <= 127
    assert low <= 0 <= high
    finite = [v for v in values if np.isfinite(v)]
    if len(finite) < 2 or not any(finite):
        assert row.zero_point == 0  # as without
        return
    least, largest = min(*finite, 0), max(*finite, 0)
    assert row.scale == pytest.approx((largest - least) / 255)
    codes = np.clip(
        np.round(np.linspace(least, largest, 99) / row.scale) + row.zero_point, -128, 127
    )
    back = (codes - row.zero_point) * row.scale
    assert np.abs(back - np.linspace(least, largest, 99)).max() <= 1.001 * row.scale


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_zero_points_make_the_error_of_int8_smaller(target: str):
    given = {"x": np.abs(np.random.default_rng(1).standard_normal((2, 3, 8, 8), np.float32)) + 1}
    wanted = run(network(), given, float64=True)[0]
    errors: list[float] = []
    for asymmetric in (False, True):
        made = wb.quantize(network(), "int8", given, asymmetric=asymmetric)
        zeros = [r.zero_point for r in made.calibration if not r.constant]
        assert any(zeros) == asymmetric
        assert not any(r.zero_point for r in made.calibration if r.constant)
        found = wb.compile(made, target).run(given)[0]
        errors.append(float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)))
    assert errors[1] < errors[0]


def test_only_int8_has_zero_points():
    with pytest.raises(OperationError, match="asymmetric is for int8"):
        wb.quantize(network(), "fp16", asymmetric=True)
