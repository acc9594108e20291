"""Program files: ``.mxr`` contains msgpack, ``.json`` JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from workbench.compiler.errors import ModelError, OperationError, WorkbenchError
from workbench.compiler.files.mxr.json_form import read_json, write_json
from workbench.compiler.files.mxr.kernels import NOTHING, Compiled, compiled_of, with_compiled
from workbench.compiler.files.mxr.msgpack_form import read_msgpack, write_msgpack
from workbench.compiler.files.mxr.reading import from_value
from workbench.compiler.files.mxr.writing import to_value
from workbench.compiler.ir.program import Program

SUFFIXES = {".mxr": "msgpack", ".json": "json"}
"""The form of a file by its suffix."""

_NO_PROGRAM = "; this is not the start of a saved program; read a model with parse_onnx or parse_tf"


T = TypeVar("T")


def _json_bytes(value: Any) -> bytes:
    return write_json(value).encode("utf-8", "surrogatepass")


_WRITE: dict[str, Callable[[Any], bytes]] = {"msgpack": write_msgpack, "json": _json_bytes}
_READ: dict[str, Callable[[Any], Any]] = {"msgpack": read_msgpack, "json": read_json}


def save_buffer(program: Program, format: str = "msgpack", compiled: Compiled = NOTHING) -> bytes:
    """A program as the bytes of a file.

    Args:
        program: The program.
        format: ``msgpack`` or ``json``.
        compiled: The part of its compilation for a device that the file keeps.

    Raises:
        OperationError: The format is neither ``msgpack`` nor ``json``.
    """
    return _of(_WRITE, format)(with_compiled(to_value(program), compiled))


def load_buffer(
    data: bytes | bytearray | memoryview, format: str = "msgpack", name: str = "the buffer"
) -> Program:
    """The program in the bytes of a file.

    Args:
        data: The bytes.
        format: ``msgpack`` or ``json``.
        name: The name of the file in errors.

    Raises:
        ModelError: The file is damaged, hostile or something else; the message says what and where.
        OperationError: The format is neither ``msgpack`` nor ``json``.
    """
    return load_compiled(data, format, name)[0]


def load_compiled(
    data: bytes | bytearray | memoryview, format: str = "msgpack", name: str = "the buffer"
) -> tuple[Program, Compiled]:
    """The program in the bytes of a file, and the part of its compilation for a device that they keep.

    Raises:
        ModelError: The file is damaged, hostile or something else; the message says what and where.
        OperationError: The format is neither ``msgpack`` nor ``json``.
    """
    read = _of(_READ, format)
    try:
        value = read(data)
        return from_value(value), compiled_of(value)
    except RecursionError as error:
        raise ModelError(f"{name}: its contents are nested too deeply") from error
    except MemoryError as error:
        raise ModelError(f"{name}: its contents need more memory than there is") from error
    except WorkbenchError as error:
        hint = "" if format == "json" or _begins_map(data) else _NO_PROGRAM
        raise ModelError(f"{name}: {error}{hint}") from error


def _begins_map(data: bytes | bytearray | memoryview) -> bool:
    """Whether the first byte starts a msgpack map, as every saved program does."""
    return len(data) > 0 and (data[0] >> 4 == 8 or data[0] in (0xDE, 0xDF))


def save(
    program: Program, path: str | Path, format: str = "msgpack", compiled: Compiled = NOTHING
) -> None:
    """Write a program to a file; an existing file is replaced once the new one is complete.

    Raises:
        OperationError: The format is neither ``msgpack`` nor ``json``.
        OSError: The file cannot be written.
    """
    data = save_buffer(program, format, compiled)
    write_whole(Path(path), data)


def load(path: str | Path, format: str = "msgpack") -> Program:
    """Read a program from a file.

    Raises:
        ModelError: The file is missing, damaged, hostile or something else.
        OperationError: The format is neither ``msgpack`` nor ``json``.
    """
    return read_compiled(path, format)[0]


def read_compiled(path: str | Path, format: str = "msgpack") -> tuple[Program, Compiled]:
    """Read a program from a file, and the part of its compilation for a device that it keeps.

    Raises:
        ModelError: The file is missing, damaged, hostile or something else.
        OperationError: The format is neither ``msgpack`` nor ``json``.
    """
    _of(_READ, format)
    return load_compiled(read_whole(Path(path)), format, str(path))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file; an existing one is replaced once the new one is complete."""
    if "\0" in str(path):
        raise FileNotFoundError(f"{str(path)!r}: expected a name without null characters")
    if not path.name or path.is_dir():
        raise IsADirectoryError(f"{path}: expected the name of a file, found a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}; create it first")
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_whole(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        ModelError: It cannot be read.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelError(f"{path}: this is a pipe or a device; expected a file")
        return path.read_bytes()
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        shown = str(path).replace("\0", "\\0")
        raise ModelError(f"{shown}: cannot be read: {said}") from error


def _of(table: dict[str, T], format: str) -> T:
    if format not in table:
        raise OperationError(f"unknown format {format!r}; expected {' or '.join(table)}")
    return table[format]
