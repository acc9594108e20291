"""Damaged models end in a Program or in a clear error, in little time and memory: 300 cases, or 10,000."""

import signal
import subprocess

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.onnx import fuzz as fuzz_module
from tests.onnx.fuzz import fuzz
from tests.onnx.models import floats, model
from workbench.compiler.errors import ModelError
from workbench.compiler.onnx import parse_onnx

CASES = {"fast": 300, "deep": 10_000}
SEED = 1


def test_damaged_models_are_imported_or_refused(request: pytest.FixtureRequest):
    profile = request.config.getoption("--hypothesis-profile") or "fast"
    findings, ends = fuzz(SEED, 0, CASES[profile])
    assert not findings, "\n\n".join(map(str, findings[:10]))
    assert ends["refused"] > CASES[profile] / 10
    assert ends["ran"] > CASES[profile] / 10
    if profile == "deep":  # a case is the same in every process
        first, again = (fuzz(SEED, 0, 200) for _ in range(2))
        assert first == again


def test_functions_that_multiply_are_refused_in_time():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = []
    for k in range(30):
        calls = [
            helper.make_node(f"F{k - 1}" if k else "Relu", [a], [b], domain="f" if k else "")
            for a, b in (("x", "y"), ("y", "z"))
        ]
        functions.append(helper.make_function("f", f"F{k}", ["x"], ["z"], calls, opsets))
    call = helper.make_node("F29", ["x"], ["y"], domain="f")
    made = model([call], [floats("x", 2)], ["y"], functions=functions, opset=17)
    with pytest.raises(ModelError, match="nodes with its functions expanded"):
        parse_onnx(made)


def test_constants_that_add_up_are_refused():
    bounds = [numpy_helper.from_array(np.array(v), n) for n, v in (("a", 0), ("b", 15_000_000))]
    bounds.append(numpy_helper.from_array(np.array(1), "step"))
    nodes = [helper.make_node("Range", ["a", "b", "step"], [f"r{k}"]) for k in range(6)]
    nodes.append(helper.make_node("Sum", [f"r{k}" for k in range(6)], ["y"]))
    with pytest.raises(ModelError, match="in all"):
        parse_onnx(model(nodes, [], ["y"], bounds))


def test_a_text_that_is_no_text_is_named():
    data = model([helper.make_node("Relu", ["x"], ["yyyy"])], [floats("x", 2)], ["yyyy"])
    with pytest.raises(ModelError, match="is not UTF-8 text"):
        parse_onnx(data.SerializeToString().replace(b"Relu", b"Re\xff\xfe"))


def test_a_hang_and_a_missing_check_are_findings(monkeypatch, tmp_path):
    def endless(*_, **__):
        while True:
            pass

    def unchecked(*_, **__):
        fuzz_module._check_cause(LookupError("axis"), *fuzz_module.UNCLEAR)

    monkeypatch.setattr(fuzz_module, "case", lambda *_: ("", b""))
    monkeypatch.setattr(fuzz_module, "SECONDS", 0.05)
    before = signal.signal(signal.SIGPROF, fuzz_module._too_slow)
    try:
        monkeypatch.setattr(fuzz_module, "outcome", endless)
        assert "finding TooSlowError" in fuzz_module._guarded(0, 1, tmp_path)
        monkeypatch.setattr(fuzz_module, "outcome", unchecked)
        assert "finding LookupError: axis" in fuzz_module._guarded(0, 1, tmp_path)
    finally:
        signal.signal(signal.SIGPROF, before)


def test_a_crash_is_a_finding_and_the_cases_after_it_are_run(monkeypatch):
    outputs = ["9 models\n0 ran\n1 ", "9 models\n2 refused\n"]

    def run(command, **_):
        return subprocess.CompletedProcess(command, -11, outputs.pop(0), "Segmentation fault")

    monkeypatch.setattr(fuzz_module.subprocess, "run", run)
    findings, ends = fuzz(7, 0, 3)
    assert [f.number for f in findings] == [1]
    assert "Segmentation fault" in findings[0].what
    assert (ends["ran"], ends["refused"], outputs) == (1, 1, [])
