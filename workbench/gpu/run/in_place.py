"""Runs on a device whose memory is the host's: inputs and results are one copy each, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.run.results import as_result
from workbench.gpu.devices.base import Device, Event, Launch, Pointer, Stream
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.layout import seen_as
from workbench.gpu.lowering.plan import KernelStep, Plan
from workbench.gpu.run.ready import Ready, failed, launches


class InPlace:
    """The runs of a plan, with all that is the same in each of them done once.

    Args:
        plan: The plan.
        device: The device.
        starts: The launches of a run, in order.
        parameters: The memory of each parameter, by name, as arrays of their shapes.
        outputs: The memory of the parts of each output.
    """

    def __init__(
        self,
        plan: Plan,
        device: Device,
        starts: Sequence[tuple[KernelStep, Launch]],
        parameters: Mapping[str, Array],
        outputs: Sequence[Sequence[Array]],
    ) -> None:
        """Keep them."""
        self._device = device
        self._starts = [launch for _, launch in starts]
        self._started = [step for step, _ in starts]
        self._parameters = dict(parameters)
        wanted = plan.program.parameters
        self._is_plain = wanted.keys() == self._parameters.keys() and all(
            s.is_tensor and s.dims is None and not s.broadcasted for s in wanted.values()
        )
        """Whether an array's type and shape are all that is asked of an input."""
        self._waited: Event = None
        """The event at the end of the last run, which has passed."""
        shapes = [i.shape for i in plan.program.main.outputs]
        self._outputs = list(zip(outputs, shapes, strict=True))

    def fits(self, inputs: Mapping[str, Any]) -> bool:
        """Whether inputs are arrays of the parameters' types and shapes, and need no other check."""
        if not self._is_plain or inputs.keys() != self._parameters.keys():
            return False
        for name, memory in self._parameters.items():
            value = inputs[name]
            if type(value) is not np.ndarray or value.shape != memory.shape:
                return False
            if value.dtype != memory.dtype:
                return False
        return True

    def run(self, inputs: Mapping[str, Any], stream: Stream) -> list[Any]:
        """Values of the outputs.

        Args:
            inputs: The inputs, by name, checked or such that they fit.
            stream: The stream to run in.

        Raises:
            DeviceError: A kernel failed.
        """
        self._wait(stream)  # work that nothing waited for may read the inputs of before
        for name, memory in self._parameters.items():
            np.copyto(memory, inputs[name])
        done = 0
        try:
            for launch in self._starts:
                launch(stream)
                done += 1
        except DeviceError as error:
            raise failed(self._started[done], error) from error
        self._wait(stream)
        return [as_result(_copied(parts), shape) for parts, shape in self._outputs]

    def _wait(self, stream: Stream) -> None:
        """Wait for what is in the stream, and not for work of others."""
        event = self._device.record(stream)
        if event is not self._waited:  # else nothing was launched since
            self._device.wait(event)
            self._waited = event


def in_place(
    plan: Plan, device: Device, ready: Sequence[Ready], pointers: Mapping[Root, Pointer]
) -> InPlace | None:
    """A plan's runs on memory that is the host's; None if it is not, or if the host takes part in a run."""
    starts = [(one.step, one.launch) for step in ready for _, one in launches(step)]
    fixed = [
        (s, launch) for s, launch in starts if isinstance(s, KernelStep) and launch is not None
    ]
    if not plan.is_fixed or plan.collectives or len(fixed) < len(starts):
        return None

    def memory(place: Place) -> Array | None:
        return _memory(device, pointers[place.root], place)

    parameters = {n: memory(p) for n, p in plan.parameters.items()}
    outputs = [[memory(p) for p in places] for places in plan.outputs]
    known = [[a for a in parts if a is not None] for parts in outputs]
    here = {n: a for n, a in parameters.items() if a is not None}
    is_whole = all(len(k) == len(o) > 0 for k, o in zip(known, outputs, strict=True))
    if len(here) < len(parameters) or not is_whole:
        return None
    return InPlace(plan, device, fixed, here, known)


def _memory(device: Device, pointer: Pointer, place: Place) -> Array | None:
    """The memory of a value as an array of its shape, if the device has it in the host's."""
    shape, type = place.shape, place.shape.type.numpy
    if not shape.elements:
        return np.empty(shape.lens, type)
    bytes = None if pointer is None else device.in_place(pointer, place.end)
    return None if bytes is None else seen_as(bytes.view(type), shape, place.offset)


def _copied(parts: Sequence[Array]) -> Any:
    """A value in memory of its own, with the order of axes that it has."""
    if len(parts) == 1:
        return parts[0].copy(order="K")
    return tuple(part.copy(order="K") for part in parts)
