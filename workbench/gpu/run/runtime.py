"""Runtimes: several executions of one loaded program at once, each with its own memory and stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.inputs import check_inputs
from workbench.gpu.devices.base import Event, Launch, Pointer, Stream
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.layout import laid_out
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.in_place import in_place
from workbench.gpu.run.loaded import Loaded
from workbench.gpu.run.memory import allocated
from workbench.gpu.run.ready import Ready, launches

Mark = Callable[[int, Event, Event], None]


class Runtime(Executable):
    """One of several executions of a loaded program.

    It shares kernels and constants with the others and has its own memory for inputs, values and results.
    Its runs are one after another; runs of several runtimes overlap if they are in several streams.

    Args:
        loaded: The program on the device.
        outside: Parameters that have no memory here: ``bind`` gives it.

    Raises:
        DeviceError: The device has too little memory.
    """

    def __init__(self, loaded: Loaded, outside: Collection[str] = ()) -> None:
        """Allocate memory for what is not shared."""
        self.loaded = loaded
        self.outside = {loaded.plan.parameters[n].root: n for n in outside}
        self._shapes = loaded.plan.program.parameters
        self._wanted = {n: s for n, s in self._shapes.items() if n not in outside}
        self._bound: dict[str, DeviceArray] = {}
        self._launches: list[Launch] | None = None
        self._captured: Any = None
        self._done: tuple[Stream, Event] | None = None
        """The stream of the last run, and the event after it."""
        super().__init__(loaded.plan, loaded.device, loaded.codes)

    @cached_property
    def stream(self) -> Stream:
        """The default stream of ``run``, made when it is first used."""
        return self.device.stream()

    def bind(self, arrays: Mapping[str, DeviceArray]) -> None:
        """Let runs from now on read parameters in this memory, which must stay as it is during a run.

        Args:
            arrays: An array for each parameter of ``outside``, in the layout of its shape.

        Raises:
            DeviceError: An array is missing, or has another shape.
        """
        with self._lock:
            for root, name in self.outside.items():
                array, place = arrays.get(name), self.plan.parameters[name]
                if array is None or array.shape != place.shape:
                    found = "none" if array is None else str(array.shape)
                    raise DeviceError(f"parameter {name!r}: expected {place.shape}, found {found}")
                if self._bound.get(name) is not array:
                    if self._done is not None:  # kernels may still read the memory of before
                        self.device.wait(self._done[1])
                    self._bound[name], self._pointers[root] = array, array.pointer
                    self._launches = self._captured = self._pieces = None
            if self._launches is None:
                self._ready = [self._prepare(s) for s in self.plan.steps]
                self._in_place = in_place(self.plan, self.device, self._ready, self._pointers)

    def start(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[int, DeviceArray] | None = None,
        stream: Stream = None,
        *,
        graph: bool = False,
        mark: Mark | None = None,
    ) -> Event:
        """Start a run without waiting for it; inputs and results are copied on the device.

        Args:
            inputs: An array for each parameter that is not outside: on the device, or of NumPy.
            outputs: Memory for results, by position; only these results are copied.
            stream: The stream to run in, the default one if None.
            graph: Launch all kernels as one graph, if the device has graphs and no step is on the host.
            mark: Called with the position of each timed step and the events around it; no graph is used.

        Returns:
            The event after the run.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            DeviceError: A kernel failed.
        """
        checked = self._checked(inputs)
        with self._turn(stream):
            self._hosted = self._kept(checked)
            for name, value in checked.items():
                if name in self.plan.parameters and name not in self._bound:
                    self._put(self.plan.parameters[name], inputs[name], value, stream)
            if mark is None:
                self._launch(stream, graph and self.replays)
            else:
                self._marked(stream, mark)
            for position, array in (outputs or {}).items():
                self._give(position, array, stream)
            event = self.device.record(stream)
            self._done = stream, event
            return event

    def launch(self, stream: Stream = None, *, graph: bool = False) -> Event:
        """Start a run on the inputs of the last one; returns the event after it."""
        with self._turn(stream):
            self._launch(stream, graph and self.replays)
            event = self.device.record(stream)
            self._done = stream, event
            return event

    @contextmanager
    def _turn(self, stream: Stream) -> Generator[None]:
        """Hold the memory for one run, after waiting for this runtime's last run in another stream."""
        with self._lock:
            if not self._finalizer.alive:
                raise DeviceError("the runtime was closed and its memory freed; make a new one")
            if self._done is not None and self._done[0] != stream:
                self.device.wait(self._done[1])
            self._in_flight[:] = [True]
            yield

    def close(self) -> None:
        """Wait for a run in progress, and free the memory; kernels and constants stay."""
        with self._lock:
            super().close()

    # Memory

    def _allocate(self) -> dict[Root, Pointer]:
        known = self.loaded.literals
        return allocated(self.plan, self.device, self._buffer, known, self.outside)

    def _function(self, name: str) -> Any:
        return self.loaded.function(name)

    # Runs

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs checked; those on the device by their shapes only."""
        if self._fit(inputs):
            return dict(inputs)
        shapes = self._shapes
        given: dict[str, Any] = {
            n: _like(shapes[n].type.numpy, shapes[n].lens) for n in self._bound
        }
        for name, value in inputs.items():
            if isinstance(value, DeviceArray) and value.shape.standard:
                given[name] = _like(value.shape.type.numpy, value.shape.lens)
            else:
                given[name] = value
        return check_inputs(self.plan.program, given)

    def _fit(self, inputs: Mapping[str, Any]) -> bool:
        """Whether all inputs are on the device as they should be; other ones are looked at more closely."""
        wanted = self._wanted
        return (
            inputs.keys() == wanted.keys()
            and len(self._bound) == len(self.outside)
            and all(_is_there(inputs[n], s) for n, s in wanted.items())
        )

    def _put(self, place: Place, given: Any, value: Any, stream: Stream) -> None:
        to = self._pointers[place.root]
        if isinstance(given, DeviceArray) and given.shape.standard and place.shape.standard:
            self.device.copy(to, given.pointer, place.shape.bytes, stream)
            return
        host = given.numpy(stream) if isinstance(given, DeviceArray) else np.asarray(value)
        if host.size:
            self.device.upload(to, laid_out(host, place.shape), stream)

    def _give(self, position: int, to: DeviceArray, stream: Stream) -> None:
        """Copy a result into row-major memory; by way of the host if its layout differs."""
        places = self.plan.outputs[position]
        if len(places) == 1 and places[0].shape.standard and not places[0].offset:
            (place,) = places
            self.device.copy(to.pointer, self._at(place.root), place.shape.bytes, stream)
            return
        value = np.ascontiguousarray(self.download(position, stream))
        if value.size:
            self.device.upload(to.pointer, value, stream)

    def _launch(self, stream: Stream, graph: bool) -> None:
        if not self.plan.is_fixed:
            self._steps(self._ready, stream)
            return
        if self._launches is None:
            self._launches = [_launch(r) for one in self._ready for _, r in launches(one)]
        if not graph:
            for launch in self._launches:
                launch(stream)
            return
        if self._captured is None:
            stream_of_captures = self.loaded.captures
            with self.device.capture(stream_of_captures, overlap=True) as captured:
                for launch in self._launches:
                    launch(stream_of_captures)
            self._captured = captured[0]
        self.device.replay(self._captured, stream)

    def _marked(self, stream: Stream, mark: Mark) -> None:
        for row, _, launch in self.each():
            before = self.device.record(stream)
            launch(stream)
            mark(row, before, self.device.record(stream))


def _launch(ready: Ready) -> Launch:
    """The launch of a kernel, all of whose memory is bound."""
    assert ready.launch is not None
    return ready.launch


def _is_there(value: Any, shape: Shape) -> bool:
    if not isinstance(value, DeviceArray):
        return False
    found = value.shape
    return found.type is shape.type and found.lens == shape.lens and found.standard


def _like(type: Any, lens: Sequence[int]) -> Array:
    """An array of a type and shape that takes no memory."""
    return np.broadcast_to(np.zeros((), type), lens)
