"""Replicas on several GPUs of one host, connected by NCCL or RCCL."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import TypeAlias

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.collectives import (
    AllGather,
    AllReduce,
    Collective,
    Combine,
    ReduceScatter,
)
from workbench.compiler.run.team import HostCommunicator, Meeting, Team, ended, host_team, late
from workbench.gpu.devices.base import Device, Stream
from workbench.gpu.devices.handles import number_of
from workbench.gpu.devices.nccl import TYPES, Nccl, nccl
from workbench.knobs import knobs

Groups: TypeAlias = tuple[int, int]
"""A division of replicas into groups: their size, and the stride between members."""
_PAUSE = 1e-3
"""Most seconds between two looks at whether collectives are over."""


class NcclCommunicator(HostCommunicator):
    """The connection of a replica whose values go from device to device.

    What the host computes meets in host memory.

    Args:
        meeting: The place where replicas meet in host memory, and where failures are known.
        replica: The replica's number.
        device: Its device.
        library: NCCL or RCCL.
        handles: The library's communicator for each division into groups.
    """

    def __init__(
        self,
        meeting: Meeting,
        replica: int,
        device: Device,
        library: Nccl,
        handles: Mapping[Groups, int],
    ) -> None:
        """Start without collectives."""
        super().__init__(meeting, replica)
        self.device = device
        self._library = library
        self._handles = dict(handles)
        self._pending = ""
        self._finalizer = weakref.finalize(self, _freed, library, self._handles)
        self._finalizer.atexit = False  # the driver may be gone by then

    def enqueue(
        self, op: Collective, source: int, target: int, shape: Shape, stream: Stream
    ) -> None:
        """Start a collective in a stream.

        Args:
            op: The collective.
            source: The address of this replica's value, in row-major order.
            target: The address of its result.
            shape: The shape of the value.
            stream: The stream.

        Raises:
            EvaluationError: Another replica failed.
            DeviceError: The library failed.
        """
        if self.meeting.failure is not None:
            raise ended(self.replica, self.meeting.failure)
        self._pending = str(op)
        one, queue = self._handles[op.size, op.stride], number_of(stream)
        if isinstance(op, AllReduce):
            how = shape.elements, shape.type, op.combine
            self._library.all_reduce(target, source, *how, one, queue)
        elif isinstance(op, AllGather):
            self._library.all_gather(target, source, shape.bytes, one, queue)
        elif isinstance(op, ReduceScatter):
            self._scatter(op, source, target, shape, stream)
        else:
            raise DeviceError(f"{self._library} has no {op.name}")

    def _scatter(
        self, op: ReduceScatter, source: int, target: int, shape: Shape, stream: Stream
    ) -> None:
        if op.combine is Combine.LOCAL:
            part = shape.bytes // op.size
            start = source + op.members(self.replica).index(self.replica) * part
            self.device.copy(target, start, part, stream)
            return
        how = shape.elements // op.size, shape.type, op.combine
        one, queue = self._handles[op.size, op.stride], number_of(stream)
        self._library.reduce_scatter(target, source, *how, one, queue)

    def settle(self, stream: Stream) -> None:
        """Wait until the collectives that were started are over.

        Raises:
            EvaluationError: Another replica failed, or did not come in time.
            DeviceError: The library or a device failed.
        """
        if not self._pending:
            return
        event, since = self.device.record(stream), monotonic()
        while not self.device.is_done(event):
            self._check(monotonic() - since)
        self._pending = ""

    def _check(self, waited: float) -> None:
        """Look for a reason to wait no longer; then pause."""
        if self.meeting.failure is not None:
            raise ended(self.replica, self.meeting.failure)
        for one in self._handles.values():
            self._library.check(one)
        if knobs.collective_seconds and waited > knobs.collective_seconds:
            raise late(self.replica, self._pending)
        sleep(min(waited / 8, _PAUSE))

    def abort(self) -> None:
        """End the collectives that were started, wherever they hang; there are no more of them."""
        while self._handles:
            self._library.abort(self._handles.popitem()[1])


def _freed(library: Nccl, handles: dict[Groups, int]) -> None:
    while handles:
        with suppress(DeviceError):
            library.destroy(handles.popitem()[1])


def connected(
    devices: Sequence[Device], collectives: Sequence[Instruction], library: Nccl | None = None
) -> Team:
    """The replicas of a program, each on a device.

    OpenCL's devices exchange values in host memory, and one device may have several replicas.

    Args:
        devices: The device of each replica.
        collectives: The collectives of the program.
        library: NCCL or RCCL; by default it is searched for.

    Raises:
        DeviceError: The devices are of different kinds, one is named twice, a collective is of a type or a
            number of replicas that cannot be, or the library is missing or failed.
    """
    kinds = list(dict.fromkeys(d.kind for d in devices))
    if len(kinds) > 1:
        raise DeviceError(
            f"replicas on devices of different kinds: {', '.join(d.spec for d in devices)}; collectives "
            f"connect devices of one kind, so use those of {' or those of '.join(kinds)}"
        )
    if kinds[0] == "opencl":
        return host_team(len(devices))
    twice = [d.spec for k, d in enumerate(devices) if d in devices[:k]]
    if twice:
        raise DeviceError(
            f"{twice[0]} has two of {len(devices)} replicas; expected a device for each. Without devices "
            "the session runs all replicas in one program on one device"
        )
    _check_types(collectives)
    meeting = Meeting(len(devices))
    if not collectives:
        return Team([HostCommunicator(meeting, k) for k in range(len(devices))], "nothing")
    return _by_library(devices, _operations(collectives), meeting, library or nccl(kinds[0]))


def _by_library(
    devices: Sequence[Device], ops: Sequence[Collective], meeting: Meeting, library: Nccl
) -> Team:
    handles: list[dict[Groups, int]] = [{} for _ in devices]
    try:
        for op in ops:
            if (op.size, op.stride) not in handles[0]:
                for members in op.divisions():
                    made = library.connect([devices[k].index for k in members])
                    for k, one in zip(members, made, strict=True):
                        handles[k][op.size, op.stride] = one
    except DeviceError:
        for held in handles:
            _freed(library, held)
        raise
    pairs = enumerate(zip(devices, handles, strict=True))
    return Team([NcclCommunicator(meeting, k, d, library, h) for k, (d, h) in pairs], str(library))


def _operations(collectives: Sequence[Instruction]) -> list[Collective]:
    return [i.op for i in collectives if isinstance(i.op, Collective)]


def _check_types(collectives: Sequence[Instruction]) -> None:
    """Refuse what the library cannot combine.

    Raises:
        DeviceError: A collective combines elements of such a type.
    """
    for one in collectives:
        combines = (
            isinstance(one.op, AllReduce | ReduceScatter) and one.op.combine is not Combine.LOCAL
        )
        type = one.inputs[0].shape.type
        if combines and type not in TYPES:
            known = ", ".join(t.type_name for t in TYPES)
            raise DeviceError(
                f"{one!r} combines {type.type_name}, which NCCL and RCCL do not; expected one of {known}",
                one,
            )
