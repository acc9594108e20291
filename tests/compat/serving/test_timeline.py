"""Streams over time: every kernel of every run, in order, linked to its instruction."""

import json

import pytest

import workbench as wb
from tests.compat.aitemplate.models import scaled
from workbench.compat.serving.timeline import StreamTimeline
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.report.timings import Measured, Span


@pytest.fixture(scope="module")
def build():
    return wb.compile(scaled(), "gpu", record=False)


@pytest.fixture(scope="module")
def timeline(build):
    return wb.serve_timeline(build, streams=3, runs=2, progress=False)


def test_every_kernel_of_every_run_is_there_in_order(build, timeline):
    kernels = [k.id for k in build.kernels()]
    table = timeline.table()
    assert len(table) == 3 * 2 * len(kernels)
    for _, run in table.groupby(["stream", "run"]):
        assert run["id"].tolist() == kernels
        ends = (run["start ms"] + run["ms"]).tolist()
        assert all(a <= b + 1e-6 for a, b in zip(ends, run["start ms"].tolist()[1:], strict=False))
    assert (table["ms"] > 0).all()
    assert table["start ms"].min() == 0


def test_a_trace_has_a_thread_for_each_stream(timeline, tmp_path):
    timeline.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["stream 0", "stream 1", "stream 2"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(timeline.table())
    assert {(names[e["tid"]], e["args"]["run"]) for e in spans} == {
        (f"stream {s}", r) for s in range(3) for r in range(2)
    }


def test_the_plot_marks_what_is_selected(timeline):
    import matplotlib as mpl

    mpl.use("agg")
    chosen = int(timeline.table()["id"][0])
    ax = timeline.plot(selected=chosen)
    colors = [tuple(c) for track in ax.collections for c in track.get_facecolors()]
    orange = mpl.colors.to_rgba("#d55e00")
    assert colors.count(orange) == 6
    assert [t.get_text() for t in ax.get_yticklabels()] == ["stream 2", "stream 1", "stream 0"]
    with pytest.raises(InputError, match="no kernel computes 'none'"):
        timeline.plot(selected="none")


def test_the_graph_has_the_time_of_each_kernel(timeline):
    overlay = timeline.view().overlay
    totals = timeline.table().groupby("id")["ms"].sum()
    assert overlay["name"] == "ms"
    assert overlay["values"] == pytest.approx({str(id): ms for id, ms in totals.items()})


def test_overlap_counts_streams_at_work():
    spans = (
        Span("stream 0", "a", 0.0, 2.0), Span("stream 1", "a", 1.0, 2.0), Span("stream 0", "b", 5.0, 1.0),
    )  # fmt: skip
    assert StreamTimeline(Measured((), spans), "", scaled()).overlap == pytest.approx(5 / 4)
    assert StreamTimeline(Measured(), "", scaled()).overlap == 0


def test_a_model_of_the_host_has_no_streams():
    with pytest.raises(OperationError, match="compile it for the target gpu"):
        wb.serve_timeline(wb.compile(scaled(), "cpu"))
    with pytest.raises(InputError, match="runs: expected at least 1"):
        wb.serve_timeline(scaled(), runs=0)
