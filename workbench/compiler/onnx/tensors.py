"""TensorProtos as arrays that share their memory, after a check of the declared size."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import HELD_FORMATS, Array, DType

MAX_CONSTANT_BYTES = 1 << 27
"""The largest constant that the import itself creates (for Range, Trilu and the like)."""

MAX_CONSTANTS_BYTES = 1 << 29
"""The limit for all constants together that the import itself creates."""

MAX_FILLED_BYTES = 1 << 31
"""The largest constant of equal elements (ConstantOfShape), which takes no memory per element."""

MAX_TENSOR_BYTES = 1 << 40
"""The largest tensor that a model may declare."""

T = onnx.TensorProto

CODES = {t: t.format.onnx for t in DType if t.format.onnx and t.format.packed == 1}
"""ONNX's codes of the types that programs have."""

NARROW = {f.onnx: f.numpy for f in HELD_FORMATS}
"""Types whose elements a program holds in a wider type: a byte per element, E8M0 as floats."""

TYPES = {code: t for t, code in CODES.items()} | {f.onnx: t for f, t in HELD_FORMATS.items()}
"""The element type of a program by ONNX's code."""

PACKED = {f.onnx: 8 // f.bits for f in HELD_FORMATS if f.bits < 8}
"""Elements in a byte of a tensor's data, the first in the lowest bits."""

_WIDE_FIELDS: dict[int, str] = {
    T.FLOAT: "float_data",
    T.DOUBLE: "double_data",
    T.INT64: "int64_data",
    T.UINT32: "uint64_data",
    T.UINT64: "uint64_data",
}
_PATTERNS = {code for t, code in CODES.items() if t.is_narrow_float} | {*NARROW}
"""Types whose elements are stored as integers with the same bits."""


def element_type(code: int, where: str) -> DType:
    """The element type for an ONNX type code.

    Raises:
        ModelError: There is none, for example for strings.
    """
    if code == T.STRING:
        raise ModelError(f"{where}: strings are not supported; expected a tensor of numbers")
    if code not in TYPES:
        known = T.DataType.Name(code) if code in T.DataType.values() else str(code)
        names = ", ".join(T.DataType.Name(c).lower() for c in TYPES)
        raise ModelError(f"{where}: element type {known} is not supported; expected one of {names}")
    return TYPES[code]


def checked_lens(dims: list[int], size: int, where: str) -> tuple[int, ...]:
    """``dims`` as lens, if they are valid.

    Raises:
        ModelError: A dimension is negative, or the tensor would be too large.
    """
    if any(d < 0 for d in dims):
        raise ModelError(f"{where}: dimensions {dims}; expected no negative one")
    if prod(dims) * size > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{where}: dimensions {dims} make {prod(dims) * size:,} bytes; "
            f"expected at most {MAX_TENSOR_BYTES:,}"
        )
    return tuple(dims)


def to_array(
    tensor: onnx.TensorProto,
    where: str,
    folder: Path | None = None,
    payload: Array | None = None,
) -> Array:
    """The elements of a tensor, in the type that programs hold them in.

    Raises:
        ModelError: Its type is not supported, or its data does not fit its declared size.
    """
    type = element_type(tensor.data_type, where)
    lens = checked_lens(list(tensor.dims), type.size, where)
    data = stored(tensor, where, folder, payload)
    narrow = NARROW.get(tensor.data_type)
    if narrow is None:
        return data.reshape(lens)
    if tensor.data_type in PACKED:
        data = _unpacked(data, PACKED[tensor.data_type])[: prod(lens)]
    return data.view(narrow).astype(type.numpy).reshape(lens)


