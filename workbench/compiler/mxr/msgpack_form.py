"""Values as msgpack. A reader of its own: counts are checked before room is made, and data is not copied."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from workbench.compiler.errors import ModelError

MAX_DEPTH = 100
"""How deep lists and maps may lie in each other; programs need about a dozen levels."""

CHUNK = 2**32 - 2
"""Bytes of one piece of binary data; longer data are several pieces."""

_FIXED: dict[int, tuple[str, int]] = {
    0xCA: (">f", 4), 0xCB: (">d", 8), 0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4),
    0xCF: (">Q", 8), 0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8),
}  # fmt: skip
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4), 0xD9: ("str", 1), 0xDA: ("str", 2),
    0xDB: ("str", 4), 0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


def write_msgpack(value: Any) -> bytes:
    """A value as msgpack, the way MIGraphX packs it: binary data in a list of pieces, no empty maps."""
    parts: list[bytes | memoryview] = []
    _write(value, parts.append)
    return b"".join(parts)


def _write(value: Any, put: Callable[[bytes | memoryview], None]) -> None:
    match value:
        case None:
            put(b"\xc0")
        case bool():
            put(b"\xc3" if value else b"\xc2")
        case int():
            put(_integer(value))
        case float():
            put(struct.pack(">Bd", 0xCB, value))
        case str():
            data = value.encode("utf-8", "surrogatepass")
            put(_header(len(data), 0xA0, 31, (0xD9, 0xDA, 0xDB)))
            put(data)
        case bytes() | bytearray() | memoryview():
            _write_binary(memoryview(cast("bytes", value)), put)
        case Mapping():
            _write_map(cast("Mapping[str, Any]", value), put)
        case Sequence():
            listed = cast("Sequence[Any]", value)
            put(_header(len(listed), 0x90, 15, (None, 0xDC, 0xDD)))
            for element in listed:
                _write(element, put)
        case _:
            raise ModelError(f"a {type(value).__name__} cannot be written: {value!r}")


def _write_map(value: Mapping[str, Any], put: Callable[[bytes | memoryview], None]) -> None:
    empty = 0x80 if value else 0x90
    put(_header(len(value), empty, 15, (None, 0xDE, 0xDF)))
    for key, element in value.items():
        _write(key, put)
        _write(element, put)


def _write_binary(data: memoryview, put: Callable[[bytes | memoryview], None]) -> None:
    pieces = [data[at : at + CHUNK] for at in range(0, data.nbytes, CHUNK)] or [data]
    put(_header(len(pieces), 0x90, 15, (None, 0xDC, 0xDD)))
    for piece in pieces:
        put(_header(piece.nbytes, 0, -1, (0xC4, 0xC5, 0xC6)))
        put(piece)


def _header(count: int, short: int, most: int, codes: tuple[int | None, int, int]) -> bytes:
    if count <= most:
        return bytes([short + count])
    if codes[0] is not None and count < 1 << 8:
        return struct.pack(">BB", codes[0], count)
    if count < 1 << 16:
        return struct.pack(">BH", codes[1], count)
    if count < 1 << 32:
        return struct.pack(">BI", codes[2], count)
    raise ModelError(f"{count:,} entries in one list or text; a file can have {(1 << 32) - 1:,}")


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    choices = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code in choices:
        form, size = _FIXED[code]
        bits = 8 * size - (value < 0)
        if -(1 << bits) <= value < (1 << bits):
            return bytes([code]) + struct.pack(form, value)
    raise ModelError(f"{value} needs more than 64 bits")


def read_msgpack(data: bytes | bytearray | memoryview) -> Any:
    """The value that a buffer holds; binary data are views of the buffer, or joined pieces.

    Raises:
        ModelError: The buffer is cut off, longer than its value, or not msgpack; the message says where.
    """
    reader = _Reader(memoryview(data).cast("B"))
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise ModelError(
            f"byte {reader.at}: the value ends here, but {len(reader.data) - reader.at} bytes follow"
        )
    return value


class _Reader:
    """Reads one value after the other; ``owed`` entries of open lists and maps are still to come."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0
        self.owed = 0

    def value(self, depth: int) -> Any:
        code = self.take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 256
        if code < 0xC0:
            kind = "map" if code < 0x90 else "array" if code < 0xA0 else "str"
            return self.sized(kind, code & (0x1F if kind == "str" else 0x0F), depth)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _FIXED:
            form, size = _FIXED[code]
            return struct.unpack(form, self.take(size))[0]
        if code in _SIZED:
            kind, width = _SIZED[code]
            return self.sized(kind, int.from_bytes(self.take(width), "big"), depth)
        raise ModelError(
            f"byte {self.at - 1}: found {code:#04x}, an extension type or no msgpack at all; "
            "expected a value of a program"
        )

    def take(self, count: int) -> memoryview:
        left = len(self.data) - self.at
        if count > left:
            raise ModelError(
                f"byte {self.at}: the file ends after {left} of {count} bytes; it is cut off"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def sized(self, kind: str, count: int, depth: int) -> Any:
        if kind == "bin":
            return self.take(count)
        if kind == "str":
            start = self.at
            try:
                return bytes(self.take(count)).decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise ModelError(f"byte {start}: a text is not UTF-8: {error.reason}") from error
        self.owe(count * (2 if kind == "map" else 1), depth)
        return self.map(count, depth) if kind == "map" else self.array(count, depth)

    def owe(self, entries: int, depth: int) -> None:
        """Refuse more entries than there are bytes left, before any room is made for them."""
        self.owed += entries
        left = len(self.data) - self.at
        if self.owed > left:
            raise ModelError(
                f"byte {self.at}: lists claim {self.owed:,} entries, but {left:,} bytes are left; "
                "the file is cut off or was tampered with"
            )
        if depth >= MAX_DEPTH:
            raise ModelError(f"byte {self.at}: over {MAX_DEPTH} lists lie in each other")

    def array(self, count: int, depth: int) -> Any:
        found: list[Any] = []
        for _ in range(count):
            self.owed -= 1
            found.append(self.value(depth + 1))
        if found and isinstance(found[0], memoryview):
            if not all(isinstance(piece, memoryview) for piece in found):
                raise ModelError(f"byte {self.at}: binary data has a piece that is none")
            pieces = cast("list[bytes]", found)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return found

    def map(self, count: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            self.owed -= 2
            start, key = self.at, self.value(depth + 1)
            if not isinstance(key, str) or key in found:
                what = f"{key!r} is there twice" if isinstance(key, str) else "a key is no text"
                raise ModelError(f"byte {start}: {what}; expected keys that are texts, each once")
            found[key] = self.value(depth + 1)
        return found
