"""Values as msgpack, as MIGraphX packs them; what is read is walked through before room is made for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, cast

import msgpack

from workbench.compiler.errors import ModelError

MAX_DEPTH = 100
"""How deep the tuples of an argument may lie in each other."""

CHUNK = 2**32 - 2
"""Bytes of one piece of binary data; longer data are several pieces."""

_TEXT = "surrogatepass"


def write_msgpack(value: Any) -> bytes:
    """A value as msgpack, the way MIGraphX packs it: binary data in a list of pieces, no empty maps."""
    try:
        return cast("bytes", msgpack.packb(_plain(value), unicode_errors=_TEXT))
    except OverflowError as error:
        raise ModelError(f"an integer needs more than 64 bits: {error}") from error


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            data = memoryview(cast("bytes", value))
            return [data[at : at + CHUNK] for at in range(0, data.nbytes, CHUNK)] or [b""]
        case Mapping():
            found = {k: _plain(v) for k, v in cast("Mapping[str, Any]", value).items()}
            return found or []
        case Sequence():
            return [_plain(v) for v in cast("Sequence[Any]", value)]
        case _:
            raise ModelError(f"a {type(value).__name__} cannot be written: {value!r}")


def read_msgpack(data: bytes | bytearray | memoryview) -> Any:
    """The value that a buffer holds, pieces of binary data joined.

    Raises:
        ModelError: The buffer is cut off, longer than its value, or not msgpack; the message says where.
    """
    _walk(data)
    try:
        return cast(
            "Any",
            msgpack.unpackb(
                data,
                object_pairs_hook=_object,
                list_hook=_list,
                ext_hook=_extension,
                unicode_errors=_TEXT,
                strict_map_key=False,  # the hook says which key
            ),
        )
    except ModelError:
        raise
    except UnicodeDecodeError as error:
        raise ModelError(f"a text is not UTF-8: {error.reason}") from error
    except ValueError as error:
        raise ModelError(f"no value of a program: {error}") from error


def _walk(data: bytes | bytearray | memoryview) -> None:
    """Go through a value without making it: after this, what lists claim to hold is there."""
    walker = cast("Any", msgpack.Unpacker(BytesIO(data), max_buffer_size=len(data) + (1 << 20)))
    try:
        walker.skip()
    except msgpack.OutOfData as error:
        raise ModelError(
            f"byte {walker.tell()}: the file ends; it is cut off or was tampered with"
        ) from error
    except msgpack.StackError as error:
        raise ModelError(f"byte {walker.tell()}: too many lists lie in each other") from error
    except ValueError as error:
        raise ModelError(f"byte {walker.tell()}: this is no msgpack") from error
    left = len(data) - int(walker.tell())
    if left:
        raise ModelError(f"byte {walker.tell()}: the value ends here, but {left} bytes follow")


def _object(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str) or key in found:
            what = f"{key!r} is there twice" if isinstance(key, str) else "a key is no text"
            raise ModelError(f"{what}; expected keys that are texts, each once")
        found[key] = value
    return found


def _list(found: list[Any]) -> Any:
    if not found or not isinstance(found[0], bytes):
        return found
    if not all(isinstance(piece, bytes) for piece in found):
        raise ModelError("binary data has a piece that is none")
    return found[0] if len(found) == 1 else b"".join(cast("list[bytes]", found))


def _extension(code: int, _: bytes) -> Any:
    raise ModelError(f"extension type {code}; expected a value of a program")
