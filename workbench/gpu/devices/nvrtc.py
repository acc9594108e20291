"""NVRTC, NVIDIA's compiler of kernels: a separate library that needs neither a GPU nor a driver."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, cast

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Code, Compiler
from workbench.gpu.devices.messages import compile_error
from workbench.gpu.dialect import cuda_dialect

HOW_TO_INSTALL = "pip install 'graph-workbench[cuda]'"


@cache
def nvrtc() -> Any:
    """NVRTC's functions, with its library loaded.

    Raises:
        DeviceError: cuda-bindings or the library is not installed.
    """
    try:
        functions = cast("Any", import_module("cuda.bindings.nvrtc"))
    except ImportError as error:
        raise DeviceError(f"cuda-bindings is not installed ({error}): {HOW_TO_INSTALL}") from error
    try:
        functions.nvrtcVersion()
    except (RuntimeError, OSError) as error:
        raise DeviceError(
            f"NVIDIA's compiler library libnvrtc was not found: {HOW_TO_INSTALL}, or install the "
            "CUDA toolkit"
        ) from error
    return functions


class NvrtcCompiler(Compiler):
    """Compiles CUDA C++ to the machine code of one architecture; threads may compile at the same time.

    Args:
        arch: The architecture, such as ``sm_90``.
    """

    def __init__(self, arch: str) -> None:
        """Compile for an architecture.

        Raises:
            DeviceError: NVRTC is not installed, or does not know the architecture.
        """
        self._nvrtc = library = nvrtc()
        asked = self._must(library.nvrtcGetSupportedArchs(), "query the supported architectures")
        known = [f"sm_{number}" for number in asked]
        if arch.rstrip("af") not in known:
            raise DeviceError(f"NVRTC does not compile for {arch!r}; it knows {', '.join(known)}")
        self.arch = arch
        self.dialect = cuda_dialect(int(arch.removeprefix("sm_").rstrip("af")))
        self._version = ".".join(map(str, self._must(library.nvrtcVersion(), "query its version")))
        # 177: the warning of an unused function.
        # The warp group's instructions are in sm_90a alone, which runs where sm_90 does.
        exact = "sm_90a" if arch == "sm_90" else arch
        self._options = [f"--gpu-architecture={exact}", "--std=c++17", "--diag-suppress=177"]

    @property
    def key(self) -> str:
        """Architecture, version of NVRTC and options."""
        return f"cuda {self._version} {' '.join(self._options)}"

    def compile(self, source: str, name: str) -> Code:
        """The cubin of a source with one kernel; its assembly is PTX."""
        library = self._nvrtc
        made = library.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, None, None)
        program = self._must(made, f"read kernel {name}")
        try:
            options = [option.encode() for option in self._options]
            error = library.nvrtcCompileProgram(program, len(options), options)[0]
            log = self._text(program, "ProgramLog")
            if error == library.nvrtcResult.NVRTC_ERROR_COMPILATION:
                raise compile_error(f"NVRTC for {self.arch}", name, source, log)
            self._must((error,), f"compile kernel {name}")
            return Code(self._bytes(program, "CUBIN"), log, self._text(program, "PTX"))
        finally:
            library.nvrtcDestroyProgram(program)

    def _bytes(self, program: Any, what: str) -> bytes:
        size = self._must(getattr(self._nvrtc, f"nvrtcGet{what}Size")(program), f"give {what}")
        read = bytearray(size)
        self._must(getattr(self._nvrtc, f"nvrtcGet{what}")(program, read), f"give {what}")
        return bytes(read)

    def _text(self, program: Any, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace").strip()

    def _must(self, result: Any, what: str) -> Any:
        error, *values = result
        if int(error):
            name = self._nvrtc.nvrtcResult(error).name
            raise DeviceError(f"NVRTC could not {what}: {name}")
        return values[0] if len(values) == 1 else tuple(values)
