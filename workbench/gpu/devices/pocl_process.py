"""A process that compiles kernels beside this one: in one process PoCL compiles one kernel at a time.

The file imports nothing of the workbench: the other process runs it alone.
"""

from __future__ import annotations

import os
import runpy
import struct
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any

_LENGTH = struct.Struct("<q")
_SERVE = """
import runpy
import sys
runpy.run_path(sys.argv[1])["serve"](*sys.argv[2:])
"""


class CompilingProcess:
    """The other process: it is asked through one pipe and answers through another."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Ask this process, which runs ``serve``."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._questions, self._answers = process.stdin, process.stdout

    def compile(self, source: str, options: str) -> tuple[bytes, str] | None:
        """The binary of a source, and the compiler's log; None if it does not compile.

        Raises:
            OSError: The process has ended.
            EOFError: It ended while it compiled.
        """
        _send(self._questions, source.encode(), options.encode())
        binary, log = _received(self._answers), _received(self._answers)
        return (binary, log.decode("utf-8", "replace")) if binary else None


@contextmanager
def compiling_process(
    device: str, processors: str, environment: Mapping[str, str]
) -> Generator[CompilingProcess]:
    """A process that compiles for PoCL's device of that name, for as long as it is needed.

    Args:
        device: The name of the device.
        processors: The path of ``pocl_processor``.
        environment: The variables of the process.

    Raises:
        OSError: There can be no other process.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, __file__, device, processors],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        yield CompilingProcess(process)
    finally:
        process.kill()  # it waits for a question
        process.communicate()


def serve(device: str, processors: str) -> None:
    """Answer the questions on standard input, until there are no more, as the other process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for what PoCL prints
    with answers:
        build = _builder(device, processors)
        while source := _received(sys.stdin.buffer, last=True):
            options = _received(sys.stdin.buffer)
            _send(answers, *build(source.decode(), options))


def _builder(name: str, processors: str) -> Any:
    """A function that compiles a source with options."""
    cl: Any = import_module("pyopencl")
    platforms = [p for p in cl.get_platforms() if "Portable" in p.name]
    device = next(d for p in platforms for d in p.get_devices() if d.name == name)
    processor = runpy.run_path(processors)  # it holds the strings that the device points to
    processor["recognise"](device)
    context = cl.Context([device])

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
