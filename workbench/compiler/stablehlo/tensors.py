"""Element types by MLIR's names, and the elements of constants."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import MAX_FILLED_BYTES, MAX_TENSOR_BYTES

TYPES = {
    "i1": DType.BOOL, "i8": DType.INT8, "i16": DType.INT16, "i32": DType.INT32, "i64": DType.INT64,
    "ui8": DType.UINT8, "ui16": DType.UINT16, "ui32": DType.UINT32, "ui64": DType.UINT64,
    "f16": DType.HALF, "bf16": DType.BF16, "f32": DType.FLOAT, "f64": DType.DOUBLE,
    "f8E4M3FN": DType.FP8E4M3FN, "f8E4M3FNUZ": DType.FP8E4M3FNUZ, "f8E5M2": DType.FP8E5M2,
    "f8E5M2FNUZ": DType.FP8E5M2FNUZ,
}  # fmt: skip
"""The element types by MLIR's names."""

NAMES = {type: name for name, type in TYPES.items()}
"""MLIR's names of the element types."""

_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
_HEXADECIMAL = re.compile(r'"0x([0-9A-Fa-f]*)"')


def shape_of(type: Any, where: str = "a value") -> Shape:
    """The shape of a type of MLIR: a tensor of known lens.

    Raises:
        ModelError: It is something else, or too large.
    """
    if not hasattr(type, "shape"):
        raise ModelError(f"{where} of type {str(type)[:80]}; expected a tensor")
    if not type.has_static_shape:
        raise ModelError(
            f"{where} of type {str(type)[:80]}; expected fixed lengths: lower the function for arguments "
            "of fixed lens, not for symbolic ones"
        )
    name = str(type.element_type)
    if name not in TYPES:
        known = ", ".join(TYPES)
        raise ModelError(f"{where} of elements {name[:40]}; expected one of {known}")
    lens = tuple(int(n) for n in type.shape)
    if prod(lens) * TYPES[name].size > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{where} of lens {list(lens)}; expected at most {MAX_TENSOR_BYTES:,} bytes"
        )
    return Shape(TYPES[name], lens)


def argument_of(attribute: Any) -> Argument:
    """The elements of a dense attribute; one that repeats one element takes no memory for each.

    Raises:
        ModelError: It is no dense tensor, or too large.
    """
    shape = shape_of(attribute.type, "a constant")
    is_splat = bool(getattr(attribute, "is_splat", False))
    if is_splat and shape.elements * shape.type.size > MAX_FILLED_BYTES:
        raise ModelError(
            f"a constant of {list(shape.lens)}; expected at most {MAX_FILLED_BYTES:,} bytes"
        )
    if str(attribute).startswith("dense_resource"):
        raise ModelError(
            "a constant in a resource of the text; write the module as bytecode, which has it as elements"
        )
    array = _elements(attribute, shape)
    return Argument(shape, np.broadcast_to(array.reshape(-1)[:1].reshape(()), shape.lens)
                    if is_splat and shape.elements else array.reshape(shape.lens))  # fmt: skip


def _elements(attribute: Any, shape: Shape) -> Array:
    """The elements, or the one that is repeated."""
    try:
        return np.array(attribute, copy=True).astype(shape.type.numpy, copy=False)
    except (TypeError, BufferError):
        return _of_text(str(attribute), shape)


def _of_text(text: str, shape: Shape) -> Array:
    """The elements as MLIR prints them, for types of which its bindings give no arrays."""
    body = text[: text.rfind(":")]
    kind = shape.type.numpy
    bits = np.dtype(f"u{kind.itemsize}")
    if (found := _HEXADECIMAL.search(body)) is not None:
        return (
            np.frombuffer(bytes.fromhex(found[1]), bits.newbyteorder("<")).astype(bits).view(kind)
        )
    words = _NUMBER.findall(body)
    values = np.array([0.0 if w.startswith("0x") else float(w) for w in words]).astype(kind)
    for at, word in enumerate(words):
        if word.startswith("0x"):
            values.view(bits)[at] = int(word, 16)
    return values
