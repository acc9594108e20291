"""The number of threads in which NumPy's BLAS computes a matrix product."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads64_", "openblas_{}_num_threads")  # fmt: skip
"""The names of OpenBLAS's functions, in NumPy's wheels and in what distributions build."""


@contextmanager
def shared(runs: int) -> Generator[None]:
    """Let each of several runs at once have its share of BLAS's threads.

    OpenBLAS computes one product at a time with all of its threads, and those that wait keep their cores
    busy. Another BLAS than OpenBLAS is left as it is.

    Args:
        runs: The number of runs.
    """
    before = blas_threads()
    if before is None or before < 2:
        yield
        return
    _function("set")(max(1, before // runs))
    try:
        yield
    finally:
        _function("set")(before)


def blas_threads() -> int | None:
    """The number of threads of a matrix product; None if NumPy's BLAS is not OpenBLAS."""
    function = _function("get")
    return None if function is None or _function("set") is None else function()


@cache
def _function(verb: str) -> Any:
    """OpenBLAS's function that gets or sets the number; None if there is none."""
    try:
        library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    except (OSError, ImportError):
        return None
    names = (name.format(verb) for name in _NAMES)
    return next((f for name in names if (f := getattr(library, name, None)) is not None), None)
