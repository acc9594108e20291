"""PoCL, OpenCL on the CPU: the folder that it keeps programs in, and a bound on that."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from workbench.gpu.code.cache_folder import cache_folder, trim
from workbench.knobs import suggest

_IDLE = 24 * 3600
"""Seconds after which a program that PoCL keeps may go; other processes may be using those that are newer."""


def settle() -> None:
    """Give PoCL a folder that it can write, for without one it has no device, and spare it work.

    Left alone it compiles a kernel again for the sizes of its first launch, 0.1 s each.
    """
    kept = cache_folder("pocl")
    if kept:
        _trim_pocl(kept)
        folder = str(kept)
    else:
        folder = tempfile.mkdtemp(prefix="graph-workbench-pocl-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    suggest("POCL_CACHE_DIR", folder)
    suggest("POCL_WORK_GROUP_SPECIALIZATION", "0")


def _trim_pocl(folder: Path) -> None:
    """Bound the folder in which PoCL keeps programs, once a day: it never removes one itself."""
    done = folder / "trimmed"
    with suppress(OSError):
        if not done.exists() or done.stat().st_mtime < time.time() - _IDLE:
            done.touch()
            trim(folder, "*/*", _IDLE)
