"""IOBinding: values that runs read and memory that they write, set once for many runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compat.onnxruntime.devices import OrtDevice
from workbench.compat.onnxruntime.types import numpy_of
from workbench.compat.onnxruntime.values import OrtValue, OrtValueVector
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device as device_named
from workbench.gpu.run.device_array import DeviceArray

if TYPE_CHECKING:
    from workbench.compat.onnxruntime.session import Session


class IOBinding:
    """The inputs and outputs of runs of a session.

    Args:
        session: The session, or its handle.
    """

    def __init__(self, session: Any) -> None:
        """Bind nothing."""
        self._session: Session = getattr(session, "session", session)
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, tuple[str, OrtValue | None]] = {}
        self._made = OrtValueVector()

    @property
    def _iobinding(self) -> IOBinding:
        return self

    # Inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Let runs read an array.

        Raises:
            RuntimeError: The model has no such input.
        """
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self,
        name: str,
        device_type: str | OrtDevice,
        device_id: Any,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int = 0,
    ) -> None:
        """Let runs read memory at an address, which must stay as long as it is bound.

        Args:
            name: The input.
            device_type: Where the memory is; an ``OrtDevice`` takes the place of this and the next argument.
            device_id: The number of the device.
            element_type: NumPy's type, or ONNX's number.
            shape: The lengths.
            buffer_ptr: The address.

        Raises:
            RuntimeError: The model has no such input, or there is no such device.
        """
        if isinstance(device_type, OrtDevice):  # the arguments of onnxruntime's inner class
            device_id, element_type, shape, buffer_ptr = 0, device_id, element_type, shape
        self.bind_ortvalue_input(name, _at(device_type, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Let runs read a value.

        Raises:
            RuntimeError: The model has no such input.
        """
        if name not in self._session.arguments:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        self._inputs[name] = ortvalue

    # Outputs

    def bind_output(
        self,
        name: str,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Let runs give an output, in new memory on a device or at an address.

        Raises:
            RuntimeError: There is no such device.
        """
        kind = device_type.kind if isinstance(device_type, OrtDevice) else device_type
        target = None
        if buffer_ptr is not None:
            target = _at(device_type, device_id, element_type, shape, buffer_ptr)
        self._outputs[name] = kind, target

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Let runs write an output into a value's memory."""
        self._outputs[name] = ortvalue.device_name(), ortvalue

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run, in the order in which they were bound."""
        return self._made

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays."""
        return [v.numpy() if v.is_tensor() else v.value for v in self._made]

    def clear_binding_inputs(self) -> None:
        """Bind no inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Bind no outputs, and forget those of the last run."""
        self._outputs.clear()
        self._made = OrtValueVector()

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: a run waits for its inputs."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run is done when its call returns."""

    # Running

    def run(self, run_options: Any = None) -> None:
        """Run the session on what is bound.

        Raises:
            RuntimeError: An input does not fit, an output is unknown, or none is bound.
        """
        if not self._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        try:
            kinds = {kind for kind, _ in self._outputs.values()}
            values = self._session.values_of(
                list(self._outputs), self._inputs, run_options, kinds != {"cpu"}
            )
        except (WorkbenchError, ValueError) as error:
            reason = str(error).rpartition(" : ")[2]
            raise RuntimeError(f"Error in execution: {reason}") from error
        pairs = zip(values, self._outputs.values(), strict=True)
        self._made = OrtValueVector(_given(v, kind, target) for v, (kind, target) in pairs)


def _at(
    device_type: str | OrtDevice,
    device_id: int,
    element_type: Any,
    shape: Sequence[int],
    pointer: int,
) -> OrtValue:
    """The value in memory at an address."""
    place = (
        device_type
        if isinstance(device_type, OrtDevice)
        else OrtDevice.make(device_type, device_id)
    )
    type = numpy_of(element_type) if isinstance(element_type, int) else np.dtype(element_type)
    if place.device_type() == 0:
        return OrtValue(_array_at(pointer, type, shape))
    device = device_named(
        f"{'hip' if place.kind in {'hip', 'rocm'} else 'cuda'}:{place.device_id()}"
    )
    return OrtValue(DeviceArray(device, Shape(type.name, shape), pointer), place.kind)


def _array_at(pointer: int, type: Any, shape: Sequence[int]) -> Array:
    count = prod(shape)
    if not count:
        return np.empty(tuple(shape), type)
    bytes = (ctypes.c_uint8 * (count * type.itemsize)).from_address(pointer)
    return np.frombuffer(bytes, type).reshape(tuple(shape))


def _given(value: Any, kind: str, target: OrtValue | None) -> OrtValue:
    """A result where it was bound to be."""
    if target is not None:
        made = OrtValue(value)
        if made.shape() != target.shape():
            raise RuntimeError(
                f"Error in execution: an output has the lengths {made.shape()}, its memory {target.shape()}"
            )
        target.update_inplace(made.numpy())
        return target
    if isinstance(value, DeviceArray):
        return OrtValue(value, kind) if kind != "cpu" else OrtValue(value.numpy())
    if kind == "cpu" or not isinstance(value, np.ndarray):
        return OrtValue(value)
    return OrtValue.ortvalue_from_numpy(value, kind)


SessionIOBinding = IOBinding
