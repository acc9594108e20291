"""Profiles of onnxruntime, TensorRT and PyTorch over a model: names, times, what is left, bad files."""

import gzip
import json

import numpy as np
import onnxruntime
import pytest

import workbench as wb
from workbench.compiler.errors import InputError
from workbench.compiler.report.foreign import document, events
from workbench.compiler.report.foreign.formats import parts_of


@pytest.fixture(scope="module")
def build():
    program = wb.Program("net")
    x = program.main.add_parameter("x", wb.Shape("float", (4, 4)))
    for name, op in (("/a/Exp", "exp"), ("/a/Relu", "relu"), ("/b/MatMul", "dot")):
        with program.source(name):
            x = program.main.add(op, *([x, x] if op == "dot" else [x]))
    program.main.add_return(x)
    return wb.compile(program, "cpu")


def over(build, tmp_path, given, layers=None):
    path, more = tmp_path / "trace.json", tmp_path / "layers.json"
    path.write_text(json.dumps(given))
    if layers is not None:
        more.write_text(json.dumps(layers))
    return wb.load_trace(path, layers and more).over(build)


def event(name, ts, dur, cat="cpu_op", tid=1, **args):
    return {
        "ph": "X",
        "name": name,
        "cat": cat,
        "ts": ts,
        "dur": dur,
        "pid": 1,
        "tid": tid,
        "args": args,
    }


def node(name, dur, op="Exp"):
    return event(name, 0, dur, "Node", op_name=op, provider="CPU", node_index="0")


def test_a_profile_of_onnxruntime_lies_over_the_graph(build, tmp_path):
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = wb.to_onnx(build.source)
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = {"x": np.ones((4, 4), np.float32)}
    for _ in range(3):
        peer.run(None, inputs)
    laid = wb.load_trace(peer.end_profiling()).over(build)
    table = laid.table().set_index("nodes")
    assert set(table.index) == {"/a/Exp", "/a/Relu", "/b/MatMul"} == set(laid._nodes.names)
    assert (table["calls"] == 3).all()
    assert (table["matched by"] == "node").all()
    assert laid.unmatched.empty
    assert laid.untimed == []
    compared = wb.compare_timings(laid, build.run(inputs, profile=True), ("onnxruntime", "cpu"))
    rows = compared.table().set_index("computes")
    assert rows.loc["/a/Exp, /a/Relu", ["kernels a", "kernels b"]].tolist() == [2, 1]


def test_times_are_those_of_the_nodes_and_nothing_is_lost(build, tmp_path):
    rows = [
        node("/a/Exp_kernel_time", 10), node("/a/Exp_kernel_time", 30), node("/a/Exp_kernel_time", 20),
        node("/a/Exp_fence_before", 99), node("/a/Relu/Fusion/_kernel_time", 7, "Fused"),
        node("ReorderOutput_token_5_kernel_time", 5, "ReorderOutput"),
    ]  # fmt: skip
    laid = over(build, tmp_path, rows)
    table = laid.table().set_index("nodes")
    assert table.loc["/a/Exp", ["calls", "ms", "total ms"]].tolist() == pytest.approx(
        [3, 0.02, 0.06]
    )
    assert table.loc["/a/Relu", "matched by"] == "prefix"
    assert laid.unmatched["name"].tolist() == ["ReorderOutput_token_5"]
    assert laid.untimed == ["/b/MatMul"]
    assert repr(laid) == (
        "<onnxruntime: 2 of 3 names are nodes of the model, 84% of the time; 1 nodes have no time>"
    )
    (fused,) = [i for i in build.program.main if i.name == "pointwise"]
    assert laid.overlay["values"][fused.id] == pytest.approx(0.027)
    assert laid.view().overlay["values"][str(fused.id)] == pytest.approx(0.027)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("/a/Conv + /a/Relu", {"/a/Conv", "/a/Relu"}),
        ("PWN(/a/Sigmoid)", {"/a/Sigmoid"}),
        ("PWN(PWN(/a/Sigmoid), /a/Mul)", {"/a/Sigmoid", "/a/Mul"}),
        ("{ForeignNode[/a/MatMul.../b/Softmax]}", {"/a/MatMul", "/b/Softmax"}),
        ("Reformatting CopyNode for Input Tensor 0 to /a/Conv", {"/a/Conv"}),
    ],
)
def test_names_of_layers_are_taken_apart(name, parts):
    assert parts <= set(parts_of(name))


