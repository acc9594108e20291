"""`--gpu` is a device: what is compiled, run, timed, compared and saved for it."""

import json
from pathlib import Path

import pytest

from tests.compat.migraphx.driver.conftest import Call
from workbench.compiler.files import mxr
from workbench.gpu.code import cache as code_cache


def outputs_of(report: str) -> list[dict[str, object]]:
    return json.loads(report)["outputs"]


def test_results_are_written_into_parameters_unless_they_are_copied(model: Path, call: Call):
    text = call("compile", model, "--gpu").out
    assert "main:#output_0 = @param:main:#output_0 -> float_type, {1, 4}, {4, 1}" in text
    assert ",main:#output_0)" in text
    assert "#output_" not in call("compile", model, "--gpu", "--enable-offload-copy").out
    assert "#output_" not in call("compile", model, "--cpu").out


@pytest.mark.parametrize("flags", [[], ["--enable-offload-copy"], ["--disable-fast-math"]])
def test_runs_come_to_the_same_as_the_reference(model: Path, call: Call, flags: list[str]):
    (wanted,) = outputs_of(call("run", model, "--ref", "--json").out)
    (found,) = outputs_of(call("run", model, "--gpu", "--json", *flags).out)
    assert found["shape"] == wanted["shape"]
    assert [found["min"], found["max"]] == pytest.approx([wanted["min"], wanted["max"]])


def test_a_dynamic_program_runs_on_the_device(model: Path, call: Call, tmp_path: Path):
    file = tmp_path / "dynamic.mxr"
    call("read", model, "--dim-param", "@n", "{min:1, max:70}", "-o", file)
    for words in (["--gpu"], ["--gpu", "--enable-offload-copy"]):
        found = call("run", file, "--batch", 5, "--json", *words)
        assert outputs_of(found.out)[0]["shape"] == "float32[5, 4]"
    call("compile", file, "--gpu", "--enable-offload-copy", "-o", file)
    again = call("run", file, "--batch", 5, "--json")
    assert outputs_of(again.out)[0]["shape"] == "float32[5, 4]"


@pytest.mark.parametrize("flags", [[], ["--enable-offload-copy"]])
def test_kernels_are_timed(model: Path, call: Call, flags: list[str]):
    assert "Total time: " in call("time", model, "--gpu", "-n", 2, *flags).out
    report = json.loads(call("perf", model, "--gpu", "-n", 3, "--json", *flags).out)
    times = {one["group"]: one["ms"] for one in report["instructions"]}
    assert any(ms > 0 for name, ms in times.items() if not name.startswith("@"))
    assert (times["@param"] > 0) == bool(flags)
    assert report["total"]["overhead"] > 0
    text = call("perf", model, "--gpu", "-n", 3, "--detailed", *flags).out
    assert "\nOverhead time: " in text


@pytest.mark.parametrize("flags", [[], ["-i"], ["--bisect"], ["--fp16"], ["--disable-fast-math"]])
def test_the_device_agrees_with_the_reference(model: Path, call: Call, flags: list[str]):
    found = call("verify", model, "--gpu", *flags)
    assert found.code == 0
    if flags != ["--bisect"]:
        assert "MIGraphX verification passed successfully." in found.out


def test_exhaustive_tuning_measures_kernels(model: Path, call: Call):
    found = call("verify", model, "--gpu", "--exhaustive-tune")
    assert found.code == 0
    assert "[WARNING]" not in found.err


def test_a_compiled_file_runs_its_kernels_where_it_is_trusted(
    model: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "compiled.mxr"
    assert call("compile", model, "--gpu", "-o", file).code == 0
    _, kept = mxr.read_compiled(file)
    assert [k.binary for k in kept.kernels]
    assert not kept.offload_copy
    wanted = call("run", model, "--gpu", "--json").out
    careful = call("run", file, "--json")
    assert careful.out == wanted
    assert "not run without --trusted-kernels" in careful.err

    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(code_cache, "compile_one", lambda k, _: pytest.fail(f"compiles {k.name}"))
    trusted = call("run", file, "--json", "--trusted-kernels")
    assert trusted.out == wanted
    assert call("verify", model, "-c", file, "--trusted-kernels").code == 0


def test_a_compiled_file_is_written_again_as_it_was(model: Path, call: Call, tmp_path: Path):
    first, second = tmp_path / "first.mxr", tmp_path / "second.json"
    call("compile", model, "--gpu", "-o", first)
    call("compile", first, "--trusted-kernels", "--json", "-o", second)
    program, kept = mxr.read_compiled(first)
    again, kept_again = mxr.read_compiled(second, "json")
    assert str(again) == str(program)
    assert kept_again == kept
