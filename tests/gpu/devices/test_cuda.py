"""CUDA: NVRTC without a GPU, the device on a fake driver, and on a GPU what only CUDA does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.devices.kernels import ADD, SUM, built, memory, scalars
from tests.gpu.hip_over_cuda import build
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.devices.registry import device as chosen

HERE = Path(__file__).parent
DYNAMIC = """
extern "C" __global__ void last(f32 *to) {
  extern __shared__ f32 s[];
  for (i32 i = threadIdx.x; i < 30000; i += 64) s[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) to[0] = s[29999];
}
"""
WILD = 'extern "C" __global__ void wild(f32 *a) { ((f32 *)8)[0] = 1; }'
LOSE = f"""
import numpy as np
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.registry import device
d = device("cuda")
wild = d.load(d.compiler.compile(d.dialect.prologue + {WILD!r}, "wild"), "wild")
buffer = d.allocate(4)
d.launch(wild, (1, 1, 1), (1, 1, 1), 0, [d.pointer(buffer, 0, 4)])
for again in (d.synchronize, d.stream, lambda: d.allocate(1 << 20)):
    try:
        again()
    except DeviceError as error:
        print(error)
d.free(buffer)
d.trim()
print(d.in_use)
"""


def nvrtc(arch="sm_90"):
    try:
        return compiler_for(f"cuda:{arch}")
    except DeviceError as error:
        if os.environ.get("WORKBENCH_FORBID_SKIPS", "") not in {"", "0"}:
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("name", "source"), [("add", ADD), ("sum", SUM)])
def test_kernels_compile_without_a_gpu(arch, name, source):
    compiler = nvrtc(arch)
    code = compiler.compile(compiler.dialect.prologue + source, name)
    assert code.binary.startswith(b"\x7fELF")
    assert f".target {arch}" in code.assembly
    assert f".entry {name}(" in code.assembly
    assert code.log == ""


def test_one_source_gives_one_code_object():
    compiler = nvrtc()
    source = compiler.dialect.prologue + ADD
    assert compiler.compile(source, "add") == compiler.compile(source, "add")
    assert nvrtc("sm_80").key != compiler.key


def test_a_kernel_that_does_not_compile_shows_its_line():
    compiler = nvrtc()
    with pytest.raises(
        DeviceError, match="kernel f does not compile with NVRTC for sm_90"
    ) as error:
        compiler.compile('extern "C" __global__ void f(float *a) {\n  a[0] = missing;\n}\n', "f")
    assert "> 2 |   a[0] = missing;" in str(error.value)


def test_an_unknown_architecture_is_refused_with_those_there_are():
    nvrtc()
    with pytest.raises(DeviceError, match=r"does not compile for 'sm_1'; it knows .*sm_90"):
        compiler_for("cuda:sm_1")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The output of a tour through the device with a fake driver."""
    pytest.importorskip("cuda.bindings.driver")
    if not sys.platform.startswith("linux") or build.compiler() is None:
        pytest.skip("there is no C compiler for Linux")
    folder = tmp_path_factory.mktemp("fake_cuda")
    build.library(HERE / "fake_cuda.c", folder / "libcuda.so.1")
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(HERE.parents[2])}
    command = [sys.executable, "-m", "tests.gpu.devices.fake_tour"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_device_runs_kernels_and_graphs(told):
    assert (told["name"], told["arch"], told["warp"]) == ("a fake GPU", "sm_90", 32)
    assert told["right"]
    assert told["replayed"]
    assert 0 < told["seconds"] < 1
    assert (told["registers"], told["blocks"]) == (10, 8)


def test_mistakes_are_named_and_the_device_goes_on(told):
    errors = told["errors"]
    assert "cuda:0 (a fake GPU) is out of memory: 4 TiB asked for" in errors["memory"]
    assert "could not load kernel twice: CUDA_ERROR_INVALID_IMAGE" in errors["image"]
    assert "could not find thrice: CUDA_ERROR_NOT_FOUND" in errors["kernel"]
    assert "there is no cuda:99; there is cuda:0 (a fake GPU)" in errors["index"]
    assert "could not give kernel twice 1 MiB of shared memory" in errors["shared"]


def test_a_device_that_is_lost_says_so_at_each_call_and_buffers_are_still_freed(told):
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in told["lost"]
    assert "restart the process" in told["lost"]
    assert told["after"] == told["lost"]
    assert (told["left"], told["taken"]) == (0, 0)


@pytest.fixture
def cuda():
    return chosen("cuda")


@pytest.mark.gpu
def test_more_shared_memory_than_a_kernel_has_by_itself(cuda):
    function = built(cuda, DYNAMIC, "last")
    with memory(cuda, 4) as buffer:
        pointer = cuda.pointer(buffer, 0, 4)
        cuda.launch(function, (1, 1, 1), (64, 1, 1), 120_000, [pointer])
        back = np.empty(1, np.float32)
        cuda.download(back, pointer)
        assert back[0] == 29999
        with pytest.raises(DeviceError, match=r"give kernel last .* of shared memory"):
            cuda.launch(function, (1, 1, 1), (64, 1, 1), 1 << 20, [pointer])


@pytest.mark.gpu
def test_a_captured_graph_is_replayed(cuda):
    function, stream = built(cuda, ADD, "add"), cuda.stream()
    with memory(cuda, 256) as buffer:
        pointer = cuda.pointer(buffer, 0, 256)
        cuda.fill(pointer, 256)
        cuda.synchronize()
        run = cuda.prepare(function, (1, 1, 1), (64, 1, 1), 0, [pointer, pointer, *scalars(64, 1)])
        with cuda.capture(stream) as captured:
            run(stream)
            run(stream)
        for _ in range(5):
            cuda.replay(captured[0], stream)
        back = np.empty(64, np.float32)
        cuda.download(back, pointer, stream)
    assert (back == 10).all()


@pytest.mark.gpu
def test_a_capture_that_fails_leaves_its_stream_usable(cuda):
    stream = cuda.stream()
    with pytest.raises(ZeroDivisionError), cuda.capture(stream):
        _ = 1 / 0
    with memory(cuda, 256) as buffer:
        cuda.fill(cuda.pointer(buffer, 0, 256), 256, 1, stream)
        cuda.synchronize(stream)
    with (
        pytest.raises(DeviceError, match="the default stream cannot be captured"),
        cuda.capture(None),
    ):
        pass


@pytest.mark.gpu
def test_a_launch_costs_little(cuda):
    import time

    function = built(cuda, ADD, "add")
    with memory(cuda, 256) as buffer:
        p = cuda.pointer(buffer, 0, 256)
        run = cuda.prepare(function, (1, 1, 1), (64, 1, 1), 0, [p, p, *scalars(64, 1)])
        run(None)
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            run(None)
        seconds = time.perf_counter() - start
    print(f"{seconds / 500 * 1e6:.2f} µs a launch")
    assert seconds / 500 < 10e-6


@pytest.mark.gpu
def test_a_stray_kernel_loses_the_device_and_says_so():
    done = subprocess.run([sys.executable, "-c", LOSE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all("a kernel accessed memory outside its buffers" in line for line in lines[:3])
    assert all("restart the process" in line for line in lines[:3])
    assert lines[3] == "0"
