"""Device memory. Without a device, memory of the host stands in for it, and a warning says so."""

from __future__ import annotations

from workbench.compat.migraphx.arguments import argument, of_value
from workbench.compat.migraphx.errors import bound
from workbench.compat.migraphx.shapes import shape
from workbench.compat.migraphx.targets import warn_of_stand_in
from workbench.compiler import generate

_TEXT = "{}: no device memory: the host's stands in"


@bound
def allocate_gpu(s: shape, host: bool = False) -> argument:  # noqa: ARG001
    """Memory for a tensor of this shape, with zeros in it; all of it is on the host."""
    warn_of_stand_in(_TEXT.format("allocate_gpu"))
    return of_value(s.core, generate.filled(s.core, 0))


@bound
def to_gpu(arg: argument, host: bool = False) -> argument:  # noqa: ARG001
    """A copy in the memory of the device; all of it is on the host."""
    warn_of_stand_in(_TEXT.format("to_gpu"))
    return of_value(arg.core, arg.value)


@bound
def from_gpu(arg: argument) -> argument:
    """A copy in the memory of the host."""
    warn_of_stand_in(_TEXT.format("from_gpu"))
    return of_value(arg.core, arg.value)


@bound
def gpu_sync() -> None:
    """Wait for the device; the host is done already."""
    warn_of_stand_in(_TEXT.format("gpu_sync"))
