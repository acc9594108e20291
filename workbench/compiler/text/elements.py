"""Elements of arrays as text: six significant digits, commas between them."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Value, float_text

_SHOWN = 10
_EDGE = 5


def elements_text(value: Value) -> str:
    """The elements in logical order as they print: ``1, 2, 3``; a tuple in braces."""
    if isinstance(value, tuple):
        return "".join(f"{{{elements_text(v)}}}" for v in value)
    return numbers_text(np.asarray(value).ravel())


def preview(value: Value) -> str:
    """The elements; only the first and last five if there are more than ten."""
    if isinstance(value, tuple):
        return "".join(f"{{{preview(v)}}}" for v in value)
    flat = np.asarray(value).ravel()
    if flat.size <= _SHOWN:
        return numbers_text(flat)
    return f"{numbers_text(flat[:_EDGE])}, ..., {numbers_text(flat[-_EDGE:])}"


def numbers_text(flat: Array) -> str:
    """Numbers with commas between them."""
    if is_float(flat):
        return ", ".join(float_text(float(x)) for x in flat)
    return ", ".join(str(int(x)) for x in flat)


def is_float(array: Array) -> bool:
    """Whether the elements are floats, including types that NumPy lacks."""
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and array.dtype.names is None)
