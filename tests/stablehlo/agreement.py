"""A function of JAX beside its program, and a module of StableHLO as XLA runs it."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import backend
from jaxlib import xla_client

import workbench as wb

TOLERANCE = 2e-6
"""The largest difference, relative to the largest element of all results."""


def results(build: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(v) for v in build.run(inputs).values()]


def expected(function: Any, arguments: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*arguments))]


def expect_close(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float = TOLERANCE
) -> None:
    """Equal types and lens; floats differ by little of the largest element."""
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        x, y = a.astype(np.float64), b.astype(np.float64)
        scale = max(1.0, np.abs(y[np.isfinite(y)]).max(initial=0))
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            own = tolerance if b.dtype.itemsize > 2 else 1e-2
            np.testing.assert_allclose(x, y, rtol=own, atol=own * scale)


def expect_agreement(function: Any, arguments: Sequence[Any], target: str = "ref") -> Any:
    """The program of a function gives what JAX gives."""
    program = wb.from_jax(function, *arguments)
    build = wb.compile(program, target=target)
    with np.errstate(all="ignore"):
        found = results(build, program.arguments(*arguments))
    expect_close(found, expected(function, arguments))
    return program


def run_by_xla(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a module, compiled by XLA for the CPU."""
    client = backend.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.devices()[:1]))
    loaded = client.compile_and_load(text, devices, xla_client.CompileOptions())
    found = loaded.execute_sharded([jax.device_put(a) for a in arguments])
    return [np.asarray(o[0]) for o in found.disassemble_into_single_device_arrays()]
