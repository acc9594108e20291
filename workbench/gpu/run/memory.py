"""The memory of a plan on a device: an arena, and a buffer for each constant, parameter and result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from workbench.compiler.errors import DeviceError
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


def free_all(device: Device, buffers: list[Any], in_flight: list[bool]) -> None:
    """Free buffers, after waiting for the device if a run may be in flight that nobody waited for."""
    if in_flight and buffers:
        with suppress(DeviceError):  # a device that is lost runs nothing
            device.synchronize()
    while buffers:
        device.free(buffers.pop())
