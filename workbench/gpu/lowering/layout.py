"""Tensors in flat memory, with the strides of their shapes."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape


def laid_out(array: Array, shape: Shape) -> Array:
    """The flat memory of an array in the layout of a shape."""
    if shape.standard:
        return np.ascontiguousarray(array).reshape(-1)
    flat = np.zeros(shape.element_space, array.dtype)
    seen_as(flat, shape)[...] = array.reshape(shape.lens)
    return flat


def seen_as(flat: Array, shape: Shape, offset: int = 0) -> Array:
    """A view of flat memory as a tensor of a shape."""
    bits = flat.view(f"u{flat.itemsize}")[offset:]  # NumPy cannot restride every small float
    strides = [s * flat.itemsize for s in shape.strides]
    return np.lib.stride_tricks.as_strided(bits, shape.lens, strides).view(flat.dtype)
