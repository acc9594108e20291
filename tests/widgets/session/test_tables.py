"""Tables of a session: a row for each instruction, in the order of the run, with what is known of it."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.widgets.networks import HOSTILE, hostile, residual
from workbench.compiler.report.run_comparison import Run
from workbench.numerics.metrics.metrics import compare_arrays
from workbench.widgets.session import tables
from workbench.widgets.session.session import MOST_KEPT, Session
from workbench.widgets.session.settings import Settings
from workbench.widgets.workbench_view import Workbench


def named(table: dict[str, Any], name: str) -> list[Any]:
    """The cells of a column."""
    at = [c["name"] for c in table["columns"]].index(name)
    return [row["cells"][at] for row in table["rows"]]


@pytest.fixture(scope="module")
def build() -> wb.Build:
    return wb.compile(residual(2), "cpu")


def test_timings_are_those_of_the_result(build: wb.Build):
    result = build.run(profile=True, repetitions=2)
    table = tables.timings(result.measured)
    frame = result.timings().sort_values("ms", ascending=False)
    assert sorted(named(table, "ms"), reverse=True) == pytest.approx(frame["ms"].tolist())
    assert sum(named(table, "share")) == pytest.approx(1)
    assert {row["id"] for row in table["rows"]} <= {i.id for i in build.program.main}


def test_memory_is_that_of_the_plan(build: wb.Build):
    plan = build.memory()
    table = tables.memory(plan)
    assert named(table, "bytes") == [b.bytes for b in plan.buffers]
    for first, past in named(table, "lifetime"):
        assert 0 <= first < past <= len(plan.steps)
    assert f"{plan.peak:,} bytes at the peak" in table["said"]


def test_numbers_put_culprits_first_and_mark_what_is_wrong():
    build = wb.compile(residual(2), "cpu", precision="fp16")
    report = wb.compare(build, tolerance=1e-7)
    table = tables.numbers(report)
    assert named(table, "error") == [r.metrics.error for r in report.rows]
    assert [row["marked"] for row in table["rows"]] == [report.is_wrong(r) for r in report.rows]
    blamed = {c.id for c in report.culprits()}
    assert {
        r["id"] for r, k in zip(table["rows"], named(table, "culprit"), strict=True) if k
    } <= blamed
    assert [n["id"] for n in table["notes"]] == [c.id for c in report.culprits()[:20]]


def test_values_that_are_not_finite_have_words_and_tables_are_json():
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (2,)))
    program.main.add_return(program.main.add("log", x))
    report = wb.compare(wb.compile(program, "cpu"), {"x": np.float32([-1, 1])}, budget=0)
    report.rows[0] = replace(
        report.rows[0], metrics=compare_arrays(np.float32([1, 2]), np.float32([np.nan, 2]))
    )
    table = tables.numbers(report)
    assert "not finite" in named(table, "error")
    json.dumps(table, allow_nan=False)


def test_hostile_and_endless_names_are_cut():
    build = wb.compile(hostile(), "cpu")
    for table in (tables.memory(build.memory()), tables.timings(build.run().measured)):
        texts = [c for row in table["rows"] for c in row["cells"] if isinstance(c, str)]
        assert any(HOSTILE[:20] in text for text in texts)
        assert max(map(len, texts)) <= tables.TEXT


def test_builds_of_other_settings_are_beside_each_other():
    view = Workbench(residual(1))
    assert "builds" not in view.has()
    for off in ([], ["fuse_pointwise"], []):
        view.settings = {**view.settings, "target": "cpu", "off": off}
        view.do("profile")
        view.do("compare")
    view.settings = {**view.settings, "precision": "fp16"}
    view.do("compare")
    names = ["cpu without fuse_pointwise", "cpu", "cpu fp16"]
    assert list(view.session.runs()) == names
    assert "builds" in view.has()
    table = view.table("builds")
    wanted = [
        f"{n} {what}" for n in names for what in ("ms", "error") if (n, what) != (names[2], "ms")
    ]
    assert [c["name"] for c in table["columns"]] == ["model", *wanted, "spread ms"]
    ids = {i.id for i in view.build.program.main}
    assert sum(row["id"] in ids for row in table["rows"]) > len(table["rows"]) / 2
    frame = wb.compare_runs(view.report, view.report).table()
    assert named(table, "cpu fp16 error")
    assert (
        max(e for e in named(table, "cpu fp16 error") if e is not None) == frame["b: error"].max()
    )
    json.dumps(table, allow_nan=False)
    view.do("compile")
    assert list(view.session.runs())[-1] == "cpu fp16"


def test_few_builds_are_kept():
    session = Session(residual(1))
    for k in range(MOST_KEPT + 3):
        session.settings = Settings.of({"target": "cpu", "seed": k})
        session.kept[f"build {k}"] = Run(f"build {k}")
        session.compile()
    assert len(session.kept) == MOST_KEPT
