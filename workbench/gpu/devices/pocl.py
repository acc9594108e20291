"""PoCL, OpenCL on the CPU: the folder that it keeps programs in, and a trial, as it aborts where it fails."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Timer

from workbench.compiler.errors import DeviceError
from workbench.gpu.code.cache_folder import cache_folder, keep, kept, trim
from workbench.gpu.devices import pocl_builtins, pocl_processor
from workbench.gpu.devices.pocl_process import CompilingProcess
from workbench.knobs import environment, suggest

_IDLE = 24 * 3600
"""Seconds after which a program that PoCL keeps may go; other processes may be using those that are newer."""


_ROOM = bytes(1 << 16)
"""What is written to see whether there is room."""
_SPARE = 30.0
"""Seconds for which a process waits for kernels to compile."""
_MOST_KERNELS = 500
"""Kernels after which a process ends, as PoCL keeps all of them in its folder."""


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


class Trial:
    """Other processes that compile and run a kernel before this one does, as PoCL ends one that cannot.

    One goes on beside this process until someone wants to know how it ended. There is none if one has
    succeeded in this environment before. They compile more kernels for whoever asks for them soon.

    Args:
        version: What is tried; another version is tried again.
        device: The name of PoCL's device.
    """

    def __init__(self, version: str, device: str) -> None:
        """Begin."""
        self._version, self._device = version, device
        self._lock = Lock()
        self._waiting: list[CompilingProcess] = []
        self._timer: Timer | None = None
        self._linker = ""
        self._is_over = False
        with suppress(OSError):  # what cannot begin now is said later
            self._begin()

    @property
    def is_over(self) -> bool:
        """Whether it is known that PoCL can be used."""
        return self._is_over

    def confirm(self) -> None:
        """Wait until a kernel has run; where that failed, the next call tries again.

        Raises:
            UnusableError: It failed.
        """
        with self._lock:
            if self._is_over:
                return
            try:
                if not self._waiting:
                    self._begin()
                reason = "" if self._is_over else self._waiting[0].failure()
            except OSError as error:
                reason = str(error)
            except BaseException:
                self._end()
                raise
            if reason:
                self._end()
                missing = "" if self._linker else "there is no linker `ld` on the PATH; "
                raise UnusableError(_advice(missing + reason))
            if not self._is_over and (mark := self._mark()):
                keep(mark, b"")
            self._is_over = True

    def expect(self, processes: int) -> None:
        """Start processes that are soon asked for; those that are not end after a while."""
        with self._lock, suppress(OSError):
            self._start(processes)

    @contextmanager
    def process(self) -> Generator[CompilingProcess]:
        """A process to compile with; it waits for more kernels afterwards, unless it was interrupted.

        Raises:
            OSError: There can be none.
        """
        with self._lock:
            found = self._waiting.pop(0) if self._waiting else started(self._device)
        try:
            yield found
        except BaseException:
            found.end()
            raise
        with self._lock:
            if found.is_there and found.compiled < _MOST_KERNELS:
                self._waiting.append(found)
                self._drop_later()
            else:
                found.end()

    def _begin(self) -> None:
        self._linker = shutil.which("ld") or ""
        mark = self._mark()
        self._is_over = not sys.executable or (mark is not None and kept(mark) is not None)
        if not self._is_over:
            self._start(1)

    def _start(self, processes: int) -> None:
        """Have so many processes wait, for a while."""
        if len(self._waiting) < processes:
            self._drop_later()
        while len(self._waiting) < processes:
            self._waiting.append(started(self._device))

    def _drop_later(self) -> None:
        """Let those that wait end after a while, from now on."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(_SPARE, self._drop)
        self._timer.daemon = True
        self._timer.start()

    def _drop(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        while self._waiting:
            self._waiting.pop().end()

    def _mark(self) -> Path | None:
        """The file that says that a kernel has run in this environment."""
        place = environment()["POCL_CACHE_DIR"]
        key = "\n".join((self._version, sys.executable, os.path.realpath(self._linker), place))
        folder = cache_folder("pocl")
        return (
            folder / f"probed-{hashlib.sha256(key.encode()).hexdigest()[:16]}" if folder else None
        )


def started(device: str) -> CompilingProcess:
    """A process that compiles for PoCL's device of that name.

    Raises:
        OSError: There can be no other process.
    """
    library = find_spec("pyopencl._cl")
    if library is None or library.origin is None:
        raise OSError("pyopencl has no library")
    files = (library.origin, pocl_processor.__file__, pocl_builtins.__file__)
    variables = environment()
    return CompilingProcess(device, files, variables["POCL_CACHE_DIR"], variables)


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
