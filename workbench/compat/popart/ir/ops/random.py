"""Random numbers from a seed of two 32-bit numbers: the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterable
from math import pi

import numpy as np

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.dtypes import dtype, float32
from workbench.compat.popart.ir.factories import constant
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

_FACTOR, _STEP = 6364136223846793005, 1442695040888963407  # Knuth's generator of 64-bit numbers


def _check_seed(seed: Tensor) -> None:
    if seed.shape != (2,) or seed.dtype is not dtypes.uint32:
        raise ValueError(f"Seed tensor should have a shape (2,) and dtype uint32: {seed!r}.")


def _mixed(seed: Value, salt: int) -> Value:
    """One 64-bit number of which each bit depends on all bits of a seed and on a number."""
    wide = seed.astype("uint64")
    state = wide[0:1] * np.uint64(1 << 32) + wide[1:2]
    for k in range(3):
        state = state * np.uint64(_FACTOR) + np.uint64((_STEP + 2 * salt) % (1 << 64))
        state = state.apply(
            "bitwise_xor", state.apply("shift_right", np.array([29 + k], np.uint64))
        )
    return state


def _uniform(seed: Value, salt: int, lens: tuple[int, ...]) -> Value:
    """Numbers from 0 to 1 without 1, in float32."""
    like = seed.builder.constant(np.zeros((), np.float32))
    shaped = like.broadcast_to(*lens) if lens else like
    return _mixed(seed, salt).apply("shift_right", np.array([32], np.uint64)).apply(
        "random_uniform", shaped
    )  # fmt: skip


@api
def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """The elements, each set to 0 with probability ``p``; the others are divided by ``1 - p``.

    Raises:
        ValueError: The seed is not of two uint32, or ``p`` is not a probability below 1.
    """
    check(t=t, seed_tensor=seed_tensor)
    _check_seed(seed_tensor)
    if not 0 <= p < 1:
        raise ValueError(f"dropout: p={p}; expected 0 <= p < 1")

    def meaning(x: Value, seed: Value) -> Value:
        is_kept = _uniform(seed, 0, t.shape) >= p
        return is_kept.apply("where", x * (1 / (1 - p)), 0.0).astype(x.dtype)

    return record("Dropout", [t, seed_tensor], meaning, attributes={"p": p}).outputs[0]


@api
def random_uniform(
    seed_tensor: Tensor,
    shape: Iterable[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: dtype = float32,
) -> Tensor:
    """Random numbers of equal probability from ``low`` to ``high``.

    Raises:
        ValueError: The seed is not of two uint32.
    """
    check(seed_tensor=seed_tensor)
    _check_seed(seed_tensor)
    lens = tuple(map(int, shape))

    def meaning(seed: Value) -> Value:
        return (_uniform(seed, 0, lens) * float(high - low) + float(low)).astype(
            dtype.as_numpy().__name__
        )

    attributes = {"shape": lens, "low": low, "high": high, "dtype": dtype}
    return record("RandomUniform", [seed_tensor], meaning, attributes=attributes).outputs[0]


@api
def random_normal(
    seed_tensor: Tensor,
    shape: Iterable[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: dtype = float32,
) -> Tensor:
    """Random numbers of a normal distribution.

    Raises:
        ValueError: The seed is not of two uint32.
    """
    check(seed_tensor=seed_tensor)
    _check_seed(seed_tensor)
    lens = tuple(map(int, shape))

    def meaning(seed: Value) -> Value:
        radius = ((1.0 - _uniform(seed, 1, lens)).apply("log") * -2.0).apply("sqrt")
        drawn = radius * (_uniform(seed, 2, lens) * (2 * pi)).apply("cos")
        return (drawn * float(std) + float(mean)).astype(dtype.as_numpy().__name__)

    attributes = {"shape": lens, "mean": mean, "std": std, "dtype": dtype}
    return record("RandomNormal", [seed_tensor], meaning, attributes=attributes).outputs[0]


@api
def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """Seeds made of one, which give other numbers than that and than each other.

    Raises:
        ValueError: The seed is not of two uint32.
    """
    check(seed=seed)
    _check_seed(seed)
    return tuple(_modified(seed, k) for k in range(n))


def _modified(seed: Tensor, number: int) -> Tensor:
    modifier = constant(np.array(number, np.uint32), name="modifier")

    def meaning(x: Value, _: Value) -> Value:
        state = _mixed(x, number + 16)
        high = state.apply("shift_right", np.array([32], np.uint64))
        low = state - high * np.uint64(1 << 32)
        return high.apply("concat", low, axis=0).astype("uint32")

    return record("ModifyRandomSeed", [seed, modifier], meaning).outputs[0]
