"""The folder that keeps kernels and measurements between runs. Failure to write to it is not an error."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from workbench.knobs import knobs


def cache_folder(part: str) -> Path | None:
    """A folder of the cache, created if it is missing; None if it cannot be created.

    What is kept is native code, so a folder that others can write to is not used: a warning says so once.

    Args:
        part: The folder's name inside the cache, such as ``kernels``.
    """
    root = Path(knobs.cache).expanduser() if knobs.cache else _home()
    if root is None:
        return None
    folder = root / part
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        for one in (root, folder):
            one.mkdir(mode=0o700, exist_ok=True)
            if reason := foreign(one.stat()):
                _refuse(str(one), reason)
                return None
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def foreign(facts: os.stat_result) -> str:
    """The reason why others may have written to a file or folder; empty if only its user can."""
    if not hasattr(os, "getuid"):  # Windows: the user's folder has an access list of its own
        return ""
    if facts.st_uid != os.getuid():
        return f"it belongs to user {facts.st_uid}, and this is user {os.getuid()}"
    mode = stat.S_IMODE(facts.st_mode)
    return f"its mode is {mode:o}, so others can write to it" if mode & 0o022 else ""


@cache
def _refuse(folder: str, reason: str) -> None:
    warnings.warn(
        f"kernels are not kept in {folder}: {reason}, and what is there would be run as native code. "
        f"Remove what you do not know there and `chmod 700 {shlex.quote(folder)}`, or set WORKBENCH_CACHE "
        "to a folder of your own; until then kernels are compiled anew in every process",
        stacklevel=4,
    )


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
    """The contents of a file, which is marked as just used.

    None if it is missing or unreadable, or if others may have written it.
    """
    try:
        with path.open("rb") as file:
            if foreign(os.fstat(file.fileno())):
                return None
            contents = file.read()
    except OSError:
        return None
    with suppress(OSError):
        os.utime(path)
    return contents


def kept_json(path: Path | None) -> dict[str, Any]:
    """The JSON object in a file, as ``kept`` reads it; an empty one where there is none."""
    try:
        found: Any = json.loads((path and kept(path)) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def trim(folder: Path, pattern: str = "*", idle: float = 0) -> None:
    """Remove a folder's least recently used files until it is no larger than ``knobs.cache_bytes``.

    Args:
        folder: Where to look.
        pattern: Its files and folders that are removed, each whole.
        idle: Seconds since its last use, before which nothing is removed.
    """
    if not knobs.cache_bytes:
        return
    try:
        found = [(path, *_use(path)) for path in folder.glob(pattern)]
    except OSError:
        return
    excess = sum(size for _, size, _ in found) - knobs.cache_bytes
    for path, size, used in sorted(found, key=lambda one: one[2]):
        if excess <= 0 or (idle and used > time.time() - idle):
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        excess -= size


def _use(path: Path) -> tuple[int, float]:
    """The bytes of a file, or of all in a folder, and when any of it was written or renewed last."""
    size, used = 0, 0.0
    stack = [path]
    while stack:
        one = stack.pop()
        with suppress(OSError):  # another process may have removed it
            facts = one.lstat()
            size, used = size + facts.st_size, max(used, facts.st_mtime)
            if stat.S_ISDIR(facts.st_mode):
                stack += one.iterdir()
    return size, used
