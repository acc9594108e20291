"""The devices of this machine: look-up by name, the best one, and why a kind has none."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Compiler, Device, DeviceFacts
from workbench.gpu.devices.pool import size_text
from workbench.knobs import knobs

if TYPE_CHECKING:
    from pandas import DataFrame

KINDS = ("hip", "cuda", "opencl")
"""The kinds in order of preference; an OpenCL device that is a CPU comes last."""
_EXAMPLES = "cuda, cuda:1, hip:0 or opencl:0; without a device also hip:gfx90a or cuda:sm_90"

_lock = RLock()
_open: dict[str, Device] = {}
_started: set[str] = set()
"""Kinds whose runtime this process has started."""
_forked_after: set[str] = set()
"""Kinds whose runtime the parent had started when it forked this process."""


@dataclass(frozen=True)
class Availability:
    """A device that is present, or a kind without a device and the reason."""

    device: str
    """The device's spec, such as ``cuda:0``."""
    kind: str
    name: str = ""
    arch: str = ""
    processor: str = ""
    compute_units: int = 0
    memory: str = ""
    version: str = ""
    missing: str = ""
    """What is missing and how to install it; empty if the device can be used."""


def devices() -> DataFrame:
    """A row for each device that is present, best first, and for each kind without one.

    Columns: device (a value for ``device=`` and ``WORKBENCH_DEVICE``), kind, name, arch, processor, compute
    units, memory, version of the driver, and what is missing. No device is opened.
    """
    import pandas as pd  # noqa: PLC0415

    rows = [asdict(row) for row in available()]
    return pd.DataFrame(rows).set_index("device")


def available() -> list[Availability]:
    """The rows of ``devices()``."""
    here: list[Availability] = []
    missing: list[Availability] = []
    for kind in KINDS:
        try:
            found = _found(kind)
        except DeviceError as error:
            missing.append(Availability(kind, kind, missing=str(error)))
        else:
            here += [_row(f"{kind}:{k}", kind, facts) for k, facts in enumerate(found)]
    return sorted(here, key=lambda row: row.processor == "CPU") + missing


def _row(device: str, kind: str, facts: DeviceFacts) -> Availability:
    return Availability(
        device,
        kind,
        facts.name,
        facts.arch,
        facts.processor,
        facts.compute_units,
        size_text(facts.memory),
        facts.version,
    )


def device(spec: str | None = None) -> Device:
    """The device with a name; a process has one object per device.

    Args:
        spec: A kind and an index such as ``cuda:1``, or a kind alone. The default is
            ``WORKBENCH_DEVICE``, or else the best device: HIP, CUDA, OpenCL on a GPU, OpenCL on a CPU.

    Raises:
        DeviceError: There is no such device; the message lists the devices, or says what is missing. Or it
            cannot be used.
    """
    found = expected(spec)
    found.confirm()
    return found


def expected(spec: str | None = None) -> Device:
    """The device with a name, of which it may not be known yet whether it can be used.

    Args:
        spec: As for ``device``.

    Raises:
        DeviceError: There is no such device.
    """
    spec = spec or knobs.device
    if not spec:
        return expected(_best())
    kind, rest = _split(spec)
    if rest and not rest.isdigit():
        raise DeviceError(
            f"{spec} names an architecture, which can only be compiled for; to run kernels choose a "
            f"device that is present: {_those_here()}"
        )
    name = f"{kind}:{int(rest or 0)}"
    with _lock:
        if name not in _open:
            _open[name] = _started_runtime(kind).opened(int(rest or 0))
        return _open[name]


def _best() -> str:
    rows = available()
    if rows[0].missing:
        reasons = "\n".join(f"  {row.kind}: {row.missing}" for row in rows)
        raise DeviceError(f"no device to run kernels on was found:\n{reasons}")
    return rows[0].device


def compiler_for(spec: str | None = None) -> Compiler:
    """The compiler of a device, or of an architecture, which needs no device.

    Args:
        spec: As for ``device``, or a kind and an architecture: ``hip:gfx90a``, ``cuda:sm_90``.

    Raises:
        DeviceError: There is no such device or architecture, or its compiler is not installed.
    """
    spec = spec or knobs.device
    if is_architecture(spec):
        kind, arch = _split(spec)
        return cast("Compiler", _runtime(kind).compiler(arch))
    return expected(spec).compiler


def is_architecture(spec: str | None) -> bool:
    """Whether a name is a kind and an architecture: kernels are compiled, but cannot run."""
    _, _, rest = str(spec or "").partition(":")
    return bool(rest) and not rest.isdigit()


def _split(spec: str) -> tuple[str, str]:
    kind, _, rest = str(spec).strip().partition(":")
    if kind not in KINDS:
        raise DeviceError(
            f"unknown device {spec!r}; expected e.g. {_EXAMPLES}. Available: {_those_here()}"
        )
    return kind, rest


def _those_here() -> str:
    return ", ".join(f"{r.device} ({r.name})" for r in available() if not r.missing) or "none"


def _found(kind: str) -> list[DeviceFacts]:
    return cast("list[DeviceFacts]", _started_runtime(kind).found())


def _runtime(kind: str) -> Any:
    """The module of a kind of device; it loads the runtime's library at the first call.

    Each has ``found()``, the properties of its devices, ``opened(index)`` and ``compiler(arch)``.
    """
    return import_module(f"workbench.gpu.devices.{kind}")


def _started_runtime(kind: str) -> Any:
    if kind in _forked_after:
        raise DeviceError(
            f"this process was forked from one that had used {kind}, which does not survive a fork; "
            "start processes with multiprocessing's method spawn, or use the device in one process only"
        )
    runtime = _runtime(kind)
    runtime.found()
    _started.add(kind)
    return runtime


def _after_fork() -> None:
    """Mark the devices as lost in a forked process: it has the parent's memory but none of its threads."""
    global _lock  # noqa: PLW0603
    _lock = RLock()  # another thread may have held it
    _forked_after.update(_started)
    for name, one in _open.items():
        one.lost = (
            f"{name} was opened before this process was forked, and cannot be used in it: start "
            "processes with multiprocessing's method spawn"
        )
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
