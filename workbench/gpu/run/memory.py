"""The memory of a plan on a device: an arena, and a buffer for each constant, parameter and result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from workbench.gpu.devices.base import Device, Pointer
from workbench.gpu.kernels.kernel import Root
from workbench.gpu.lowering.plan import Plan


def allocated(
    plan: Plan,
    device: Device,
    buffer: Callable[[int], Any],
    literals: Mapping[Root, Pointer] | None = None,
    outside: Collection[Root] = (),
) -> dict[Root, Pointer]:
    """A pointer to each piece of memory of a plan.

    Args:
        plan: The plan.
        device: The device.
        buffer: Allocates a number of bytes.
        literals: Constants that are on the device already; by default they are uploaded.
        outside: Parameters whose memory somebody else gives; their pointers are None.

    Raises:
        DeviceError: The device has too little memory.
    """
    pointers: dict[Root, Pointer] = dict(literals or {})
    if plan.arena:
        arena = buffer(plan.arena)
        for root, offset in plan.offsets.items():
            pointers[root] = device.pointer(arena, offset, root.bytes)
    new = plan.literals if literals is None else ()
    parameters = [p.root for p in plan.parameters.values()]
    for root in dict.fromkeys([*new, *parameters, *plan.own]):
        given = root in outside
        pointers[root] = None if given else device.pointer(buffer(root.bytes), 0, root.bytes)
    for root in new:
        if plan.literals[root].size:
            device.upload(pointers[root], plan.literals[root])
    return pointers
