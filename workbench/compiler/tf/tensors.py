"""TensorProtos as arguments; their size is checked before memory is allocated."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import FP8, Array, DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.tensors import MAX_FILLED_BYTES
from workbench.compiler.tf.reader import Message

TYPES: dict[int, DType] = {
    1: DType.FLOAT,
    2: DType.DOUBLE,
    3: DType.INT32,
    4: DType.UINT8,
    5: DType.INT16,
    6: DType.INT8,
    9: DType.INT64,
    10: DType.BOOL,
    14: DType.BF16,
    17: DType.UINT16,
    19: DType.HALF,
    22: DType.UINT32,
    23: DType.UINT64,
    24: DType.FP8E5M2,
    25: DType.FP8E4M3FN,
}
"""TensorFlow's codes of the types that programs have."""

_NAMES = {
    0: "DT_INVALID",
    7: "DT_STRING",
    8: "DT_COMPLEX64",
    11: "DT_QINT8",
    12: "DT_QUINT8",
    13: "DT_QINT32",
    15: "DT_QINT16",
    16: "DT_QUINT16",
    18: "DT_COMPLEX128",
    20: "DT_RESOURCE",
    21: "DT_VARIANT",
}
_FIELDS: dict[DType, str] = {
    DType.FLOAT: "float_val",
    DType.DOUBLE: "double_val",
    DType.INT64: "int64_val",
    DType.BOOL: "bool_val",
    DType.HALF: "half_val",
    DType.BF16: "half_val",
    DType.UINT32: "uint32_val",
    DType.UINT64: "uint64_val",
}
MAX_RANK = 32


def element_type(code: int, where: str) -> DType:
    """The element type for a TensorFlow type code.

    Raises:
        ModelError: There is none, for example for strings.
    """
    if code not in TYPES:
        found = _NAMES.get(code, f"of code {code}")
        if 100 < code < 200:
            found = "a reference; a frozen graph has no variables"
        expected = ", ".join(t.type_name.removesuffix("_type") for t in TYPES.values())
        raise ModelError(f"{where}: element type {found}; expected one of {expected}")
    return TYPES[code]


def lens_of(shape: Message, where: str) -> tuple[int, ...]:
    """The lens of a TensorShapeProto whose dimensions are all known.

    Raises:
        ModelError: A dimension is unknown, or there are too many.
    """
    lens = tuple(d.size for d in shape.dim)
    if shape.unknown_rank or any(n < 0 for n in lens):
        raise ModelError(f"{where}: dimensions {list(lens)}; expected them all to be known")
    if len(lens) > MAX_RANK:
        raise ModelError(f"{where}: {len(lens)} dimensions; expected at most {MAX_RANK}")
    return lens


def as_scalar(value: Argument) -> Argument:
    """The argument, in the shape that MIGraphX gives a constant of one element."""
    shape = value.shape
    is_one = shape.lens == (1,) and shape.type is not DType.DOUBLE
    return Argument(Shape.scalar(shape.type), value.numpy()) if is_one else value


def argument(tensor: Message, where: str) -> Argument:
    """A tensor as an argument.

    Raises:
        ModelError: Its type is not supported, or its data does not fit its declared size.
    """
    type = element_type(tensor.dtype, where)
    lens = lens_of(tensor.tensor_shape, where)
    check_size(Shape(type, lens), where, MAX_FILLED_BYTES)
    content: bytes = tensor.tensor_content
    count = prod(lens)
    if content:
        if len(content) != count * type.size:
            raise ModelError(
                f"{where}: {len(content):,} bytes; expected {count * type.size:,} for "
                f"{type.type_name} {list(lens)}; the file is damaged"
            )
        array = np.frombuffer(content, type.numpy)
    else:
        array = _filled(_values(tensor, type), count, where, type)
    return Argument(Shape(type, lens), array.reshape(lens))


def _values(tensor: Message, type: DType) -> Array:
    if type in FP8:
        return np.frombuffer(tensor.float8_val, type.numpy)
    values: Any = getattr(tensor, _FIELDS.get(type, "int_val"))
    if type.is_narrow_float:
        return np.asarray(values, np.int64).astype(np.uint16).view(type.numpy)
    wide = type.numpy if type.is_float or type.size == 8 else np.int64
    return np.asarray(values, wide).astype(type.numpy)


def _filled(values: Array, count: int, where: str, type: DType) -> Array:
    """All elements, including those that a file omits: repetitions of the last one, or zeros."""
    if values.size > count:
        raise ModelError(f"{where}: {values.size:,} values; expected at most {count:,}")
    if values.size == count:
        return values
    last = values[-1:] if values.size else np.zeros(1, type.numpy)
    if values.size <= 1:
        return np.broadcast_to(last, (count,))
    check_size(Shape(type, (count,)), where)
    return np.concatenate([values, np.broadcast_to(last, (count - values.size,))])
