"""Runs on memory that the caller lends: new memory for results, and when a graph on copies is faster."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Device, Pointer
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.plan import Plan
from workbench.gpu.run.device_array import DeviceArray

COPIED_PER_LAUNCH = 1 << 22
"""Bytes that a GPU copies in the time in which the host starts a kernel, about 3 microseconds."""


def copies_pay(plan: Plan, lent: Mapping[Root, DeviceArray], written: Collection[Root]) -> bool:
    """Whether a graph on the executable's own memory is faster than launches on lent memory.

    Inputs and results are copied then, so there have to be few bytes for each launch that is saved. A kernel
    that writes into an input writes into the lent memory itself.
    """
    if not plan.is_fixed or any(root in written for root in lent):
        return False
    copied = [place for place in plan.parameters.values() if place.root in lent]
    copied += [place for places in plan.outputs for place in places]
    return sum(place.end for place in copied) <= (plan.launches or 0) * COPIED_PER_LAUNCH


def results_of(
    plan: Plan,
    device: Device,
    bound: dict[Root, Pointer],
    lent: Mapping[Root, DeviceArray],
    written: Collection[Root],
) -> list[tuple[DeviceArray, Place]]:
    """New memory for each result; kernels write to it directly unless the result shares its memory.

    A result that a kernel writes into a parameter is the array given for that parameter.

    Args:
        plan: The plan.
        device: The device.
        bound: The memory that kernels use instead of the executable's own; that of results is added.
        lent: The arrays given for parameters.
        written: The memory that kernels write to.

    Raises:
        DeviceError: A result stays on the host, or is a tuple.
    """
    found: list[tuple[DeviceArray, Place]] = []
    for output, places in zip(plan.program.main.outputs, plan.outputs, strict=True):
        if len(places) != 1 or places[0].offset:
            raise DeviceError(
                f"{output!r} is not a tensor with its own memory on the device; use run()"
            )
        (place,) = places
        given = lent.get(place.root) if place.root in written else None
        if given is not None and given.shape == place.shape:
            found.append((given, place))
            continue
        array = DeviceArray(device, place.shape)
        if place.root in plan.own and array.bytes >= place.root.bytes:
            bound.setdefault(place.root, array.pointer)
        found.append((array, place))
    return found
