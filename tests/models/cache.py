"""Storage of model files between runs; a file is stored whole or not at all."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

VARIABLE = "WORKBENCH_MODEL_CACHE"


def folder() -> Path:
    """The cache folder: $WORKBENCH_MODEL_CACHE, or ~/.cache/graph-workbench/models."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "graph-workbench" / "models"


def sha256(path: Path) -> str:
    """The hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(file_name: str, create: Callable[[Path], None]) -> Path:
    """The cached file of that name; `create(path)` writes it first where it is missing.

    The file is written beside its place and renamed, so that an interrupted or a concurrent
    run never leaves half a model behind.
    """
    path = folder() / file_name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        fresh = Path(scratch) / path.name
        create(fresh)
        fresh.replace(path)
    return path
