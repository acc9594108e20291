"""Arrays for samples of operations, the same in every run, and the values at the edges of element types."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType


class Edge(Enum):
    """A kind of values at the edges of an element type."""

    NAN = "NaN"
    INFINITE = "infinities"
    LARGE = "the largest numbers"
    SMALL = "subnormal numbers and −0"
    ENDS = "the ends of integers"


def edges(type: DType) -> dict[Edge, tuple[float, ...]]:
    """The values of each kind that an element type has; bools, tuples and pairs have none."""
    if type in {DType.BOOL, DType.TUPLE, DType.FP4X2}:
        return {}
    if not type.is_float:
        low, high = np.iinfo(type.numpy).min, np.iinfo(type.numpy).max
        return {Edge.ENDS: (low, high, low + 1, high - 1)}
    most, tiny = type.format.largest, 2.0 ** (1 - type.format.bias)
    least = tiny * 2.0**-type.format.mantissa
    found = {Edge.LARGE: (most, -most), Edge.SMALL: (-0.0, least, -least, tiny, -tiny)}
    if type.format.infinity:
        found[Edge.INFINITE] = (np.inf, -np.inf)
    return found | {Edge.NAN: (np.nan,)}


def grid(*lens: int, type: Any = np.float32) -> Array:
    """0, 1, 2… in row-major order, so that all elements differ."""
    return np.arange(int(np.prod(lens))).reshape(lens).astype(type)


def noise(*lens: int, type: Any = np.float32, seed: int = 0) -> Array:
    """Normal random numbers."""
    return np.random.default_rng(seed).standard_normal(lens).astype(type)


def digits(*lens: int, low: int = -9, high: int = 10, type: Any = np.int8, seed: int = 0) -> Array:
    """Random integers in [``low``, ``high``)."""
    return np.random.default_rng(seed).integers(low, high, lens).astype(type)
