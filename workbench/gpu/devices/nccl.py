"""NCCL, NVIDIA's library of collectives, and RCCL, AMD's with the same functions."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ops.collectives import Combine
from workbench.gpu.devices import rocm

TYPES = {
    DType.INT8: 0,
    DType.UINT8: 1,
    DType.BOOL: 1,
    DType.INT32: 2,
    DType.UINT32: 3,
    DType.INT64: 4,
    DType.UINT64: 5,
    DType.HALF: 6,
    DType.FLOAT: 7,
    DType.DOUBLE: 8,
    DType.BF16: 9,
}
"""The number of each element type that the library combines."""
OPERATORS = {Combine.ADD: 0, Combine.MUL: 1, Combine.MAX: 2, Combine.MIN: 3}
_BYTES = TYPES[DType.UINT8]

_WAY = [c_void_p, c_void_p]
_FUNCTIONS: dict[str, list[Any]] = {
    "ncclGetVersion": [POINTER(c_int)],
    "ncclCommInitAll": [POINTER(c_void_p), c_int, POINTER(c_int)],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
    "ncclAllReduce": [*_WAY, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclAllGather": [*_WAY, c_size_t, c_int, c_void_p, c_void_p],
    "ncclReduceScatter": [*_WAY, c_size_t, c_int, c_int, c_void_p, c_void_p],
}
"""The functions that return a ``ncclResult_t``, with their arguments."""
_LEAST = (2, 10)
"""The version from which on there is bfloat16."""
_OK, _IN_PROGRESS, _INVALID_USAGE = 0, 7, 5
_FOLDERS = ("nvidia/nccl/lib", "nvidia/cu13/lib", "torch/lib")
"""The folders of packages in which NVIDIA's library is installed: of its own ones, and of PyTorch's."""
_MISSING = {
    "cuda": "NCCL (libnccl.so.2) was not found; install it: pip install nvidia-nccl-cu13, or "
    "nvidia-nccl-cu12 for CUDA 12; PyTorch for CUDA brings it too",
    "hip": "RCCL (librccl.so.1) was not found; AMD's ROCm has it (package rccl), and ROCM_PATH names its "
    "folder if that is not the usual one",
}


class Nccl:
    """The library, with errors as exceptions. A communicator is a number, a stream the runtime's handle.

    Args:
        path: The library.
        name: Its name for messages.

    Raises:
        DeviceError: It cannot be opened, lacks a function, or is too old.
    """

    def __init__(self, path: str, name: str = "NCCL") -> None:
        """Open the library, and check its functions and its version."""
        self.name = name
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise DeviceError(f"{name}: could not open {path}: {error}") from error
        lacks = [n for n in (*_FUNCTIONS, "ncclGetErrorString") if not hasattr(self._library, n)]
        if lacks:
            raise DeviceError(f"{path} has no {', '.join(lacks)}; expected {name} 2.10 or newer")
        for function, arguments in _FUNCTIONS.items():
            self._declare(function, arguments, c_int)
        self._declare("ncclGetErrorString", [c_int], c_char_p)
        if hasattr(self._library, "ncclGetLastError"):  # from version 2.13 on
            self._declare("ncclGetLastError", [c_void_p], c_char_p)
        self.version = self._version()
        if self.version < _LEAST:
            raise DeviceError(f"{path} is {self}; expected {name} 2.10 or newer")

    def _declare(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        function = getattr(self._library, name)
        function.argtypes, function.restype = arguments, result

    def _version(self) -> tuple[int, int, int]:
        code = c_int()
        self._do("tell its version", "ncclGetVersion", byref(code))
        unit = 10_000 if code.value >= 10_000 else 1000  # 2.10.3 is 21003; up to 2.8 it was 2803
        return code.value // unit, code.value % unit // 100, code.value % 100

    def __str__(self) -> str:
        """Name and version."""
        return f"{self.name} {'.'.join(map(str, self.version))}"

    # Communicators

    def connect(self, devices: Sequence[int]) -> list[int]:
        """A communicator for each of several devices of this process, which are all different.

        Raises:
            DeviceError: They cannot be connected.
        """
        found = (c_void_p * len(devices))()
        listed = (c_int * len(devices))(*devices)
        what = f"connect devices {', '.join(map(str, devices))}"
        self._do(what, "ncclCommInitAll", found, len(devices), listed)
        return [int(one or 0) for one in found]

    def destroy(self, communicator: int) -> None:
        """Free a communicator whose collectives are over."""
        self._do("free a communicator", "ncclCommDestroy", communicator)

    def abort(self, communicator: int) -> None:
        """End the collectives of a communicator, wherever they are, and free it."""
        self._do("end a communicator", "ncclCommAbort", communicator)

    def check(self, communicator: int) -> None:
        """Raise the error that a collective has met since it was started.

        Raises:
            DeviceError: It met one.
        """
        state = c_int()
        what = "ask for the state of collectives"
        self._do(what, "ncclCommGetAsyncError", communicator, byref(state))
        if state.value != _IN_PROGRESS:
            self._must(state.value, "finish a collective")

    # Collectives

    def all_reduce(
        self,
        to: int,
        source: int,
        count: int,
        type: DType,
        op: Combine,
        communicator: int,
        stream: int,
    ) -> None:
        """Start to combine ``count`` elements of all devices."""
        how = count, TYPES[type], OPERATORS[op]
        self._do("start all_reduce", "ncclAllReduce", source, to, *how, communicator, stream)

    def all_gather(self, to: int, source: int, bytes: int, communicator: int, stream: int) -> None:
        """Start to gather some bytes of each device."""
        self._do(
            "start all_gather", "ncclAllGather", source, to, bytes, _BYTES, communicator, stream
        )

    def reduce_scatter(
        self,
        to: int,
        source: int,
        count: int,
        type: DType,
        op: Combine,
        communicator: int,
        stream: int,
    ) -> None:
        """Start to combine elements of all devices, of which each gets ``count``."""
        how = count, TYPES[type], OPERATORS[op]
        self._do(
            "start reduce_scatter", "ncclReduceScatter", source, to, *how, communicator, stream
        )

    # Errors

    def _do(self, what: str, function: str, *arguments: Any) -> None:
        self._must(getattr(self._library, function)(*arguments), what)

    def _must(self, result: int, what: str) -> None:
        if result == _OK:
            return
        text = _decoded(self._library.ncclGetErrorString(result))
        last = getattr(self._library, "ncclGetLastError", None)
        detail = _decoded(last(None)) if last is not None else ""
        advice = "NCCL_DEBUG=WARN prints more" if result != _INVALID_USAGE else ""
        said = "; ".join(filter(None, (f"{text} (ncclResult_t {result})", detail, advice)))
        raise DeviceError(f"{self.name}: could not {what}: {said}")


def _decoded(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace").strip()


def nccl(kind: str) -> Nccl:
    """The library for devices of a kind, ``cuda`` or ``hip``.

    Raises:
        DeviceError: It was not found; the message says what to install.
    """
    for path in _paths(kind):
        if _opens(path):
            return Nccl(path, "RCCL" if kind == "hip" else "NCCL")
    raise DeviceError(_MISSING[kind])


def _paths(kind: str) -> Iterator[str]:
    """The places of the library: where the loader finds it, then in packages or AMD's folder."""
    if kind == "hip":
        yield from map(os.fsdecode, rocm.places("rccl", (".1", "")))
        return
    yield "libnccl.so.2"
    for root in sys.path:
        for folder in _FOLDERS:
            path = Path(root) / folder / "libnccl.so.2"
            if path.is_file():
                yield str(path)


def _opens(path: str) -> bool:
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
