"""The target ``gpu``: programs are lowered to kernels for a device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.compiler.builds.targets import Target, target_named
from workbench.compiler.errors import DeviceError, WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.compiler.passes import pipelines
from workbench.compiler.passes.base import Pipeline
from workbench.gpu.devices import registry
from workbench.knobs import knobs

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.builds.runner import Runner
    from workbench.gpu.run.runner import DeviceRunner


@dataclass(frozen=True)
class _Gpu(Target):
    takes_device = True

    @property
    def device(self) -> str:
        """The best device that is present."""
        return next((d.name for d in registry.available() if not d.missing), "none")

    @property
    def missing(self) -> str:
        """The things that each kind of device lacks, if no device is present."""
        rows = registry.available()
        if any(not d.missing for d in rows):
            return ""
        return "; ".join(f"{d.kind}: {d.missing}" for d in rows)

    @property
    def preference(self) -> int:
        """The highest preference if there is a GPU.

        Kernels run on a CPU too, through OpenCL, and are faster than NumPy there, but compiling them takes
        seconds.
        """
        here = (d.processor for d in registry.available() if not d.missing)
        return 2 if "GPU" in here else 0

    def numbered(self, number: int) -> str:
        """The device with a number among those of the best one's kind, or of ``WORKBENCH_DEVICE``'s."""
        return f"{registry.device().kind}:{number}"

    def pipeline_for(self, device: str | None, **options: Any) -> Pipeline:
        """Its passes for a device: for a CPU, images have their channels last; matrix units take bytes."""
        own = {
            "channels_last": _is_cpu(device),
            "multiply_quantized": _has_matrix_units(device),
        }
        return self.pipeline(**own | options)

    def prepare(
        self,
        program: Program,
        *,
        device: str | None = None,
        source: Program | None = None,
        compile: Callable[[Program], Build] | None = None,
    ) -> Runner:
        """Lower the program, or, if lengths are ranges, a variant of its source for each set of lengths.

        Without a choice, it is prepared for ``cpu`` where the best device here would end the process; a
        warning says what to do.

        Raises:
            DeviceError: There is no such device.
        """
        from workbench.compiler.run.lengths import is_dynamic  # noqa: PLC0415
        from workbench.gpu.run.by_lengths import RunnerByLengths  # noqa: PLC0415
        from workbench.gpu.run.runner import DeviceRunner  # noqa: PLC0415

        early = None if is_dynamic(program) else _early(program, device)
        if device is None and not knobs.device and (reason := _unusable()):
            warnings.warn(f"{reason}. It runs on `cpu` now", stacklevel=4)
            return target_named("cpu").prepare(program, source=source, compile=compile)
        if source is not None and compile is not None and is_dynamic(source):
            return RunnerByLengths(program, device, source, compile)
        runner = early or DeviceRunner(program, device)
        if runner.device is not None:
            runner.device.confirm()
        return runner


def _early(program: Program, device: str | None) -> DeviceRunner | None:
    """A runner that has made its plan while it is found out whether the device can be used.

    None if that is known, or if there is no device. What fails here fails again where it is said.
    """
    from workbench.gpu.run.runner import DeviceRunner  # noqa: PLC0415

    runner = None
    with suppress(WorkbenchError):
        is_here = not registry.is_architecture(device or knobs.device)
        if is_here and not registry.expected(device).confirm(wait=False):
            runner = DeviceRunner(program, device)
            runner.plan()
    return runner


def _is_cpu(device: str | None) -> bool:
    """Whether a device, by default the best one here, is a CPU."""
    if registry.is_architecture(device or knobs.device):
        return False
    try:
        return registry.expected(device).facts.processor == "CPU"
    except DeviceError:
        return False


def _has_matrix_units(device: str | None) -> bool:
    """Whether kernels for a device, or for an architecture, multiply on matrix units."""
    try:
        return bool(registry.compiler_for(device).dialect.machine.matrix)
    except DeviceError:
        return False


def _unusable() -> str:
    """The reason why the best device would end this process; empty if it can be used, or there is none."""
    from workbench.gpu.devices.pocl import UnusableError, settle  # noqa: PLC0415

    for ready in (registry.device, settle):
        try:
            ready()
        except UnusableError as error:
            return str(error)
        except DeviceError:  # PoCL has none without a folder; if that is not why, lowering says so
            continue
        break
    return ""


GPU = _Gpu("gpu", "all passes, then kernels on a device", pipelines.gpu)
