"""The device that kernels are tested on: OpenCL on the CPU, or what WORKBENCH_DEVICE names."""

import os
from pathlib import Path

import pytest

from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import device as opened


@pytest.fixture(scope="session")
def device() -> Device:
    """The device of this run of the tests."""
    return opened(os.environ.get("WORKBENCH_DEVICE") or "opencl")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs AMD's compiler where HIP runs over CUDA: its hiprtc compiles for NVIDIA's GPUs."""
    over_cuda = Path(os.environ.get("ROCM_PATH", "")).name == "hip_over_cuda"
    compiles = item.path.name == "test_hip.py" and "compile" in getattr(item, "fixturenames", ())
    if over_cuda and (compiles or "hip:gfx" in item.name):
        pytest.skip("AMD's compiler is not in the HIP library over CUDA")