def stored(
    tensor: onnx.TensorProto,
    where: str,
    folder: Path | None = None,
    payload: Array | None = None,
) -> Array:
    """A tensor's data as a vector: elements, or bytes for a type that programs do not have.

    Raises:
        ModelError: Its type is not supported, or its data does not fit its declared size.
    """
    if tensor.HasField("segment"):
        raise ModelError(f"{where}: tensors in segments are not supported; save it in one piece")
    type = element_type(tensor.data_type, where)
    unit = np.dtype(np.uint8) if tensor.data_type in NARROW else type.numpy
    count = -(-prod(tensor.dims) // PACKED.get(tensor.data_type, 1))
    size = count * unit.itemsize
    data = _raw(tensor, size, where, folder, payload)
    if data is None:
        return _typed(tensor, unit, count, where)
    if data.size != size:
        raise ModelError(
            f"{where}: {data.size:,} bytes of data; expected {size:,} "
            f"for {type.type_name} of {list(tensor.dims)}; the file is damaged"
        )
    return _viewed(data, unit)


def _viewed(data: Array, dtype: np.dtype[np.generic]) -> Array:
    if data.ctypes.data % dtype.itemsize:
        data = data.copy()
    array = data.view(dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype)
    return array if array.dtype.isnative else array.astype(dtype)


def _raw(
    tensor: onnx.TensorProto, size: int, where: str, folder: Path | None, payload: Array | None
) -> Array | None:
    if tensor.data_location == T.EXTERNAL:
        return _external(tensor, size, where, folder)
    if payload is not None:
        return payload
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    return None


def _typed(tensor: onnx.TensorProto, dtype: np.dtype[np.generic], count: int, where: str) -> Array:
    name = _WIDE_FIELDS.get(tensor.data_type, "int32_data")
    values = getattr(tensor, name)
    if len(values) != count:
        raise ModelError(
            f"{where}: {len(values):,} values in {name}; expected {count:,} "
            f"for {TYPES[tensor.data_type].type_name} of {list(tensor.dims)}; the file is damaged"
        )
    if tensor.data_type in _PATTERNS:
        return np.array(values, np.int64).astype(f"u{dtype.itemsize}").view(dtype)
    wide = np.array(values, {"float_data": np.float32, "double_data": np.float64}.get(name))
    return wide.astype(dtype)


def _unpacked(data: Array, count: int) -> Array:
    """The bits of each element in a separate byte, from bytes that hold ``count`` elements."""
    width = 8 // count
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    return ((data[:, None] >> shifts) & np.uint8((1 << width) - 1)).reshape(-1)


def _external(tensor: onnx.TensorProto, size: int, where: str, folder: Path | None) -> Array:
    entries = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise ModelError(
            f"{where}: its data is in another file, {entries.get('location')!r}; pass the model's "
            "path, or external_data_path, so that it can be found"
        )
    path = _inside(folder, entries.get("location", ""), where)
    offset, length = _number(entries, "offset", 0, where), _number(entries, "length", size, where)
    if length != size:
        raise ModelError(
            f"{where}: {length:,} bytes in {path.name!r}; expected {size:,} for {list(tensor.dims)}"
        )
    found = path.stat().st_size
    if offset + length > found:
        raise ModelError(
            f"{where}: bytes {offset:,} to {offset + length:,} of {path.name!r}; "
            f"found {found:,} bytes; the file is cut short"
        )
    if length == 0:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r", offset, (length,)))


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"{where}: external data with {key} {text!r}; expected a number of bytes")
    return int(text)


def _inside(folder: Path, location: str, where: str) -> Path:
    if not location or "\0" in location:
        raise ModelError(f"{where}: external data in {location!r}; expected a file's name")
    root = folder.resolve()
    path = (root / location).resolve()
    leaves = Path(location).is_absolute() or ".." in Path(location).parts
    if leaves or "\\" in location or not path.is_relative_to(root):
        raise ModelError(
            f"{where}: external data in {location!r}, outside the model's folder; "
            "expected a path inside it"
        )
    if not path.is_file():
        raise ModelError(f"{where}: external data in {location!r}: there is no such file in {root}")
    return path
