"""``wb.Session`` beside onnxruntime's own ``InferenceSession``: the same values, facts and errors."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as theirs
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import workbench as wb
from workbench.compat import onnxruntime as ours
from workbench.compat.onnxruntime.capi import onnxruntime_pybind11_state as state
from workbench.compat.onnxruntime.logs import DEFAULT

value = helper.make_tensor_value_info
CPU = ["CPUExecutionProvider"]
X = np.arange(1, 7, dtype=np.float32).reshape(3, 2)


def model(nodes, inputs, outputs, tensors=(), **facts):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(tensors))
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **facts).SerializeToString()


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=op.lower(), **attributes)


W = numpy_helper.from_array(np.array([2, 3], np.float32), "w")
SCALE = model(
    [node("Mul", "x w", "t"), node("Relu", "t", "y"), node("Identity", "x", "same")],
    [value("x", T.FLOAT, ["rows", 2]), value("w", T.FLOAT, [2])],
    [value("y", T.FLOAT, None), value("same", T.FLOAT, ["rows", 2])],
    [W], producer_name="p", domain="d", model_version=3, doc_string="says",
)  # fmt: skip
ADD = model(
    [node("Add", "x y", "z")],
    [value("x", T.FLOAT, ["n", 2]), value("y", T.FLOAT, [3, 2])],
    [value("z", T.FLOAT, ["n", 2])],
)


def sessions(data, **settings):
    return ours.InferenceSession(data, providers=CPU, **settings), theirs.InferenceSession(
        data, providers=CPU
    )


def test_a_session_has_the_facts_and_values_of_onnxruntimes():
    mine, other = sessions(SCALE)
    for ask in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        facts = [[(v.name, v.type, v.shape) for v in getattr(s, ask)()] for s in (mine, other)]
        assert facts[0] == facts[1]
    meta = [s.get_modelmeta() for s in (mine, other)]
    for name in ("producer_name", "graph_name", "domain", "description", "version"):
        assert getattr(meta[0], name) == getattr(meta[1], name)
    replaced = np.array([-1, 1], np.float32)
    for feed in ({"x": X}, {"x": X[:1], "w": replaced}, {"x": X[:0]}):
        for mine_out, other_out in zip(mine.run(None, feed), other.run([], feed), strict=True):
            np.testing.assert_array_equal(mine_out, other_out)
            assert mine_out.dtype == other_out.dtype
    assert mine.run(["same"], {"x": X.tolist()})[0].tolist() == X.tolist()
    assert not np.shares_memory(mine.run(["same"], {"x": X})[0], X)


def test_a_session_leads_to_the_build():
    build = wb.Session(SCALE).build
    assert "fuse_pointwise" in [step.name for step in build.recording]
    options = ours.SessionOptions()
    options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_ENABLE_BASIC
    basic = wb.Session(SCALE, options).build
    assert "fuse_pointwise" not in [step.name for step in basic.recording]
    own = wb.Session(SCALE, providers=[("WorkbenchExecutionProvider", {"target": "ref"})])
    assert own.build.target.name == "ref"
    assert own.get_providers() == ["WorkbenchExecutionProvider", *CPU]


BAD_RUNS = [
    {"x": X},
    {"x": X, "y": X, "w": X},
    {"x": X[0], "y": X},
    {"x": X, "y": X[:2]},
    {"x": X.astype(float), "y": X},
    {"x": 1.0, "y": X},
    {"x": "text", "y": X},
]


@pytest.mark.parametrize("feed", BAD_RUNS, ids=range(len(BAD_RUNS)))
def test_wrong_inputs_have_onnxruntimes_errors(feed):
    mine, other = sessions(ADD)
    errors = []
    for session in (mine, other):
        with pytest.raises(Exception) as caught:  # noqa: PT011  # its text is compared
            session.run(None, feed)
        errors.append((type(caught.value).__name__, str(caught.value)))
    assert errors[0] == errors[1]


def bad(op="Relu", given="x", out="z", type=T.FLOAT, lens=(2, 3), **attributes):
    end = value("z", type, lens)
    return model([node(op, given, out, **attributes)], [value("x", type, lens)], [end])


BAD_MODELS = [
    b"garbage",
    b"",
    "no_such.onnx",
    bad("NoSuch"),
    bad(given="q"),
    bad(out="other"),
    bad("MatMul", "x x"),
    bad(type=T.BOOL),
    bad(foo=1),
    bad("NoSuch", domain="mine"),
]


@pytest.mark.parametrize("data", BAD_MODELS, ids=range(len(BAD_MODELS)))
def test_wrong_models_have_the_types_of_onnxruntimes_errors(data):
    errors = []
    for session in (ours.InferenceSession, theirs.InferenceSession):
        with pytest.raises(Exception) as caught:  # noqa: PT011  # its text is compared
            session(data, providers=CPU)
        errors.append((type(caught.value).__name__, str(caught.value)[:28]))
    assert errors[0] == errors[1]


def test_what_is_not_supported_says_so():
    text = model([node("StringNormalizer", "x", "y", case_change_action="LOWER")],
                 [value("x", T.STRING, [2])], [value("y", T.STRING, [2])])  # fmt: skip
    session = wb.Session(text)
    assert session.run(None, {"x": np.array(["A", "b"])})[0].tolist() == ["a", "b"]
    with pytest.raises(wb.WorkbenchError, match="strings has no build"):
        _ = session.build
    open_ = model(
        [node("StringSplit", "x", "y")], [value("x", T.FLOAT, ["n"])], [value("y", T.FLOAT, None)]
    )
    with pytest.raises((state.NotImplemented, state.InvalidGraph)):
        wb.Session(open_)  # at once, not at the first run
    with pytest.raises(state.Fail, match="need onnxruntime"):
        ours.SessionOptions().register_custom_ops_library("a.so")
    with pytest.raises(AttributeError, match="adapters"):
        _ = ours.LoraAdapter
    with pytest.raises(AttributeError, match="no attribute 'threads'"):
        ours.SessionOptions().threads = 2
    with pytest.raises(TypeError, match="GraphOptimizationLevel"):
        ours.SessionOptions().graph_optimization_level = 3


def test_options_change_the_model(tmp_path):
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("rows", 3)
    options.add_initializer("w", ours.OrtValue.ortvalue_from_numpy(np.array([5, 7], np.float32)))
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = wb.Session(SCALE, options)
    assert session.get_inputs()[0].shape == [3, 2]
    expected = X * np.array([5, 7], np.float32)
    assert np.array_equal(session.run(["y"], {"x": X})[0], expected)
    saved = theirs.InferenceSession(options.optimized_model_filepath, providers=CPU)
    assert np.array_equal(saved.run(["y"], {"x": X})[0], expected)
    events = json.loads(Path(session.end_profiling()).read_text())
    assert any(e["name"] == "mul+relu_kernel_time" and e["dur"] >= 0 for e in events)
    assert {"session_initialization", "model_run"} <= {e["name"] for e in events}
    assert session.end_profiling() == ""
    options.set_load_cancellation_flag(True)
    with pytest.raises(state.ModelLoadCanceled):
        wb.Session(SCALE, options)


def test_tensors_of_other_files_come_from_memory():
    tensor = onnx.TensorProto(name="w", dims=[2], data_type=T.FLOAT, data_location=T.EXTERNAL)
    for key, text in {"location": "weights.bin", "offset": "4", "length": "8"}.items():
        tensor.external_data.add(key=key, value=text)
    data = model(
        [node("Mul", "x w", "y")], [value("x", T.FLOAT, [2])], [value("y", T.FLOAT, [2])], [tensor]
    )
    options = ours.SessionOptions()
    weights = np.array([9, 2, 3], np.float32).tobytes()
    options.add_external_initializers_from_files_in_memory(["weights.bin"], [weights], [12])
    assert wb.Session(data, options).run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [2, 3]
    options.files["weights.bin"] = weights[:8]
    with pytest.raises(state.InvalidArgument, match="8 bytes from 4 of 8"):
        wb.Session(data, options)


def test_values_share_memory():
    made = ours.OrtValue.ortvalue_from_numpy(X.copy())
    again = ours.OrtValue.from_dlpack(made.__dlpack__())
    assert again.data_ptr() == made.data_ptr() == np.asarray(made).ctypes.data
    assert (made.data_type(), made.shape(), made.element_type()) == ("tensor(float)", [3, 2], 1)
    made.update_inplace(X * 2)
    assert np.array_equal(again.numpy(), X * 2)
    with pytest.raises(RuntimeError, match="does not match the size"):
        made.update_inplace(X[:2])
    flags = ours.OrtValue.from_dlpack(np.array([True, False]))
    assert flags.data_type() == "tensor(bool)"
    assert state.is_dlpack_uint8_tensor(np.ones(2, np.uint8).__dlpack__())
    with pytest.raises(RuntimeError, match="not taken yet"):
        ours.OrtValue.from_dlpack(object())


def test_a_binding_writes_into_given_memory():
    session = wb.Session(SCALE)
    binding = session.io_binding()
    x, y = (ours.OrtValue.ortvalue_from_numpy(a) for a in (X.copy(), np.zeros_like(X)))
    binding.bind_input("x", "cpu", 0, np.float32, [3, 2], x.data_ptr())
    binding.bind_output("y", "cpu", 0, np.float32, [3, 2], y.data_ptr())
    binding.bind_output("same")
    session.run_with_iobinding(binding)
    assert np.array_equal(y.numpy(), X * [2, 3])
    assert np.array_equal(binding.copy_outputs_to_cpu()[1], X)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: z"):
        binding.bind_cpu_input("z", X)
    binding.bind_cpu_input("x", X[:2].copy())
    with pytest.raises(RuntimeError, match="its memory"):
        session.run_with_iobinding(binding)


def test_sparse_tensors_are_kept_and_made_dense():
    cpu = ours.OrtDevice.make("cpu", 0)
    by_row = ours.SparseTensor.sparse_csr_from_numpy([2, 3], [1.0, 2.0], [2, 0], [0, 1, 2], cpu)
    by_axis = ours.SparseTensor.sparse_coo_from_numpy([2, 3], [1.0, 2.0], [[0, 2], [1, 0]], cpu)
    assert by_row.dense().tolist() == by_axis.dense().tolist() == [[0, 0, 1], [2, 0, 0]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        ours.SparseTensor.sparse_coo_from_numpy([2, 3], [1.0], [6], cpu)


def sparse(name, lens):
    made = onnx.ValueInfoProto(name=name)
    made.type.sparse_tensor_type.elem_type = T.FLOAT
    for length in lens:
        made.type.sparse_tensor_type.shape.dim.add().dim_value = length
    return made


def test_sparse_inputs_and_outputs_are_computed_as_dense_ones():
    product = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    nodes = [product, node("Identity", "a", "same")]
    ends = [value("y", T.FLOAT, [2, 2]), sparse("same", [2, 3])]
    graph = helper.make_graph(nodes, "g", [sparse("a", [2, 3]), value("b", T.FLOAT, [3, 2])], ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    session = wb.Session(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    assert session.get_inputs()[0].type == "sparse_tensor(float)"
    cpu, values = ours.OrtDevice.make("cpu", 0), np.array([2, 3], np.float32)
    given = ours.SparseTensor.sparse_coo_from_numpy([2, 3], values, [1, 5], cpu)
    y, same = session.run(None, {"a": ours.OrtValue.ort_value_from_sparse_tensor(given), "b": X})
    assert np.array_equal(y, given.dense() @ X)
    assert same.as_coo_view().indices().tolist() == [1, 5]
    assert same.values().tolist() == [2, 3]


def test_messages_go_to_a_function(monkeypatch):
    monkeypatch.setattr(DEFAULT, "receiver", None)
    monkeypatch.setattr(DEFAULT, "severity", 2)
    heard = []
    ours.set_default_logger_callback(lambda *said: heard.append(said), severity=0)
    wb.Session(SCALE)
    assert [type(part) for part in heard[0]] == [int, str, str, str, str]
    with pytest.raises(RuntimeError, match="severity"):
        ours.set_default_logger_severity(5)


def test_a_script_runs_unchanged(tmp_path, monkeypatch, capsys):
    from workbench.compat.onnxruntime.__main__ import main

    of_package = [name for name in sys.modules if name.split(".")[0] == "onnxruntime"]
    for name in of_package:
        monkeypatch.delitem(sys.modules, name)  # restored after the test
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "m.onnx").write_bytes(SCALE)
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy, onnxruntime as o\n"
        "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
        "s = o.InferenceSession(sys.argv[1])\n"
        "print(s.run(['y'], {'x': numpy.ones((1, 2), 'f')})[0], type(s.build).__name__)\n"
        "try: s.run(['q'], {'x': numpy.ones((1, 2), 'f')})\n"
        "except InvalidArgument as e: print(e)\n"
    )
    try:
        assert main([str(script), str(tmp_path / "m.onnx")]) == 0
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "onnxruntime"]:
            del sys.modules[name]
    assert capsys.readouterr().out == (
        "[[2. 3.]] Build\n[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid output name:q\n"
    )


def test_lengths_and_values_that_import_needs_are_those_of_the_run():
    data = model(
        [node("Reshape", "x lens", "y")],
        [value("x", T.FLOAT, ["n", "m"]), value("lens", T.INT64, [2])],
        [value("y", T.FLOAT, None)],
    )
    mine, other = sessions(data)
    for lens in ([2, 3], [6, 1], [2, 3]):
        feed = {"x": X, "lens": np.array(lens)}
        assert np.array_equal(mine.run(None, feed)[0], other.run(None, feed)[0])
    assert mine.build.is_recorded
    row = model(
        [node("Relu", "x", "y")], [value("x", T.FLOAT, ["n"])], [value("y", T.FLOAT, ["n"])]
    )
    session = wb.Session(row)
    for count in (0, 1, 5000):  # a range of lengths ends at 4096
        assert session.run(None, {"x": np.ones(count, np.float32)})[0].shape == (count,)


def test_sequences_and_optionals_are_lists_and_none():
    tensor = helper.make_tensor_type_proto(T.FLOAT, None)
    given = helper.make_value_info("x", helper.make_sequence_type_proto(tensor))
    data = model(
        [node("ConcatFromSequence", "x", "y", axis=0)], [given], [value("y", T.FLOAT, None)]
    )
    mine, other = sessions(data)
    for feed in ({"x": [X, X[:1]]}, {"x": [X]}):
        assert np.array_equal(mine.run(None, feed)[0], other.run(None, feed)[0])
    assert mine.get_inputs()[0].type == other.get_inputs()[0].type == "seq(tensor(float))"
    with pytest.raises(RuntimeError, match="list of numpy arrays"):
        mine.run(None, {"x": X})
    maybe = helper.make_value_info("x", helper.make_optional_type_proto(tensor))
    data = model([node("OptionalHasElement", "x", "y")], [maybe], [value("y", T.BOOL, [])])
    session = wb.Session(data)
    assert [bool(session.run(None, feed)[0]) for feed in ({"x": X}, {"x": None}, {})] == [
        True,
        False,
        False,
    ]
