"""PopART's devices; the workbench's target ``ref`` stands for all of them."""

# ruff: noqa: N802, N803 - PopART's names
from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.session import Device


class SyncPattern(Enum):
    """The IPUs that wait for each other; recorded by programs, without effect."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class DeviceConnectionType(Enum):
    """The time at which a program gets its device; recorded by programs, without effect."""

    Always = 0
    OnDemand = 1
    OfflineIpu = 2
    Never = 3


class DeviceSelectionCriterion(Enum):
    """The choice among free devices; recorded by programs, without effect."""

    First = 0
    Random = 1


class DeviceManager:
    """Devices by kind."""

    def createCpuDevice(self) -> Device:
        """One device without IPUs."""
        return Device("cpu", 1, "ref")

    def createIpuModelDevice(self, options: Mapping[str, Any] | None = None) -> Device:
        """A model of ``numIPUs`` IPUs."""
        return Device("ipu_model", int((options or {}).get("numIPUs", 1)), "ref")

    createSimDevice = createIpuModelDevice  # noqa: N815 - PopART's name

    def enumerateDevices(self, *_: Any, **__: Any) -> list[Device]:
        """The IPUs of this machine: none."""
        return []

    def acquireAvailableDevice(self, numIpus: int = 1, **_: Any) -> Device:
        """Refuse.

        Raises:
            popart_exception: Always, as there are no IPUs.
        """
        raise popart_exception(
            f"no {numIpus} IPUs on this machine: use createIpuModelDevice or createCpuDevice"
        )

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """Do nothing: no device is waited for."""


__all__ = [
    "Device", "DeviceConnectionType", "DeviceManager", "DeviceSelectionCriterion", "SyncPattern",
]  # fmt: skip
