"""AMD's devices through HIP, by hip-python; over HIP's layer for CUDA, NVIDIA's too."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.gpu.devices.base import (
    Code,
    Device,
    DeviceFacts,
    FunctionFacts,
    Launch,
    Pointer,
    Stream,
    raw,
)
from workbench.gpu.devices.handles import Handle, again, number_of, uncollected
from workbench.gpu.devices.hiprtc import HiprtcCompiler, runtime_version
from workbench.gpu.devices.pool import Buffer, Pool, size_text
from workbench.gpu.devices.rocm import hip_library, hip_python

_NO_MEMORY = 2
_NOT_READY = 600
_LOST = {
    "hipErrorIllegalAddress": "a kernel accessed memory outside its buffers",
    "hipErrorLaunchFailure": "a kernel failed",
    "hipErrorLaunchTimeOut": "a kernel ran for longer than the system allows",
    "hipErrorAssert": "an assertion of a kernel failed",
    "hipErrorECCNotCorrectable": "the device's memory has an uncorrectable error",
    "hipErrorContextIsDestroyed": "its context was destroyed",
}
_WHAT_TO_DO = {
    "hipErrorNoDevice": "no AMD GPU is visible here: check that the driver amdgpu is loaded and that "
    "this user may open /dev/kfd; compiling needs no GPU (hip:gfx90a)",
    "hipErrorInsufficientDriver": "AMD's driver is older than HIP's library: install a newer driver",
    "hipErrorNotInitialized": "a process that was forked after its parent used HIP cannot use it",
    "hipErrorNoBinaryForGpu": "the kernel was compiled for another architecture",
    "hipErrorInvalidImage": "the code object is damaged: compile it again",
    "hipErrorInvalidKernelFile": "the code object is damaged: compile it again",
    "hipErrorNotFound": "the code object has no such kernel",
    "hipErrorLaunchOutOfResources": "the block needs more registers or shared memory than the device has",
    "hipErrorInvalidValue": "a pointer, size or handle is not valid for the call",
}
_LAYOUT = 4096
"""Bytes that hold any version's structure of device properties."""
_NAME = 256
"""Bytes of the device's name, the structure's first field."""
_AT, _SIZE, _END = 1, 2, 3
"""HIP's markers in a list of launch parameters."""


class HipFunction:
    """A loaded kernel, with the module that holds it."""

    def __init__(self, name: str, number: int, module: Handle, binary: bytes) -> None:
        self.name = name
        self.number = number
        self.module = module
        self.binary = binary
        """The code object. HIP may read it in place for as long as it is loaded."""


