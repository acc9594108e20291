"""Data of bound constants, from NumPy, from bytes, and from anything that exports an array."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.compat.aitemplate.element_types import normalized, numpy_name, type_of
from workbench.compiler.ir.dtypes import Array


class ConstantData:
    """The elements of a constant, in host memory."""

    def __init__(self, array: Array) -> None:
        """Keep an array."""
        self.array = np.ascontiguousarray(array)
        self.dtype = numpy_name(array.dtype)

    def is_dtype(self, dtype: str) -> bool:
        """Whether the elements are of this type."""
        return self.dtype == normalized(dtype)

    def to_bytes(self) -> bytes:
        """The elements, row by row."""
        return self.array.tobytes()

    def size(self) -> int:
        """The number of bytes."""
        return self.array.nbytes

    def __len__(self) -> int:
        """The number of bytes."""
        return self.size()


class HostConstantTensorData(ConstantData):
    """The elements of a constant as bytes."""

    def __init__(self, data: bytes | str, dtype: str = "float16") -> None:
        """Read bytes, or a text of them, as elements of a type.

        Raises:
            ValueError: There is no such type, or the bytes are not those of whole elements.
        """
        found = data.encode("latin-1") if isinstance(data, str) else data
        super().__init__(np.frombuffer(found, type_of(dtype).numpy))


class NumpyConstantTensorData(ConstantData):
    """The elements of a NumPy array."""


class TorchConstantTensorData(ConstantData):
    """The elements of a tensor of any library: one on the host, or one that has ``cpu()``."""

    def __init__(self, tensor: Any) -> None:
        """Copy a tensor to the host."""
        super().__init__(as_array(tensor))
        self.tensor = tensor


def as_array(given: Any) -> Array:
    """A tensor of any library as a NumPy array.

    Raises:
        TypeError: It exports no array.
    """
    if isinstance(given, ConstantData):
        return given.array
    if isinstance(given, np.ndarray):
        return cast("Array", given)
    host: Any = given.detach() if hasattr(given, "detach") else given
    host = host.cpu() if hasattr(host, "cpu") else host
    for attribute in ("numpy", "get"):
        if hasattr(host, attribute):
            return np.asarray(getattr(host, attribute)())
    if hasattr(host, "__dlpack__"):
        return np.from_dlpack(host)
    if hasattr(host, "__array__"):
        return np.asarray(host)
    raise TypeError(
        f"a constant's data is an array or a tensor; got {type(given).__name__}, which exports neither "
        "__dlpack__ nor __array__"
    )
