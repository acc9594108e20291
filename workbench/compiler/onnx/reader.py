"""Reading a path, bytes or a ModelProto into a model that is checked to be complete."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.onnx.wire import Buffer, Span, skeleton

MAX_OPSET = 28
"""The newest supported version of the default operator set."""

_MAGIC = {
    b"version https://git-lfs": "a Git LFS pointer; run `git lfs pull` to get the model itself",
    b"PK\x03\x04": "a ZIP archive, perhaps a PyTorch file; export it to ONNX",
    b"\x89HDF": "an HDF5 file, perhaps of Keras; export it to ONNX",
    b"\x1f\x8b": "gzip data; unpack it",
    b"<": "a web page or XML; download the model itself",
    b"{": "JSON text; expected a binary ONNX file",
    b"TFL3": "a TensorFlow Lite file; convert it to ONNX",
}


@dataclass
class Source:
    """A model, the payloads of its large initialisers, and where both came from."""

    model: onnx.ModelProto
    name: str = ""
    folder: Path | None = None
    payloads: dict[int, Array] = field(default_factory=dict[int, Array])
    """Bytes of initialisers of the main graph that are not in ``model``, by index."""


def read(model: str | Path | bytes | onnx.ModelProto) -> Source:
    """Read a model and check that it is valid.

    Raises:
        ModelError: The model cannot be read, is damaged, is not ONNX, or is of an unknown version.
    """
    if isinstance(model, onnx.ModelProto):
        source = Source(model, model.graph.name)
    elif isinstance(model, bytes | bytearray | memoryview):
        source = _from_bytes(bytes(model))
    else:
        source = _from_file(existing(model))
    _check(source)
    return source


def existing(path: str | Path) -> Path:
    """The path of a file.

    Raises:
        ModelError: It is not a path, or not that of a file.
    """
    try:
        path = Path(path)
        found, is_folder = path.exists(), path.is_dir()
    except (TypeError, ValueError, OSError) as error:
        raise ModelError(f"{path!r} is not a path, bytes or a ModelProto: {error}") from error
    if not found:
        raise ModelError(f"{path}: there is no such file; expected a path to an ONNX model")
    if is_folder:
        raise ModelError(f"{path}: this is a folder; expected the ONNX file in it")
    if not path.is_file():
        raise ModelError(f"{path}: this is a pipe or a device; expected an ONNX file, or its bytes")
    return path


def _from_file(path: Path) -> Source:
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise ModelError("the file is empty; expected an ONNX model")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:

                def load(span: Span) -> Array:
                    file.seek(span.offset)
                    return np.fromfile(file, np.uint8, span.length)

                return _split(buffer, load, Source(onnx.ModelProto(), path.name, path.parent))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read: {error}") from error


def _from_bytes(data: bytes) -> Source:
    if not data:
        raise ModelError("the model is empty; expected the bytes of an ONNX model")

    def load(span: Span) -> Array:
        return np.frombuffer(data, np.uint8, span.length, span.offset)

    return _split(data, load, Source(onnx.ModelProto()))


def _split(buffer: Buffer, load: Callable[[Span], Array], source: Source) -> Source:
    head = bytes(buffer[:32])
    for magic, meaning in _MAGIC.items():
        if head.lstrip().startswith(magic) and (len(magic) > 1 or head.isascii()):
            raise ModelError(f"not an ONNX model but {meaning}")
    bare = skeleton(buffer)
    try:
        source.model.ParseFromString(bare.model)
    except Exception as error:  # protobuf's errors have no public class here
        raise ModelError(f"not an ONNX model, or a damaged one: {error}") from error
    source.payloads = {index: load(span) for index, span in bare.payloads.items()}
    return source


def broken_text(model: onnx.ModelProto) -> str | None:
    """The defect of a model with a text that is not UTF-8, which protobuf returns as bytes."""
    stack: list[Any] = [model]
    while stack:
        message = stack.pop()
        for known, value in message.ListFields():
            is_one = isinstance(value, str | bytes) or hasattr(value, "ListFields")
            values = [value] if is_one else value
            if known.type == known.TYPE_MESSAGE:
                stack += values
            elif known.type == known.TYPE_STRING:
                broken = next((t for t in values if not isinstance(t, str)), None)
                if broken is not None:
                    where = f"{message.DESCRIPTOR.name}.{known.name}"
                    return f"{where}: {bytes(broken)[:40]!r} is not UTF-8 text"
    return None


def _check(source: Source) -> None:
    model = source.model
    where = source.name or "the model"
    if model.ir_version <= 0 or not model.HasField("graph"):
        raise ModelError(f"{where}: not an ONNX model: it has no IR version or no graph")
    if not model.opset_import and model.ir_version >= 3:
        raise ModelError(
            f"{where}: the model names no operator set (opset_import); "
            "the file is damaged, or its exporter forgot it"
        )
    for opset in model.opset_import:
        if opset.domain in {"", "ai.onnx"} and not 1 <= opset.version <= MAX_OPSET:
            raise ModelError(
                f"{where}: operator set {opset.version} is not supported; expected 1 to {MAX_OPSET}; "
                "export the model for one of these, or convert it with onnx.version_converter"
            )
    source.name = source.name or model.graph.name
