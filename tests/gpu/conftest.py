"""The device that kernels are tested on: OpenCL on the CPU, or what WORKBENCH_DEVICE names."""

import os

import pytest

from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import device as opened


@pytest.fixture(scope="session")
def device() -> Device:
    """The device of this run of the tests."""
    return opened(os.environ.get("WORKBENCH_DEVICE") or "opencl")
