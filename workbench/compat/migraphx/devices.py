"""Device memory. Without a device, host memory is used instead, with a warning."""

from __future__ import annotations

from typing import cast

import numpy as np

from workbench.compat.migraphx.arguments import argument, at_address, of_value
from workbench.compat.migraphx.device_arguments import device_argument, known_at
from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.shapes import shape
from workbench.compat.migraphx.targets import is_stood_in_for, warn_of_stand_in
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device
from workbench.gpu.run.device_array import DeviceArray
from workbench.numerics.verify import generate

_TEXT = "{}: no device memory: the host's stands in"


def _tensor(core: Shape, what: str) -> Shape:
    if core.subs is not None or core.dims is not None:
        raise Error(f"{what}: {core}: expected the shape of a static tensor")
    return core


def as_given(made: device_argument) -> argument:
    """A device argument, typed as an argument."""
    return cast("argument", made)


@bound
def allocate_gpu(s: shape, host: bool = False) -> argument:
    """Memory for a tensor of a shape, filled with zeros; on the host if ``host`` is true."""
    if is_stood_in_for("gpu"):
        warn_of_stand_in(_TEXT.format("allocate_gpu"))
    elif not host:
        made = DeviceArray(device(), _tensor(s.core, "allocate_gpu"))
        made.device.fill(made.pointer, made.bytes)
        return as_given(device_argument(made))
    return of_value(s.core, generate.filled(s.core, 0))


@bound
def to_gpu(arg: argument, host: bool = False) -> argument:
    """A copy in the memory of the device; on the host if ``host`` is true."""
    if is_stood_in_for("gpu"):
        warn_of_stand_in(_TEXT.format("to_gpu"))
    elif not host:
        core = _tensor(arg.core, "to_gpu")
        return as_given(device_argument(DeviceArray.of(device(), np.asarray(arg), core)))
    return of_value(arg.core, arg.value)


@bound
def from_gpu(arg: argument) -> argument:
    """A copy in the memory of the host."""
    if is_stood_in_for("gpu"):
        warn_of_stand_in(_TEXT.format("from_gpu"))
    return of_value(arg.core, arg.value)


@bound
def gpu_sync() -> None:
    """Wait for the device to finish its work."""
    if is_stood_in_for("gpu"):
        warn_of_stand_in(_TEXT.format("gpu_sync"))
    else:
        device().synchronize()


@bound
def argument_from_pointer(shape: shape, address: int) -> argument:
    """An argument on memory at an address, without a copy. The memory has to outlive it.

    The address is one of the host's, or one on a device for a program that is compiled without
    ``offload_copy``.
    """
    known = known_at(address, shape.core) if shape.core.is_tensor else None
    return at_address(shape.core, address) if known is None else as_given(known)
