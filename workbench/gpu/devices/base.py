"""Devices: memory, code, launches, time. Each runtime implements these classes."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.compiler.arrays.parallel import threads
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.run_plan import TileMap
from workbench.gpu.devices.pool import Buffer, Pool
from workbench.gpu.dialect import Dialect

Pointer = Any
"""The location of a kernel argument: an address, or OpenCL's memory object."""
Stream = Any
Event = Any
Launch = Callable[[Stream], None]
"""A launch with its arguments packed: called with a stream, it runs the kernel on that stream."""


@dataclass(frozen=True)
class DeviceFacts:
    """The properties of a device; 0 and "" stand for those that its runtime does not report."""

    name: str
    """The vendor's name for it, e.g. ``NVIDIA H200``."""
    arch: str
    """The architecture that code is compiled for: ``sm_90``, ``gfx90a``, or the CPU of an OpenCL device."""
    compute_units: int = 0
    memory: int = 0
    """Bytes."""
    clock: float = 0.0
    """Core clock in MHz."""
    warp: int = 0
    """Work items that run in lockstep; 0 if kernels may not rely on it."""
    shared: int = 0
    """Most bytes of shared memory of a block; CUDA gives more than 48 KiB only as dynamic memory."""
    threads: int = 0
    """Most work items of a block."""
    version: str = ""
    """The version of the driver or runtime."""
    processor: str = "GPU"
    """``GPU`` or ``CPU``."""


@dataclass(frozen=True)
class Code:
    """One compiled kernel."""

    binary: bytes
    """The code object: cubin, hsaco, or OpenCL's program binary."""
    log: str = ""
    """The compiler's log."""
    assembly: str = ""
    """Assembly from the compiler, such as PTX."""


@dataclass(frozen=True)
class FunctionFacts:
    """The resources of a loaded kernel; -1 stands for those that the runtime does not report."""

    registers: int = -1
    """Registers per work item."""
    shared: int = -1
    """Static shared memory, bytes per block."""
    local: int = -1
    """Spilled memory, bytes per work item."""
    blocks: int = -1
    """Blocks of the given size that fit on one compute unit."""


@dataclass(frozen=True)
class Peaks:
    """The measured peak rates of a device."""

    bandwidth: float
    """Bytes read and written per second, by the faster of a kernel and the runtime's own copy."""
    flops: dict[str, float]
    """Multiplications and additions per second by type: ``f32`` and, if the device has it, ``f64``."""


class Compiler(ABC):
    """Compiles kernels for one architecture, whether or not such a device is present."""

    dialect: Dialect

    @property
    @abstractmethod
    def key(self) -> str:
        """Everything but the source that code depends on: kind, architecture, options, versions."""

    @abstractmethod
    def compile(self, source: str, name: str) -> Code:
        """The code of a source that has one kernel, ``name``.

        Raises:
            DeviceError: The source does not compile; the message has the log and the lines of the source.
        """

    def expect(self, kernels: int) -> bool:
        """Prepare for so many kernels, which soon have to be compiled; False if there is nothing to do."""
        return False

    @contextmanager
    def team(self, kernels: int) -> Generator[Sequence[Compiler]]:
        """The compilers that share this many kernels, one for each thread.

        By default, several threads use this one.
        """
        yield [self] * min(kernels, threads())


