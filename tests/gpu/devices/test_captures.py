"""Captures of graphs beside other threads, with a stand-in for the driver that counts and orders calls."""

# pyright: reportPrivateUsage=false

import gc
from threading import Event, RLock, Thread
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.gpu.devices.cuda import CudaDevice
from workbench.gpu.devices.early_launch import has_early_launches
from workbench.gpu.devices.hip import HipDevice


class Driver:
    """Answers every call with success and a number; refuses to wait for all streams during a capture."""

    class CUresult:
        CUDA_SUCCESS = 0

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.capturing = self.refused = False

    def __getattr__(self, name: str) -> Any:
        if name in ("CUlaunchAttribute", "CUlaunchConfig"):
            return lambda: Driver.Fields(value=Driver.Fields())
        if name[0].isupper() or name.endswith(("_t", "Mode")):  # an enumeration
            return Driver.Names()
        return lambda *_: self.call(name)

    class Fields(SimpleNamespace):
        """A structure."""

    class Names:
        def __getattr__(self, name: str) -> int:
            return 1

    def call(self, name: str) -> tuple[int, int]:
        self.calls.append(name)
        if "BeginCapture" in name:
            self.capturing = True
        if "EndCapture" in name:
            self.capturing = False
        if name in ("cuCtxSynchronize", "hipDeviceSynchronize"):
            self.refused |= self.capturing
        return 0, len(self.calls)

    def count(self, part: str) -> int:
        return sum(part in c for c in self.calls)


def device(kind: type[Any]) -> tuple[Any, Driver]:
    made, driver = kind.__new__(kind), Driver()
    made._driver = made._hip = driver
    made._success, made._context, made.lost = 0, 1, ""
    made._captures, made._capturing = RLock(), set()
    made._overlapping, made._overlaps = set(), True
    made._streams, made._modules, made._graphs = [], [], []
    if kind is CudaDevice:
        made._name = "cuda:0"
    else:
        made.index, made._do = 0, lambda _, call, *given: call(*given)[1]
    return made, driver


@pytest.mark.parametrize("kind", [CudaDevice, HipDevice])
def test_graphs_that_nobody_holds_are_dropped_at_the_next_capture(kind: type[Any]):
    made, driver = device(kind)
    for _ in range(3):
        with made.capture(7) as graph:
            pass
        assert len(graph) == 1
        graph.clear()
    assert driver.count("GraphInstantiate") == 3
    assert driver.count("GraphExecDestroy") == 2


@pytest.mark.parametrize("kind", [CudaDevice, HipDevice])
def test_who_waits_for_the_whole_device_waits_for_captures_first(kind: type[Any]):
    made, driver = device(kind)
    begun, waiting = Event(), Event()

    def capture() -> None:
        with made.capture(7):
            begun.set()
            waiting.wait(5)
            sleep(0.05)  # the other one calls the driver meanwhile, if nothing keeps it

    def wait() -> None:
        begun.wait(5)
        waiting.set()
        made.synchronize()

    threads = [Thread(target=capture), Thread(target=wait)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert driver.count("Synchronize") == 1
    assert not driver.refused


@pytest.mark.parametrize("kind", [CudaDevice, HipDevice])
def test_no_finalizer_runs_in_a_capture(kind: type[Any]):
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            made.synchronize()

    made, driver = device(kind)
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1)
    try:
        with made.capture(7):
            Cycle()
            kept = [[] for _ in range(1000)]
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert kept
    assert driver.count("Synchronize") == 1
    assert not driver.refused
    assert gc.isenabled()


@pytest.mark.parametrize("kind", [CudaDevice, HipDevice])
def test_a_capture_that_fails_ends_and_leaves_nothing(kind: type[Any]):
    made, driver = device(kind)
    with pytest.raises(ValueError, match="why"), made.capture(7):
        raise ValueError("why")
    assert not driver.capturing
    assert driver.count("GraphDestroy") == 1
    assert driver.count("Instantiate") == 0


class Function:
    """A loaded kernel."""

    number, name, dynamic = 5, "kernel", 0


def test_kernels_begin_early_only_in_captures_that_allow_it():
    made, driver = device(CudaDevice)
    run = made.prepare(Function(), (4, 1, 1), (32, 1, 1), 0, [64])
    run(7)
    with made.capture(7):
        run(7)
    assert driver.count("cuLaunchKernelEx") == 0
    with made.capture(7, overlap=True):
        run(7)
        run(8)  # another stream
    run(7)
    assert driver.count("cuLaunchKernelEx") == 1
    assert driver.count("cuLaunchKernel") == 5


@pytest.mark.parametrize(
    ("arch", "version", "has"),
    [("sm_90", "CUDA 12.3", True), ("sm_120", "CUDA 13.0", True), ("sm_89", "CUDA 13.0", False),
     ("sm_90", "CUDA 12.2", False)],
)  # fmt: skip
def test_devices_and_drivers_that_launch_early(arch: str, version: str, has: bool):
    facts: Any = SimpleNamespace(arch=arch, version=version)
    assert has_early_launches(facts) is has


def test_older_devices_launch_in_order():
    made, driver = device(CudaDevice)
    made._overlaps = False
    with made.capture(7, overlap=True):
        made.prepare(Function(), (4, 1, 1), (32, 1, 1), 0, [64])(7)
    assert driver.count("cuLaunchKernelEx") == 0
