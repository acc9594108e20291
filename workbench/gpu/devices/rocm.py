"""Search for ROCm's libraries, and hip-python with the libraries that were found.

hip-python opens ``libamdhip64.so`` and ``libhiprtc.so`` at the first call. Distributions install the
first one only under a name with a version, and Debian's also has hiprtc's functions. So this module
searches for the files and tells hip-python their paths.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any, cast

from workbench.compiler.errors import DeviceError

HOW_TO_INSTALL = (
    "on Debian: apt-get install libamdhip64-5 libhiprtc-builtins5 rocm-device-libs libamd-comgr2; "
    "elsewhere install AMD's ROCm, and set ROCM_PATH if it is not in its usual folder"
)
_VERSIONS = ("", ".7", ".6", ".5")
_COMGR = ("", ".3", ".2")
compiling = Lock()
"""Held while AMD's compiler runs: when threads compiled some thousand kernels at once, one compilation
crashed with corrupt memory. Processes can compile in parallel."""
_opening = Lock()


@cache
def hip_python() -> tuple[Any, Any]:
    """hip-python's modules ``hip`` and ``hiprtc``, with their libraries open.

    Raises:
        DeviceError: hip-python is not installed, or the libraries are not.
    """
    hip, hiprtc = _modules()
    runtime = _first("amdhip64", _VERSIONS, "hipInit")
    if runtime is None:
        raise DeviceError(f"HIP's library libamdhip64 is not installed; {HOW_TO_INSTALL}")
    compiler = _first("hiprtc", _VERSIONS, "hiprtcCompileProgram")
    if compiler is None and opens(runtime, "hiprtcCompileProgram"):
        compiler = runtime
    if compiler is None:
        raise DeviceError(f"HIP's compiler libhiprtc is not installed; {HOW_TO_INSTALL}")
    # Looking up a symbol opens a library.
    with _opening, _found_at({"amdhip64": runtime, "hiprtc": compiler}):
        opened = bool(hip.has_symbol("hipInit")) and bool(hiprtc.has_symbol("hiprtcVersion"))
    if not opened:
        raise DeviceError(
            f"hip-python could not open {os.fsdecode(runtime)} and {os.fsdecode(compiler)}; "
            f"{HOW_TO_INSTALL}"
        )
    return hip, hiprtc


def hip_library() -> ctypes.CDLL:
    """The runtime's library itself, for functions that differ between its versions.

    Raises:
        DeviceError: It is not installed.
    """
    path = _first("amdhip64", _VERSIONS, "hipInit")
    if path is None:
        raise DeviceError(f"HIP's library libamdhip64 is not installed; {HOW_TO_INSTALL}")
    return ctypes.CDLL(os.fsdecode(path))


def comgr_library() -> ctypes.CDLL | None:
    """The library of AMD's compiler, which also disassembles; None if it is not installed."""
    path = _first("amd_comgr", _COMGR, "amd_comgr_do_action")
    return None if path is None else ctypes.CDLL(os.fsdecode(path))


def _modules() -> tuple[Any, Any]:
    try:
        package = cast("Any", import_module("hip"))
    except ImportError as error:
        raise DeviceError(
            f"hip-python is not installed ({error}): pip install hip-python"
        ) from error
    return package.hip, package.hiprtc


def _paths() -> ModuleType | None:
    """hip-python's module that searches for ROCm."""
    try:
        return import_module("rocm.bindings.util.paths")
    except ImportError:
        return None


@contextmanager
def _found_at(found: dict[str, bytes]) -> Generator[None]:
    """Make hip-python find these libraries at these paths, until the block ends."""
    paths = cast("Any", _paths())
    before = paths.get_library_path

    def get_library_path(shortname: str, *rest: object) -> bytes:
        return found[shortname] if shortname in found else before(shortname, *rest)

    paths.get_library_path = get_library_path
    try:
        yield
    finally:
        paths.get_library_path = before


def _first(name: str, versions: Iterable[str], symbol: str) -> bytes | None:
    """The first path at which a library opens and has this symbol."""
    return next((p for p in places(name, versions) if opens(p, symbol)), None)


def places(name: str, versions: Iterable[str]) -> Generator[bytes]:
    """The paths at which one of ROCm's libraries may be: its folder, then the loader's."""
    paths = _paths()
    if paths is not None:
        yield cast("bytes", paths.get_library_path(name))
    yield from (f"lib{name}.so{version}".encode() for version in versions)


def opens(path: bytes, symbol: str) -> bool:
    """Whether a library can be opened and has this symbol."""
    try:
        return hasattr(ctypes.CDLL(os.fsdecode(path)), symbol)
    except OSError:
        return False
