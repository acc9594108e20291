"""Faults are planted in models and compared by values, for which kernels need no optimization."""

from collections.abc import Generator

import pytest

from tests.faults.kernels import DEVICE
from tests.gpu.harness import unoptimized
from workbench.gpu.devices.registry import device


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Generator[None]:
    """The device of the faults, with kernels as most of the tests' are."""
    with unoptimized(device(DEVICE)):
        yield
