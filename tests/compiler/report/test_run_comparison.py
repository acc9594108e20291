"""Runs beside each other: rows of the same nodes, each run's kernels, times and errors, and noise."""

from math import inf, isnan

import numpy as np
import pytest

import workbench as wb
from tests.widgets.networks import residual
from workbench.compiler.errors import OperationError


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[wb.Result, object]]:
    """A fused, an unfused and a half build of one program."""
    program, found = residual(1), {}
    for name, options in {
        "fused": {}, "unfused": {"disable": "fuse_pointwise"}, "half": {"precision": "fp16"},
    }.items():  # fmt: skip
        build = wb.compile(program, "cpu", **options)
        found[name] = (build.run(profile=True, repetitions=3), wb.compare(build))
    return found


def test_each_row_has_the_times_and_errors_of_all_runs(runs):
    found = wb.compare_runs(*runs.values(), names=list(runs))
    table = found.table()
    total, rows = table.iloc[-1], table.iloc[:-1]
    assert total["computes"] == "all"
    for name, (result, report) in runs.items():
        timed = [t for t in result.measured.rows if t.where != "copy"]
        assert rows[f"{name}: kernels"].sum() == total[f"{name}: kernels"] == len(timed)
        assert total[f"{name}: ms"] > 0
        assert rows[f"{name}: error"].max() == max(r.metrics.error for r in report.rows)
    spreads = rows["spread ms"].dropna()
    assert spreads.is_monotonic_decreasing
    joined = next(w for w in found.works if len(w.sides[1].timings) > len(w.sides[0].timings))
    assert set(joined.sides[0].ids) <= {r.id for r in runs["fused"][1].rows}
    assert "3 runs" in repr(found)
    assert "<table" in found._repr_mimebundle_()["text/html"]


def test_two_runs_are_those_of_compare_timings(runs):
    a, b = (result for result, _ in list(runs.values())[:2])
    ours, theirs = wb.compare_runs(a, b).table(), wb.compare_timings(a, b).table()
    theirs = theirs[theirs["kind"] == "kernels"].set_index("computes")
    ours = ours.iloc[:-1].set_index("computes").loc[theirs.index]
    for name in "ab":
        assert ours[f"{name}: ms"].tolist() == pytest.approx(theirs[f"ms {name}"], nan_ok=True)
    assert ours["spread ms"].tolist() == pytest.approx(theirs["difference ms"].abs(), nan_ok=True)


def test_reports_alone_are_compared_by_errors(runs):
    table = wb.compare_runs(runs["fused"][1], runs["half"][1]).table()
    assert [c for c in table.columns if "kernels" in c or ": ms" in c] == []
    assert table["spread ms"].isna().all()
    assert (table["b: error"].iloc[:-1].fillna(0) >= 0).all()
    assert not table["within noise"].any()


def test_one_run_without_times_and_one_without_errors(runs):
    table = wb.compare_runs((runs["fused"][0], None), (None, runs["half"][1])).table()
    assert list(table.columns) == [
        "computes",
        "a: kernels",
        "a: ms",
        "b: error",
        "spread ms",
        "within noise",
    ]


def test_a_value_that_is_not_finite_is_the_largest_error():
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (2,)))
    program.main.add_return(program.main.add("log", x))
    build = wb.compile(program, "cpu", precision="fp16")
    report = wb.compare(build, {"x": np.float32([1e-20, 1])}, budget=0)
    errors = [side.error for w in wb.compare_runs(report, report).works for side in w.sides]
    assert any(e == inf or isnan(e) or e > 0 for e in errors)


def test_an_empty_program_has_a_total_only():
    result = wb.compile(wb.Program(), "cpu").run()
    table = wb.compare_runs(result, result, result).table()
    assert table["computes"].tolist() == ["all"]


def test_what_is_no_run_is_refused(runs):
    result = runs["fused"][0]
    for wrong in [(), (result,), (result, 3), (result, "x")]:
        with pytest.raises(OperationError):
            wb.compare_runs(*wrong)
    for names in [["a"], ["a", "a"], ["a", "b", "c"]]:
        with pytest.raises(OperationError, match="a name of its own"):
            wb.compare_runs(result, result, names=names)
