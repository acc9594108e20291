"""The `workbench` command: what it prints, what it writes, and its one-line errors."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench
from workbench import cli


@pytest.fixture
def model(tmp_path: Path) -> str:
    """relu(x · w + 1), in a file."""
    w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    one = numpy_helper.from_array(np.ones(4, np.float32), "one")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "first/MatMul"),
        helper.make_node("Add", ["product", "one"], ["sum"], "first/Add"),
        helper.make_node("Relu", ["sum"], ["y"], "last/Relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    graph = helper.make_graph(nodes, "small", [x], [y], [w, one])
    path = tmp_path / "small.onnx"
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return str(path)


def call(*arguments: str) -> int:
    try:
        cli.main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert call(*arguments) == 0
    return capsys.readouterr().out


def test_read_prints_the_text_form(model, capsys):
    text = printed(capsys, "read", model)
    assert "@param:x -> float_type, {2, 3}, {3, 1}" in text
    assert "relu(" in text


def test_read_as_json_names_operations_shapes_and_sources(model, capsys):
    rows = json.loads(printed(capsys, "read", model, "--json"))
    relu = next(row for row in rows if row["operation"] == "relu")
    assert relu["shape"] == "float_type, {2, 4}, {4, 1}"
    assert relu["sources"] == ["last/Relu"]


@pytest.mark.parametrize(("option", "start"), [("svg", "<svg"), ("html", "<!"), ("dot", "digraph")])
def test_read_writes_pictures(model, tmp_path, capsys, option, start):
    out = tmp_path / f"graph.{option}"
    assert printed(capsys, "read", model, f"--{option}", str(out)) == ""
    text = out.read_text()
    assert text.lstrip().lower().startswith(start)
    assert "relu" in text


def test_compile_prints_a_row_a_pass(model, capsys):
    text = printed(capsys, "compile", model)
    assert "pass" in text.splitlines()[0]
    assert "fuse_pointwise" in text


def test_compile_as_json_with_chosen_passes(model, capsys):
    facts = json.loads(
        printed(capsys, "compile", model, "--json", "--passes", "dead_code_elimination")
    )
    assert [row["pass"] for row in facts["passes"]] == ["dead_code_elimination"]
    assert facts["target"] == "cpu"
    assert any(row["operation"] == "relu" for row in facts["program"])


def test_compile_by_a_pipeline_without_a_rule_and_checked(model, capsys):
    options = ["--passes", "gpu", "--disable", "simplify_algebra.find_div_const", "--check"]
    assert "fuse_pointwise" in printed(capsys, "compile", model, *options)


def test_a_pipeline_is_printed(capsys):
    text = printed(capsys, "passes", "--pipeline", "optimize_module")
    assert text.splitlines()[:2] == ["optimize_module ×2", "  simplify ×4"]
    rows = json.loads(printed(capsys, "passes", "--pipeline", "gpu", "--json"))
    assert [row["pass"] for row in rows[:2]] == ["inline_calls", "split_single_dyn_dim"]


def test_compile_writes_the_explorer(model, tmp_path, capsys):
    out = tmp_path / "explorer.html"
    assert printed(capsys, "compile", model, "--html", str(out)) == ""
    assert "fuse_pointwise" in out.read_text()


def test_compile_prints_the_compiled_program(model, capsys):
    assert "pointwise" in printed(capsys, "compile", model, "--text")


def test_parts_of_a_build_are_tables_and_json(model, capsys):
    (kernel,) = json.loads(printed(capsys, "kernels", model, "--json"))
    source = printed(capsys, "kernels", model, "--source", kernel["instruction"])
    assert kernel["name"] in source
    assert kernel["instruction"] in printed(capsys, "kernels", model)
    rows = json.loads(printed(capsys, "memory", model, "--target", "gpu", "--json"))
    assert all(row["bytes"] > 0 for row in rows)
    assert "bytes" in printed(capsys, "memory", model, "--target", "gpu")
    rows = json.loads(printed(capsys, "tune", model, "--most", "2", "--json"))
    assert {row["problem"].split(",")[0] for row in rows} == {"dot float 2x3x4"}


def test_why_not_is_answered_on_the_command_line(model, capsys):
    nodes = [node.name for node in onnx.load(model).graph.node]
    answer = json.loads(printed(capsys, "why-not", model, *nodes[:2], "--json"))["answer"]
    assert answer == printed(capsys, "why-not", model, *nodes[:2]).rstrip("\n")
    assert call("why-not", model, nodes[0], "nobody") == 1
    assert "nobody" in capsys.readouterr().err


def test_compile_says_what_each_instruction_became(model, capsys):
    text = printed(capsys, "compile", model, "--target", "gpu", "--lowering")
    assert "x -> parameter x place" in text
    assert " -> kernel " in text
    assert "lowering: 1 instruction as kernels" in printed(
        capsys, "compile", model, "--target", "gpu"
    )
    facts = json.loads(printed(capsys, "compile", model, "--target", "gpu", "--json"))
    assert {"kernel", "parameter"} <= {row["kind"] for row in facts["lowering"]["rows"]}
    assert call("compile", model, "--target", "cpu", "--lowering") == 1
    assert "target 'cpu' lowers nothing" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_run_takes_inputs_and_writes_outputs(model, tmp_path, capsys, target):
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
    np.savez(tmp_path / "in.npz", x=x)
    out = tmp_path / "out.npz"
    text = printed(
        capsys, "run", model, str(tmp_path / "in.npz"), "--target", target, "--output", str(out)
    )
    assert "y: float32 [2, 4]" in text
    assert "ms" in text
    expected = np.maximum(x @ np.arange(12, dtype=np.float32).reshape(3, 4) + 1, 0)
    np.testing.assert_allclose(np.load(out)["y"], expected, rtol=1e-6)


def test_run_makes_up_inputs_from_the_seed(model, capsys):
    def extremes(seed: str) -> tuple[float, float]:
        facts = json.loads(printed(capsys, "run", model, "--json", "--seed", seed))
        assert {row["op"] for row in facts["timings"]}
        return facts["outputs"][0]["min"], facts["outputs"][0]["max"]

    assert extremes("1") == extremes("1") != extremes("2")


@pytest.mark.parametrize("precision", ["fp16", "float64"])
def test_run_in_another_precision(model, capsys, precision):
    assert printed(capsys, "run", model, "--precision", precision, "--repetitions", "1")


def test_a_report_is_written_as_one_page(model, tmp_path, capsys):
    page = tmp_path / "r.html"
    said = printed(capsys, "report", model, "--output", str(page), "--target", "cpu")
    assert "values compared" in said
    assert "first/MatMul" in page.read_text()
    assert call("report", model, "--inputs", "missing.npz", "--output", str(page)) == 1
    assert "missing.npz" in capsys.readouterr().err


def test_a_diff_says_what_differs_by_text_and_exit_code(model, tmp_path, capsys):
    assert "no difference" in printed(capsys, "diff", model, model)
    other = onnx.load(model)
    other.graph.node[2].op_type = "Sigmoid"
    onnx.save(other, tmp_path / "other.onnx")
    assert call("diff", model, str(tmp_path / "other.onnx"), "--json") == 1
    (row,) = json.loads(capsys.readouterr().out)["differences"]
    assert (row["sources"], row["what differs"]) == ("last/Relu", "relu → sigmoid")
    assert call("diff", model, "missing.onnx") == 2
    assert "missing.onnx" in capsys.readouterr().err


def test_a_failing_model_is_minimised_into_a_folder(model, tmp_path, capsys):
    folder = tmp_path / "small"
    options = ("--target", "cpu", "--precision", "fp16", "--tolerance", "1e-9")
    said = printed(capsys, "minimise", model, "-o", str(folder), *options)
    assert "fails on cpu with" in said
    assert {p.name for p in folder.iterdir()} >= {"model.onnx", "inputs.npz", "reproduce.py"}
    assert call("minimise", model, "-o", str(folder), *options) == 2
    assert "not empty" in capsys.readouterr().err
    assert call("minimise", model, "--target", "cpu", "-o", str(tmp_path / "none")) == 2
    assert not (tmp_path / "none").exists()


def test_what_passes_made_is_written_as_onnx(model, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert "0 functions" in printed(capsys, "export", model, str(out))
    assert "1 functions" in printed(capsys, "export", model, str(out), "--target", "cpu")
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_what_is_kept_stays_in_float(model, capsys):
    text = printed(
        capsys, "compile", model, "--target", "ref", "--precision", "fp16", "--keep", "op:dot",
        "--keep", "last/Relu", "--text",
    )  # fmt: skip
    kept = [line for line in text.splitlines() if " dot(" in line or " relu(" in line]
    assert len(kept) == 2
    assert all("float_type" in line for line in kept)
    assert call("compile", model, "--precision", "fp16", "--keep", "op:softmax") == 1
    assert "softmax" in capsys.readouterr().err


def test_bisect_says_where_it_goes_wrong_by_text_and_exit_code(model, capsys):
    text = printed(capsys, "bisect", model, "--target", "cpu")
    assert "nothing wrong" in text.splitlines()[-1]
    exact = ("bisect", model, "--target", "cpu", "--precision", "fp16", "--tolerance", "0")
    assert call(*exact) == 1
    assert "first/MatMul" in capsys.readouterr().out.splitlines()[-1]
    assert call(*exact, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "kernel"
    assert found["checks"][0]["pass"] == "source"
    assert call("bisect", model, "--tolerance", "-1") == 2
    assert "tolerance -1.0; expected a number from 0" in capsys.readouterr().err
    assert call("bisect", "nowhere.onnx") == 2


def test_minimise_says_what_is_left_and_overwrites_if_told(model, tmp_path, capsys):
    folder, x = tmp_path / "least", tmp_path / "x.npz"
    np.savez(x, x=np.full((2, 3), 1e5, np.float32))  # infinite in half
    options = ("--target", "cpu", "--precision", "fp16", "--output", str(folder))
    first, script = printed(capsys, "minimise", model, str(x), *options).splitlines()
    assert first.startswith("fails on cpu with 1 instruction ")
    assert script == str(folder / "reproduce.py")
    assert sorted(p.name for p in folder.iterdir()) == ["inputs.npz", "model.onnx", "reproduce.py"]
    more = ("--overwrite", "--json", "--most", "1")
    found = json.loads(printed(capsys, "minimise", model, str(x), *options, *more))
    assert (found["script"], found["trials"]) == (script, 1)
    assert found["instructions"]["before"] == found["instructions"]["after"]


def test_minimise_writes_what_it_has_when_interrupted(model, tmp_path, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        stop = KeyboardInterrupt()
        stop.result = found  # pyright: ignore[reportAttributeAccessIssue]
        raise stop

    program = workbench.parse_onnx(model)
    found = workbench.minimise(program, failing=lambda p, _: len(p.outputs) > 0, target="cpu")
    monkeypatch.setattr(workbench, "minimise", interrupted)
    command = ("minimise", model, "-o", str(tmp_path / "a"))
    assert call(*command) == 130
    assert found.summary in capsys.readouterr().out
    assert (tmp_path / "a" / "reproduce.py").exists()
    found = None
    assert call(*command) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["compile", "run", "compare", "bisect", "inspect", "minimise"])
def test_what_is_kept_is_not_converted(command, model, tmp_path, capsys):
    x = tmp_path / "x.npz"
    np.savez(x, x=np.full((2, 3), 1e5, np.float32))  # infinite in half
    inputs = [] if command == "compile" else [str(x)]
    half = [command, model, *inputs, "--target", "cpu", "--precision", "fp16"]
    half += ["--output", str(tmp_path / "least")] if command == "minimise" else []
    kept = [*half, "--keep", "first/MatMul", "--keep", "first/Add", "--keep", "op:relu"]
    codes, texts = [], []
    for arguments in (half, kept):
        codes.append(call(*arguments, "--json"))
        texts.append(capsys.readouterr().out)
    wanted = {"compare": [1, 0], "bisect": [1, 0], "minimise": [0, 2]}  # nothing fails then
    assert codes == wanted.get(command, [0, 0])
    assert texts[0] != texts[1]
    bad = 2 if command in wanted else 1
    assert call(*half, "--keep", "first/MatMull") == bad
    assert "'first/MatMul'" in capsys.readouterr().err
    assert call(command, model, *inputs, "--target", "cpu", "--keep", "first/Add") == bad
    assert "without a precision" in capsys.readouterr().err


def test_compare_says_what_is_wrong_by_text_and_exit_code(model, tmp_path, capsys):
    text = printed(capsys, "compare", model, "--target", "cpu")
    assert text.splitlines()[0] == (
        "2 values compared: 2 within 7.01e-05, 0 beyond, 0 not compared"
    )
    assert "first/MatMul" in text
    wrong = tmp_path / "theirs.npz"
    np.savez(wrong, product=np.full((2, 4), 99, np.float32))
    page, table = tmp_path / "graph.html", tmp_path / "values.csv"
    files = ["--html", str(page), "--csv", str(table)]
    assert call("compare", model, str(wrong), "--target", "cpu", *files) == 1
    told = capsys.readouterr()
    assert "1 beyond" in told.out.splitlines()[0]
    assert "model: " in told.out.splitlines()[1]
    assert "first/MatMul" in told.out.splitlines()[1]
    assert told.err == f"wrote {table}\nwrote {page}\n"
    assert "first/MatMul" in table.read_text()
    assert page.read_text().startswith("<!")


def test_a_compare_that_is_stopped_prints_what_it_has(model, capsys, monkeypatch):
    from workbench.numerics.compare import measure

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "compare_arrays", stop)
    assert call("compare", model, "--target", "cpu") == 130
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("incomplete, the comparison was stopped; 0 values compared")
    assert text[1] == "not compared: 2: the comparison was stopped"
    assert call("compare", model, "--target", "cpu", "--json") == 130
    assert not json.loads(capsys.readouterr().out)["complete"]


def test_compare_as_json_keeps_all_digits(model, capsys):
    facts = json.loads(printed(capsys, "compare", model, "--json", "--target", "cpu"))
    assert facts["passed"]
    assert facts["culprits"] == []
    assert [row["kernel"] for row in facts["values"]] == ["dot", "add · relu"]
    assert all(0 < row["relative rms"] < 1e-6 for row in facts["values"])
    options = ("--tolerance", "0", "--precision", "fp16")
    assert call("compare", model, "--json", "--target", "cpu", *options) in {0, 1}
    assert any(row["wrong"] for row in json.loads(capsys.readouterr().out)["values"])


@pytest.mark.parametrize("order", [["{x}"], ["ref", "{x}"], ["onnxruntime", "{x}"]])
def test_compare_takes_inputs_second_or_third(order, model, tmp_path, capsys):
    x = tmp_path / "x.npz"
    np.savez(x, x=np.full((2, 3), 1e30, np.float32))
    arguments = [part.format(x=x) for part in order]
    command = ("compare", model, "--target", "cpu", "--precision", "fp16")
    assert call(*command) == 0
    assert call(*command, *arguments) == 1  # 1e30 is infinite in half
    assert "first/MatMul" in capsys.readouterr().out


def test_compare_with_another_model(model, tmp_path, capsys):
    other = onnx.load(model)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.eye(3, 4, dtype="f4"), "w"))
    onnx.save(other, tmp_path / "other.onnx")
    assert "2 values compared: 2 within" in printed(capsys, "compare", model, model)
    assert call("compare", model, str(tmp_path / "other.onnx")) == 1
    assert "w" in capsys.readouterr().out.splitlines()[1]


def test_inspect_shows_statistics_and_writes_what_compare_reads(model, tmp_path, capsys):
    x, out = tmp_path / "x.npz", tmp_path / "values.npz"
    np.savez(x, x=np.ones((2, 3), np.float32))
    text = printed(capsys, "inspect", model, str(x), "--names", "y, product")
    assert text.splitlines()[0].split()[:4] == ["name", "tensors", "kernel", "shape"]
    rows = json.loads(printed(capsys, "inspect", model, str(x), "--json"))
    assert {row["tensors"]: row["max"] for row in rows} == {"product": 21, "": 1, "y": 22}
    assert printed(capsys, "inspect", model, str(x), "--out", str(out)) == ""
    with np.load(out) as values:
        (copies,) = (name for name in values if name.startswith("#"))  # the constant, broadcast
        assert {name: values[name].max() for name in values} == {"product": 21, copies: 1, "y": 22}
    assert "2 values compared: 2 within" in printed(capsys, "compare", model, str(out), str(x))
    assert call("compare", model, str(out), "--seed", "1") == 1  # of other inputs
    printed(capsys, "inspect", model, str(x), "--out", str(out), "--names", "first/MatMul")
    assert np.load(out)["first/MatMul"].tolist() == [[12, 15, 18, 21]] * 2


def test_inspect_shows_each_channel(model, capsys):
    options = ["--per-channel", "1", "--names", "y"]
    rows = json.loads(printed(capsys, "inspect", model, *options, "--json"))
    assert [row["channel"] for row in rows] == [0, 1, 2, 3]
    assert len(printed(capsys, "inspect", model, *options).splitlines()) == 6


@pytest.mark.parametrize("command", ["compare", "inspect"])
def test_an_interrupt_ends_with_130(command, model, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.compiler.run.planned.PlannedInterpreter.run", interrupted)
    assert call(command, model, "--target", "cpu") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_passes_and_targets_are_listed(capsys):
    rows = json.loads(printed(capsys, "passes", "--json"))
    assert all(row["does"] for row in rows)
    assert "dead_code_elimination" in printed(capsys, "passes")
    listed = {
        row["target"]: row["available"] for row in json.loads(printed(capsys, "targets", "--json"))
    }
    assert listed["ref"]
    assert listed["cpu"]
    assert "NumPy" in printed(capsys, "targets")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["read", "missing.onnx"], "missing.onnx"),
        (["read", "{text}"], "notes.onnx"),
        (["compile", "{model}", "--target", "tpu"], "unknown target 'tpu'"),
        (["compile", "{model}", "--passes", "fuse_everything"], "unknown pass 'fuse_everything'"),
        (
            ["compile", "{model}", "--disable", "fuse_everything"],
            "'fuse_everything' cannot be left",
        ),
        (["passes", "--pipeline", "fuse_everything"], "unknown pipeline 'fuse_everything'"),
        (["run", "{model}", "--precision", "fp7"], "fp7"),
        (["run", "{model}", "missing.npz"], "missing.npz"),
        (["run", "{model}", "{text}"], "expected an .npz file"),
        (["run", "{model}", "{wrong}"], "'z'"),
        (["lab", "missing.ipynb"], "missing.ipynb: no such file"),
        (["inspect", "missing.onnx"], "missing.onnx"),
        (["inspect", "{model}", "--names", "prodct"], "'prodct'"),
        (["inspect", "{model}", "--names", "sum"], "'sum' is computed inside a kernel"),
        (["inspect", "{model}", "{wrong}"], "'z'"),
        (["inspect", "{model}", "--out", "/nowhere/values.npz"], "/nowhere/values.npz"),
        (["compare", "missing.onnx"], "missing.onnx"),
        (["compare", "{model}", "missing.onnx"], "missing.onnx"),
        (["compare", "{model}", "missing.npz"], "missing.npz"),
        (["compare", "{model}", "{wrong}"], "'z'"),
        (["compare", "{model}", "ref", "{wrong}"], "'z'"),
        (["compare", "{text}"], "notes.onnx"),
        (["compare", "{model}", "--target", "tpu"], "unknown target 'tpu'"),
        (["compare", "{model}", "--reference-precision", "fp7"], "'fp7'"),
        (["compare", "{model}", "--csv", "/nowhere/values.csv"], "/nowhere/values.csv"),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(arguments, says, model, tmp_path, capsys):
    (tmp_path / "notes.onnx").write_text("not a model")
    np.savez(tmp_path / "wrong.npz", z=np.zeros(3, np.float32))
    places = {
        "model": model,
        "text": str(tmp_path / "notes.onnx"),
        "wrong": str(tmp_path / "wrong.npz"),
    }
    code = 2 if arguments[0] == "compare" else 1  # whose 1 says that the model is wrong
    assert call(*(argument.format(**places) for argument in arguments)) == code
    error = capsys.readouterr().err
    assert error.startswith("workbench: ")
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("display", "opens"), [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True)]
)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there always is a display")
def test_lab_opens_a_browser_where_there_is_a_display(monkeypatch, tmp_path, display, opens):
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for name, value in display.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "first look.ipynb").touch()
    assert call("lab", str(tmp_path / "first look.ipynb")) == 0
    assert ("--no-browser" not in started[0]) == opens
    assert any(part.endswith("=/lab/tree/first%20look.ipynb") for part in started[0])
    assert ("--allow-root" in started[0]) == (os.geteuid() == 0)


def test_the_module_is_the_command_too():
    command = [sys.executable, "-m", "workbench", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.strip() == workbench.__version__


def test_json_has_neither_nan_nor_infinity(model, tmp_path, capsys):
    np.savez(tmp_path / "x.npz", x=np.full((2, 3), np.nan, np.float32))
    assert call("run", model, str(tmp_path / "x.npz"), "--json", "--repetitions", "1") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["outputs"][0]["min"] is None


def test_devices_lists_what_no_kernel_computes(capsys):
    rows = {
        row["name"]: row for row in json.loads(printed(capsys, "devices", "--on-host", "--json"))
    }
    assert rows["tree_ensemble"]["on_host"] == rows["tree_ensemble"]["samples"]
    assert {"add", "dot", "convolution", "topk"}.isdisjoint(rows)
    assert "tree_ensemble" in printed(capsys, "devices", "--on-host")


def test_devices_says_what_is_here_and_what_the_rest_lack(capsys):
    text = printed(capsys, "devices")
    assert re.search(r"^opencl:0 +\S.*compute units", text, re.MULTILINE)
    rows = {row["device"]: row for row in json.loads(printed(capsys, "devices", "--json"))}
    assert rows["opencl:0"]["missing"] == ""
    assert {row["kind"] for row in rows.values()} == {"hip", "cuda", "opencl"}
