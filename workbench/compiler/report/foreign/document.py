"""Reading of a trace's file: JSON, perhaps compressed, of bounded size."""

from __future__ import annotations

import gzip
import json
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

from workbench.compiler.errors import InputError

MAX_BYTES = 1 << 28
"""The largest trace that is read, uncompressed; parsed, it takes about ten times as much memory."""

_GZIP = b"\x1f\x8b"
_PERFETTO = b"\x0a"
"""The first byte of Perfetto's binary traces: the tag of a packet."""


def document(path: str | PathLike[str]) -> Any:
    """The JSON of a file.

    Args:
        path: A ``.json`` file, or a ``.json.gz`` file.

    Raises:
        InputError: There is no such file, it is too large, or it is not JSON.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; expected a trace as JSON")
    try:
        data = _bytes(path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: the file cannot be read: {error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: over {MAX_BYTES:,} bytes; record fewer runs")
    try:
        return json.loads(data)
    except RecursionError:
        raise InputError(f"{path}: the JSON is nested too deeply; expected a trace") from None
    except ValueError as error:
        raise InputError(f"{path}: {_not_json(data)}: {error}") from error


def _bytes(path: Path) -> bytes:
    """At most one byte more than is allowed."""
    with path.open("rb") as file:
        is_compressed = file.read(2) == _GZIP
    with gzip.open(path) if is_compressed else path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _not_json(data: bytes) -> str:
    if data.startswith(_PERFETTO) and b"{" not in data[:1]:
        return "not JSON, perhaps Perfetto's binary form; convert it with `traceconv json`"
    return (
        "not JSON; expected a profile of onnxruntime, TensorRT or PyTorch, or Chrome's trace format"
    )
