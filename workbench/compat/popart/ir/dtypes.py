"""Element types by PopART's names."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np


class dtype:  # noqa: N801 - PopART's name
    """An element type; `as_dtype` gives the one that fits a name, a NumPy type or a Python type."""

    _numpy: np.dtype[Any]
    _name: str

    def __init__(self) -> None:
        """Refuse: the types are attributes of this module.

        Raises:
            TypeError: Always.
        """
        raise TypeError("Cannot create popart.ir.dtypes.dtype instances.")

    @property
    def is_complex(self) -> builtins.bool:
        """Whether elements are complex numbers."""
        return self._numpy.kind == "c"

    @property
    def is_int(self) -> builtins.bool:
        """Whether elements are integers; bool is none."""
        return self._numpy.kind in "iu"

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether elements are floating-point numbers."""
        return self._numpy.kind == "f"

    @property
    def is_signed(self) -> builtins.bool:
        """Whether elements can be negative."""
        return self._numpy.kind in "ifc"

    @classmethod
    def as_dtype(cls, given: Any) -> dtype:
        """The type that a name, a type of NumPy or Python, or anything with a ``dtype`` stands for.

        Raises:
            ValueError: There is no such type.
        """
        if isinstance(given, dtype):
            return given
        if isinstance(given, str) and given in _NAMES:
            return _NAMES[given]
        if given is builtins.float:
            return float32
        found = _numpy_of(given if isinstance(given, type) else getattr(given, "dtype", given))
        if found is None or found.name not in _NAMES:
            raise ValueError(
                "There is not a `popart.ir.dtype` that is compatible with value: "
                f"{given}, type: {type(given)}."
            )
        return _NAMES[found.name]

    def as_numpy(self) -> Any:
        """The type of NumPy."""
        return self._numpy.type

    def __repr__(self) -> str:
        """PopART's form, such as ``popart.ir.dtypes.int32``."""
        return f"popart.ir.dtypes.{self._name}"

    def __hash__(self) -> int:
        """By name."""
        return hash(self._name)

    def __eq__(self, other: object) -> builtins.bool:
        """Whether both are the same type."""
        return self is other


def _numpy_of(given: Any) -> np.dtype[Any] | None:
    if isinstance(given, dtype):
        return given._numpy  # pyright: ignore[reportPrivateUsage]
    if given is None:
        return None  # for NumPy None is float64
    try:
        return np.dtype(given)
    except TypeError:
        return None


def _made(name: str, *others: str) -> dtype:
    made = object.__new__(dtype)
    made._name = name  # pyright: ignore[reportPrivateUsage]
    made._numpy = np.dtype(name)  # pyright: ignore[reportPrivateUsage]
    _NAMES.update(dict.fromkeys((name, *others), made))
    return made


_NAMES: dict[str, dtype] = {}

bool = _made("bool")
int8 = _made("int8")
int16 = _made("int16")
int32 = _made("int32")
int64 = _made("int64")
uint8 = _made("uint8")
uint16 = _made("uint16")
uint32 = _made("uint32")
uint64 = _made("uint64")
float16 = half = _made("float16", "half")
float32 = float = _made("float32", "float")
float64 = double = _made("float64", "double")
complex64 = _made("complex64")
complex128 = _made("complex128")

__all__ = [
    "bool", "complex64", "complex128", "double", "dtype", "float", "float16", "float32", "float64", "half",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