def test_a_profile_of_tensorrt(build, tmp_path):
    rows = [
        {"count": 100},
        {"name": "PWN(PWN(/a/Exp), /a/Relu)", "timeMs": 50.0, "averageMs": 0.5, "medianMs": 0.4},
        {"name": "__myl_Dot_0x1", "timeMs": 20.0, "averageMs": 0.2},
        {"name": "Reformat 3", "timeMs": 1.0, "averageMs": 0.01},
    ]
    laid = over(build, tmp_path, rows)
    assert laid.table()[["nodes", "ms"]].values.tolist() == [["/a/Exp, /a/Relu", 0.4]]
    layers = {
        "Layers": [{"Name": "__myl_Dot_0x1", "Metadata": "[ONNX Layer: /b/MatMul]"}, "a word"]
    }
    laid = over(build, tmp_path, rows, layers)
    assert dict(laid.table()[["nodes", "ms"]].values.tolist())["/b/MatMul"] == 0.2
    assert laid.unmatched["name"].tolist() == ["Reformat 3"]
    with pytest.raises(InputError, match="has no times"):
        over(build, tmp_path, layers)


def test_a_trace_of_pytorch_gives_a_node_the_work_that_it_launched(build, tmp_path):
    rows = [
        event("/a/Exp", 0, 100, "user_annotation"),
        event("aten::exp", 10, 80, **{"External id": 3}),
        event("cudaLaunchKernel", 20, 5, "cuda_runtime", correlation=7),
        event("exp_kernel", 200, 40, "kernel", tid=9, correlation=7),
        event("exp_tail", 240, 2, "kernel", tid=9, **{"External id": 3}),
        event("Memcpy HtoD", 300, 8, "gpu_memcpy", tid=9, correlation=99),
    ]
    laid = over(build, tmp_path, {"traceEvents": rows})
    assert laid.table()[["nodes", "where"]].values.tolist() == [["/a/Exp", "device"]]
    assert laid.table()["ms"].tolist() == pytest.approx([0.042])
    assert laid.unmatched["name"].tolist() == ["Memcpy HtoD"]
    on_host = over(build, tmp_path, [*rows[:3], event("aten::t", 150, 4), event("aten::u", 151, 1)])
    assert on_host.table()["ms"].tolist() == [0.1]
    assert on_host.unmatched["name"].tolist() == ["aten::t"]


def test_our_own_traces_and_pairs_of_events_are_read(build, tmp_path):
    build.run(profile=True).save_trace(tmp_path / "own.json")
    laid = wb.load_trace(tmp_path / "own.json").over(build)
    assert set(laid.table()["nodes"]) == {"/a/Exp, /a/Relu", "/b/MatMul"}
    rows = [{"ph": "B", "name": "/a/Exp", "ts": 1}, {"ph": "E", "ts": 6}, {"ph": "E", "ts": 9}, 3]
    packed = tmp_path / "pairs.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(rows).encode()))
    assert wb.load_trace(packed).over(build.source).table()["ms"].tolist() == [0.005]


BAD = {
    b"": "not JSON",
    b"\x0a\x02\x08\x01": "Perfetto's binary form",
    b"[" * 100_000: "nested too deeply",
    b'{"a": 1}': "traceEvents",
    b'[{"ph": "X", "ts": "now"}]': "event 0: ts is 'now'",
    b'[{"ph": "X", "ts": 1, "dur": -2}]': "a duration of -2.0 us",
    b'[{"ph": "X", "ts": 1, "dur": 1e999}]': "dur is 'inf'",
    b'[{"name": "l", "averageMs": "x"}]': "layer 0",
    b"\x1f\x8bxx": "cannot be read",
}


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_a_bad_file_is_refused(data, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=BAD[data]):
        wb.load_trace(path)


def test_sizes_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 10_000 + b"]"))
    monkeypatch.setattr(document, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="over 1,000 bytes"):
        wb.load_trace(path)
    with pytest.raises(InputError, match="no such file"):
        wb.load_trace(tmp_path / "none.json")
    monkeypatch.setattr(events, "MAX_EVENTS", 1)
    with pytest.raises(InputError, match="2 events"):
        events.events_of([{}, {}])
