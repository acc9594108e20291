"""OpenCL through pyopencl: any vendor's GPU, and with PoCL's wheel the CPU of any Linux machine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.gpu.devices.base import (
    Code,
    Compiler,
    Device,
    DeviceFacts,
    Event,
    FunctionFacts,
    Launch,
    Pointer,
    Stream,
    raw,
)
from workbench.gpu.devices.messages import OPENCL_ADVICE, OPENCL_NO_ROOM
from workbench.gpu.devices.opencl_compiler import OpenCLCompiler, build
from workbench.gpu.devices.opencl_platforms import (
    facts_of,
    is_pocl,
    present,
    pyopencl_module,
)
from workbench.gpu.devices.pocl import Trial
from workbench.gpu.devices.pocl_processor import recognise
from workbench.gpu.devices.pool import ALIGNMENT, Buffer, Pool, size_text

_PAGE = 4096
_WIDE = np.zeros(16, np.uint8)


def found() -> list[DeviceFacts]:
    """The properties of each OpenCL device.

    Raises:
        DeviceError: There is none; the message says what is missing.
    """
    return [facts_of(device) for device in present()]


def opened(index: int) -> OpenCLDevice:
    """The device of that index.

    Raises:
        DeviceError: There is none, or it cannot be used.
    """
    return OpenCLDevice(index)


def compiler(arch: str) -> Compiler:
    """Refuse: OpenCL has no compiler without a device.

    Raises:
        DeviceError: Always.
    """
    raise DeviceError(
        f"opencl:{arch}: OpenCL compiles only for devices that are present; choose one by its index, "
        "as in opencl:0"
    )


class _Function:
    """A kernel. Its arguments are part of its state, so a lock guards setting them."""

    def __init__(self, program: Any, name: str) -> None:
        self.program = program
        self.name = name
        self.kernel = self.another()
        self.turn = Lock()

    def another(self) -> Any:
        """A copy of the kernel with its own arguments."""
        return pyopencl_module().Kernel(self.program, self.name)


class _Queue:
    """An in-order queue that times its commands."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.kernel: Event = None
        """The event of the last command, if that was a kernel."""


def _in_host_memory(context: Any, size: int) -> Any:
    """A buffer that is an array of the host's, which PoCL's kernels use where it is."""
    cl = pyopencl_module()
    whole = np.empty(size + _PAGE, np.uint8)
    start = -whole.ctypes.data % _PAGE
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=whole[start : start + size])


