"""HIP's compiler: kernels for an AMD processor, whether or not one is present."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Code, Compiler
from workbench.gpu.devices.messages import compile_error
from workbench.gpu.devices.rocm import compiling, hip_python
from workbench.gpu.dialect import hip_dialect

# For any other processor hiprtc 5 ends the process. Each of these was tried with HIP 5.2.
_HIP_5 = re.compile(r"gfx(80[1235]|810|90[024689ac]|101[0-3]|103[0-6])")
_PROCESSOR = re.compile(r"gfx[0-9a-f]{3,4}|sm_\d{2,3}")


class HiprtcCompiler(Compiler):
    """Compiles for one processor.

    Args:
        arch: The processor, such as ``gfx90a``. Settings after a colon are dropped: code compiled
            without them runs with any. If HIP runs on CUDA, an architecture such as ``sm_90``.
        warp: Lanes of a wave; by default 64 up to gfx9, and 32 from gfx10 on.

    Raises:
        DeviceError: hip-python or HIP's library is missing, or it does not know the processor.
    """

    def __init__(self, arch: str, warp: int | None = None) -> None:
        self.arch = arch.partition(":")[0]
        if not _PROCESSOR.fullmatch(self.arch):
            raise DeviceError(
                f"unknown HIP architecture {arch!r}: expected a processor such as gfx90a, gfx908 or "
                "gfx1030"
            )
        hip, self._hiprtc = hip_python()
        self.version = runtime_version(hip)
        if self.version.startswith("5.") and not _HIP_5.fullmatch(self.arch):
            raise DeviceError(
                f"HIP {self.version} does not compile for {self.arch}; it knows gfx801 to gfx90c, "
                "gfx1010 to gfx1013 and gfx1030 to gfx1036. For newer processors install a newer ROCm"
            )
        self._options = [f"--offload-arch={self.arch}", "--std=c++17"]
        self.dialect = hip_dialect(wave(self.arch) if warp is None else warp)

    @property
    def key(self) -> str:
        """Version of HIP, and options, the processor among them."""
        return f"hip {self.version} {' '.join(self._options)}"

    def compile(self, source: str, name: str) -> Code:
        """The code object of a source with one kernel; threads compile in turn, processes in parallel."""
        rtc = self._hiprtc
        with self._program(source, name) as program:
            options = [option.encode() for option in self._options]
            with compiling:
                (status,) = rtc.hiprtcCompileProgram(program, len(options), options)
            log = self._log(program, name)
            if int(status):
                said = log or f"{status.name}, without a log"
                raise compile_error(f"hiprtc for {self.arch}", name, source, said)
            binary = bytearray(self._check(rtc.hiprtcGetCodeSize(program)))
            self._check(rtc.hiprtcGetCode(program, binary))
        return Code(bytes(binary), log)

    @contextmanager
    def _program(self, source: str, name: str) -> Generator[Any]:
        """A new program, since compiling one again would repeat the option of its first architecture."""
        file = f"{name}.hip".encode()
        program = self._check(
            self._hiprtc.hiprtcCreateProgram(source.encode(), file, 0, None, None)
        )
        try:
            yield program
        finally:
            self._hiprtc.hiprtcDestroyProgram(program.createRef())

    def _log(self, program: Any, name: str) -> str:
        size = self._check(self._hiprtc.hiprtcGetProgramLogSize(program))
        buffer = bytearray(size)
        if size:
            self._check(self._hiprtc.hiprtcGetProgramLog(program, buffer))
        text = bytes(buffer).rstrip(b"\0").decode("utf-8", "replace")
        return renamed(text, name)

    def _check(self, answer: tuple[Any, ...]) -> Any:
        status, *rest = answer
        if int(status):
            raise DeviceError(f"hiprtc failed for {self.arch}: {status.name} ({int(status)})")
        return rest[0] if rest else None


def renamed(log: str, name: str) -> str:
    """A log with the kernel's name for the file: hiprtc names a temporary one of its own."""
    return re.sub(r"\S*/comgr-\w+/input/[^\s:]+", f"{name}.hip", log)


def wave(arch: str) -> int:
    """Lanes of a wave of this processor, by its compiler's default."""
    digits = arch.removeprefix("gfx")
    return 64 if arch.startswith("gfx") and len(digits) == 3 else 32


def runtime_version(hip: Any) -> str:
    """The version of HIP's runtime, e.g. ``5.2.21153``."""
    status, number = hip.hipRuntimeGetVersion()
    if int(status):
        raise DeviceError(f"HIP's runtime does not report its version: {status.name}")
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
