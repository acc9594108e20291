"""Reading a path or bytes into a checked GraphDef; its message classes are TensorBoard's."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from workbench.compiler.errors import ModelError

Message: TypeAlias = "Any"
"""A message of TensorFlow's protocol buffers, which have no type stubs."""

MAX_FILE_BYTES = 1 << 31
"""The largest size of a protocol buffer."""

_MAGIC = {
    b"version https://git-lfs": "a Git LFS pointer; run `git lfs pull` to get the graph itself",
    b"PK\x03\x04": "a ZIP archive, perhaps a Keras file; freeze the model into a GraphDef",
    b"\x89HDF": "an HDF5 file, perhaps of Keras; freeze the model into a GraphDef",
    b"\x1f\x8b": "gzip data; unpack it",
    b"<": "a web page or XML; download the graph itself",
    b"{": "JSON text; expected a binary GraphDef",
    b"node {": "a GraphDef in text form; write it with as_text=False",
}
_FROZEN = "freeze it with convert_variables_to_constants_v2 and write its graph as a GraphDef"


def messages() -> Any:
    """The module of GraphDef.

    Raises:
        ModelError: The package that provides it is not installed.
    """
    try:
        return import_module("tensorboard.compat.proto.graph_pb2")
    except ImportError as error:
        raise ModelError(
            "reading TensorFlow graphs needs the package tensorboard for its protocol buffers; "
            f"install it with `pip install graph-workbench[tf]` ({error})"
        ) from error


def read(model: str | Path | bytes) -> Message:
    """Read a frozen graph.

    Raises:
        ModelError: The graph cannot be read, is damaged, or is not a GraphDef.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        return _parsed(bytes(model))
    path = _existing(model)
    try:
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise ModelError(f"{size:,} bytes; expected at most {MAX_FILE_BYTES:,}")
        return _parsed(path.read_bytes())
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read: {error}") from error


def _existing(path: str | Path) -> Path:
    try:
        path = Path(path)
        found, is_folder = path.exists(), path.is_dir()
    except (TypeError, ValueError, OSError) as error:
        raise ModelError(f"{path!r} is neither a path nor bytes: {error}") from error
    if not found:
        raise ModelError(f"{path}: there is no such file; expected a path to a frozen graph")
    if is_folder:
        is_saved = (path / "saved_model.pb").exists()
        what = f"a SavedModel; {_FROZEN}" if is_saved else "a folder; expected the file in it"
        raise ModelError(f"{path}: this is {what}")
    if not path.is_file():
        raise ModelError(f"{path}: this is a pipe or a device; expected a file, or its bytes")
    return path


def _parsed(data: bytes) -> Message:
    if not data:
        raise ModelError("the graph is empty; expected the bytes of a frozen GraphDef")
    graph = messages().GraphDef()
    try:
        graph.ParseFromString(data)
    except Exception as error:  # protobuf's errors have no public class here
        _refuse_other_formats(data)
        raise ModelError(f"not a GraphDef, or a damaged one: {error}") from error
    if not graph.node:
        _refuse_other_formats(data)
        raise ModelError(f"not a GraphDef: it has no nodes; if it is a SavedModel, {_FROZEN}")
    return graph


def _refuse_other_formats(data: bytes) -> None:
    """Name the format of data that is not a GraphDef.

    Only asked of what cannot be parsed: a graph whose first node has 60 bytes begins with a newline
    and a ``<``, as a web page may.
    """
    head = data[:32].lstrip()
    for magic, meaning in _MAGIC.items():
        if head.startswith(magic) and (len(magic) > 1 or head.isascii()):
            raise ModelError(f"not a frozen graph but {meaning}")
