"""ONNX's backend interface in MIGraphX's style, and cases of onnx's own suite over it."""

import importlib
import sys

import numpy as np
import onnx
import pytest

from tests.conformance import suite
from workbench.compat import migraphx
from workbench.compat.migraphx.__main__ import install
from workbench.compat.onnx_migraphx import backend
from workbench.compat.onnx_migraphx.backend import MIGraphXBackend
from workbench.compat.onnx_migraphx.backend_rep import MIGraphXBackendRep
from workbench.gpu.devices.registry import Availability

TEXT = '<ir_version: 8, opset_import: ["" : 18]> {}'
MODEL = onnx.parser.parse_model(
    TEXT.format("m (float[2] a, float[2] b) => (float[2] y) { y = Sub (a, b) }")
)
OPEN = onnx.parser.parse_model(TEXT.format("m (float[N] a) => (float[N] y) { y = Neg (a) }"))
A, B = np.array([5, 7], np.float32), np.array([1, 2], np.float32)


@pytest.fixture(autouse=True)
def on_the_cpu():
    MIGraphXBackend.set_device("CPU")
    yield
    MIGraphXBackend.set_device("GPU")


@pytest.fixture
def only_opencl(monkeypatch):
    rows = [Availability("opencl:0", "opencl"), Availability("cuda", "cuda", missing="a driver")]
    monkeypatch.setattr(backend, "available", lambda: rows)


@pytest.mark.usefixtures("only_opencl")
def test_devices():
    assert backend.get_device() == ("CPU", "GPU")
    assert backend.supports_device("GPU")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(MODEL)
    for device in ("CUDA", "cpu"):
        with pytest.raises(RuntimeError, match=f"device '{device}'; expected CPU or GPU"):
            backend.prepare(MODEL, device)
        with pytest.raises(RuntimeError, match="expected CPU or GPU"):
            MIGraphXBackend.set_device(device)


def test_devices_are_called_by_their_makers_where_they_are_here(monkeypatch):
    rows = [Availability(f"{kind}:0", kind) for kind in ("hip", "cuda")]
    monkeypatch.setattr(backend, "available", lambda: rows)
    assert backend.get_device() == ("CPU", "GPU", "CUDA", "ROCM")
    assert backend.supports_device("ROCM")


def test_models_run_on_the_device():
    MIGraphXBackend.set_device("GPU")
    rep = backend.prepare(MODEL)
    assert rep.run([A, B])[0].tolist() == [4, 5]
    assert MIGraphXBackend._last.last_build.runner.device is not None


@pytest.mark.parametrize("form", ["model", "bytes", "path", "program", "rep"])
def test_models_of_any_form(form, tmp_path):
    onnx.save(MODEL, tmp_path / "m.onnx")
    compiled = migraphx.parse_onnx(str(tmp_path / "m.onnx"))
    compiled.compile(migraphx.get_target("ref"))
    given = {
        "model": MODEL,
        "bytes": MODEL.SerializeToString(),
        "path": str(tmp_path / "m.onnx"),
        "program": compiled,
        "rep": backend.prepare(MODEL),
    }[form]
    rep = backend.prepare(given)
    assert isinstance(rep, MIGraphXBackendRep)
    for inputs in ([A, B], (A, B), {"a": A, "b": B}):
        [found] = rep.run(inputs)
        assert found.tolist() == [4, 5]


def test_the_text_of_the_last_program():
    backend.prepare(MODEL)
    text = MIGraphXBackend.get_program()
    before, after = text.split("\nCompiled program =\n")
    assert before.startswith('\nProgram =\nmodule: "main"')
    assert "@2 = sub(a,b)" in before
    assert "pointwise" in after
    backend.prepare(OPEN)
    assert MIGraphXBackend.get_program() == ""


def test_open_lengths_are_those_of_the_inputs():
    rep = backend.prepare(OPEN)
    assert rep.run(A)[0].tolist() == [-5, -7]
    assert rep.run([np.ones(3, np.float32)])[0].tolist() == [-1, -1, -1]
    assert "{3}" in MIGraphXBackend.get_program()


def test_a_single_node_runs():
    node = onnx.helper.make_node("Add", ["x", "y"], ["z"])
    assert MIGraphXBackend.run_node(node, [A, B])[0].tolist() == [6, 9]


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(RuntimeError, match="3 inputs; the model expects 2: a, b"):
        backend.run(MODEL, [A, B, A])
    with pytest.raises(RuntimeError, match="no input for parameter 'b'"):
        backend.run(MODEL, [A])
    with pytest.raises(RuntimeError, match="no such file"):
        backend.prepare(str(tmp_path / "none.onnx"))
    with pytest.raises(RuntimeError):
        backend.prepare(b"this is no model")
    with pytest.raises(onnx.checker.ValidationError):
        backend.prepare(onnx.ModelProto())


def test_a_script_of_migraphx_finds_it():
    known = {n: sys.modules.get(n) for n in ("migraphx", "onnx_migraphx")}
    try:
        install()
        found = importlib.import_module("onnx_migraphx.backend").MIGraphXBackend
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] in known]:
            del sys.modules[name]
    assert found is MIGraphXBackend


KINDS = ("gemm", "nonzero", "reduce_max", "sequence_insert", "einsum", "clip", "convinteger", "if_")


@pytest.mark.parametrize("kind", KINDS)
def test_onnx_suite(kind):
    found = [c for c in suite.cases(MIGraphXBackend) if f"test_{kind}" in c.name]
    assert found
    failed = {c.name: suite.outcome(c) for c in found if c.name not in suite.known_failures()}
    assert {n: r for n, r in failed.items() if r is not None} == {}
