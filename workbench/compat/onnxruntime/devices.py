"""Names of devices and descriptions of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.compat.onnxruntime.enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemType,
)

KINDS = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "hip": (1, OrtDeviceVendorId.AMD),
    "rocm": (1, OrtDeviceVendorId.AMD),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "opencl": (1, OrtDeviceVendorId.NONE),
    "webgpu": (1, OrtDeviceVendorId.NONE),
    "npu": (3, OrtDeviceVendorId.NONE),
    "cann": (3, OrtDeviceVendorId.HUAWEI),
}
"""The number of each kind of device, and its vendor."""


class OrtDevice:
    """The name of a device: its kind, its memory, its number and its vendor."""

    def __init__(
        self,
        device_type: int | OrtDevice,
        mem_type: int = 0,
        device_id: int = 0,
        vendor_id: int = 0,
    ) -> None:
        """Name a device by numbers, or as another object does."""
        self._kind = ""
        if isinstance(device_type, OrtDevice):
            other = device_type
            device_type, mem_type = other.device_type(), other.device_mem_type()
            device_id, vendor_id = other.device_id(), other.device_vendor_id()
            self._kind = other._kind
        self._numbers = (device_type, mem_type, device_id, int(vendor_id))

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of a kind such as ``cpu`` or ``cuda``.

        Raises:
            Exception: The kind is unknown (onnxruntime raises this type).
        """
        found = KINDS.get(ort_device_name.lower())
        if found is None:
            raise Exception(f"Unsupported device type: {ort_device_name}")
        made = OrtDevice(found[0], 0, device_id, found[1] if vendor_id < 0 else vendor_id)
        made._kind = ort_device_name.lower()
        return made

    def device_type(self) -> int:
        """The number of its kind: 0 is the CPU, 1 a GPU, 3 an NPU."""
        return self._numbers[0]

    def device_mem_type(self) -> int:
        """The number of its kind of memory."""
        return self._numbers[1]

    def device_id(self) -> int:
        """Its number among those of its kind."""
        return self._numbers[2]

    def device_vendor_id(self) -> int:
        """The vendor's PCI number; 0 if none is meant."""
        return self._numbers[3]

    mem_type = device_mem_type
    vendor_id = device_vendor_id

    def _get_c_device(self) -> OrtDevice:
        return self

    @property
    def kind(self) -> str:
        """The name of its kind; of a GPU that is named by numbers alone, its vendor's, or CUDA."""
        type, _, _, vendor = self._numbers
        near = [name for name, (number, _) in KINDS.items() if number == type]
        named = (n for n in near if vendor and KINDS[n][1] == vendor)
        return self._kind or next(named, near[0] if near else "cpu")

    @staticmethod
    def cpu() -> int:
        """The number of CPUs' kind."""
        return 0

    @staticmethod
    def cuda() -> int:
        """The number of GPUs' kind."""
        return 1

    gpu = dml = webgpu = cuda

    @staticmethod
    def npu() -> int:
        """The number of NPUs' kind."""
        return 3

    cann = npu

    @staticmethod
    def default_memory() -> int:
        """The number of the default memory."""
        return 0


class OrtMemoryInfo:
    """A description of memory; sessions here choose their own, so it is only kept and shown."""

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR,
        device_id: int = 0,
        mem_type: int = OrtMemType.DEFAULT,
    ) -> None:
        """Describe memory."""
        self.name = name
        self.allocator_type = allocator_type
        self.device_id = device_id
        self.mem_type = mem_type
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: int,  # noqa: ARG004  # of onnxruntime's signature
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,  # noqa: ARG004
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """Describe memory by onnxruntime's newer list of facts."""
        made = OrtMemoryInfo(name, allocator_type, device_id)
        made.device_vendor_id, made.device_mem_type = vendor_id, device_mem_type
        return made

    def __repr__(self) -> str:
        """Its name and device."""
        return f"<OrtMemoryInfo {self.name}:{self.device_id}>"


class OrtArenaCfg:
    """Settings of onnxruntime's arena; memory here is planned instead, so they are only kept.

    Args:
        settings: The four numbers ``max_mem``, ``arena_extend_strategy``, ``initial_chunk_size_bytes`` and
            ``max_dead_bytes_per_chunk``, or a dictionary of all settings.
    """

    _NAMES = (
        "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
        "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes",
    )  # fmt: skip

    def __init__(self, *settings: Any) -> None:
        """Keep the settings.

        Raises:
            ValueError: There is no such setting, or the count is wrong.
        """
        given: Mapping[str, int]
        if len(settings) == 1 and isinstance(settings[0], Mapping):
            given = dict(settings[0])  # pyright: ignore[reportUnknownArgumentType]
        elif len(settings) == 4:
            given = dict(zip(self._NAMES, settings, strict=False))
        else:
            raise ValueError(f"OrtArenaCfg: expected a dictionary or 4 numbers, found {settings!r}")
        if unknown := [name for name in given if name not in self._NAMES]:
            raise ValueError(
                f"Invalid OrtArenaCfg option: {unknown[0]}; expected {', '.join(self._NAMES)}"
            )
        for name in self._NAMES:
            setattr(self, name, given.get(name, -1))
