"""OpenCL's compiler: the driver of one device, and for PoCL's many kernels other processes as well."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from workbench.compiler.arrays.parallel import threads
from workbench.gpu.devices.base import Code, Compiler, DeviceFacts
from workbench.gpu.devices.messages import compile_error
from workbench.gpu.devices.opencl_platforms import machine_of, pyopencl_module
from workbench.gpu.devices.pocl import Trial
from workbench.gpu.devices.pocl_builtins import DECLARATIONS, NO_HEADER
from workbench.gpu.devices.pocl_process import CompilingProcess
from workbench.gpu.dialect import opencl_dialect

_ROUNDED_DIVISION = 1 << 7
"""CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT in a device's configuration."""
KERNELS_PER_PROCESS = 8
"""Kernels that PoCL compiles in about the second in which two other processes start to."""


class OpenCLCompiler(Compiler):
    """OpenCL C, compiled by the driver of one device."""

    def __init__(
        self,
        context: Any,
        device: Any,
        facts: DeviceFacts,
        optimize: bool,
        trial: Trial | None = None,
    ) -> None:
        """Compile for this device of that context; PoCL's has a trial."""
        self._context = context
        self._device = device
        self._facts = facts
        self.dialect = opencl_dialect(machine_of(device, facts))
        self._options = "-cl-std=CL1.2"
        if device.single_fp_config & _ROUNDED_DIVISION:
            self._options += " -cl-fp32-correctly-rounded-divide-sqrt"
        if not optimize:
            self._options += " -cl-opt-disable"
        self._trial = trial
        self.with_header: list[str] = []
        """Kernels that PoCL compiled with its own header, because they call what is not declared."""

    @property
    def key(self) -> str:
        """Kind, device, driver and options."""
        device = self._device
        versions = f"{device.platform.version} {device.version} {device.driver_version}"
        return f"opencl {device.name} {versions} {self._options}"

    def compile(self, source: str, name: str) -> Code:
        """The code of a source with one kernel."""
        cl = pyopencl_module()
        if self._trial is not None:
            self._trial.confirm()
            with suppress(cl.Error):  # if it calls what is not declared, or is wrong
                return self._code(self._program(DECLARATIONS + source), NO_HEADER)
        program = self._program(source)
        try:
            code = self._code(program)
        except cl.Error as error:
            log = self._log(program) or str(error)
            raise compile_error(f"OpenCL for {self._facts.name}", name, source, log) from error
        if self._trial is not None:
            self.with_header.append(name)
        return code

    def expect(self, kernels: int) -> bool:
        """Start the processes that will compile them; no other OpenCL than PoCL has any."""
        if self._trial is None:
            return False
        self._trial.expect(_processes_for(kernels))
        return True

    @contextmanager
    def team(self, kernels: int) -> Generator[Sequence[Compiler]]:
        """Several threads; with PoCL this compiler, or for many kernels other processes."""
        if self._trial is None:
            with super().team(kernels) as same:
                yield same
            return
        with ExitStack() as stack:
            yield list(self._processes(self._trial, kernels, stack)) or [self]

    def _processes(self, trial: Trial, kernels: int, stack: ExitStack) -> Generator[Compiler]:
        """The other processes; this one only waits, as PoCL keeps it from asking while it compiles here."""
        trial.confirm()
        with suppress(OSError):
            for _ in range(_processes_for(kernels)):
                yield _InProcess(self, stack.enter_context(trial.process()))

    def compile_in(self, process: CompilingProcess, source: str) -> Code | None:
        """The code of a source from another process; None if it does not compile with our declarations."""
        answer = process.compile(DECLARATIONS + source, self._options + NO_HEADER)
        return None if answer is None else Code(answer[0], _named(answer[1]))

    def _program(self, source: str) -> Any:
        return pyopencl_module()._cl._Program(self._context, source)

    def _code(self, program: Any, options: str = "") -> Code:
        build(program, self._device, self._options + options)
        binary = program.get_info(pyopencl_module().program_info.BINARIES)[0]
        return Code(bytes(binary), self._log(program))

    def _log(self, program: Any) -> str:
        log = program.get_build_info(self._device, pyopencl_module().program_build_info.LOG)
        return _named(log)


class _InProcess(Compiler):
    """The same compiler in another process, and in this one where that has ended or does not succeed."""

    def __init__(self, here: OpenCLCompiler, process: CompilingProcess) -> None:
        self._here, self._process = here, process
        self.dialect = here.dialect

    @property
    def key(self) -> str:
        return self._here.key

    def compile(self, source: str, name: str) -> Code:
        made = None
        with suppress(OSError, EOFError):
            made = self._here.compile_in(self._process, source)
        return made or self._here.compile(source, name)


def _processes_for(kernels: int) -> int:
    """The processes that share so many kernels; none, if one would compile them all."""
    wanted = min(threads(), kernels // KERNELS_PER_PROCESS)
    return wanted if wanted > 1 else 0


def _named(log: str) -> str:
    """A log that names no temporary file."""
    return re.sub(r"[^\s:]*\.cl(?=:\d)", "kernel.cl", log).strip()


def build(program: Any, device: Any, options: str) -> None:
    """Build a program for a device."""
    # pyopencl's public build() keeps a second cache and turns each log into a warning.
    program._build(options=options.encode(), devices=[device])