class Device(ABC):
    """A device that is present. Work on one stream is done in order; the default stream is None.

    Memory comes from a pool: freed memory is kept for the next ``allocate`` of a similar size, until
    ``trim``. So free a buffer only when the work that uses it is done, or when the next work that
    uses its memory is on the same stream. Every method raises ``DeviceError`` if the runtime fails.
    """

    kind: str
    """``hip``, ``cuda`` or ``opencl``."""
    index: int = 0
    """The index among the devices of its kind."""
    facts: DeviceFacts
    compiler: Compiler
    pool: Pool
    has_graphs: bool = False
    times_graphs: bool = False
    """Whether an event recorded during the capture of a graph is timed at each replay."""
    lost: str = ""
    """Why the device is unusable for the rest of this process; once set, every call raises it."""

    @property
    def spec(self) -> str:
        """The device's spec, such as ``cuda:0``."""
        return f"{self.kind}:{self.index}"

    @property
    def dialect(self) -> Dialect:
        """The dialect that kernels are printed in."""
        return self.compiler.dialect

    @property
    def digest(self) -> str:
        """A name for files of what was measured on it: another device, driver or compiler has another."""
        return hashlib.sha256(f"{self.facts}\n{self.compiler.key}".encode()).hexdigest()[:24]

    def confirm(self, wait: bool = True) -> bool:
        """Whether it is known that this device can be used.

        Args:
            wait: Wait until it is known.

        Raises:
            DeviceError: It cannot be used.
        """
        return True

    # Memory

    def allocate(self, bytes: int) -> Buffer:
        """A buffer of at least this size, aligned to 256 bytes, of undefined contents."""
        return self.pool.allocate(bytes)

    def free(self, buffer: Buffer) -> None:
        """Give a buffer back to the pool."""
        self.pool.free(buffer)

    def trim(self) -> None:
        """Give the pool's idle memory back to the runtime."""
        self.pool.trim()

    @property
    def in_use(self) -> int:
        """Bytes of buffers that were allocated and not freed."""
        return self.pool.in_use

    @abstractmethod
    def pointer(self, buffer: Buffer, offset: int, bytes: int) -> Pointer:
        """A part of a buffer as a kernel's argument; the offset is a multiple of 256 bytes.

        The caller keeps the result for as long as it launches kernels with it.
        """

    def knows(self, address: int) -> bool:
        """Whether kernels can read memory at an address, as far as the runtime knows."""
        return address > 0

    @abstractmethod
    def upload(self, pointer: Pointer, array: Array, stream: Stream = None) -> None:
        """Copy a contiguous array to the device. The array may be changed once the call returns."""

    @abstractmethod
    def download(self, array: Array, pointer: Pointer, stream: Stream = None) -> None:
        """Copy to a contiguous array; the copy is done when the call returns."""

    def in_place(self, pointer: Pointer, bytes: int) -> Array | None:
        """The first bytes of what a pointer points to, to read and write where they are.

        None if the memory is not the host's. Kernels may still use it until their stream is waited for.
        """
        return None

    @abstractmethod
    def copy(self, to: Pointer, source: Pointer, bytes: int, stream: Stream = None) -> None:
        """Copy on the device."""

    @abstractmethod
    def fill(self, pointer: Pointer, bytes: int, value: int = 0, stream: Stream = None) -> None:
        """Set each byte to a value."""

    # Code

    @abstractmethod
    def load(self, code: Code, name: str) -> Any:
        """The kernel ``name`` of a code object, ready to launch; it keeps its module alive."""

    def tile_map(self, pointer: Pointer, map: TileMap) -> bytes:
        """A map of memory as a kernel's argument.

        Args:
            pointer: The memory's start.
            map: The tensor there, and the lens of a tile.
        """
        raise DeviceError(f"{self.kind} has no bulk copies of tiles")

    @abstractmethod
    def function_facts(self, function: Any, threads: int) -> FunctionFacts:
        """Registers, memory and occupancy for blocks of ``threads`` work items."""

    @abstractmethod
    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
        stream: Stream = None,
    ) -> None:
        """Run ``grid`` blocks of ``block`` work items; a scalar argument is its bytes.

        A grid without blocks does nothing.

        Args:
            function: The result of ``load``.
            grid: Blocks along x, y, z (not work items).
            block: Work items of a block along x, y, z.
            shared: Bytes of dynamic shared memory.
            arguments: Pointers, and scalars as little-endian bytes, in the kernel's order.
            stream: The stream; None is the default one.
        """

    def prepare(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
    ) -> Launch:
        """Prepare a launch as a function of the stream: cheaper than ``launch`` when called many times.

        If it is captured into a graph, keep it for as long as the graph is replayed.
        """
        kept = list(arguments)
        return lambda stream: self.launch(function, grid, block, shared, kept, stream)

    # Time and order

    def peaks(self) -> Peaks:
        """The peak rates of the device: measured once, and kept on disk."""
        from workbench.gpu.devices.peaks import peaks_of  # noqa: PLC0415

        return peaks_of(self)

    @abstractmethod
    def stream(self) -> Stream:
        """A new stream."""

    @abstractmethod
    def synchronize(self, stream: Stream = None) -> None:
        """Wait for a stream, or for the whole device; a kernel's error is raised here at the latest."""

    @abstractmethod
    def record(self, stream: Stream = None) -> Event:
        """An event after all work that is in the stream so far."""

    @abstractmethod
    def elapsed(self, first: Event, last: Event) -> float:
        """Seconds between two recorded events, on the device's clock; waits for the last one."""

    def begun(self, base: Event, before: Event, event: Event) -> float:
        """Seconds from one event to the beginning of a kernel.

        Args:
            base: The event from which time is counted.
            before: The event recorded in the kernel's stream just before its launch.
            event: The one recorded just after it.
        """
        return self.elapsed(base, before)

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Wait for a recorded event."""

    @abstractmethod
    def is_done(self, event: Event) -> bool:
        """Whether the work before a recorded event is done; does not wait."""

    @contextmanager
    def capture(self, stream: Stream, overlap: bool = False) -> Generator[list[Any]]:
        """Capture launches on the stream inside the block as a graph, the list's one element.

        Args:
            stream: The stream.
            overlap: Whether a kernel may begin as the one before it ends, where the device can do so. Each
                then has to wait for it by itself: every kernel of a plan does (``AFTER_OTHERS``).
        """
        raise DeviceError(f"{self.kind} has no graphs")
        yield []

    def replay(self, graph: Any, stream: Stream = None) -> None:
        """Run a captured graph."""
        raise DeviceError(f"{self.kind} has no graphs")


def raw(array: Array, device: str) -> Array:
    """The bytes of a contiguous array, without a copy.

    Raises:
        DeviceError: The array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise DeviceError(
            f"{device}: cannot copy an array of shape {array.shape} and strides {array.strides} bytes; "
            "expected a contiguous one, as np.ascontiguousarray makes it"
        )
    return array.reshape(-1).view(np.uint8)
