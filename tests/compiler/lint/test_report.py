"""The report of lint: a table, a text, JSON, measured times; and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

import workbench as wb
from tests.models.registry import MODELS
from workbench.cli import app
from workbench.compiler.errors import OperationError
from workbench.compiler.lint.report import LintReport
from workbench.compiler.report.result import work_of

TWICE = (
    'module: "main"\nx = @param:x -> float_type, {64, 64}, {64, 1}\n'
    "a = exp(x)\nb = exp(x)\nt = transpose[permutation={1, 0}](b)\nc = contiguous(t)\n"
    "d = dot(a,c)\nr = @return(d)\n"
)


@pytest.fixture
def build():
    return wb.compile(wb.parse(TWICE), target="ref")


def test_the_table_has_a_row_per_finding_the_most_expensive_first(build):
    report = build.lint()
    table = report.table()
    assert list(table["kind"]) == [f.kind for f in report] == ["duplicate", "layout-copy"]
    assert list(table.index) == [f.id for f in report]
    assert list(table["MB"]) == sorted(table["MB"], reverse=True)
    assert table["MB"].iloc[0] == 2 * 64 * 64 * 4 / 1e6
    assert list(table["MFLOP"]) == [
        work_of(build.program.instruction(f.id)).flops / 1e6 for f in report
    ]
    assert list(table["kernels"]) == [1, 1]
    assert "ms" not in table


def test_a_profile_gives_measured_times(build):
    report = build.lint(build.run({}, profile=True, repetitions=1))
    assert all(f.cost.ms is not None and f.cost.ms > 0 for f in report)
    assert list(report.table()["ms"]) == sorted(report.table()["ms"], reverse=True)
    assert " ms, " in str(report)


def test_a_program_is_linted_as_it_stands(build):
    report = wb.lint(wb.parse(TWICE), only="duplicate")
    assert report.counts == {"duplicate": 1}
    assert report[0].remedy.startswith("compile it")
    assert wb.lint(build).counts == build.lint().counts


def test_text_html_and_json_say_the_same(build):
    report = build.lint()
    shown = report._repr_mimebundle_()
    assert shown["text/plain"] == str(report)
    plain = json.loads(json.dumps(report.to_json()))
    for finding, row in zip(report, plain["findings"], strict=True):
        for text in (finding.kind, finding.instruction, finding.remedy, finding.reason):
            assert text in str(report)
            assert text.split(" ")[0] in shown["text/html"]
        assert (row["kind"], row["remedy"]) == (finding.kind, finding.remedy)
    assert repr(report) == "<LintReport: 2 findings: 1 × duplicate, 1 × layout-copy>"


def test_hostile_names_are_escaped():
    program = wb.parse(TWICE)
    next(i for i in program.main if i.name == "exp").sources = ("<script>alert(1)</script>",)
    shown = wb.lint(program)._repr_mimebundle_()["text/html"]
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_nothing_found_is_said():
    report = LintReport([], "a.onnx")
    assert (report.summary, len(report), report.counts) == ("nothing found in a.onnx", 0, {})
    assert report.table().empty
    assert "nothing found" in report._repr_mimebundle_()["text/html"]


def test_what_it_refuses(build):
    with pytest.raises(OperationError, match="expected a program or a build; found str"):
        wb.lint("model.onnx")
    with pytest.raises(
        OperationError, match="no kind of finding 'speed'; expected cast-round-trip, "
    ):
        build.lint(only=["speed"])
    other = wb.compile(wb.parse(TWICE), target="ref").run({}, profile=True, repetitions=1)
    with pytest.raises(OperationError, match="another program"):
        build.lint(other)


def test_without_a_recording_what_needs_none_is_found():
    build = wb.compile(wb.parse(TWICE), target="ref", record=False)
    assert build.lint().counts == {"duplicate": 1, "layout-copy": 1}


def test_the_command_line():
    path = str(MODELS["small_cnn"].path)
    call = CliRunner().invoke
    found = call(app, ["lint", path, "--target", "cpu", "--json"])
    assert found.exit_code == 1
    kinds = [f["kind"] for f in json.loads(found.stdout)["findings"]]
    assert "dynamic-shape" in kinds
    nothing = call(app, ["lint", path, "--target", "cpu", "--only", "duplicate"])
    assert (nothing.exit_code, nothing.stdout) == (0, "nothing found in small_cnn.onnx\n")
    wrong = call(app, ["lint", path, "--target", "cpu", "--only", "speed"])
    assert wrong.exit_code == 2
    assert "no kind of finding 'speed'" in wrong.output
    timed = call(app, ["lint", path, "--target", "ref", "--only", "duplicate", "--profile"])
    assert timed.exit_code in (0, 1)
