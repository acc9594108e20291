"""Whether programs of TensorFlow's graphs compute what TensorFlow did."""

from collections.abc import Mapping

import numpy as np

import workbench as wb
from workbench.compiler.ir.program import Program

TO_NCHW = (0, 3, 1, 2)
TOLERANCE = 1e-5


def laid_out(array: np.ndarray, *, is_nhwc: bool) -> np.ndarray:
    """An array as programs have it: images with channels in front."""
    if is_nhwc and array.ndim == 4:
        array = array.transpose(TO_NCHW)
    return np.asarray(array, order="C")


def differences(
    program: Program,
    target: str,
    inputs: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    *,
    is_nhwc: bool,
    tolerance: float = TOLERANCE,
) -> list[str]:
    """The differences from TensorFlow, one line per output."""
    fed = {name: laid_out(value, is_nhwc=is_nhwc) for name, value in inputs.items()}
    result = wb.compile(program, target).run(fed)
    found: list[str] = []
    for name, value in wanted.items():
        want, got = laid_out(value, is_nhwc=is_nhwc), np.asarray(result[name])
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            found.append(f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}")
            continue
        a, b = got.astype(np.float64), want.astype(np.float64)
        error = np.max(np.abs(a - b), initial=0) / max(1.0, np.max(np.abs(b), initial=0))
        rounding = 1e-2 if want.dtype == np.float16 else tolerance
        if not error <= rounding:
            found.append(f"{name}: off by {error:.2g} of the largest value")
    return found
