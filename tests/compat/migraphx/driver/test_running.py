"""The driver compiles, runs, times and compares; its reports are text or one document of JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.compat.migraphx.driver.conftest import Call
from workbench.compiler.builds.targets import Target
from workbench.compiler.files import mxr
from workbench.compiler.ir.argument import Argument


def test_compile_prints_the_compiled_program(model: Path, call: Call):
    found, program = call("compile", model, "--cpu"), wb.parse_onnx(model, default_dim_value=1)
    program.newest_first = True
    assert found.out == f"{wb.compile(program, 'cpu').program}\n"
    assert "Compiling ... \n" in found.err


def test_run_prints_the_program_and_says_what_came_out(model: Path, call: Call):
    found = call("run", model, "--ref")
    assert found.out.count('module: "main"') == 2
    assert "y: float32[1, 4], from " in found.err


def test_inputs_are_filled_and_loaded(model: Path, call: Call, tmp_path: Path):
    zeros = json.loads(call("run", model, "--fill0", "x", "--json").out)
    assert zeros["outputs"][0]["min"] == zeros["outputs"][0]["max"] == 1
    ones = json.loads(call("run", model, "--fill1", "x", "--json").out)
    assert ones["outputs"][0]["min"] == pytest.approx(2.2)
    assert ones["outputs"][0]["max"] == pytest.approx(3.1)
    file = tmp_path / "x.arg"
    file.write_bytes(mxr.write_argument(Argument.of(np.ones((1, 3), np.float32))))
    assert json.loads(call("run", model, "--load-arg", "@x", file, "--json").out) == ones


def test_random_inputs_are_the_same_every_time(model: Path, call: Call):
    assert call("run", model, "--json").out == call("run", model, "--json").out


def test_a_dynamic_program_runs_at_the_batch(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "dynamic.mxr"
    call("read", model, "--dim-param", "@n", "{min:1, max:7}", "-o", file)
    found = json.loads(call("run", file, "--batch", 2, "--json").out)
    assert found["outputs"][0]["shape"] == "float32[2, 4]"
    found = json.loads(call("run", file, "--input-dim", "@x", 3, 3, "--json").out)
    assert found["outputs"][0]["shape"] == "float32[3, 4]"


def test_time_and_perf(model: Path, call: Call):
    assert "Total time: " in call("time", model, "-n", 2).out
    assert json.loads(call("time", model, "--iterations", 2, "--json").out)["iterations"] == 2
    report = call("perf", model, "-n", 2, "--batch", 4, "--detailed").out
    assert "\nBatch size: 4\n" in report
    assert "\ndot<float_type(4x3, 3x4)>: " in report
    assert isinstance(json.loads(call("perf", model, "-n", 2, "--json").out), dict)


def test_a_compiled_model_stays_as_it_is(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "compiled.mxr"
    text = call("compile", model).out
    call("compile", model, "-o", file)
    found = call("compile", file, "--fp16")
    assert found.out == text
    assert "already compiled" in found.err
    assert "Quantization options are ignored" in found.err
    again = call("compile", file, "--strip-context")
    assert "Compiling ... " in again.err


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "fp8", "int4-weights"])
def test_quantized_runs(model: Path, call: Call, precision: str):
    found = call("run", model, f"--{precision}", "--json")
    assert found.code == 0
    assert f"to {precision.removesuffix('-weights')} ... " in found.err


def test_no_gpu_is_said(model: Path, call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Target, "available", False)
    assert "[WARNING]: no device for target 'gpu'" in call("compile", model, "--gpu").err
    assert "--exhaustive-tune" in call("compile", model, "--exhaustive-tune").err


def test_verify_passes(model: Path, call: Call):
    found = call("verify", model)
    assert found.code == 0
    assert found.out.startswith('module: "main"')
    assert "rms_tol: 0.001\natol: 0.001\nrtol: 0.001\n" in found.out
    assert "MIGraphX verification passed successfully." in found.out


def test_verify_fails_with_exit_code_1(model: Path, call: Call):
    found = call("verify", model, "--fp16", "--rms-tol", "1e-9", "--fill1", "x")
    assert found.code == 1
    assert "rms_tol: 1e-09" in found.out
    assert "FAILED: small.onnx" in found.out
    report = json.loads(
        call("verify", model, "--fp16", "--rms-tol", "1e-9", "--fill1", "x", "--json").out
    )
    assert (report["passed"], report["mode"], report["rms_tol"]) == (False, "outputs", 1e-9)


@pytest.mark.parametrize(
    ("flag", "mode"),
    [("-i", "instructions"), ("--reduce", "reduce"), ("-b", "bisect"), ("--bisect", "bisect")],
)
def test_verify_in_parts(model: Path, call: Call, flag: str, mode: str):
    report = json.loads(call("verify", model, flag, "--json").out)
    assert (report["mode"], report["passed"]) == (mode, True)
    assert call("verify", model, flag).code == 0


def test_verify_bisect_names_the_place(model: Path, call: Call):
    found = call("verify", model, "--bisect", "--fp16", "--rms-tol", "1e-9", "--fill1", "x")
    assert found.code == 1
    assert "Failure starts at: " in found.out


def test_verify_a_compiled_model_and_quantized_ones(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "compiled.mxr"
    call("compile", model, "-o", file)
    assert call("verify", model, "-c", file).code == 0
    assert call("verify", model, "--int8", "--rms-tol", "0.1").code == 0
    assert call("verify", model, "--ref-use-double", "--atol", "1", "--rtol", "1").code == 0


def test_what_is_calibrated_whole_is_not_verified_in_parts(model: Path, call: Call):
    found = call("verify", model, "--int8", "--bisect")
    assert found.code == 2
    assert "leave out --per-instruction" in found.err.splitlines()[-1]


def test_outputs_without_names_are_numbered(model: Path, call: Call):
    found = json.loads(call("run", model, "--trim", 1, "--json").out)
    assert [o["output"] for o in found["outputs"]] == ["output_0"]


def test_a_failing_run_says_that_its_inputs_were_random(call: Call, tmp_path: Path):
    script = tmp_path / "model.py"
    lines = [
        "m = (p := migraphx.program()).get_main_module()",
        'data = m.add_parameter("data", migraphx.shape(type="float_type", lens=[2]))',
        'at = m.add_parameter("at", migraphx.shape(type="int64_type", lens=[1]))',
        'm.add_return([m.add_instruction(migraphx.op("gather", axis=0), [data, at])])',
    ]
    script.write_text("\n".join(lines))
    found = call("run", script)
    assert found.code == 1
    assert "see --fill0" in found.err.splitlines()[-1]
    assert call("run", script, "--fill0", "at").code == 0
