"""Seeds for random operations: pairs of 32-bit numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1
_HALF = MAX_UINT32 + 1


def uint64_to_two_uint32(n: int) -> tuple[int, int]:
    """The upper and the lower half of a number of 64 bits.

    Raises:
        ValueError: The number is negative or has more than 64 bits.
    """
    if not 0 <= int(n) <= MAX_UINT64:
        raise ValueError(f"Value {n} is outside the range of uint64.")
    return divmod(int(n), _HALF)


def two_uint32_to_uint64(a: int, b: int) -> int:
    """The number whose upper half is ``a`` and whose lower half is ``b``.

    Raises:
        ValueError: A half is negative or has more than 32 bits.
    """
    for half in (a, b):
        if not 0 <= int(half) <= MAX_UINT32:
            raise ValueError(f"Value {half} is outside the range of uint32.")
    return int(a) * _HALF + int(b)


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> Any:
    """Seeds for the random operations of each batch, drawn from one seed.

    Args:
        seed: The seed to draw from.
        offset: Added to the seed.
        batches_per_step: Number of batches in a step.
        gradient_accumulation_factor: Number of batches that share an update.
        replicas: Number of replicas.

    Returns:
        A uint32 array, ``(batches_per_step, gradient_accumulation_factor, replicas, 2)`` without axes of
        length 1.
    """
    count = batches_per_step * gradient_accumulation_factor * replicas
    drawn = np.random.default_rng(seed + offset).integers(
        0, MAX_UINT64, count, np.uint64, endpoint=True
    )
    halves = np.array([uint64_to_two_uint32(int(n)) for n in drawn], np.uint32)
    lens = (batches_per_step, gradient_accumulation_factor, replicas, 2)
    return np.squeeze(halves.reshape(lens))
