"""The folder that keeps kernels and measurements between runs. Failure to write to it is not an error."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from workbench.knobs import knobs


def cache_folder(part: str) -> Path | None:
    """A folder of the cache, created if it is missing; None if it cannot be created.

    Args:
        part: The folder's name inside the cache, such as ``kernels``.
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
    from platformdirs import user_cache_path  # noqa: PLC0415

    folder = user_cache_path("graph-workbench", appauthor=False)
    return folder if folder.is_absolute() else None  # a user without a home


def keep(path: Path, contents: bytes) -> bool:
    """Write a file atomically, since other processes may write it too; False if it cannot be written."""
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
    """The contents of a file, which is marked as just used; None if it is missing or unreadable."""
    try:
        contents = path.read_bytes()
    except OSError:
        return None
    with suppress(OSError):
        os.utime(path)
    return contents


def trim(folder: Path) -> None:
    """Remove a folder's least recently used files until it is no larger than ``knobs.cache_bytes``."""
    if not knobs.cache_bytes:
        return
    try:
        paths = list(folder.iterdir())
    except OSError:
        return
    found = [(path, facts) for path in paths if (facts := _facts(path)) is not None]
    excess = sum(facts.st_size for _, facts in found) - knobs.cache_bytes
    for path, facts in sorted(found, key=lambda one: one[1].st_mtime_ns):
        if excess <= 0:
            return
        with suppress(OSError):
            path.unlink(missing_ok=True)
        excess -= facts.st_size


def _facts(path: Path) -> os.stat_result | None:
    """The file's status; None if another process has removed the file."""
    try:
        return path.lstat()
    except OSError:
        return None
