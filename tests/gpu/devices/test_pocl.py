"""PoCL where it cannot compile: found out in another process, said, and answered with `cpu`."""

import ctypes
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import workbench as wb
from workbench.gpu.devices import pocl, pocl_processor, registry
from workbench.gpu.devices.opencl import OpenCLDevice
from workbench.gpu.devices.opencl_platforms import is_pocl
from workbench.gpu.devices.registry import device as opened
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run import runner
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


class Started:
    """Stands for processes that compile: the first one cannot."""

    def __init__(self) -> None:
        self.count, self.ended = 0, 0
        self.is_there, self.compiled = True, 0

    def __call__(self, _: str) -> "Started":
        self.count += 1
        return self

    def failure(self) -> str:
        return "it says: Final linking failed" if self.count == 1 else ""

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """The processes that trials start, in an environment in which none has succeeded."""
    made = Started()
    monkeypatch.setattr(pocl, "started", made)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    with knobs.scope(cache=str(tmp_path / "cache")):
        yield made


def test_what_works_is_tried_once(processes):
    trial = pocl.Trial("1", "cpu")
    with pytest.raises(pocl.UnusableError, match=r"Final linking failed.*target='cpu'"):
        trial.confirm()
    assert (processes.count, processes.ended, trial.is_over) == (1, 1, False)
    trial.confirm()
    for version in ("1", "1", "2"):
        pocl.Trial(version, "cpu").confirm()
    assert processes.count == 3


def test_the_process_that_has_tried_compiles_and_others_are_started_early(processes):
    processes.count = 1  # the first one fails
    trial = pocl.Trial("1", "cpu")
    assert processes.count == 2  # nothing waits for it yet
    for expected in (1, 2, 3, 3):
        trial.expect(expected)
    assert processes.count == 4
    trial.confirm()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(trial.process())
        assert processes.count == 4
        stack.enter_context(trial.process())
        assert processes.count == 5


def test_a_process_waits_for_further_kernels(processes):
    processes.count = 1
    trial = pocl.Trial("1", "cpu")
    for _ in range(2):
        with trial.process():
            assert processes.count == 2
    with pytest.raises(KeyboardInterrupt), trial.process():  # it may be in the middle of one
        raise KeyboardInterrupt
    assert processes.ended == 1


@pytest.mark.parametrize(("attribute", "value"), [("is_there", False), ("compiled", 500)])
def test_a_process_that_has_died_or_compiled_much_ends(processes, attribute, value):
    processes.count = 1
    trial = pocl.Trial("1", "cpu")
    with trial.process():
        setattr(processes, attribute, value)
    assert processes.ended == 1
    with trial.process():
        assert processes.count == 3


def test_processes_that_nobody_asks_for_end(processes, monkeypatch):
    processes.count = 1
    timers: list[threading.Timer] = []
    monkeypatch.setattr(pocl, "Timer", lambda *a: timers.append(threading.Timer(*a)) or timers[-1])
    monkeypatch.setattr(pocl, "_SPARE", 0.01)
    trial = pocl.Trial("1", "cpu")
    for timer in timers:
        timer.join()
    assert (processes.count, processes.ended) == (2, 1)
    trial.confirm()
    assert processes.count == 3


def test_an_interrupted_trial_begins_again(processes, monkeypatch):
    def interrupted(_: Started) -> str:
        raise KeyboardInterrupt

    trial = pocl.Trial("1", "cpu")
    with monkeypatch.context() as patch:
        patch.setattr(Started, "failure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trial.confirm()
    assert processes.ended == 1
    trial.confirm()
    assert processes.count == 2


@pytest.fixture
def process(tmp_path, monkeypatch):
    """A process that compiles."""
    device = opened("opencl").device
    if not is_pocl(device):
        pytest.skip("another OpenCL compiles in threads")
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    made = pocl.started(device.name)
    yield made
    made.end()


def is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="Linux lists processes there")
def test_a_process_that_ends_leaves_nothing(process, tmp_path):
    number = process._process.pid  # pyright: ignore[reportPrivateUsage]
    assert process.failure() == ""
    assert is_there(number)
    assert os.getsid(number) == number  # no interrupt from the keyboard reaches it
    assert list(tmp_path.iterdir())
    process.end()
    assert not is_there(number)
    assert not list(tmp_path.iterdir())


def test_a_process_that_dies_says_so_at_once(process):
    assert process.failure() == ""
    process._process.kill()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises((OSError, EOFError)):
        process.compile("__kernel void f() {}", "")


def test_a_process_that_finds_no_device_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    process = pocl.started("no such device")
    assert "StopIteration" in process.failure()
    process.end()


@pytest.mark.usefixtures("processes")
def test_passes_do_not_wait_for_the_trial(monkeypatch):
    """The device is known while it is tried; to run kernels it has to have succeeded."""
    order: list[str] = []
    device = OpenCLDevice()
    if not is_pocl(device.device):
        pytest.skip("nothing is tried on another OpenCL")
    monkeypatch.setitem(registry._open, "opencl:0", device)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Started, "failure", lambda _: order.append("waited") or "")
    monkeypatch.setattr(runner, "lower", lambda *a: order.append("lowered") or lower(*a))
    program = wb.parse('module: "main"\nx = @param:x -> float_type, {2}, {1}\n'
                       'y = neg(x) -> float_type, {2}, {1}\n')  # fmt: skip
    wb.compile(program, target="gpu", device="opencl")
    assert order == ["lowered", "waited"]


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
