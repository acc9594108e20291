"""Graphs run by the reference interpreter."""

from typing import Any

import numpy as np

import workbench as wb
from workbench.compat.aitemplate.element_types import numpy_name
from workbench.compat.aitemplate.frontend import IntVar, Tensor, lower


def given(array: Any, name: str, dims: dict[int, IntVar] | None = None) -> Tensor:
    """An input like an array; some axes have a range of lengths."""
    shape = [(dims or {}).get(k, n) for k, n in enumerate(array.shape)]
    return Tensor(shape, name, dtype=numpy_name(array.dtype), is_input=True)


def output(tensor: Tensor, name: str = "y") -> Tensor:
    """A tensor as an output."""
    tensor._attrs.update(is_output=True, name=name)
    return tensor


def run(outputs: Any, inputs: dict[str, Any], constants: Any = None) -> list[Any]:
    """The results for inputs and constants by name, which are checked against the shapes of the graph."""
    made = lower(outputs, constants)
    found = wb.compile(made.program, "ref").run({**inputs, **made.bound})
    arrays = [np.asarray(found[name]) for name in made.outputs]
    for tensor, array in zip(
        [outputs] if isinstance(outputs, Tensor) else outputs, arrays, strict=True
    ):
        bounds = [(n.lower_bound(), n.upper_bound()) for n in tensor.shape()]
        assert len(bounds) == array.ndim
        assert all(low <= n <= high for n, (low, high) in zip(array.shape, bounds, strict=True))
        assert numpy_name(array.dtype) == tensor.dtype()
    return arrays
