"""Behaviour of OpenCL alone."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.gpu.devices.kernels import ADD, SUM, built, memory, scalars
from workbench.compiler.errors import DeviceError
from workbench.gpu.code.cache import Expected, compiled
from workbench.gpu.devices import pocl
from workbench.gpu.devices.opencl_platforms import is_pocl
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.devices.registry import device as chosen
from workbench.gpu.kernels.kernel import Kernel
from workbench.knobs import knobs


@pytest.fixture
def opencl():
    return chosen("opencl")


def test_dynamic_shared_memory_is_refused(opencl):
    function = built(opencl, ADD, "add")
    with pytest.raises(DeviceError, match="kernel add needs 64 bytes of dynamic shared memory"):
        opencl.launch(function, (1, 1, 1), (64, 1, 1), 64, [])


def test_a_block_that_is_not_the_kernels_own_is_refused(opencl):
    function = built(opencl, ADD, "add")
    with memory(opencl, 256) as buffer:
        p = opencl.pointer(buffer, 0, 256)
        with pytest.raises(DeviceError, match=r"run kernel add .*\(32, 1, 1\): INVALID_WORK_GROUP"):
            opencl.launch(function, (1, 1, 1), (32, 1, 1), 0, [p, p, *scalars(1, 1)])


def test_a_buffer_of_another_device_is_refused(opencl):
    other = type(opencl)(opencl.index)
    buffer = other.allocate(64)
    with pytest.raises(DeviceError, match=r"belongs to .*; copy its contents through the host"):
        opencl.free(buffer)
    other.free(buffer)


def test_an_index_too_high_names_what_there_is():
    with pytest.raises(DeviceError, match=r"there is no opencl:99; there is opencl:0 \("):
        chosen("opencl:99")


def test_nothing_is_compiled_for_an_architecture():
    with pytest.raises(DeviceError, match="compiles only for devices that are present"):
        compiler_for("opencl:rocketlake")


def test_code_that_is_not_optimized_is_other_code(opencl):
    quick = type(opencl)(opencl.index, optimize=False)
    assert quick.compiler.key != opencl.compiler.key
    assert opencl.load(quick.compiler.compile(opencl.dialect.prologue + ADD, "add"), "add")


def test_a_kernel_may_call_what_is_not_declared_for_pocl(opencl):
    """It is compiled with PoCL's header then."""
    clamped = ADD.replace("a[i] + c", "clamp(a[i], 0.0f, c)").replace(" add(", " clamped(")
    array = np.array([-1, 0.5, 9], np.float32)
    with memory(opencl, array.nbytes) as buffer:
        p = opencl.pointer(buffer, 0, array.nbytes)
        opencl.upload(p, array)
        function = built(opencl, clamped, "clamped")
        opencl.launch(function, (1, 1, 1), (64, 1, 1), 0, [p, p, *scalars(3, 2)])
        opencl.download(array, p)
    assert array.tolist() == [0, 0.5, 2]
    assert opencl.compiler.with_header in (["clamped"], [])  # no other OpenCL has such a header


def test_a_device_is_there_when_no_cache_can_be_written(tmp_path):
    """PoCL by itself has no device then."""
    file = tmp_path / "file"
    file.write_text("")
    environment = os.environ | {"WORKBENCH_CACHE": str(file / "cache")}
    environment.pop("POCL_CACHE_DIR", None)
    code = (
        "from workbench.gpu.devices.registry import device; d = device('opencl');"
        f"print(len(d.compiler.compile(d.dialect.prologue + {ADD!r}, 'add').binary) > 0, d.peaks())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("True Peaks("), done.stderr


def test_many_kernels_are_compiled_in_several_processes_where_pocl_has_one_core(
    opencl, monkeypatch
):
    """Here is compiled what fails there, and everything if the other processes end."""
    prologue, here = opencl.dialect.prologue, opencl.compiler
    with knobs.scope(threads=2), here.team(100) as team:
        with monkeypatch.context() as patch:
            if is_pocl(opencl.device):  # any other OpenCL has threads
                patch.setattr(here, "compile", None)
            code, other = (there.compile(prologue + ADD, "add") for there in team)
        assert code.log == other.log == here.compile(prologue + ADD, "add").log
        there = team[0]
        assert there.key == here.key
        with pytest.raises(DeviceError, match=r"(?s)does not compile.*nonsense"):
            there.compile(prologue + ADD.replace("f32 c)", "f32 c) nonsense"), "add")
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with knobs.scope(threads=2), opencl.compiler.team(100) as team:
        assert [one.compile(prologue + SUM, "sum").binary for one in team]
    function = opencl.load(code, "add")
    array = np.arange(3, dtype=np.float32)
    with memory(opencl, array.nbytes) as buffer:
        p = opencl.pointer(buffer, 0, array.nbytes)
        opencl.upload(p, array)
        opencl.launch(function, (1, 1, 1), (64, 1, 1), 0, [p, p, *scalars(3, 2)])
        opencl.download(array, p)
    assert array.tolist() == [2, 3, 4]


def test_few_kernels_need_no_other_process(opencl):
    with knobs.scope(threads=8), opencl.compiler.team(3) as team:
        assert set(team) == {opencl.compiler}


def test_processes_are_expected_for_many_kernels_that_are_missing(tmp_path, opencl, monkeypatch):
    """Those that the cache or a file has do not count, nor does one that is made twice."""
    compiler = opencl.compiler
    if not is_pocl(opencl.device):
        assert not compiler.expect(0)
        return
    asked: list[int] = []
    monkeypatch.setattr(pocl.Trial, "expect", lambda _, processes: asked.append(processes))
    kernels = [Kernel(f"k{k}", f"KERNEL(1) k{k}() {{}}\n", (1, 1, 1), (1, 1, 1)) for k in range(20)]
    with knobs.scope(threads=2, cache=str(tmp_path)):
        compiled(kernels[:2], compiler, progress=False)
        expected = Expected(compiler, {"k2"})
        for kernel in [*kernels, *kernels]:
            expected.add(kernel)
    assert asked == [0] + [0] * 15 + [2] * 2
