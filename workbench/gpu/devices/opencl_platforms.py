"""OpenCL as it is here: the library, its devices, and the properties that schedules depend on."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, cast

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import DeviceFacts
from workbench.gpu.devices.pocl import settle
from workbench.gpu.devices.pocl_processor import vector_registers
from workbench.gpu.machine import CPU, Machine

HOW_TO_INSTALL = (
    "pip install pocl-binary-distribution runs kernels on the CPU of a Linux x86-64 machine; "
    "a GPU's driver brings OpenCL for that GPU"
)
_POCL = "Portable Computing Language"
_LIKELY_WARP = 32
"""Work items in lockstep, for a GPU that does not report them."""


@cache
def pyopencl_module() -> Any:
    """The module pyopencl.

    Raises:
        DeviceError: It is not installed.
    """
    try:
        pyopencl = cast("Any", import_module("pyopencl"))
    except ImportError as error:
        raise DeviceError(
            f"pyopencl is not installed ({error}): pip install pyopencl pocl-binary-distribution"
        ) from error
    settle()
    return pyopencl


@cache
def present() -> tuple[Any, ...]:
    """Every OpenCL device, GPUs before CPUs."""
    cl = pyopencl_module()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError(f"there is no OpenCL platform: {HOW_TO_INSTALL}") from error
    found = [device for platform in platforms for device in _devices_of(cl, platform)]
    if not found:
        names = ", ".join(p.name for p in platforms) or "none"
        raise DeviceError(f"no OpenCL platform has a device (platforms: {names}): {HOW_TO_INSTALL}")
    return tuple(sorted(found, key=lambda d: bool(d.type & cl.device_type.CPU)))


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except cl.Error:  # a platform without a device
        return []


def facts_of(device: Any) -> DeviceFacts:
    """The properties of a device."""
    cl = pyopencl_module()
    cpu = bool(device.type & cl.device_type.CPU)
    return DeviceFacts(
        name=" ".join(device.name.removeprefix("pthread-").split()),
        arch=_arch(device),
        compute_units=device.max_compute_units,
        memory=device.global_mem_size,
        clock=float(device.max_clock_frequency),
        shared=device.local_mem_size,
        threads=device.max_work_group_size,
        version=device.platform.version.split("  ")[0],
        processor="CPU" if cpu else "GPU",
    )


def is_pocl(device: Any) -> bool:
    """Whether a device is PoCL's."""
    return _POCL in device.platform.name


def machine_of(device: Any, facts: DeviceFacts) -> Machine:
    """The machine description of a device: a GPU's sizes, and its warp size from the vendor's extension."""
    if facts.processor == "CPU":
        return replace(CPU, **dict(zip(("vector", "registers"), vector_registers(), strict=True)))
    told = (getattr(device, name, 0) for name in ("warp_size_nv", "wavefront_width_amd"))
    return Machine(
        warp=next(filter(None, told), _LIKELY_WARP),
        units=facts.compute_units,
        shared=min(facts.shared, Machine.shared),
        threads=min(facts.threads, Machine.threads),
    )


def _arch(device: Any) -> str:
    """The processor that PoCL compiles for, which ends a device's version text."""
    said = re.search(r"HSTR: \S+-(\w+)$", device.version.strip())
    return said[1] if said else " ".join(device.version.split())
