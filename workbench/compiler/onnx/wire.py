"""A model's bytes without the large initialisers, which are read separately, without parsing or copies."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from workbench.compiler.errors import ModelError

Buffer: TypeAlias = "bytes | mmap.mmap"

LARGE = 1024
"""Payloads of at least this many bytes are left out of the skeleton."""

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}


class Span(NamedTuple):
    """The extent of some bytes."""

    offset: int
    length: int


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int
    value: int
    end: int


class Skeleton(NamedTuple):
    """A model without its large payloads, and the positions of these by index of the initialiser."""

    model: bytes
    payloads: dict[int, Span]


def skeleton(buffer: Buffer) -> Skeleton:
    """Split a serialised model.

    Raises:
        ModelError: The bytes end too early, or are not a protobuf message.
    """
    payloads: dict[int, Span] = {}
    parts: list[bytes] = []
    count = 0
    for field in _fields(buffer, 0, len(buffer), "model"):
        if field.number == _GRAPH and field.wire_type == _LENGTH_DELIMITED:
            body, count = _graph(buffer, field, payloads, count)
            parts.append(_message(_GRAPH, body))
        else:
            parts.append(buffer[field.start : field.end])
    return Skeleton(b"".join(parts), payloads)


def _graph(
    buffer: Buffer, graph: _Field, payloads: dict[int, Span], count: int
) -> tuple[bytes, int]:
    parts: list[bytes] = []
    for field in _fields(buffer, graph.value, graph.end, "graph"):
        if field.number == _INITIALIZER and field.wire_type == _LENGTH_DELIMITED:
            large = field.end - field.value >= LARGE
            part = _tensor(buffer, field, payloads, count) if large else None
            parts.append(part or buffer[field.start : field.end])
            count += 1
        else:
            parts.append(buffer[field.start : field.end])
    return b"".join(parts), count


def _tensor(buffer: Buffer, tensor: _Field, payloads: dict[int, Span], index: int) -> bytes:
    parts: list[bytes] = []
    for field in _fields(buffer, tensor.value, tensor.end, "initializer"):
        length = field.end - field.value
        if field.number == _RAW_DATA and field.wire_type == _LENGTH_DELIMITED and length >= LARGE:
            payloads[index] = Span(field.value, length)
        else:
            parts.append(buffer[field.start : field.end])
    return _message(_INITIALIZER, b"".join(parts))


def _fields(buffer: Buffer, start: int, end: int, what: str) -> Iterator[_Field]:
    at = start
    while at < end:
        key, value = _varint(buffer, at, end, what)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise ModelError(
                f"not an ONNX model: byte {at} ({what}) does not start a protobuf field"
            )
        if wire_type == _LENGTH_DELIMITED:
            length, value = _varint(buffer, value, end, what)
            stop = value + length
        elif wire_type == 0:
            _, stop = _varint(buffer, value, end, what)
        elif wire_type in _FIXED:
            stop = value + _FIXED[wire_type]
        else:
            raise ModelError(
                f"not an ONNX model: byte {at} ({what}) does not start a protobuf field"
            )
        if stop > end:
            raise ModelError(
                f"the model is truncated: field {number} of the {what} at byte {at} ends at byte "
                f"{stop}, found {end} bytes; get the whole file"
            )
        yield _Field(number, wire_type, at, value, stop)
        at = stop


def _varint(buffer: Buffer, at: int, end: int, what: str) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    if at >= end:
        raise ModelError(f"the model is truncated: the {what} ends within a number, at byte {at}")
    raise ModelError(f"not an ONNX model: byte {at} ({what}) is within a number of over 64 bits")


def _message(number: int, body: bytes) -> bytes:
    return _encoded(number << 3 | _LENGTH_DELIMITED) + _encoded(len(body)) + body


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
