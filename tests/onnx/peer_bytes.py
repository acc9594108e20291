"""The weights of 8 bits with which onnxruntime's products are exact on this processor."""

import platform
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_SEVEN_BITS = (-64, 63)


def weight_limits(type: Any) -> tuple[int, int]:
    """The least and the largest weight of an integer type of 8 bits."""
    signed = np.dtype(type) == np.int8
    if signed and _adds_pairs_in_16_bits():
        return _SEVEN_BITS
    info = np.iinfo(type)
    return int(info.min), int(info.max)


@cache
def _adds_pairs_in_16_bits() -> bool:
    """Whether it adds two products with saturation, as the instruction of AVX2 does: on x86 without VNNI.

    Its documentation advises weights of seven bits there.
    """
    facts = Path("/proc/cpuinfo")
    known = facts.read_text() if facts.is_file() else ""
    return platform.machine().lower() in {"x86_64", "amd64"} and "vnni" not in known
