"""Runs on a device, with copies of inputs and outputs or on arguments in its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from workbench.compat.migraphx.arguments import argument, of_value
from workbench.compat.migraphx.device_arguments import device_argument
from workbench.compat.migraphx.devices import as_given
from workbench.compat.migraphx.errors import Error
from workbench.compiler.builds.build import Build
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.control import OUTPUT_PREFIX
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.tracing import Traced
from workbench.gpu.devices.base import Device, Stream
from workbench.gpu.devices.registry import device
from workbench.gpu.lowering.layout import laid_out
from workbench.gpu.lowering.plan import ALIGNMENT
from workbench.gpu.run.device_array import DeviceArray, borrowed
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.runner import DeviceRunner

_STREAMS = {"cuda": ("ihipStream_t", "CUstream_st"), "hip": ("ihipStream_t",)}
"""The names of stream types by kind of device; MIGraphX knows the first one."""


def borrowed_argument(value: Any, name: str) -> argument | None:
    """Another library's device array as an argument; None if it is not one."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__cuda_array_interface__"):
        return None
    found = borrowed(value, device(), name)
    return None if found is None else as_given(device_argument(found))


def stream_of(device: Device, handle: int, name: str) -> Stream:
    """A caller's stream from its handle; 0 is the default stream.

    Raises:
        Error: The device does not have streams of that type.
    """
    known = _STREAMS.get(device.kind, ())
    if handle and not known:
        raise Error(
            f"run_async(): stream {handle:#x} of {name!r}: {device.kind} takes no streams of other "
            "libraries; give 0, the default one"
        )
    if known and name not in known:
        raise Error(f"run_async(): stream of {name!r}; expected {' or '.join(map(repr, known))}")
    return handle or None


def runs_on_device(build: Build) -> bool:
    """Whether a build's kernels run on a device whose memory and streams can be used."""
    return isinstance(build.runner, DeviceRunner)


def on_device(build: Build) -> DeviceRunner:
    """The device runner of a build for which ``runs_on_device``."""
    assert isinstance(build.runner, DeviceRunner)
    return build.runner


def run_with_copies(build: Build, inputs: Mapping[str, Any], stream: Stream) -> list[Any]:
    """Values of the outputs, on the host."""
    return on_device(build.specialised(inputs)).executable().run(inputs, stream=stream)


def run_in_place(
    build: Build, given: Mapping[str, argument], stream: Stream, wait: bool
) -> list[argument]:
    """The outputs in the memory of the device, in the buffers that were given for them.

    Arguments on the host are copied to the device; then the run is finished at return, and buffers on the
    host are filled.
    """
    executable = _executable(build, given)
    lent = {name: _in_place(executable.device, name, a) for name, a in given.items()}
    if not all(len(places) == 1 and not places[0].offset for places in executable.plan.outputs):
        return _through_the_host(executable, given, lent)
    copied = {n: _copy(executable.device, given[n]) for n, held in lent.items() if held is None}
    found = executable.run_async(lent | copied, stream)
    if wait or copied:  # copies are freed at return
        executable.device.synchronize()
    buffers = {id(copy): given[n] for n, copy in copied.items() if OUTPUT_PREFIX in n}
    return [_result(a, buffers.get(id(a)), pending=not (wait or copied)) for a in found]


def _result(array: DeviceArray, buffer: argument | None, pending: bool) -> argument:
    if buffer is None:
        return as_given(device_argument(array, pending))
    np.copyto(np.asarray(buffer), array.numpy())
    return buffer


def _copy(device: Device, given: argument) -> DeviceArray:
    return DeviceArray.of(device, np.asarray(given), given.core)


def _in_place(device: Device, name: str, given: argument) -> DeviceArray | None:
    """The device array of an argument; None if it is on the host."""
    if isinstance(given, device_argument):
        return given.held
    if given.address and device.kind != "opencl" and device.knows(given.address):
        return _at(device, given, name)
    return None


def _at(device: Device, given: argument, name: str) -> DeviceArray:
    if given.core.elements and given.address % ALIGNMENT:
        raise Error(
            f"run(): params[{name!r}] begins at {given.address:#x}; expected a multiple of {ALIGNMENT} "
            "bytes, the start of an allocation: pass a copy"
        )
    return DeviceArray(device, given.core, given.address, keeps=given)


def _through_the_host(
    executable: Executable, given: Mapping[str, argument], lent: Mapping[str, DeviceArray | None]
) -> list[argument]:
    """The outputs if one of them is a tuple or has lengths known only at run time."""
    values = executable.run(
        {n: given[n].value if held is None else held.numpy() for n, held in lent.items()}
    )
    parameters = executable.plan.parameters.items()
    buffers = {p.root: name for name, p in parameters if OUTPUT_PREFIX in name}
    found: list[argument] = []
    for value, places in zip(values, executable.plan.outputs, strict=True):
        name = buffers.get(places[0].root) if places else None
        if name is not None:
            found.append(_filled(given[name], lent[name], value))
        elif isinstance(value, np.ndarray):
            made = DeviceArray.of(executable.device, cast("Array", value))
            found.append(as_given(device_argument(made)))
        else:
            found.append(of_value(Shape.tuple_of([_shape_of(v) for v in value]), value))
    return found


def _shape_of(value: Any) -> Shape:
    array = cast("Array", np.asarray(value))
    return Shape(array.dtype.name, array.shape)


def _filled(buffer: argument, held: DeviceArray | None, value: Array) -> argument:
    if held is not None:
        held.device.upload(held.pointer, laid_out(value, held.shape))
        return as_given(device_argument(held))
    np.copyto(np.asarray(buffer), value)
    return buffer


def _executable(build: Build, given: Mapping[str, argument]) -> Executable:
    shaped = {
        n: np.broadcast_to(np.zeros((), a.core.type.numpy), a.core.lens) for n, a in given.items()
    }
    return on_device(build.specialised(shaped)).executable(None)


def trace(build: Build, inputs: Mapping[str, Any], heard: Callable[[Traced], object]) -> list[Any]:
    """Run, and report each instruction in order: kernels' values from the device, views from the host."""
    made = build.specialised(inputs)
    told = _Told(made.program, inputs, heard)
    outputs = made.runner.run(inputs, hook=told.hear)
    told.up_to(None)
    return outputs


class _Told:
    """Reports the instructions of a program in order, as their values arrive from a device."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Any], heard: Callable[[Traced], object]
    ) -> None:
        self.heard = heard
        self.inputs = inputs
        self.values: dict[int, Value] = {}
        self._interpreter = PlannedInterpreter(program)
        self._waiting = list(enumerate(program.main))[::-1]

    def hear(self, instruction: Instruction, value: Any, _: Any) -> None:
        """Take a value that a kernel or a host step computed."""
        self.up_to(instruction)
        if self._waiting and self._waiting[-1][1] is instruction:
            self._tell(*self._waiting.pop(), value)

    def up_to(self, instruction: Instruction | None) -> None:
        """Report the instructions before another one that need no kernel."""
        place = None if instruction is None else instruction.order
        while self._waiting and (place is None or self._waiting[-1][1].order < place):
            index, one = self._waiting.pop()
            if one.name != "@return":
                self._tell(index, one, self._value(one))

    def _value(self, one: Instruction) -> Value:
        if one.parameter is not None:
            return self.inputs[one.parameter]
        return self._interpreter.step(one, self.values)

    def _tell(self, index: int, one: Instruction, value: Array | Any) -> None:
        self.values[one.id] = value
        self.heard(Traced(index, one.name, value, one, 0.0))
