"""Values as msgpack, as MIGraphX packs them; the input is validated before memory is allocated for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, cast

import msgpack

from workbench.compiler.errors import ModelError

MAX_DEPTH = 100
"""The nesting limit for tuples of arguments."""

CHUNK = 2**32 - 2
"""The largest size in bytes of one piece of binary data; longer data is split into pieces."""

_TEXT = "surrogatepass"


def write_msgpack(value: Any) -> bytes:
    """A value as msgpack, as MIGraphX packs it: binary data as a list of pieces, no empty maps."""
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
    """The value in a buffer, with pieces of binary data joined.

    Raises:
        ModelError: The buffer is truncated, longer than its value, or not msgpack; the message says where.
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
                strict_map_key=False,  # _object reports the offending key
            ),
        )
    except ModelError:
        raise
    except UnicodeDecodeError as error:
        raise ModelError(f"a string is not UTF-8: {error.reason}") from error
    except ValueError as error:
        raise ModelError(f"not the value of a program: {error}") from error


def _walk(data: bytes | bytearray | memoryview) -> None:
    """Walk through a value without building it, so that lists cannot claim more than the data contains."""
    walker = cast("Any", msgpack.Unpacker(BytesIO(data), max_buffer_size=len(data) + (1 << 20)))
    try:
        walker.skip()
    except msgpack.OutOfData as error:
        raise ModelError(
            f"byte {walker.tell()}: the file ends too early; it is truncated or was tampered with"
        ) from error
    except msgpack.StackError as error:
        raise ModelError(f"byte {walker.tell()}: too many nested lists") from error
    except ValueError as error:
        raise ModelError(f"byte {walker.tell()}: this is not msgpack") from error
    left = len(data) - int(walker.tell())
    if left:
        raise ModelError(f"byte {walker.tell()}: the value ends here, but {left} bytes follow")


def _object(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str) or key in found:
            what = f"{key!r} occurs twice" if isinstance(key, str) else "a key is not a string"
            raise ModelError(f"{what}; expected keys that are strings, each once")
        found[key] = value
    return found


def _list(found: list[Any]) -> Any:
    if not found or not isinstance(found[0], bytes):
        return found
    if not all(isinstance(piece, bytes) for piece in found):
        raise ModelError("binary data: a piece is not binary; expected bytes")
    return found[0] if len(found) == 1 else b"".join(cast("list[bytes]", found))


def _extension(code: int, _: bytes) -> Any:
    raise ModelError(f"extension type {code}; expected a value of a program")
