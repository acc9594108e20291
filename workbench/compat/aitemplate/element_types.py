"""AITemplate's names of element types, and those of the workbench."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from workbench.compiler.ir.dtypes import DType

NAMES = {
    "float16": DType.HALF, "float": DType.FLOAT, "float32": DType.FLOAT, "bfloat16": DType.BF16,
    "int": DType.INT32, "int32": DType.INT32, "int64": DType.INT64, "bool": DType.BOOL,
}  # fmt: skip


def normalized(dtype: str) -> str:
    """The name that a type goes by: ``float`` is ``float32`` and ``int`` is ``int32``.

    Raises:
        ValueError: AITemplate has no such type.
    """
    if dtype not in NAMES:
        raise ValueError(f"Unsupported dtype {dtype!r}; expected one of {', '.join(NAMES)}")
    return {"float": "float32", "int": "int32"}.get(dtype, dtype)


def type_of(dtype: str) -> DType:
    """The workbench's type of a name."""
    return NAMES[normalized(dtype)]


def name_of(type: DType) -> str:
    """AITemplate's name of a type.

    Raises:
        ValueError: It has none.
    """
    for name, found in NAMES.items():
        if found is type and name not in ("float", "int"):
            return name
    raise ValueError(f"AITemplate has no element type for {type.type_name}")


def numpy_name(dtype: Any) -> str:
    """The name of a NumPy type."""
    given = np.dtype(dtype)
    return "bfloat16" if given == ml_dtypes.bfloat16 else given.name


def dtype_size(dtype: str) -> int:
    """The number of bytes of an element.

    Raises:
        KeyError: AITemplate has no such type.
    """
    if dtype not in NAMES:
        raise KeyError(f"Unknown dtype: {dtype}. Expected one of {', '.join(NAMES)}")
    return NAMES[dtype].numpy.itemsize
