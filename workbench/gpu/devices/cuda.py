"""CUDA through cuda-bindings: NVIDIA's driver, and NVRTC, which compiles without a GPU too."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any, cast

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.run_plan import TileMap
from workbench.gpu.devices.base import (
    Code,
    Device,
    DeviceFacts,
    Event,
    FunctionFacts,
    Launch,
    Pointer,
    Stream,
    raw,
)
from workbench.gpu.devices.early_launch import early_launch, has_early_launches
from workbench.gpu.devices.handles import Handle, number_of, uncollected
from workbench.gpu.devices.nvrtc import NvrtcCompiler, nvrtc
from workbench.gpu.devices.pool import Buffer, Pool, size_text
from workbench.gpu.devices.tensor_map import MAP_BYTES, encode

_EVERY_BLOCK_HAS = 48 << 10
"""Bytes of shared memory that a kernel may use without a request."""
_LOST = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel accessed memory outside its buffers",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel accessed an address that is not aligned to its type",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel has an instruction that this GPU lacks",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a kernel accessed an address in the wrong address space",
    "CUDA_ERROR_INVALID_PC": "a kernel jumped to an address outside its code",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel's stack is corrupt",
    "CUDA_ERROR_ASSERT": "an assertion of a kernel failed",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran for longer than the system allows",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the GPU's memory has an uncorrectable error",
}
_WHAT_TO_DO = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free builds that are not needed, or use a smaller batch",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was compiled for another architecture",
    "CUDA_ERROR_INVALID_IMAGE": "the code object is damaged: compile it again",
    "CUDA_ERROR_NOT_FOUND": "the code object has no such kernel",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the block needs more registers or shared memory than the GPU has",
    "CUDA_ERROR_NO_DEVICE": "no NVIDIA GPU is visible here",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the versions of NVIDIA's driver and its library differ",
    "CUDA_ERROR_NOT_INITIALIZED": "a process that was forked after its parent used CUDA cannot use it",
}


@cache
def _driver() -> Any:
    """The initialised driver."""
    try:
        driver = cast("Any", import_module("cuda.bindings.driver"))
    except ImportError as error:
        raise DeviceError(
            f"cuda-bindings is not installed ({error}): pip install 'graph-workbench[cuda]'"
        ) from error
    try:
        result = driver.cuInit(0)
    except (RuntimeError, OSError) as error:
        raise DeviceError(
            "NVIDIA's driver library libcuda was not found: install the GPU's driver"
        ) from error
    _must(driver, result, "CUDA", "initialise the driver")
    return driver


def _must(driver: Any, result: Any, device: str, what: str) -> Any:
    """The value of a call; raises its error."""
    error, *values = result
    if int(error):
        name = driver.CUresult(error).name
        advice = f"; {_WHAT_TO_DO[name]}" if name in _WHAT_TO_DO else ""
        raise DeviceError(f"{device}: could not {what}: {name}{advice}")
    return values[0] if len(values) == 1 else tuple(values)


def found() -> list[DeviceFacts]:
    """The properties of each CUDA device; no device is opened.

    Raises:
        DeviceError: There is none; the message says what is missing.
    """
    driver = _driver()
    nvrtc()  # a device is useless without a compiler
    count = _must(driver, driver.cuDeviceGetCount(), "CUDA", "count the devices")
    if not count:
        raise DeviceError("no NVIDIA GPU is visible here")
    return [_facts(driver, index) for index in range(count)]


def opened(index: int) -> CudaDevice:
    """The device of that index.

    Raises:
        DeviceError: There is none, or it cannot be used.
    """
    return CudaDevice(index)


def compiler(arch: str) -> NvrtcCompiler:
    """The compiler for an architecture such as ``sm_90``; it needs no device.

    Raises:
        DeviceError: NVRTC is not installed, or does not know the architecture.
    """
    return NvrtcCompiler(arch)


def _facts(driver: Any, index: int) -> DeviceFacts:
    where = f"cuda:{index}"
    device = _must(driver, driver.cuDeviceGet(index), where, "get it")
    names = driver.CUdevice_attribute

    def fact(name: str) -> int:
        key = getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_must(driver, driver.cuDeviceGetAttribute(key, device), where, f"ask {name}"))

    name = _must(driver, driver.cuDeviceGetName(256, device), where, "query its name")
    version = int(_must(driver, driver.cuDriverGetVersion(), where, "query the driver's version"))
    return DeviceFacts(
        name=name.split(b"\0")[0].decode(),
        arch=f"sm_{fact('COMPUTE_CAPABILITY_MAJOR')}{fact('COMPUTE_CAPABILITY_MINOR')}",
        compute_units=fact("MULTIPROCESSOR_COUNT"),
        memory=int(_must(driver, driver.cuDeviceTotalMem(device), where, "query its memory")),
        clock=fact("CLOCK_RATE") / 1e3,
        warp=fact("WARP_SIZE"),
        shared=fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        threads=fact("MAX_THREADS_PER_BLOCK"),
        version=f"CUDA {version // 1000}.{version % 1000 // 10}",
    )


class _Function:
    """A kernel, with the module that holds it."""

    def __init__(self, number: int, module: Handle, name: str) -> None:
        self.number = number
        self.module = module
        self.name = name
        self.dynamic = 0
        """Most bytes of dynamic shared memory requested so far."""


class CudaDevice(Device):
    """An NVIDIA GPU. Its primary context is shared with the other libraries of the process.

    A pointer is an address. A stream is a result of ``stream()``, or another library's handle as an
    integer; streams do not synchronize with each other or with the default stream.
    """

    kind = "cuda"
    has_graphs = True
    times_graphs = True

    def __init__(self, index: int = 0) -> None:
        """Open a device.

        Raises:
            DeviceError: There is no device of that index, or it cannot be used.
        """
        self._driver = driver = _driver()
        here = found()
        if not 0 <= index < len(here):
            known = ", ".join(f"cuda:{k} ({facts.name})" for k, facts in enumerate(here))
            raise DeviceError(f"there is no cuda:{index}; there is {known}")
        self.index = index
        self.facts = here[index]
        self._name = f"cuda:{index} ({self.facts.name})"
        self._success = driver.CUresult.CUDA_SUCCESS
        self.compiler = NvrtcCompiler(self.facts.arch)
        self._device = self._must(driver.cuDeviceGet(index), "get it")
        self._context = self._must(driver.cuDevicePrimaryCtxRetain(self._device), "open it")
        self.pool = Pool(self._name, self._take, self._give, total=self.facts.memory)
        self._streams: list[int] = []
        self._events: list[int] = []
        self._modules: list[int] = []
        self._graphs: list[int] = []
        self._capturing: set[int] = set()
        self._overlapping: set[int] = set()
        """The streams in whose captures a kernel may begin as the one before it ends."""
        self._overlaps = has_early_launches(self.facts)
        self._captures = RLock()
        """Held during a capture, in which the driver refuses to wait for the whole device."""

    # Calls

    def _enter(self) -> Any:
        """The driver, with this device's context current in the calling thread."""
        if self.lost:
            raise DeviceError(self.lost)
        result = self._driver.cuCtxSetCurrent(self._context)
        if result[0] is not self._success:
            self._must(result, "use it in this thread")
        return self._driver

    def _must(self, result: Any, what: str) -> Any:
        if result[0] is not self._success:
            name = self._driver.CUresult(result[0]).name
            if name in _LOST:
                self.lost = (
                    f"{self._name}: {_LOST[name]} ({name}, reported when trying to {what}). CUDA "
                    "refuses further work on this device in this process: restart the process. Other "
                    "devices still work; compute-sanitizer names the kernel and the line"
                )
                raise DeviceError(self.lost)
        return _must(self._driver, result, self._name, what)

    # Memory

    def _take(self, size: int) -> int | None:
        result = self._enter().cuMemAlloc(size)
        if result[0] == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            return None
        return int(self._must(result, f"allocate {size_text(size)}"))

    def _give(self, memory: int) -> None:
        if not self.lost:
            self._must(self._enter().cuMemFree(memory), "free memory")

    def pointer(self, buffer: Buffer, offset: int, bytes: int) -> Pointer:
        """An address."""
        self.pool.part(buffer, offset, bytes)
        return buffer.memory + offset

    def upload(self, pointer: Pointer, array: Array, stream: Stream = None) -> None:
        """Copy a contiguous array to the device; on the default stream the copy is done on return."""
        data = raw(array, self._name)
        if not data.size:
            return
        driver, queue = self._enter(), number_of(stream)
        what = f"copy {size_text(data.size)} to it"
        self._must(driver.cuMemcpyHtoDAsync(pointer, data.ctypes.data, data.size, queue), what)
        # Other streams do not wait for the default one, and pinned memory is read after the call returns.
        if stream is None or self._pinned(data.ctypes.data):
            self._must(driver.cuStreamSynchronize(queue), what)

    def knows(self, address: int) -> bool:
        """Whether the driver allocated or registered the memory at an address."""
        self._enter()
        return self._pinned(address)

    def _pinned(self, address: int) -> bool:
        # Unlike cuPointerGetAttribute this succeeds for other memory: memory checkers report failures.
        kinds = [self._driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE]
        result, found = self._driver.cuPointerGetAttributes(len(kinds), kinds, address)
        return result is self._success and found[0] != 0

    def download(self, array: Array, pointer: Pointer, stream: Stream = None) -> None:
        """Copy to a contiguous array, and wait for it."""
        data = raw(array, self._name)
        if not data.size:
            return
        driver, queue = self._enter(), number_of(stream)
        what = f"copy {size_text(data.size)} from it"
        self._must(driver.cuMemcpyDtoHAsync(data.ctypes.data, pointer, data.size, queue), what)
        self._must(driver.cuStreamSynchronize(queue), what)

    def copy(self, to: Pointer, source: Pointer, bytes: int, stream: Stream = None) -> None:
        """Copy on the device."""
        if bytes:
            result = self._enter().cuMemcpyDtoDAsync(to, source, bytes, number_of(stream))
            self._must(result, f"copy {size_text(bytes)} on it")

    def fill(self, pointer: Pointer, bytes: int, value: int = 0, stream: Stream = None) -> None:
        """Set each byte to a value."""
        if bytes:
            result = self._enter().cuMemsetD8Async(pointer, value, bytes, number_of(stream))
            self._must(result, f"fill {size_text(bytes)} of it")

    # Code

    def load(self, code: Code, name: str) -> Any:
        """The kernel of a cubin; unused modules are unloaded first."""
        driver = self._enter()
        self._clear()
        module = self._must(driver.cuModuleLoadData(code.binary), f"load kernel {name}")
        kept = Handle(int(module), self._modules)
        function = self._must(driver.cuModuleGetFunction(module, name.encode()), f"find {name}")
        return _Function(int(function), kept, name)

    def tile_map(self, pointer: Pointer, map: TileMap) -> bytes:
        """A tensor map, as the driver encodes it."""
        made = encode(self._enter(), pointer, map)
        encoded = self._must(made, f"map elements of {map.lens} with strides {map.strides}")
        return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)

    def _clear(self) -> None:
        self._drop_graphs()
        while module := _taken(self._modules):
            self._must(self._driver.cuModuleUnload(module), "unload a kernel")

    def _drop_graphs(self) -> None:
        while graph := _taken(self._graphs):
            self._must(self._driver.cuGraphExecDestroy(graph), "drop a graph")

    def trim(self) -> None:
        """Give idle memory, modules and graphs back to the driver."""
        self.pool.trim()
        if not self.lost:
            self._enter()
            self._clear()

    def function_facts(self, function: Any, threads: int) -> FunctionFacts:
        """Registers, memory, and the blocks that one multiprocessor holds."""
        driver = self._enter()
        names = driver.CUfunction_attribute

        def fact(name: str) -> int:
            key = getattr(names, f"CU_FUNC_ATTRIBUTE_{name}")
            result = driver.cuFuncGetAttribute(key, function.number)
            return int(self._must(result, f"query {name} of kernel {function.name}"))

        occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        blocks = self._must(
            occupancy(function.number, threads, function.dynamic),
            f"query how many blocks of kernel {function.name} fit",
        )
        return FunctionFacts(
            fact("NUM_REGS"), fact("SHARED_SIZE_BYTES"), fact("LOCAL_SIZE_BYTES"), int(blocks)
        )

    def launch(
        self,
        function: Any,
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
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
    ) -> Launch:
        """A launch with its arguments in the layout that the driver reads."""
        if shared > function.dynamic:
            self._allow(function, shared)
        kept = [_argument(argument) for argument in arguments]
        table = (ctypes.c_void_p * max(len(kept), 1))(*map(ctypes.addressof, kept))
        sizes = (*grid, *block, shared)
        run, enter, success = self._driver.cuLaunchKernel, self._enter, self._success
        number, overlapping = function.number, self._overlapping
        what = f"run kernel {function.name} on a grid of {grid} blocks of {block}"
        alive = (kept, table, function)

        def launch(stream: Stream = None) -> None:
            enter()
            queue, address = number_of(stream), ctypes.addressof(alive[1])
            if queue in overlapping:
                early = early_launch(self._driver, sizes, queue)
                result = self._driver.cuLaunchKernelEx(early, number, address, 0)
            else:
                result = run(number, *sizes, queue, address, 0)
            if result[0] is not success:
                self._must(result, what)

        return launch if all(grid) else _nothing

    def _allow(self, function: Any, shared: int) -> None:
        driver = self._enter()
        static = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        what = f"give kernel {function.name} {size_text(shared)} of shared memory"
        declared = int(self._must(driver.cuFuncGetAttribute(static, function.number), what))
        if declared + shared > _EVERY_BLOCK_HAS:
            limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._must(driver.cuFuncSetAttribute(function.number, limit, shared), what)
        function.dynamic = shared

    # Time and order

    def stream(self) -> Stream:
        """A stream that waits for no other."""
        driver = self._enter()
        if number := _taken(self._streams):
            return Handle(number, self._streams)
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        made = self._must(driver.cuStreamCreate(flag), "make a stream")
        return Handle(int(made), self._streams)

    def synchronize(self, stream: Stream = None) -> None:
        """Wait for a stream, or for all of them."""
        driver = self._enter()
        if stream is None:
            with self._captures:
                self._must(driver.cuCtxSynchronize(), "finish its work")
        else:
            self._must(driver.cuStreamSynchronize(number_of(stream)), "finish a stream")

    def record(self, stream: Stream = None) -> Event:
        """An event in the stream; unused events are recycled."""
        driver = self._enter()
        number = _taken(self._events)
        if not number:
            number = int(self._must(driver.cuEventCreate(0), "make an event"))
        event = Handle(number, self._events)
        queue = number_of(stream)
        if queue in self._capturing:  # a node of the graph, timed at each replay
            external = int(driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)
            recorded = driver.cuEventRecordWithFlags(number, queue, external)
        else:
            recorded = driver.cuEventRecord(number, queue)
        self._must(recorded, "record an event")
        return event

    def elapsed(self, first: Event, last: Event) -> float:
        """Seconds between two events; waits for the last one."""
        driver = self._enter()
        for event in (first, last):
            self._must(driver.cuEventSynchronize(event.number), "wait for an event")
        milliseconds = driver.cuEventElapsedTime(first.number, last.number)
        return 1e-3 * float(self._must(milliseconds, "time two events"))

    def wait(self, event: Event) -> None:
        """Wait for a recorded event."""
        self._must(self._enter().cuEventSynchronize(event.number), "wait for an event")

    def is_done(self, event: Event) -> bool:
        """Whether the work before a recorded event is done."""
        driver = self._enter()
        found = driver.cuEventQuery(event.number)
        if found[0] == driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        self._must(found, "ask for an event")
        return True

    @contextmanager
    def capture(self, stream: Stream, overlap: bool = False) -> Generator[list[Any]]:
        """Capture launches on the stream inside the block as a graph, the list's one element."""
        if stream is None:
            raise DeviceError(f"{self._name}: the default stream cannot be captured; use stream()")
        driver, number = self._enter(), number_of(stream)
        self._drop_graphs()  # constants that are replaced again and again leave one each time
        captured: list[Any] = []
        with self._captures, uncollected():
            self._begin(number)
            if overlap and self._overlaps:
                self._overlapping.add(number)
            try:
                yield captured
            except BaseException:
                error, graph = driver.cuStreamEndCapture(number)
                if error is self._success:
                    driver.cuGraphDestroy(graph)
                raise
            finally:
                self._capturing.discard(number)
                self._overlapping.discard(number)
            graph = self._must(driver.cuStreamEndCapture(number), "end the capture of a stream")
        made = driver.cuGraphInstantiate(graph, 0)
        driver.cuGraphDestroy(graph)
        captured.append(Handle(int(self._must(made, "make a graph")), self._graphs))

    def _begin(self, number: int) -> None:
        driver = self._driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._must(driver.cuStreamBeginCapture(number, mode), "capture a stream")
        self._capturing.add(number)

    def replay(self, graph: Any, stream: Stream = None) -> None:
        """Run a captured graph."""
        self._must(self._enter().cuGraphLaunch(graph.number, number_of(stream)), "run a graph")


def _taken(unused: list[int]) -> int:
    """An unused handle, or 0 if there is none; other threads may take one at the same time."""
    try:
        return unused.pop()
    except IndexError:
        return 0


def _argument(argument: Pointer | bytes) -> Any:
    """One argument, in memory."""
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument))
    return ctypes.c_uint64(argument)


def _nothing(stream: Stream = None) -> None:
    """A launch of no blocks."""
