"""Accumulation types of sums, and their single rounding at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ops.elementwise import cast

quiet = np.errstate(all="ignore")
"""Decorates IEEE computations, where infinities and NaN are ordinary values and no cause for warnings."""


def widened(x: Array) -> Array:
    """``x`` for arithmetic: floats narrower than 32 bits become float32; other types do not change."""
    return x.astype(np.float32) if is_narrow(x.dtype) else x


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a float of fewer than 32 bits."""
    return dtype.itemsize < 4 and DType.of(dtype).is_float


def sum_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The accumulation type of sums of ``dtype``: at least float32, and 64 bits for integers."""
    if DType.of(dtype).is_float:
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def real(x: Array) -> Array:
    """``x`` for real functions: as ``widened``, and integers become float64."""
    return widened(x) if DType.of(x.dtype).is_float else x.astype(np.float64)


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """``x`` in ``dtype``, rounded once, as by ``cast``; integers keep their low bits."""
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return x.astype(np.int64).astype(dtype)
    return cast(x, dtype)


def lowest(dtype: np.dtype[Any]) -> Any:
    """The lower bound of a type: minus infinity, or the smallest integer."""
    if DType.of(dtype).is_float:
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype: np.dtype[Any]) -> Any:
    """The upper bound of a type: infinity, or the largest integer."""
    if DType.of(dtype).is_float:
        return np.inf
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def working_type(a: Array, b: Array, terms: int) -> np.dtype[Any]:
    """The type in which sums of ``terms`` products of elements of ``a`` and ``b`` are computed.

    At least float32 for floats. For integers a float type if every sum is exact in it, because
    only floats have a fast matrix product.
    """
    if DType.of(a.dtype).is_float:
        return sum_type(a.dtype)
    bound = _magnitude(a) * _magnitude(b) * terms
    if bound < 1 << 24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 1 << 53 else sum_type(a.dtype)


def _magnitude(x: Array) -> int:
    if not x.size or x.dtype.kind == "b":
        return 1
    return max(abs(int(x.max())), abs(int(x.min())))
