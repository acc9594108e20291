"""Processes that compile kernels for PoCL, which compiles one at a time, and holds Python's lock meanwhile.

The file imports nothing of the workbench: the other process runs it alone.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_char_p, c_size_t, c_uint64, c_void_p
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import IO, Any

_LENGTH = struct.Struct("<q")
_SECONDS = 120
"""What the first kernel of a process may take."""
_SAID = "said"
"""The file in its folder with what the process and the compiler print."""
_SERVE = """
import runpy
import sys
runpy.run_path(sys.argv[1])["serve"](*sys.argv[2:])
"""
_PLATFORM_NAME, _NAME, _VERSION = 0x0902, 0x102B, 0x102F
_ALL, _READ_WRITE = 0xFFFFFFFF, 1
_BINARY_SIZES, _BINARIES, _LOG = 0x1165, 0x1166, 0x1183
"""OpenCL's numbers for what it is asked, and for kinds of devices and memory."""
_FIRST = "__kernel void first(__global float *x) { x[get_local_id(0)] = 1; }"


class CompilingProcess:
    """The other process: it is asked through one pipe and answers through another.

    It has a folder of its own, so that PoCL finds nothing there that was compiled before. It is in no group
    with this process, so that an interrupt from the keyboard does not reach it.
    """

    def __init__(
        self, device: str, files: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> None:
        """Start it; it compiles and runs a first kernel.

        Args:
            device: The name of PoCL's device.
            files: The paths of a library with OpenCL's functions, ``pocl_processor`` and ``pocl_builtins``.
            folder: The folder in which it gets its own.
            environment: The variables of the process.

        Raises:
            OSError: There can be no other process.
        """
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        command = [sys.executable, "-c", _SERVE, __file__, device, *files]
        own = {"POCL_CACHE_DIR": str(self._folder)}
        try:
            self._process = _begun(command, {**environment, **own}, self._folder / _SAID)
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.end = weakref.finalize(self, _end, self._process, self._folder, os.getpid())
        """Stop the process, at the latest when nothing refers to this object."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._is_ready = False
        self.compiled = 0
        """Sources that it was asked to compile."""

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def failure(self) -> str:
        """Wait until the first kernel has run. The reason why it has not; empty if it has."""
        if self._is_ready:
            return ""
        timer = Timer(_SECONDS, self._process.kill)
        timer.start()
        try:
            self._is_ready = not _received(self._answers)
        except (OSError, EOFError):
            pass
        finally:
            timer.cancel()
        return "" if self._is_ready else self._last_words()

    def _last_words(self) -> str:
        status = self._process.wait()
        words = (self._folder / _SAID).read_text(encoding="utf-8", errors="replace").split()
        return f"it says: {' '.join(words)[-300:]}" if words else f"its status is {status}"

    def compile(self, source: str, options: str) -> tuple[bytes, str] | None:
        """The binary of a source, and the compiler's log; None if it does not compile.

        Raises:
            OSError: The process has ended.
            EOFError: It ended while it compiled.
        """
        if reason := self.failure():
            raise EOFError(reason)
        self.compiled += 1
        _send(self._questions, source.encode(), options.encode())
        binary, log = _received(self._answers), _received(self._answers)
        return (binary, log.decode("utf-8", "replace")) if binary else None


def _begun(command: list[str], environment: dict[str, str], said: Path) -> subprocess.Popen[bytes]:
    """A process with two pipes; what it says goes to a file."""
    with said.open("wb") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    """Stop a process and remove its folder; not in a fork of the process that started it."""
    if os.getpid() == owner:
        process.kill()  # it waits for a question
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def serve(device: str, library: str, processors: str, builtins: str) -> None:
    """Answer the questions on standard input, until there are no more, as the other process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for what PoCL prints
    with answers:
        pocl = _Pocl(library, device, runpy.run_path(processors))
        pocl.run(runpy.run_path(builtins))
        _send(answers, b"")
        while source := _received(sys.stdin.buffer, last=True):
            options = _received(sys.stdin.buffer)
            _send(answers, *pocl.built(source, options))


class _Pocl:
    """PoCL by OpenCL's own functions, as importing pyopencl takes longer than compiling two kernels."""

    def __init__(self, library: str, name: str, processor: Mapping[str, Any]) -> None:
        self._cl = ctypes.CDLL(library)
        self._processor = processor  # it holds the strings that the device points to
        self._device = next(d for d in self._devices() if self._said(d, _NAME) == name)
        version = self._said(self._device, _VERSION)
        processor["recognise"](SimpleNamespace(version=version, int_ptr=self._device.value))
        self._context = self._made("clCreateContext", None, 1, byref(self._device), None, None)

    def run(self, builtins: Mapping[str, str]) -> None:
        """Compile and run a first kernel."""
        source = (builtins["DECLARATIONS"] + _FIRST).encode()
        program = self._program(source)
        self._call("clBuildProgram", program, 0, None, builtins["NO_HEADER"].encode(), None, None)
        kernel = self._made("clCreateKernel", program, b"first")
        buffer = self._made(
            "clCreateBuffer", self._context, c_uint64(_READ_WRITE), c_size_t(64), None
        )
        self._call("clSetKernelArg", kernel, 0, c_size_t(8), byref(buffer))
        queue = self._made("clCreateCommandQueue", self._context, self._device, c_uint64(0))
        items = byref(c_size_t(16))
        self._call("clEnqueueNDRangeKernel", queue, kernel, 1, None, items, items, 0, None, None)
        self._call("clFinish", queue)

    def built(self, source: bytes, options: bytes) -> tuple[bytes, bytes]:
        """The binary and the log of a source; nothing if it does not compile."""
        program = self._program(source)
        try:
            self._call("clBuildProgram", program, 1, byref(self._device), options, None, None)
        except RuntimeError:
            return b"", b""
        (size,) = struct.unpack("N", self._info("clGetProgramInfo", program, _BINARY_SIZES))
        binary = ctypes.create_string_buffer(size)
        pointers = (c_void_p * 1)(ctypes.addressof(binary))
        length = c_size_t(ctypes.sizeof(pointers))
        self._call("clGetProgramInfo", program, _BINARIES, length, pointers, None)
        log = self._info("clGetProgramBuildInfo", program, self._device, _LOG)
        return binary.raw, log.rstrip(b"\0")

    def _devices(self) -> Iterator[c_void_p]:
        for platform in self._listed("clGetPlatformIDs"):
            if b"Portable" in self._info("clGetPlatformInfo", platform, _PLATFORM_NAME):
                yield from self._listed("clGetDeviceIDs", platform, c_uint64(_ALL))

    def _said(self, device: c_void_p, what: int) -> str:
        return self._info("clGetDeviceInfo", device, what).rstrip(b"\0").decode()

    def _program(self, source: bytes) -> c_void_p:
        texts = (c_char_p * 1)(source)
        return self._made("clCreateProgramWithSource", self._context, 1, texts, None)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._cl, name)(*arguments):
            raise RuntimeError(f"{name} failed: {status}")

    def _made(self, name: str, *arguments: Any) -> c_void_p:
        """The object that a function makes, which sets a status."""
        function, status = getattr(self._cl, name), ctypes.c_int32()
        function.restype = c_void_p
        made = function(*arguments, byref(status))
        if status.value:
            raise RuntimeError(f"{name} failed: {status.value}")
        return c_void_p(made)

    def _listed(self, name: str, *arguments: Any) -> list[c_void_p]:
        """The list of a function that is asked for the number first."""
        count = ctypes.c_uint32()
        self._call(name, *arguments, 0, None, byref(count))
        found = (c_void_p * count.value)()
        self._call(name, *arguments, count, found, None)
        return [c_void_p(one) for one in found]

    def _info(self, name: str, *arguments: Any) -> bytes:
        """The answer of a function that is asked for the size first."""
        size = c_size_t()
        self._call(name, *arguments, c_size_t(0), None, byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(name, *arguments, size, text, None)
        return text.raw


def _send(file: IO[bytes], *parts: bytes) -> None:
    file.write(b"".join(_LENGTH.pack(len(part)) + part for part in parts))
    file.flush()


def _received(file: IO[bytes], last: bool = False) -> bytes:
    """The next part; with ``last``, nothing where there is none."""
    head = file.read(_LENGTH.size)
    if last and not head:
        return b""
    if len(head) < _LENGTH.size:
        raise EOFError("the other process has ended")
    (length,) = _LENGTH.unpack(head)
    part = file.read(length)
    if len(part) < length:
        raise EOFError("the other process has ended")
    return part
