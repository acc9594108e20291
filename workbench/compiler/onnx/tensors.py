"""TensorProtos as arrays that share their memory, checked against the declared size beforehand."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx

from workbench.compiler.dtypes import Array, DType
from workbench.compiler.errors import ModelError

MAX_CONSTANT_BYTES = 1 << 31
"""The largest constant that an import makes by itself (by ConstantOfShape, Range and the like)."""

MAX_TENSOR_BYTES = 1 << 40
"""The largest tensor that a model may declare."""

T = onnx.TensorProto

TYPES: dict[int, DType] = {
    T.FLOAT: DType.FLOAT,
    T.UINT8: DType.UINT8,
    T.INT8: DType.INT8,
    T.UINT16: DType.UINT16,
    T.INT16: DType.INT16,
    T.INT32: DType.INT32,
    T.INT64: DType.INT64,
    T.BOOL: DType.BOOL,
    T.FLOAT16: DType.HALF,
    T.DOUBLE: DType.DOUBLE,
    T.UINT32: DType.UINT32,
    T.UINT64: DType.UINT64,
    T.BFLOAT16: DType.BF16,
    T.FLOAT8E4M3FN: DType.FP8E4M3FN,
    T.FLOAT8E4M3FNUZ: DType.FP8E4M3FNUZ,
    T.FLOAT8E5M2: DType.FP8E5M2,
    T.FLOAT8E5M2FNUZ: DType.FP8E5M2FNUZ,
    T.UINT4: DType.UINT8,
    T.INT4: DType.INT8,
}

NIBBLES = {T.UINT4: np.dtype(ml_dtypes.uint4), T.INT4: np.dtype(ml_dtypes.int4)}

_WIDE_FIELDS: dict[int, str] = {
    T.FLOAT: "float_data",
    T.DOUBLE: "double_data",
    T.INT64: "int64_data",
    T.UINT32: "uint64_data",
    T.UINT64: "uint64_data",
}
_BIT_PATTERNS = {T.FLOAT16, T.BFLOAT16}
_BYTE_PATTERNS = {T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ}


def limits(type: DType) -> tuple[float, float]:
    """The lowest and the largest finite value of an element type."""
    if type.is_float:
        info = cast("Any", ml_dtypes.finfo(type.numpy))
        return float(info.min), float(info.max)
    whole = np.iinfo(type.numpy)
    return int(whole.min), int(whole.max)


def element_type(code: int, where: str) -> DType:
    """The element type that an ONNX type code stands for.

    Raises:
        ModelError: There is none, as for strings.
    """
    if code not in TYPES:
        known = T.DataType.Name(code) if code in T.DataType.values() else str(code)
        names = ", ".join(T.DataType.Name(c).lower() for c in TYPES)
        raise ModelError(f"{where}: element type {known} is not supported; expected one of {names}")
    return TYPES[code]


def checked_lens(dims: list[int], size: int, where: str) -> tuple[int, ...]:
    """``dims`` as lens, if they are possible.

    Raises:
        ModelError: One is negative, or the product is past any memory.
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
    """The elements of a tensor; 4-bit ones come two to a byte, in one dimension.

    Raises:
        ModelError: Its type is not supported, or its data does not fit its declared size.
    """
    type = element_type(tensor.data_type, where)
    lens = checked_lens(list(tensor.dims), type.size, where)
    count = prod(lens)
    if tensor.HasField("segment"):
        raise ModelError(f"{where}: tensors in segments are not supported; save it in one piece")
    packed = tensor.data_type in NIBBLES
    stored = (count + 1) // 2 if packed else count
    data = _raw(tensor, stored * type.size, where, folder, payload)
    if data is None:
        return _typed(tensor, type, stored, where).reshape(stored if packed else lens)
    if data.size != stored * type.size:
        raise ModelError(
            f"{where}: {data.size:,} bytes of data; expected {stored * type.size:,} "
            f"for {type.type_name} of {list(lens)}; the file is damaged"
        )
    return _viewed(data, type.numpy).reshape(stored if packed else lens)


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


def _typed(tensor: onnx.TensorProto, type: DType, count: int, where: str) -> Array:
    name = _WIDE_FIELDS.get(tensor.data_type, "int32_data")
    values = getattr(tensor, name)
    if len(values) != count:
        raise ModelError(
            f"{where}: {len(values):,} values in {name}; expected {count:,} "
            f"for {type.type_name} of {list(tensor.dims)}; the file is damaged"
        )
    if tensor.data_type in _BIT_PATTERNS:
        return np.array(values, np.int64).astype(np.uint16).view(type.numpy)
    if tensor.data_type in _BYTE_PATTERNS or tensor.data_type in NIBBLES:
        return np.array(values, np.int64).astype(np.uint8).view(type.numpy)
    wide = np.array(values, {"float_data": np.float32, "double_data": np.float64}.get(name))
    return wide.astype(type.numpy)


def unpacked(data: Array, tensor: onnx.TensorProto) -> Array:
    """The elements of a 4-bit tensor, a byte each, from data with two to a byte."""
    bytes_ = data.view(np.uint8)
    halves = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(-1)
    if tensor.data_type == T.INT4:
        halves = (halves ^ 8).view(np.int8) - np.int8(8)
    return halves[: prod(tensor.dims)].reshape(tuple(tensor.dims))


def _external(tensor: onnx.TensorProto, size: int, where: str, folder: Path | None) -> Array:
    entries = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise ModelError(
            f"{where}: its data lies in another file, {entries.get('location')!r}; pass the model's "
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
            f"{where}: external data in {location!r}, outside of the model's folder; "
            "expected a path inside of it"
        )
    if not path.is_file():
        raise ModelError(f"{where}: external data in {location!r}: there is no such file in {root}")
    return path
