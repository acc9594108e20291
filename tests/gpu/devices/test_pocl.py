"""PoCL where it cannot compile: found out in another process, said, and answered with `cpu`."""

import ctypes
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

from workbench.gpu.devices import pocl, pocl_processor
from workbench.knobs import knobs

RUN = """
import numpy as np
import workbench as wb
text = 'module: "main"\\nx = @param:x -> float_type, {2}, {1}\\ny = neg(x) -> float_type, {2}, {1}\\n'
build = wb.compile(wb.parse(text), target="gpu")
print(build.run({"x": np.ones(2, np.float32)}).outputs)
"""


def test_without_a_linker_a_program_runs_on_the_cpu(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path), "WORKBENCH_CACHE": str(tmp_path)}
    for name in ("POCL_CACHE_DIR", "WORKBENCH_DEVICE"):
        environment.pop(name, None)
    environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "array([-1., -1.]" in done.stdout
    assert "no linker `ld` on the PATH" in done.stderr
    assert "Install a linker" in done.stderr
    assert "runs on `cpu` now" in done.stderr


def test_what_works_is_probed_once(tmp_path, monkeypatch):
    calls: list[object] = []

    def run(*args: object, **_: object) -> SimpleNamespace:
        calls.append(args)
        return SimpleNamespace(returncode=len(calls) == 1, stderr="Final linking failed")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    with knobs.scope(cache=str(tmp_path / "cache")):
        with pytest.raises(pocl.UnusableError, match=r"Final linking failed.*target='cpu'"):
            pocl.probe("1")
        for version in ("1", "1", "2"):
            pocl.probe(version)
    assert len(calls) == 3


def test_no_folder_and_no_room_are_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with knobs.scope(cache=str(tmp_path / "file")):
        monkeypatch.setattr(pocl, "keep", lambda *_: False)
        with pytest.raises(pocl.UnusableError, match=r"has room.*WORKBENCH_CACHE"):
            pocl.settle()

        def refuse(**_: object) -> str:
            raise FileNotFoundError("No usable temporary directory found")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
        with pytest.raises(pocl.UnusableError, match="no folder can be written: No usable"):
            pocl.settle()


@pytest.mark.parametrize(("cores", "bound"), [({0, 1, 2}, "1"), ({1, 2}, None)])
def test_threads_are_bound_to_cores_if_all_may_be_used(cores, bound, tmp_path, monkeypatch):
    for name in ("POCL_AFFINITY", "POCL_CACHE_DIR", "POCL_WORK_GROUP_SPECIALIZATION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    with knobs.scope(cache=str(tmp_path)):
        pocl.settle()
    assert os.environ.get("POCL_AFFINITY") == bound


SLOTS = 80


def device_of(processor: bytes, version: str) -> tuple[SimpleNamespace, object]:
    """A device as PoCL lays it out: the triple, and after it the processor."""
    held = [ctypes.create_string_buffer(t) for t in (b"x86_64-unknown-linux-gnu", processor)]
    slots = (ctypes.c_uint64 * 1024)()
    slots[SLOTS - 1], slots[SLOTS] = map(ctypes.addressof, held)
    made = SimpleNamespace(version=version, int_ptr=ctypes.addressof(slots))
    return made, (held, slots)


def test_a_processor_newer_than_its_compiler_gets_a_name_that_it_knows():
    version = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
    device, (_, slots) = device_of(b"generic", version)
    name = pocl_processor.recognise(device)
    assert name in {"skylake-avx512", "haswell", "x86-64"}
    assert ctypes.string_at(slots[SLOTS]) == name.encode()
    assert pocl_processor.recognise(device) == ""  # there is nothing left to change


@pytest.mark.parametrize(
    ("processor", "version"), [(b"znver3", "…-generic"), (b"generic", "…-znver3")]
)
def test_a_processor_that_is_known_is_left_as_it_is(processor, version):
    device, (_, slots) = device_of(processor, version)
    assert pocl_processor.recognise(device) == ""
    assert ctypes.string_at(slots[SLOTS]) == processor


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("avx2 bmi1 bmi2 fma f16c movbe", b"haswell"),
        ("avx2 fma", b"x86-64"),
        ("", b"x86-64"),
        (
            "avx512f avx512bw avx512cd avx512dq avx512vl bmi1 bmi2 fma avx2 f16c movbe",
            b"skylake-avx512",
        ),
    ],
)
def test_the_name_asks_for_no_feature_that_is_missing(flags, name):
    assert pocl_processor._best(set(flags.split())) == name  # pyright: ignore[reportPrivateUsage]
