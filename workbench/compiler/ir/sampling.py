"""Arrays for samples of operations, the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compiler.ir.dtypes import Array


def grid(*lens: int, type: Any = np.float32) -> Array:
    """0, 1, 2… in row-major order, so that all elements differ."""
    return np.arange(int(np.prod(lens))).reshape(lens).astype(type)


def noise(*lens: int, type: Any = np.float32, seed: int = 0) -> Array:
    """Normal random numbers."""
    return np.random.default_rng(seed).standard_normal(lens).astype(type)


def digits(*lens: int, low: int = -9, high: int = 10, type: Any = np.int8, seed: int = 0) -> Array:
    """Random integers in [``low``, ``high``)."""
    return np.random.default_rng(seed).integers(low, high, lens).astype(type)
