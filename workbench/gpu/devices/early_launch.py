"""Launches on CUDA that may begin as the kernel before them ends."""

from __future__ import annotations

from typing import Any

from workbench.gpu.devices.base import DeviceFacts

_CAPABILITY = 90
"""The least compute capability of devices that have them."""
_DRIVER = (12, 3)
"""The least version of the driver that captures them in graphs."""


def has_early_launches(facts: DeviceFacts) -> bool:
    """Whether a device and its driver have them."""
    version = tuple(map(int, facts.version.removeprefix("CUDA ").split(".")))
    return int(facts.arch.removeprefix("sm_")) >= _CAPABILITY and version >= _DRIVER


def early_launch(driver: Any, sizes: tuple[int, ...], queue: int) -> Any:
    """The configuration of such a launch: programmatic dependent launch, in CUDA's words.

    Args:
        driver: The bindings of the driver.
        sizes: Blocks and work items of a block along three axes, and bytes of dynamic shared memory.
        queue: The handle of the stream.
    """
    attribute, config = driver.CUlaunchAttribute(), driver.CUlaunchConfig()
    kinds = driver.CUlaunchAttributeID
    attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.gridDimX, config.gridDimY, config.gridDimZ = sizes[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = sizes[3:6]
    config.sharedMemBytes = sizes[6]
    config.hStream, config.attrs, config.numAttrs = queue, [attribute], 1
    return config
