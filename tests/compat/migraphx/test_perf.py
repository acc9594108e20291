"""Performance reports: the arithmetic of MIGraphX's, its printed form, and what is measured."""

import json
import re

import numpy as np
import pytest

import workbench as wb
from tests.compiler.written_programs import negated_or_clipped
from workbench.compat.migraphx.perf import (
    PerfReport,
    common_average,
    group_of,
    median,
    percentile,
    perf_report,
    rounded,
    sizes_text,
    time_run,
)
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.shape import Shape

_TEXT = """module: "main"
y = @param:y -> float_type, {5, 3}, {3, 1}
x = @param:x -> float_type, {4, 5}, {5, 1}
@2 = dot(x,y) -> float_type, {4, 3}, {3, 1}
@3 = relu(@2) -> float_type, {4, 3}, {3, 1}
@4 = relu(@3) -> float_type, {4, 3}, {3, 1}
@5 = @return(@4)
"""


def _inputs() -> dict[str, object]:
    return {"x": np.ones((4, 5), np.float32), "y": np.ones((5, 3), np.float32)}


def test_averages() -> None:
    assert common_average([1, 2, 3, 40]) == 2.5
    assert common_average([1, 2, 6]) == 3
    assert common_average([]) == 0
    assert median([1, 2, 9]) == 2
    assert median([1, 2, 4, 9]) == 3
    assert percentile([float(i) for i in range(11)], 0.95) == 9
    assert [rounded(x) for x in (0.5, 1.49, -0.5, -19.2)] == [1, 1, -1, -19]


def test_printed_form() -> None:
    program = wb.parse(_TEXT)
    ids = [i.id for i in program.main]
    times = {ids[2]: [3.0] * 4, ids[3]: [0.5] * 4, ids[4]: [0.25] * 4}
    report = PerfReport(program, [5, 4, 4, 4, 4, 4, 4, 3], times, [0.1] * 4, batch=2)
    assert str(report) == (
        "y = @param:y -> float_type, {5, 3}, {3, 1}: 0ms, 0%\n"
        "x = @param:x -> float_type, {4, 5}, {5, 1}: 0ms, 0%\n"
        "@2 = dot(x,y) -> float_type, {4, 3}, {3, 1}: 3ms, 80%\n"
        "@3 = relu(@2) -> float_type, {4, 3}, {3, 1}: 0.5ms, 14%\n"
        "@4 = relu(@3) -> float_type, {4, 3}, {3, 1}: 0.25ms, 7%\n"
        "@5 = @return(@4)\n"
        "Summary:\n"
        "dot: 3ms / 1 = 3ms, 80%\n"
        "relu: 0.75ms / 2 = 0.375ms, 20%\n"
        "@param: 0ms / 2 = 0ms, 0%\n"
        "\n"
        "Batch size: 2\n"
        "Rate: 500 inferences/sec\n"
        "Total time: 4ms (Min: 3ms, Max: 5ms, Mean: 4ms, Median: 4ms)\n"
        "Percentiles (90%, 95%, 99%): (4ms, 4ms, 4ms)\n"
        "Total instructions time: 3.75ms\n"
        "Overhead time: 0.1ms, 0.25ms\n"
        "Overhead: 3%, 6%\n"
    )


def test_measured() -> None:
    build = wb.compile(wb.parse(_TEXT), "cpu")
    report = perf_report(build.program, _inputs(), iterations=5, batch=3)
    assert len(report.total) == len(report.overhead) == 5
    assert report.rate == pytest.approx(3000 / report.total_ms)
    assert report.instructions_ms > 0
    table = report.table()
    assert list(table["op"]) == ["@param", "@param", "dot", "pointwise"]
    assert (table["ms"][2:] > 0).all()
    assert list(report.summary()["count"]) == [1, 1, 2] or report.summary()["count"].sum() == 4
    plain = json.loads(json.dumps(report.to_json()))
    assert plain["iterations"] == 5
    assert plain["total"]["batch"] == 3
    assert "Batch size: 3" in report._repr_html_()
    assert re.search(r"inferences/s", repr(report))


def test_groups() -> None:
    program = wb.compile(wb.parse(_TEXT), "cpu").program
    kernel = next(i for i in program.main if i.name == "pointwise")
    assert group_of(kernel) == "pointwise::relu_relu_kernel"
    dot = next(i for i in program.main if i.name == "dot")
    assert group_of(dot, detailed=True) == "dot<float_type(4x5, 5x3)>"
    assert sizes_text(Shape("float", [2, 3], [1, 2])) == "2x3:1x2"


def test_branches_are_timed_and_bodies_of_kernels_are_not_listed() -> None:
    program = negated_or_clipped()
    inputs = {"condition": np.array([True]), "x": np.ones(2, np.float32)}
    report = perf_report(program, inputs, 3)
    timed = {i.name for i in program.instructions if report.ms(i) > 0}
    assert "neg" in timed
    assert "relu" not in timed
    assert any(line.startswith("yes:@0 = neg(x)") for line in report.lines())


def test_time_run() -> None:
    assert time_run(wb.parse(_TEXT), _inputs(), 3) > 0


@pytest.mark.parametrize("wrong", [{"iterations": 0}, {"batch": 0}])
def test_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OperationError, match="expected 1 or more"):
        perf_report(wb.parse(_TEXT), _inputs(), **wrong)
