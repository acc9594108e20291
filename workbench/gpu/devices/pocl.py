"""PoCL, OpenCL on the CPU: the folder that it keeps programs in, and a probe, as it aborts where it fails."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from workbench.compiler.errors import DeviceError
from workbench.gpu.code.cache_folder import cache_folder, keep, kept, trim
from workbench.gpu.devices import pocl_builtins, pocl_processor
from workbench.knobs import environment, suggest

_IDLE = 24 * 3600
"""Seconds after which a program that PoCL keeps may go; other processes may be using those that are newer."""


_ROOM = bytes(1 << 16)
"""What is written to see whether there is room."""
_SECONDS = 120
_PROBE = """
import runpy
import sys
import pyopencl as cl
device = [d for p in cl.get_platforms() if "Portable" in p.name for d in p.get_devices()][0]
processor = runpy.run_path(sys.argv[1])  # it holds the strings that the device points to
processor["recognise"](device)
builtins = runpy.run_path(sys.argv[2])  # as kernels are compiled: PoCL's own header takes it 0.1 s
context = cl.Context([device])
queue = cl.CommandQueue(context)
source = "__kernel void probe(__global float *x) { x[get_local_id(0)] = 1; }"
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
program = cl.Program(context, builtins["DECLARATIONS"] + source).build(builtins["NO_HEADER"])
program.probe(queue, (16,), (16,), buffer)
queue.finish()
"""


class UnusableError(DeviceError):
    """PoCL cannot compile kernels here, and would end the process when it tries."""


def settle() -> None:
    """Give PoCL a folder that it can write, without which it has no device, and save it work.

    Left alone it compiles a kernel again for the sizes of its first launch, 0.1 s each, and its threads,
    when they wake up, may share one core for milliseconds while another is idle.

    Raises:
        UnusableError: There is no such folder.
    """
    folder = cache_folder("pocl")
    if folder and _has_room(folder):
        _trim_pocl(folder)
    else:
        folder = _temporary()
    suggest("POCL_CACHE_DIR", str(folder))
    suggest("POCL_WORK_GROUP_SPECIALIZATION", "0")
    if _may_use_all_cores():
        suggest("POCL_AFFINITY", "1")


def _may_use_all_cores() -> bool:
    """Whether PoCL may bind its threads to cores: the first one to core 0, the second one to core 1."""
    if sys.platform != "linux":
        return False
    return os.sched_getaffinity(0) == set(range(os.cpu_count() or 0))


def _has_room(folder: Path) -> bool:
    made = folder / f".room-{os.getpid()}"
    try:
        return keep(made, _ROOM)
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)


def _temporary() -> Path:
    """A folder for this process alone."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="graph-workbench-pocl-"))
    except OSError as error:
        raise UnusableError(_advice(f"no folder can be written: {error}")) from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not _has_room(folder):
        raise UnusableError(_advice(f"neither the cache nor {folder.parent} has room"))
    return folder


def probe(version: str) -> None:
    """Let a process of its own compile and run a kernel, unless one has done so in this environment.

    Args:
        version: What is probed; another version is probed again.

    Raises:
        UnusableError: It failed.
    """
    linker = shutil.which("ld") or ""
    key = "\n".join(
        (version, sys.executable, os.path.realpath(linker), environment()["POCL_CACHE_DIR"])
    )
    folder = cache_folder("pocl")
    done = folder / f"probed-{hashlib.sha256(key.encode()).hexdigest()[:16]}" if folder else None
    if not sys.executable or (done and kept(done) is not None):
        return
    if reason := _failed():
        raise UnusableError(
            _advice(reason if linker else f"there is no linker `ld` on the PATH; {reason}")
        )
    if done:
        keep(done, b"")


def _failed() -> str:
    """The reason why a kernel cannot be compiled here; empty if it can."""
    try:
        with tempfile.TemporaryDirectory(dir=environment()["POCL_CACHE_DIR"]) as folder:
            done = subprocess.run(
                [sys.executable, "-c", _PROBE, pocl_processor.__file__, pocl_builtins.__file__],
                env=environment(POCL_CACHE_DIR=folder, PYOPENCL_NO_CACHE="1"),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return f"it says: {' '.join(done.stderr.split())[-300:]}"


def _advice(reason: str) -> str:
    return (
        f"PoCL cannot compile kernels for the CPU here: {reason}. Install a linker (binutils), set "
        "WORKBENCH_CACHE to a folder with room that can be written, or take target='cpu', which needs neither"
    )


def _trim_pocl(folder: Path) -> None:
    """Bound the folder in which PoCL keeps programs, once a day: it never removes one itself."""
    done = folder / "trimmed"
    with suppress(OSError):
        if not done.exists() or done.stat().st_mtime < time.time() - _IDLE:
            done.touch()
            trim(folder, "*/*", _IDLE)