class HipDevice(Device):
    """A device of HIP's runtime.

    A pointer is an address. A stream is a result of ``stream()``, or another library's handle as an
    integer; streams do not synchronize with each other or with the default stream. Each call first
    makes the device current in its thread, since another library may have selected another device.

    Args:
        index: The device's index, from 0.

    Raises:
        DeviceError: hip-python, HIP's library or such a device is missing.
    """

    kind = "hip"

    def __init__(self, index: int = 0) -> None:
        here = found()
        if not 0 <= index < len(here):
            known = ", ".join(f"hip:{k} ({facts.name})" for k, facts in enumerate(here))
            raise DeviceError(f"there is no hip:{index}; there is {known or 'none'}")
        self._hip: Any = hip_python()[0]
        self.index = index
        self.facts = here[index]
        self.compiler = HiprtcCompiler(self.facts.arch, self.facts.warp)
        self.has_graphs = bool(self._hip.has_symbol("hipGraphInstantiateWithFlags"))
        self.pool = Pool(self._label, self._take, self._give, total=self.facts.memory)
        self._streams: list[int] = []
        self._events: list[int] = []
        self._modules: list[int] = []
        self._graphs: list[int] = []
        self._captures = RLock()
        """Held during a capture, in which HIP refuses to wait for the whole device."""

    # Memory

    def pointer(self, buffer: Buffer, offset: int, bytes: int) -> int:
        """An address."""
        self.pool.part(buffer, offset, bytes)
        return buffer.memory + offset

    def upload(self, pointer: Pointer, array: Array, stream: Stream = None) -> None:
        """Copy a contiguous array to the device, and wait for it."""
        data = raw(array, self._label)
        self._copy(pointer, data.ctypes.data, data.nbytes, "HostToDevice", stream)
        self._finish(stream)

    def download(self, array: Array, pointer: Pointer, stream: Stream = None) -> None:
        """Copy to a contiguous array, and wait for it."""
        data = raw(array, self._label)
        self._copy(data.ctypes.data, pointer, data.nbytes, "DeviceToHost", stream)
        self._finish(stream)

    def copy(self, to: Pointer, source: Pointer, bytes: int, stream: Stream = None) -> None:
        """Copy on the device."""
        self._copy(to, source, bytes, "DeviceToDevice", stream)

    def fill(self, pointer: Pointer, bytes: int, value: int = 0, stream: Stream = None) -> None:
        """Set each byte to a value."""
        if bytes:
            what, call = f"fill {size_text(bytes)}", self._hip.hipMemsetAsync
            self._do(what, call, pointer, value, bytes, number_of(stream))

    def _copy(self, to: int, source: int, bytes: int, kind: str, stream: Stream) -> None:
        if bytes:
            what, call = f"copy {size_text(bytes)}", self._hip.hipMemcpyAsync
            way = getattr(self._hip.hipMemcpyKind, f"hipMemcpy{kind}")
            self._do(what, call, to, source, bytes, way, number_of(stream))

    def _finish(self, stream: Stream) -> None:
        self._do("finish a stream", self._hip.hipStreamSynchronize, number_of(stream))

    def _take(self, bytes: int) -> int | None:
        self._enter()
        status, memory = self._hip.hipMalloc(bytes)
        if int(status) == _NO_MEMORY:
            return None
        self._check(status, f"allocate {size_text(bytes)}")
        return int(memory)

    def _give(self, memory: int) -> None:
        if not self.lost:
            self._do("free memory", self._hip.hipFree, memory)

    def trim(self) -> None:
        """Give idle memory, modules and graphs back to the runtime."""
        self.pool.trim()
        if not self.lost:
            self._clear()

    # Code

    def load(self, code: Code, name: str) -> HipFunction:
        """The kernel of a code object; unused modules are unloaded first."""
        self._clear()
        module = self._do(f"load kernel {name}", self._hip.hipModuleLoadData, code.binary)
        kept = Handle(int(module), self._modules)
        find = self._hip.hipModuleGetFunction
        function = self._do(f"find kernel {name}", find, module, name.encode())
        return HipFunction(name, int(function), kept, code.binary)

    def _clear(self) -> None:
        if self._modules or self._graphs:
            self.synchronize()  # their last run may not be over
        while number := again(self._modules):
            self._do("unload a kernel", self._hip.hipModuleUnload, number)
        self._drop_graphs()

    def _drop_graphs(self) -> None:
        while number := again(self._graphs):
            self._do("drop a graph", self._hip.hipGraphExecDestroy, number)

    def function_facts(self, function: HipFunction, threads: int) -> FunctionFacts:
        """Registers, memory, and the blocks that one compute unit holds."""
        kinds = self._hip.hipFunction_attribute
        what = f"query kernel {function.name}"

        def fact(name: str) -> int:
            kind = getattr(kinds, f"HIP_FUNC_ATTRIBUTE_{name}")
            return int(self._do(what, self._hip.hipFuncGetAttribute, kind, function.number))

        fit = self._hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        blocks = int(self._do(what, fit, function.number, threads, 0))
        return FunctionFacts(
            fact("NUM_REGS"), fact("SHARED_SIZE_BYTES"), fact("LOCAL_SIZE_BYTES"), blocks
        )

    def launch(
        self,
        function: HipFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
        stream: Stream = None,
    ) -> None:
        """Run a kernel."""
        self.prepare(function, grid, block, shared, arguments)(stream)

    def prepare(
        self,
        function: HipFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
    ) -> Launch:
        """A launch with its arguments in the layout that the runtime reads."""
        alive = (_Arguments(arguments), function)
        sizes = (*grid, *block, shared)
        run, enter, number = self._hip.hipModuleLaunchKernel, self._enter, function.number
        what = f"run kernel {function.name} on a grid of {grid} blocks of {block}"

        def launch(stream: Stream = None) -> None:
            enter()
            (status,) = run(number, *sizes, number_of(stream), None, alive[0].address)
            if status:
                self._check(status, what)

        return launch if all(grid) else _nothing

    # Time and order

    def stream(self) -> Handle:
        """A stream that waits for no other."""
        number = again(self._streams)
        if not number:
            call, flag = self._hip.hipStreamCreateWithFlags, self._hip.hipStreamNonBlocking
            number = int(self._do("make a stream", call, flag))
        return Handle(number, self._streams)

    def synchronize(self, stream: Stream = None) -> None:
        """Wait for a stream, or for all of them."""
        if stream is None:
            with self._captures:
                self._do("finish its work", self._hip.hipDeviceSynchronize)
        else:
            self._finish(stream)

    def record(self, stream: Stream = None) -> Handle:
        """An event in the stream; unused events are recycled."""
        number = again(self._events)
        if not number:
            number = int(self._do("make an event", self._hip.hipEventCreate))
        event = Handle(number, self._events)
        self._do("record an event", self._hip.hipEventRecord, number, number_of(stream))
        return event

    def elapsed(self, first: Handle, last: Handle) -> float:
        """Seconds between two events; waits for the last one."""
        self._do("wait for an event", self._hip.hipEventSynchronize, last.number)
        call = self._hip.hipEventElapsedTime
        return 1e-3 * float(self._do("time two events", call, first.number, last.number))

    def wait(self, event: Handle) -> None:
        """Wait for a recorded event."""
        self._do("wait for an event", self._hip.hipEventSynchronize, event.number)

    def is_done(self, event: Handle) -> bool:
        """Whether the work before a recorded event is done."""
        self._enter()
        status = self._hip.hipEventQuery(event.number)[0]
        if int(status) == _NOT_READY:
            return False
        if status:
            self._check(status, "ask for an event")
        return True

    @contextmanager
    def capture(self, stream: Stream, overlap: bool = False) -> Generator[list[Any]]:
        """Capture launches on the stream inside the block as a graph; kernels never overlap."""
        if stream is None:
            raise DeviceError(f"{self._label}: the default stream cannot be captured; use stream()")
        hip, number, captured = self._hip, number_of(stream), list[Any]()
        if self._graphs:  # constants that are replaced again and again leave one each time
            self.synchronize()
            self._drop_graphs()
        mode = hip.hipStreamCaptureMode.hipStreamCaptureModeThreadLocal
        with self._captures, uncollected():
            self._do("capture a stream", hip.hipStreamBeginCapture, number, mode)
            try:
                yield captured
            except BaseException:
                status, graph = hip.hipStreamEndCapture(number)
                if not status:
                    hip.hipGraphDestroy(graph)
                raise
            graph = self._do("end the capture of a stream", hip.hipStreamEndCapture, number)
        try:
            made = self._do("make a graph", hip.hipGraphInstantiateWithFlags, graph, 0)
        finally:
            hip.hipGraphDestroy(graph)
        captured.append(Handle(int(made), self._graphs))

    def replay(self, graph: Handle, stream: Stream = None) -> None:
        """Run a captured graph."""
        self._do("run a graph", self._hip.hipGraphLaunch, graph.number, number_of(stream))

    # Calls and their errors

    @property
    def _label(self) -> str:
        return f"{self.spec} ({self.facts.name})"

    def _enter(self) -> None:
        if self.lost:
            raise DeviceError(self.lost)
        (status,) = self._hip.hipSetDevice(self.index)
        if status:
            self._check(status, "use it in this thread")

    def _do(self, what: str, call: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
        """The result of one of HIP's functions without its status; functions have at most one result."""
        self._enter()
        status, *rest = call(*arguments)
        if status:
            self._check(status, what)
        return rest[0] if rest else None

    def _check(self, status: Any, what: str) -> None:
        lost = _LOST.get(status.name)
        if lost:
            self.lost = (
                f"{self._label}: {lost} ({status.name}, reported when trying to {what}). HIP refuses further "
                "work on this device in this process: restart the process. Other devices still work"
            )
            raise DeviceError(self.lost)
        must(status, self._label, what)


class _Arguments:
    """A kernel's packed arguments, and the list of launch parameters that points to them."""

    def __init__(self, arguments: Sequence[Pointer | bytes]) -> None:
        values = packed(arguments)
        self._values = ctypes.create_string_buffer(values, max(1, len(values)))
        self._size = ctypes.c_size_t(len(values))
        at, size = ctypes.addressof(self._values), ctypes.addressof(self._size)
        self._list = (ctypes.c_size_t * 5)(_AT, at, _SIZE, size, _END)
        self.address = ctypes.addressof(self._list)


def packed(arguments: Sequence[Pointer | bytes]) -> bytes:
    """Arguments packed for a kernel: each aligned to its own size."""
    values = bytearray()
    for argument in arguments:
        value = argument if isinstance(argument, bytes) else int(argument).to_bytes(8, "little")
        values += bytes(-len(values) % max(1, len(value))) + value
    return bytes(values)


def found() -> list[DeviceFacts]:
    """The properties of each HIP device; no device is opened.

    Raises:
        DeviceError: There is none; the message says what is missing.
    """
    hip, _ = hip_python()
    status, count = hip.hipGetDeviceCount()
    must(status, "HIP", "count the devices")
    return [_facts(hip, index) for index in range(count)]


def opened(index: int) -> HipDevice:
    """The device of that index.

    Raises:
        DeviceError: There is none, or it cannot be used.
    """
    return HipDevice(index)


def compiler(arch: str) -> HiprtcCompiler:
    """The compiler for an architecture such as ``gfx90a``; it needs no device.

    Raises:
        DeviceError: hip-python or HIP is not installed, or does not know the architecture.
    """
    return HiprtcCompiler(arch)


def must(status: Any, device: str, what: str) -> None:
    """Check that a function of HIP's succeeded.

    Raises:
        DeviceError: It did not.
    """
    if status:
        advice = f"; {_WHAT_TO_DO[status.name]}" if status.name in _WHAT_TO_DO else ""
        raise DeviceError(f"{device}: could not {what}: {status.name}{advice}")


def _facts(hip: Any, index: int) -> DeviceFacts:
    where = f"hip:{index}"

    def ask(what: str, answer: tuple[Any, Any]) -> Any:
        must(answer[0], where, f"ask {what}")
        return answer[1]

    def fact(name: str) -> int:
        kind = getattr(hip.hipDeviceAttribute_t, f"hipDeviceAttribute{name}")
        return int(ask(name, hip.hipDeviceGetAttribute(kind, index)))

    name = ask("its name", hip.hipDeviceGetName(256, index))
    return DeviceFacts(
        name=str(name.decode("utf-8", "replace")).strip(),
        arch=_processor(index),
        compute_units=fact("MultiprocessorCount"),
        memory=int(ask("its memory", hip.hipDeviceTotalMem(index))),
        clock=fact("ClockRate") / 1e3,
        warp=fact("WarpSize"),
        shared=fact("MaxSharedMemoryPerBlock"),
        threads=fact("MaxThreadsPerBlock"),
        version=f"HIP {runtime_version(hip)}",
    )


def _processor(index: int) -> str:
    """The device's architecture, such as ``gfx90a``, without its settings.

    The name is only in a structure whose layout HIP 6 changed, so the structure's bytes are searched for it.
    """
    library = hip_library()
    for name in ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties"):
        if hasattr(library, name):
            properties = ctypes.create_string_buffer(_LAYOUT)
            getattr(library, name)(properties, index)
            if here := re.search(rb"gfx[0-9a-f]{3,4}\b|sm_\d+", properties.raw[_NAME:]):
                return here[0].decode()
    raise DeviceError(f"HIP does not report the architecture of device hip:{index}")


def _nothing(stream: Stream = None) -> None:
    """A launch of no blocks."""
