"""Runs of a build on tensors: on the host through NumPy, on CUDA devices in the stream of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import DeviceError, InputError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.torch.installed import torch
from workbench.compiler.torch.tensors import array_of, dtype_of, tensor_of, type_of
from workbench.gpu.lowering.plan import ALIGNMENT
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.runner import DeviceRunner

BITS = {DType.BF16: DType.INT16} | {
    t: DType.UINT8 for t in DType if t.is_float and t.size == 1 and t.format.packed == 1
}
"""Types that ``__cuda_array_interface__`` has no names for, and those that hold their bits."""


def run(build: Build, given: Mapping[str, Any]) -> list[Any]:
    """Run a build on tensors and integers; the results are tensors where the inputs are.

    Tensors of the host are read in place. Those of a CUDA device are read in place by a build for it, in
    PyTorch's current stream, and the results are in that device's memory; the call does not wait.

    Args:
        build: The build.
        given: A tensor or an integer for each parameter, by name.

    Raises:
        InputError: Inputs are on several devices, or do not fit the program's parameters.
        DeviceError: The build runs on another device than that of the tensors.
    """
    device = device_of(given.values())
    if device is None or device.type == "cpu":
        return _on_host(build, given, None)
    if device.type == "cuda" and isinstance(build.runner, DeviceRunner):
        return _on_device(build, given, device)
    return _on_host(build, given, device)


def device_of(values: Any) -> Any:
    """The ``torch.device`` of tensors; numbers of rank 0 on the host go with any. None without tensors.

    Raises:
        InputError: There are several.
    """
    tensors = [v for v in values if hasattr(v, "data_ptr")]
    found = list(dict.fromkeys(v.device for v in tensors))
    if len(found) > 1:
        found = list(dict.fromkeys(v.device for v in tensors if v.ndim or v.device.type != "cpu"))
    if len(found) > 1:
        raise InputError(f"tensors on {', '.join(map(str, found))}; expected one device")
    return found[0] if found else None


def _on_host(build: Build, given: Mapping[str, Any], device: Any) -> list[Any]:
    inputs = {name: _array(v) for name, v in given.items()}
    found = build.runner.run(inputs)
    return [tensor_of(_own(np.asarray(v), inputs.values()), device) for v in found]


def _array(value: Any) -> Array:
    return array_of(value) if hasattr(value, "data_ptr") else np.asarray(value)


def _own(value: Array, inputs: Any) -> Array:
    """A result that shares no memory with an input: PyTorch may change either in place."""
    shares = any(np.may_share_memory(value, i) for i in inputs)
    return value.copy() if shares or not value.flags.owndata else value


def _on_device(build: Build, given: Mapping[str, Any], where: Any) -> list[Any]:
    shaped = {n: _shaped(v) for n, v in given.items()}
    runner = build.specialised(shaped).runner
    assert isinstance(runner, DeviceRunner)
    device = runner.here()
    if device.kind != "cuda":
        raise DeviceError(f"tensors are on {where}, and the build is for {runner.name}")
    stream = torch().cuda.current_stream(where).cuda_stream or None
    arrays = {n: _on(device, v) for n, v in given.items()}
    found = runner.executable().run_async(arrays, stream)
    return [_tensor(a, where) for a in found]


def _shaped(value: Any) -> Array:
    """An array of the same type and lens that takes no memory."""
    if not hasattr(value, "data_ptr"):
        return np.asarray(value)
    plain = _pairs(value)
    return np.broadcast_to(np.zeros((), type_of(plain.dtype).numpy), tuple(plain.shape))


def _on(device: Any, value: Any) -> Any:
    """A tensor as an array of the device, in place if it is row-major and aligned."""
    if not hasattr(value, "data_ptr") or value.device.type == "cpu":
        return _array(value)
    tensor = _pairs(value.detach()).contiguous()
    if tensor.numel() and tensor.data_ptr() % ALIGNMENT:
        tensor = tensor.clone()
    shape = Shape(type_of(tensor.dtype), tuple(tensor.shape))
    return DeviceArray(device, shape, tensor.data_ptr(), keeps=tensor)


def _pairs(tensor: Any) -> Any:
    """Complex numbers as a last axis of both parts, in place; another tensor is itself."""
    return torch().view_as_real(tensor.resolve_conj()) if tensor.dtype.is_complex else tensor


def _tensor(array: DeviceArray, where: Any) -> Any:
    """An array of a device as a tensor that shares its memory."""
    module, type = torch(), array.shape.type
    if not array.shape.elements:
        return module.empty(array.shape.lens, dtype=dtype_of(type), device=where)
    if type not in BITS:
        return module.as_tensor(array, device=where)
    bits = Shape(BITS[type], array.shape.lens, array.shape.strides)
    alike = DeviceArray(array.device, bits, array.pointer, keeps=array)
    return module.as_tensor(alike, device=where).view(dtype_of(type))


def listed(results: Sequence[Any]) -> Any:
    """One result as it is, several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)
