"""The functions of floats for CPUs, beside those of the mathematical library in double precision."""

import math

import numpy as np
import pytest

from workbench.gpu.devices.registry import device
from workbench.gpu.dialect import OPENCL

_KERNEL = """\
KERNEL(1) values(GLOBAL const f32 *x, GLOBAL f32 *y) {
  i32 first = GROUP(0) * 4096;
  for (i32 k = 0; k < 4096; ++k) y[first + k] = NAME(x[first + k]);
}
"""
_EDGES = (
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    88.72284,
    88.7229,
    -87.34,
    -103.2,
    -103.98,
    -200,
    1e-40,
)
_EXACT = {"exp": np.exp, "tanh": np.tanh, "erf": np.vectorize(math.erf, otypes=[float])}


def values_of(name: str, x: np.ndarray) -> np.ndarray:
    """The function's values on OpenCL's CPU."""
    there = device("opencl")
    source = there.dialect.prologue + _KERNEL.replace("NAME", name)
    function = there.load(there.compiler.compile(source, "values"), "values")
    buffers = [there.allocate(x.nbytes) for _ in range(2)]
    given, made = (there.pointer(b, 0, x.nbytes) for b in buffers)
    there.upload(given, x)
    there.launch(function, (x.size // 4096, 1, 1), (1, 1, 1), 0, [given, made])
    found = np.empty_like(x)
    there.download(found, made)
    for buffer in buffers:
        there.free(buffer)
    return found


@pytest.mark.parametrize(("name", "most"), [("exp", 1.0), ("tanh", 2.0), ("erf", 1.1)])
def test_last_place(name: str, most: float) -> None:
    """Floats of all sizes, those where the result changes most, and the edges."""
    if device("opencl").dialect.prologue != OPENCL.prologue:
        pytest.skip("OpenCL's first device here is not a CPU")
    random = np.random.default_rng(7)
    bits = random.integers(0, 1 << 32, 8192 - len(_EDGES), dtype=np.uint64).astype(np.uint32)
    near = random.uniform(-10, 10, 6 * 4096).astype(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([bits.view(np.float32), np.array(_EDGES, np.float32), near])
        found, exact = values_of(name, x), _EXACT[name](x.astype(np.float64))
        wanted = exact.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(wanted), wanted, 1)))
        far = np.abs(found - exact) / unit
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert (same | (far <= most)).all(), (x[~same & ~(far <= most)][:5], far[~same].max())
    assert np.array_equal(np.signbit(found[x == 0]), np.signbit(wanted[x == 0]))
