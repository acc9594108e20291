"""Processes that compile kernels for PoCL, which compiles one at a time, and holds Python's lock meanwhile.

The file imports nothing of the workbench: the other process runs it alone.
"""

from __future__ import annotations

import os
import runpy
import shutil
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Timer
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
            files: The paths of ``pocl_processor`` and ``pocl_builtins``.
            folder: The folder in which it gets its own.
            environment: The variables of the process.

        Raises:
            OSError: There can be no other process.
        """
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        command = [sys.executable, "-c", _SERVE, __file__, device, *files]
        own = {"POCL_CACHE_DIR": str(self._folder), "PYOPENCL_NO_CACHE": "1"}
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


def serve(device: str, processors: str, builtins: str) -> None:
    """Answer the questions on standard input, until there are no more, as the other process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for what PoCL prints
    with answers:
        build = _builder(device, processors, runpy.run_path(builtins))
        _send(answers, b"")
        while source := _received(sys.stdin.buffer, last=True):
            options = _received(sys.stdin.buffer)
            _send(answers, *build(source.decode(), options))


def _builder(name: str, processors: str, builtins: Mapping[str, str]) -> Any:
    """A function that compiles a source with options, once a kernel has been compiled and run."""
    cl: Any = import_module("pyopencl")
    platforms = [p for p in cl.get_platforms() if "Portable" in p.name]
    device = next(d for p in platforms for d in p.get_devices() if d.name == name)
    processor = runpy.run_path(processors)  # it holds the strings that the device points to
    processor["recognise"](device)
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    first = cl.Program(context, builtins["DECLARATIONS"] + _FIRST).build(builtins["NO_HEADER"])
    first.first(queue, (16,), (16,), cl.Buffer(context, cl.mem_flags.READ_WRITE, 64))
    queue.finish()

    def build(source: str, options: bytes) -> tuple[bytes, bytes]:
        assert processor
        program = cl._cl._Program(context, source)
        try:
            program._build(options=options, devices=[device])
        except cl.Error:
            return b"", b""
        (binary,) = program.get_info(cl.program_info.BINARIES)
        log = program.get_build_info(device, cl.program_build_info.LOG)
        return bytes(binary), log.encode()

    return build


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
