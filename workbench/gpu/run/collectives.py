"""Collectives of a run: by the library of the devices, or through host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ops.collectives import Collective
from workbench.compiler.ops.communicator import communicator
from workbench.gpu.devices.base import Device, Pointer, Stream
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.layout import laid_out, seen_as
from workbench.gpu.lowering.plan import CollectiveStep
from workbench.gpu.run.nccl_team import NcclCommunicator

At: TypeAlias = Callable[[Root], Pointer]
"""The memory of a root now."""


def exchange(step: CollectiveStep, device: Device, at: At, stream: Stream) -> None:
    """Run a collective of the replica that this thread runs.

    Args:
        step: The collective, with the places of its operand and its result.
        device: The replica's device.
        at: The memory of a root.
        stream: The stream of the run.

    Raises:
        EvaluationError: The program runs alone, another replica failed, or it did not come in time.
        DeviceError: The library of the devices failed.
    """
    op, here = step.instruction.op, communicator()
    assert isinstance(op, Collective)
    if isinstance(here, NcclCommunicator) and here.replicas == op.replicas:
        source, target = _address(step.source, at), _address(step.target, at)
        here.enqueue(op, source, target, step.source.shape, stream)
        return
    array = np.empty(0)
    if here is not None:  # else computing it says that it runs alone
        array = _downloaded(step.source, device, at, stream)
    try:
        found = op.compute(array)
    except EvaluationError as error:
        error.instruction = error.instruction or step.instruction
        raise
    flat = laid_out(found, step.target.shape)
    device.upload(at(step.target.root), flat, stream)


def _downloaded(place: Place, device: Device, at: At, stream: Stream) -> Array:
    flat = np.empty(place.offset + place.shape.element_space, place.shape.type.numpy)
    device.download(flat, at(place.root), stream)
    return seen_as(flat, place.shape, place.offset)


def _address(place: Place, at: At) -> int:
    return int(at(place.root)) + place.offset * place.shape.type.size


def settle(stream: Stream) -> None:
    """Wait for the collectives in a stream, if there are any; for no longer than replicas may wait.

    Raises:
        EvaluationError: Another replica failed, or did not come in time.
        DeviceError: The library of the devices failed.
    """
    here = communicator()
    if isinstance(here, NcclCommunicator):
        here.settle(stream)
