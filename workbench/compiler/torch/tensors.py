"""PyTorch's element types, and tensors as arguments that share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.torch.installed import torch

_NAMES = {
    "bool": DType.BOOL, "float16": DType.HALF, "float32": DType.FLOAT, "float64": DType.DOUBLE,
    "bfloat16": DType.BF16, "uint8": DType.UINT8, "uint16": DType.UINT16, "uint32": DType.UINT32,
    "uint64": DType.UINT64, "int8": DType.INT8, "int16": DType.INT16, "int32": DType.INT32,
    "int64": DType.INT64, "float8_e4m3fn": DType.FP8E4M3FN, "float8_e4m3fnuz": DType.FP8E4M3FNUZ,
    "float8_e5m2": DType.FP8E5M2, "float8_e5m2fnuz": DType.FP8E5M2FNUZ,
}  # fmt: skip
"""The element types by PyTorch's names."""

_BITS = {1: "uint8", 2: "int16"}
"""Types that NumPy has, by size: the bits of those that it has not are read as one of these."""


def type_of(dtype: Any) -> DType:
    """The element type of a ``torch.dtype``.

    Raises:
        ModelError: There is none, such as for complex numbers.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise ModelError(f"elements of {name}; expected one of {', '.join(_NAMES)}")
    return _NAMES[name]


def dtype_of(type: DType) -> Any:
    """The ``torch.dtype`` of an element type.

    Raises:
        ModelError: PyTorch has none.
    """
    name = next((n for n, t in _NAMES.items() if t is type), "")
    if not name:
        raise ModelError(f"elements of {type.type_name}; PyTorch has no such type")
    return getattr(torch(), name)


def array_of(tensor: Any) -> Array:
    """The elements of a tensor in the host's memory, not copied if it is there already.

    Complex numbers have a last axis of their real and imaginary parts.

    Raises:
        ModelError: NumPy cannot have its elements: they are sparse, or of a type that programs have not.
    """
    if tensor.dtype.is_complex:
        tensor = torch().view_as_real(tensor.detach().resolve_conj())
    kind = type_of(tensor.dtype)
    if str(tensor.layout) != "torch.strided":
        raise ModelError(f"a tensor of layout {tensor.layout}; expected a dense one")
    plain = tensor.detach().cpu().resolve_neg()
    if kind.format.bits < 32 and kind.is_float and kind is not DType.HALF:
        bits = plain.view(getattr(torch(), _BITS[kind.size]))
        return bits.numpy().view(kind.numpy)
    return plain.numpy()


def argument_of(tensor: Any) -> Argument:
    """A tensor as an argument with its layout; memory is shared."""
    return Argument.of(array_of(tensor))


def tensor_of(array: Any, device: Any = None) -> Any:
    """An array as a tensor; on the host it shares the array's memory."""
    module = torch()
    given: Array = np.asarray(array)
    kind = DType.of(given.dtype)
    if not given.flags.writeable or any(s < 0 for s in given.strides):
        given = given.copy()
    if kind.format.bits < 32 and kind.is_float and kind is not DType.HALF:
        bits = module.from_numpy(given.view(_BITS[kind.size]))
        made = bits.view(dtype_of(kind))
    else:
        made = module.from_numpy(given)
    return made if device is None else made.to(device)