class OpenCLDevice(Device):
    """An OpenCL device; a pointer is a memory object, and a stream an in-order queue.

    Args:
        index: The index of the device among those that are present.
        optimize: Let the driver's compiler optimize kernels; PoCL compiles three times faster without.
    """

    kind = "opencl"

    def __init__(self, index: int = 0, optimize: bool = True) -> None:
        """Open a device.

        Raises:
            DeviceError: There is no device of that index, or it cannot be used.
        """
        cl = pyopencl_module()
        devices = present()
        if not 0 <= index < len(devices):
            known = ", ".join(f"opencl:{k} ({facts_of(d).name})" for k, d in enumerate(devices))
            raise DeviceError(f"there is no opencl:{index}; there is {known}")
        self.index = index
        self.device = devices[index]
        self.facts = facts_of(self.device)
        self._trial: Trial | None = None
        if is_pocl(self.device):
            version = f"{self.device.platform.version} {self.device.driver_version}"
            self._trial = Trial(version, self.device.name)
            recognise(self.device)
        self._is_here = is_pocl(self.device) and self.facts.processor == "CPU"
        """Whether its memory is the host's, so that copies need no command."""
        self._name = f"opencl:{index} ({self.facts.name})"
        if self.device.mem_base_addr_align > 8 * ALIGNMENT:
            raise DeviceError(
                f"{self._name}: the device aligns sub-buffers to "
                f"{self.device.mem_base_addr_align // 8} bytes; expected at most {ALIGNMENT}"
            )
        with self._doing("open it"):
            self._context = cl.Context([self.device])
            self._queues: WeakSet[_Queue] = WeakSet()
            self._default = self._new_queue()
        self.compiler = OpenCLCompiler(
            self._context, self.device, self.facts, optimize, self._trial
        )
        # A runtime may allocate memory that it does not have, and fail when the memory is written.
        self.pool = Pool(self._name, self._take, self._give, capacity=self.facts.memory)

    def confirm(self, wait: bool = True) -> bool:
        """Whether PoCL has been tried."""
        if self._trial is not None and wait:
            self._trial.confirm()
        return self._trial is None or self._trial.is_over

    @contextmanager
    def _doing(self, what: str) -> Generator[None]:
        """Raise errors of the runtime with the action that failed."""
        if self.lost:
            raise DeviceError(self.lost)
        try:
            yield
        except pyopencl_module().Error as error:
            raise self._error(error, what) from error

    def _error(self, error: Any, what: str) -> DeviceError:
        code = pyopencl_module().status_code.to_string(error.code, f"error {error.code}")
        advice = f"; {OPENCL_ADVICE[code]}" if code in OPENCL_ADVICE else ""
        return DeviceError(f"{self._name}: could not {what}: {code} from {error.routine}{advice}")

    # Memory

    def _take(self, size: int) -> Any | None:
        cl = pyopencl_module()
        if self.lost:
            raise DeviceError(self.lost)
        try:
            if self._is_here:
                return _in_host_memory(self._context, size)
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        except MemoryError:
            return None
        except cl.Error as error:
            code = cl.status_code.to_string(error.code, "")
            if code == "INVALID_BUFFER_SIZE":
                raise DeviceError(
                    f"{self._name} is out of memory: a buffer of {size_text(size)} requested, "
                    f"at most {size_text(self.device.max_mem_alloc_size)} possible; "
                    "use a smaller batch, or choose another device"
                ) from error
            if code in OPENCL_NO_ROOM:
                return None
            raise self._error(error, f"allocate {size_text(size)}") from error

    def _give(self, memory: Any) -> None:
        memory.release()

    def pointer(self, buffer: Buffer, offset: int, bytes: int) -> Pointer:
        """A sub-buffer, or the buffer itself if the part starts at offset 0 or is empty."""
        self.pool.part(buffer, offset, bytes)
        if offset == 0 or bytes == 0:
            return buffer.memory
        with self._doing(f"make a sub-buffer of {size_text(bytes)} at byte {offset}"):
            return buffer.memory.get_sub_region(offset, bytes)

    def upload(self, pointer: Pointer, array: Array, stream: Stream = None) -> None:
        """Copy a contiguous array to the device."""
        data = raw(array, self._name)
        if data.size:
            with self._doing(f"copy {size_text(data.size)} to it"):
                if self._is_here:
                    self._here(pointer, data, stream)[:] = data
                    return
                pyopencl_module().enqueue_copy(self._queue(stream), pointer, data, is_blocking=True)

    def download(self, array: Array, pointer: Pointer, stream: Stream = None) -> None:
        """Copy to a contiguous array."""
        data = raw(array, self._name)
        if data.size:
            with self._doing(f"copy {size_text(data.size)} from it"):
                if self._is_here:
                    data[:] = self._here(pointer, data, stream)
                    return
                pyopencl_module().enqueue_copy(self._queue(stream), data, pointer, is_blocking=True)

    def in_place(self, pointer: Pointer, bytes: int) -> Array | None:
        """The memory itself with PoCL on a CPU."""
        return pointer.get_host_array((bytes,), np.dtype(np.uint8)) if self._is_here else None

    def _here(self, pointer: Pointer, data: Array, stream: Stream) -> Array:
        """The first bytes of what a pointer points to, once the stream's commands are done."""
        self._queue(stream).finish()
        return pointer.get_host_array(data.shape, data.dtype)

    def copy(self, to: Pointer, source: Pointer, bytes: int, stream: Stream = None) -> None:
        """Copy on the device."""
        if bytes:
            with self._doing(f"copy {size_text(bytes)} on it"):
                pyopencl_module().enqueue_copy(self._queue(stream), to, source, byte_count=bytes)

    def fill(self, pointer: Pointer, bytes: int, value: int = 0, stream: Stream = None) -> None:
        """Set each byte to a value, 16 at a time and then the rest."""
        cl, queue = pyopencl_module(), self._queue(stream)
        whole = bytes - bytes % _WIDE.size
        with self._doing(f"fill {size_text(bytes)} of it"):
            if whole:
                cl.enqueue_fill_buffer(queue, pointer, _WIDE + np.uint8(value), 0, whole)
            if whole < bytes:
                cl.enqueue_fill_buffer(queue, pointer, np.uint8(value), whole, bytes - whole)

    # Code

    def load(self, code: Code, name: str) -> Any:
        """The kernel of a program's binary."""
        cl = pyopencl_module()
        with self._doing(f"load kernel {name}"):
            program = cl._cl._Program(self._context, [self.device], [code.binary])
            build(program, self.device, "")
            return _Function(cl.Program(program), name)

    def function_facts(self, function: Any, threads: int) -> FunctionFacts:
        """Local and private memory, which is all that OpenCL reports."""
        info = pyopencl_module().kernel_work_group_info
        with self._doing(f"query kernel {function.name}"):
            asked = [
                function.kernel.get_work_group_info(key, self.device)
                for key in (info.LOCAL_MEM_SIZE, info.PRIVATE_MEM_SIZE)
            ]
        return FunctionFacts(shared=int(asked[0]), local=int(asked[1]))

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
        stream: Stream = None,
    ) -> None:
        """Set the arguments, and run a kernel."""
        with function.turn:
            self._prepared(function, function.kernel, grid, block, shared, arguments)(stream)

    def prepare(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
    ) -> Launch:
        """A launch of a copy of the kernel with these arguments set."""
        with self._doing(f"prepare kernel {function.name}"):
            kernel = function.another()
        return self._prepared(function, kernel, grid, block, shared, arguments)

    def _prepared(
        self,
        function: Any,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Pointer | bytes],
    ) -> Launch:
        if shared:
            raise DeviceError(
                f"{self._name}: kernel {function.name} needs {shared} bytes of dynamic shared "
                "memory; an OpenCL kernel has only the shared memory that it declares"
            )
        with self._doing(f"set the arguments of kernel {function.name}"):
            for k, argument in enumerate(arguments):
                kernel.set_arg(k, argument)
        items = tuple(g * b for g, b in zip(grid, block, strict=True))
        enqueue, queue_of = pyopencl_module().enqueue_nd_range_kernel, self._queue_of
        failed = pyopencl_module().Error
        what = f"run kernel {function.name} on a grid of {grid} blocks of {block}"

        def launch(stream: Stream = None) -> None:
            try:
                one = queue_of(stream)
                one.kernel = enqueue(one.queue, kernel, items, block)
            except failed as error:
                raise self._error(error, what) from error

        return launch if all(items) else _nothing

    # Time and order

    def _new_queue(self) -> _Queue:
        cl = pyopencl_module()
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        queue = _Queue(cl.CommandQueue(self._context, self.device, properties=profiling))
        self._queues.add(queue)
        return queue

    def _queue_of(self, stream: Stream) -> _Queue:
        if self.lost:
            raise DeviceError(self.lost)
        return self._default if stream is None else stream

    def _queue(self, stream: Stream) -> Any:
        """The queue of a stream, for a command that is not a kernel."""
        one = self._queue_of(stream)
        one.kernel = None
        return one.queue

    def stream(self) -> Stream:
        """A new queue."""
        with self._doing("make a stream"):
            return self._new_queue()

    def synchronize(self, stream: Stream = None) -> None:
        """Wait for a queue, or for all of them."""
        with self._doing("finish its work"):
            for one in [stream] if stream is not None else list(self._queues):
                one.queue.finish()

    def record(self, stream: Stream = None) -> Event:
        """The event of the last kernel, which is free, or else a marker."""
        one = self._queue_of(stream)
        if (last := one.kernel) is not None:  # read once, since other threads set it
            return last
        with self._doing("record an event"):
            return pyopencl_module().enqueue_marker(one.queue)

    def elapsed(self, first: Event, last: Event) -> float:
        """Seconds between the ends of two kernels or markers."""
        return self._between(first, last, pyopencl_module().profiling_info.END)

    def begun(self, base: Event, before: Event, event: Event) -> float:
        """Seconds until the kernel began, as the queue has noted it."""
        return self._between(base, event, pyopencl_module().profiling_info.START)

    def _between(self, first: Event, last: Event, what: Any) -> float:
        end = pyopencl_module().profiling_info.END
        with self._doing("time two events"):
            last.wait()
            first.wait()
            return 1e-9 * (last.get_profiling_info(what) - first.get_profiling_info(end))

    def wait(self, event: Event) -> None:
        """Wait for a kernel or a marker."""
        with self._doing("wait for an event"):
            event.wait()

    def is_done(self, event: Event) -> bool:
        """Whether a kernel or a marker is done; its queue is flushed, so that it will be."""
        info = pyopencl_module().event_info
        with self._doing("ask for an event"):
            event.get_info(info.COMMAND_QUEUE).flush()
            return event.get_info(info.COMMAND_EXECUTION_STATUS) <= 0  # done, or failed


def _nothing(stream: Stream = None) -> None:
    """A launch of no blocks."""
