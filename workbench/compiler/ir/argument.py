"""Arguments: a shape and the array that holds its elements, shared and never copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array, DType, held
from workbench.compiler.ir.shape import Shape

_SAMPLES = 16


class Argument:
    """The data of a value. ``numpy()`` has the shape's lens; its strides may differ from the shape's."""

    __slots__ = ("_array", "_first", "_sample", "shape")

    def __init__(self, shape: Shape, array: Array) -> None:
        """Hold ``array`` as the elements of ``shape``.

        Raises:
            ShapeError: The array's type or number of elements differs from the shape's.
        """
        if array.dtype != shape.type.numpy or array.size != shape.elements:
            found = f"{array.dtype}{list(array.shape)}"
            raise ShapeError(f"data of {found} cannot be an argument of shape {shape}")
        self.shape = shape
        self._sample: bytes | None = None
        self._first: Any = None
        self._array = array if array.shape == shape.lens else array.reshape(shape.array_lens)
        self._array.flags.writeable = False

    @classmethod
    def of(cls, value: Any, type: DType | None = None) -> Argument:
        """Make an argument from an array, a scalar or a nested list.

        A strided array keeps its strides.
        A ``torch`` tensor (or anything that supports DLPack) is shared, not copied.
        """
        if isinstance(value, Argument):
            return value
        array = _as_array(value, type)
        kind = DType.of(array.dtype)
        return cls(Shape(kind, array.shape, _element_strides(array)), array.view())

    def numpy(self) -> Array:
        """The elements as a read-only array with the shape's lens."""
        return self._array

    @property
    def sample(self) -> bytes:
        """The bytes of some elements: the same for equal data, and for little other data."""
        if self._sample is None:
            array = self._array
            some = array if array.size <= _SAMPLES else array.flat[:: array.size // _SAMPLES]
            self._sample = some.tobytes()
        return self._sample

    def is_all(self, value: float) -> bool:
        """Whether there are elements, and all of them equal a number."""
        if self._first is None:
            self._first = self._array.item(0) if self._array.size else np.nan
        return self._first == value and bool(np.all(self._array == value))

    def same_as(self, other: Argument) -> bool:
        """Whether the shapes and the bytes of all elements are equal; NaN equals itself."""
        if self._array is other._array:
            return self.shape == other.shape
        return self.shape == other.shape and self._array.tobytes() == other._array.tobytes()

    def __eq__(self, other: object) -> bool:
        """Equal shapes and equal bytes."""
        return isinstance(other, Argument) and self.same_as(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        """The shape and the first elements."""
        return f"Argument({self.shape}; {np.array2string(self._array, threshold=10)})"


def _as_array(value: Any, type: DType | None) -> Array:
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
    array: Array = held(np.asarray(value, dtype=None if type is None else type.numpy))
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _element_strides(array: Array) -> tuple[int, ...] | None:
    if array.flags.c_contiguous or not array.size:
        return None
    if any(s < 0 or s % array.itemsize for s in array.strides):
        return None
    return tuple(s // array.itemsize for s in array.strides)
