"""The folder that kernels and measurements are kept in between runs; what cannot be kept is no error."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from workbench.knobs import knobs


def cache_folder(part: str) -> Path | None:
    """A folder for files of one sort, made where it is missing; None where that cannot be.

    Args:
        part: Its name inside the cache, such as ``kernels``.
    """
    root = Path(knobs.cache).expanduser() if knobs.cache else _home()
    if root is None:
        return None
    folder = root / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _home() -> Path | None:
    try:
        return Path.home() / ".cache" / "graph-workbench"
    except RuntimeError:  # a user without a home
        return None


def keep(path: Path, contents: bytes) -> bool:
    """Write a file whole or not at all, beside other processes that do; False where it cannot be."""
    try:
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        Path(scratch).replace(path)
    except OSError:
        return False
    else:
        return True
    finally:
        with suppress(OSError):
            Path(scratch).unlink(missing_ok=True)


def kept(path: Path) -> bytes | None:
    """The contents of a file; None where it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None
