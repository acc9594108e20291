"""A plan loaded on a device: kernels loaded, constants uploaded, ready to run any number of times."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.progress import is_followed, progress_bar
from workbench.compiler.run.inputs import by_name, check_inputs
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.results import as_result
from workbench.gpu.code.cache import compiled
from workbench.gpu.devices.base import Code, Device, Pointer, Stream
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.layout import laid_out, seen_as
from workbench.gpu.lowering.plan import (
    BranchStep,
    CollectiveStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
    apart,
    padded,
)
from workbench.gpu.run.collectives import exchange, settle
from workbench.gpu.run.device_array import DeviceArray, borrowed
from workbench.gpu.run.in_place import in_place
from workbench.gpu.run.lent import copies_pay, results_of
from workbench.gpu.run.memory import allocated, free_all
from workbench.gpu.run.pieces import Pieces
from workbench.gpu.run.ready import Preparation, Ready, failed, iterations, launches, swapped, uses

Hook = Callable[[Instruction, Any], Any]
"""A function called after each instruction that computes something, with its value.

The run continues with the value that it returns instead, if it returns one.
"""
_IDLE = object()
"""Stands for the stream of the last run if there was no run."""


class Executable:
    """Runs a plan on a device, one run at a time: memory is allocated once.

    Args:
        plan: The plan.
        device: The device.
        codes: The machine code of the plan's kernels; by default they are compiled.

    Raises:
        DeviceError: A kernel does not compile, or the device has too little memory.
    """

    def __init__(self, plan: Plan, device: Device, codes: Mapping[str, Code] | None = None) -> None:
        """Load the kernels, allocate, upload the constants."""
        self.plan = plan
        self.device = device
        kernels = (s.launch.kernel for s in plan.kernels)
        self._codes = compiled(kernels, device.compiler) if codes is None else codes
        self._functions: dict[str, Any] = {}
        self._last = {s.instruction.id: s for s in plan.steps}
        self._lock = RLock()
        self._used: object = _IDLE
        """The stream of the last run."""
        self._buffers: list[Any] = []
        self._in_flight: list[bool] = []
        """Holds True while a run may not be done whose end nothing waited for."""
        self._finalizer = weakref.finalize(self, free_all, device, self._buffers, self._in_flight)
        self._interpreter = PlannedInterpreter(plan.program)
        self._pieces: Pieces | None = None
        self._written = {r for s in plan.kernels for r in s.launch.writes}
        self._hosted: dict[int, Any] = {}
        """Values that the host keeps during a run, by the instruction's id."""
        self._lent: dict[Root, Pointer] = {}
        """Memory that a run without copies uses instead of the executable's own."""
        self._renamed: Mapping[Root, Root] = {}
        """The memory that an odd iteration of a loop uses instead, while one is run."""
        self._updates: dict[str, int] = {}
        self._moves: list[tuple[Pointer, Pointer, int]] = []
        """Copies from outputs to the parameters that they replace, with their bytes."""
        self._through_host: dict[str, int] = {}
        """The parameters that are replaced by way of the host, as positions of outputs."""
        try:
            self._pointers = self._allocate()
            self._ready = [self._prepare(s) for s in plan.steps]
            self._in_place = in_place(plan, device, self._ready, self._pointers)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Wait for what runs, and free the memory; the executable cannot run any more."""
        self._finalizer()

    @cached_property
    def stream(self) -> Stream:
        """The default stream of runs, made when it is first used."""
        return self.device.stream() if self.replays or self.plan.collectives else None

    # Setting up

    def _allocate(self) -> dict[Root, Pointer]:
        return allocated(self.plan, self.device, self._buffer)

    def _buffer(self, bytes: int) -> Any:
        made = self.device.allocate(padded(bytes))
        self._buffers.append(made)
        return made

    def _prepare(self, step: Step, pointers: Mapping[Root, Pointer] | None = None) -> Ready:
        """A step made ready for all runs, or for one in which some memory is elsewhere."""
        known = {**self._pointers, **(pointers or {})}
        at, many = known.__getitem__, pointers is None
        return Preparation(self.device, self._function, at, many).of(step)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self.device.load(self._codes[name], name)
        return self._functions[name]

    # Running

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        hook: Hook | None = None,
        stream: Stream = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the program's outputs.

        Args:
            inputs: An array for each parameter, by name.
            hook: Called after each instruction that is computed; slow, because its value is copied back.
            stream: The stream to run in.
            progress: Show a progress bar; None shows one after the first second.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            DeviceError: A kernel failed.
        """
        given, direct = inputs or {}, self._in_place
        is_known = direct is not None and direct.fits(given)
        checked = given if is_known else check_inputs(self.plan.program, given)
        stream = stream or self.stream
        with self._turn(stream):
            if hook is None and self._in_place is not None and not is_followed(progress):
                return self._in_place.run(checked, stream)
            self._hosted = self._kept(checked)
            for name in self.plan.parameters:
                self.upload(name, checked[name], stream)
            if hook is None and self.replays:
                self._launch_all(stream)
            else:
                with progress_bar(self._ready, progress, "run") as steps:
                    self._steps(steps, stream, hook)
            return [self.download(k, stream) for k in range(len(self.plan.outputs))]

    def keep(self, updates: Mapping[str, int]) -> None:
        """Let outputs replace parameters at the end of each run, before the first one.

        Args:
            updates: The parameters, by name, as positions of the outputs that replace them.
        """
        self._updates, self._in_place = dict(updates), None
        plan = self.plan
        roots = {plan.parameters[n].root for n in updates}
        for name, k in updates.items():
            places, target = plan.outputs[k], plan.parameters[name]
            alike = len(places) == 1 and places[0].shape == target.shape and not places[0].offset
            if alike and not any(p.root in roots for ps in plan.outputs for p in ps):
                bytes = target.shape.element_space * target.shape.type.size
                move = self._pointers[target.root], self._pointers[places[0].root], bytes
                self._moves.append(move)
            else:  # an output in a parameter's memory must be read before the memory changes
                self._through_host[name] = k

    def advance(self, inputs: Mapping[str, Any], wanted: Sequence[int]) -> list[Any]:
        """Run on the parameters that ``keep`` named as they are, and replace them.

        Args:
            inputs: An array for each other parameter.
            wanted: Positions of the outputs to return.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            DeviceError: A kernel failed.
        """
        shapes = self.plan.program.parameters
        there = {
            n: np.broadcast_to(np.zeros((), shapes[n].type.numpy), shapes[n].lens)
            for n in self._updates
        }
        checked = check_inputs(self.plan.program, {**there, **inputs})
        with self._turn(self.stream):
            self._hosted = self._kept(checked)
            for name in self.plan.parameters:
                if name not in self._updates:
                    self.upload(name, checked[name], self.stream)
            self._launch_all(self.stream)
            outputs = [self.download(k, self.stream) for k in wanted]
            late = {n: self.download(k, self.stream) for n, k in self._through_host.items()}
            for name, array in late.items():
                self.upload(name, array, self.stream)
            return outputs

    def parameter(self, name: str) -> Array:
        """A copy of the value that a parameter has on the device."""
        with self._turn(self.stream):
            return np.array(self._value(self.plan.parameters[name], self.stream))

    @contextmanager
    def _turn(self, stream: Stream) -> Generator[None]:
        """Hold the memory for one run, after waiting for the last run in another stream.

        Raises:
            DeviceError: The executable was closed.
        """
        with self._lock:
            if not self._finalizer.alive:
                raise DeviceError("the executable was closed and its memory freed; make a new one")
            if self._used is not _IDLE and self._used != stream:
                self.device.synchronize()
            self._used = stream
            yield

    @cached_property
    def replays(self) -> bool:
        """Whether runs after the first replay graphs of launches: of all, or of those between collectives."""
        fits = self.plan.is_fixed or bool(self.plan.collectives)
        return self.device.has_graphs and fits and bool(self.plan.steps)

    def _launch_all(self, stream: Stream) -> None:
        """Run; the second run captures launches as graphs, which later runs replay."""
        if self.replays:
            self._pieces = self._pieces or Pieces(self._ready, self.plan.is_fixed)
            self._pieces.run(self.device, self._steps, self.stream, stream)
        else:
            self._steps(self._ready, stream)
        settle(stream)

    def again(self, stream: Stream = None) -> None:
        """Launch all kernels of a run on the inputs of the last one, without waiting and without copies.

        Args:
            stream: The stream to run in; by default the one that graphs are captured in.
        """
        stream = stream or self.stream
        with self._turn(stream):
            self._in_flight[:] = [True]
            self._launch_all(stream)

    def wait(self) -> None:
        """Wait for what ``again`` launched."""
        self.device.synchronize(self.stream)

    def run_async(
        self, inputs: Mapping[str, Any] | None = None, stream: Stream = None
    ) -> list[DeviceArray]:
        """Start a run without waiting for it; results are on the device, in new memory.

        Args:
            inputs: An array for each parameter, by name. Arrays may be on the device already (a
                ``DeviceArray``, a torch tensor, anything with ``__cuda_array_interface__``). They are read
                where they are, or copied on the device if that is little beside the launches of the run,
                which a graph then replays.
            stream: The stream to run in; put work that depends on the run in the same one.

        Returns:
            An array for each output. ``array.numpy()`` waits for it.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            DeviceError: A result stays on the host, because its lengths are known only at run time.
        """
        given = by_name(inputs)
        with self._turn(stream):
            self._in_flight[:] = [True]
            lent = self._borrowed(given, stream)
            if self.replays and not self._updates and copies_pay(self.plan, lent, self._written):
                return self._replayed(lent, stream)
            bound = self._lent = {root: array.pointer for root, array in lent.items()}
            try:
                results = results_of(self.plan, self.device, bound, lent, self._written)
                for ready in self._ready:
                    step = ready.step
                    self._do(self._prepare(step, bound) if uses(step, bound) else ready, stream)
            finally:
                self._lent = {}
            for array, place in results:
                if place.root not in bound or bound[place.root] is not array.pointer:
                    source = bound.get(place.root, self._pointers[place.root])
                    self.device.copy(array.pointer, source, place.end, stream)
            return [a for a, _ in results]

    def _replayed(self, lent: Mapping[Root, DeviceArray], stream: Stream) -> list[DeviceArray]:
        """Results of a run on copies of the arrays that are lent, so that its graph can be replayed."""
        results = results_of(self.plan, self.device, {}, {}, self._written)
        for place in self.plan.parameters.values():
            if place.root in lent:
                pointer = lent[place.root].pointer
                self.device.copy(self._pointers[place.root], pointer, place.end, stream)
        self._launch_all(stream)
        for array, place in results:
            self.device.copy(array.pointer, self._pointers[place.root], place.end, stream)
        return [array for array, _ in results]

    def _borrowed(self, given: dict[str, Any], stream: Stream) -> dict[Root, DeviceArray]:
        """The parameters that are on the device already; the others are copied to it."""
        bound: dict[Root, DeviceArray] = {}
        for name, place in self.plan.parameters.items():
            array = borrowed(given[name], self.device, name) if name in given else None
            if array is not None and array.shape == place.shape:
                bound[place.root] = array
                given[name] = np.empty(
                    place.shape.lens, place.shape.type.numpy
                )  # only checks the input
        checked = check_inputs(self.plan.program, given)
        self._hosted = self._kept(checked)
        for name, place in self.plan.parameters.items():
            if place.root not in bound and place.shape.elements:
                flat = laid_out(np.asarray(checked[name]), place.shape)
                self.device.upload(self._pointers[place.root], flat, stream)
        return bound

    def _kept(self, inputs: Mapping[str, Any]) -> dict[int, Any]:
        """The inputs that stay on the host, by the parameter's id: sequences and optionals."""
        parameters = self.plan.program.main.parameters.items()
        return {i.id: inputs[n] for n, i in parameters if n not in self.plan.parameters}

    def _steps(
        self, steps: Any, stream: Stream, hook: Hook | None = None, *, is_last: bool = True
    ) -> None:
        for ready in steps:
            self._do(ready, stream)
            if hook is not None:
                self._tell(ready.step, hook, stream)
        for to, source, bytes in self._moves if is_last else ():
            self.device.copy(to, source, bytes, stream)

    def _do(self, ready: Ready, stream: Stream) -> None:
        step = ready.step
        if isinstance(step, KernelStep):
            self._start(ready, step, stream)
        elif isinstance(step, BranchStep):
            chosen = 0 if self._number(step.condition, stream) else 1
            for inner in ready.branches[chosen]:
                self._do(inner, stream)
        elif isinstance(step, LoopStep):
            self._repeat(ready, step, stream)
        elif isinstance(step, CollectiveStep):
            exchange(step, self.device, self._at, stream)
        else:
            self._on_host(step, stream)

    def _start(self, ready: Ready, step: KernelStep, stream: Stream) -> None:
        kernel = step.launch.kernel
        try:
            if ready.launch is not None:
                ready.launch(stream)
            else:
                sizes = kernel.grid, kernel.block, kernel.shared
                self.device.launch(ready.function, *sizes, ready.arguments, stream)
        except DeviceError as error:
            raise failed(step, error) from error

    def _repeat(self, ready: Ready, step: LoopStep, stream: Stream) -> None:
        """Run a loop: the host starts the kernels of each iteration, and reads what only the run knows."""
        outer = self._renamed
        odd = swapped(step, outer)
        done = 0
        try:
            for number in iterations(step, lambda place: self._number(place, stream)):
                for inner in ready.branches[number % 2]:
                    self._do(inner, stream)
                done = number + 1
                self._renamed = odd if done % 2 else outer
            for inner in ready.branches[2 + done % 2]:
                self._do(inner, stream)
        finally:
            self._renamed = outer

    def _number(self, place: Place, stream: Stream) -> Any:
        """The first element of a value."""
        flat = np.empty(place.offset + 1, place.shape.type.numpy)
        self._read(flat, place.root, stream)
        return flat[place.offset]

    def _tell(self, step: Step, hook: Hook, stream: Stream) -> None:
        """Call the hook with the value, if the step is the last one of its instruction."""
        places = self.plan.values.get(step.instruction.id)
        if places and step is self._last[step.instruction.id]:
            replaced = hook(step.instruction, self._whole(places, stream))
            if replaced is not None:
                self._overwrite(places, replaced, stream)

    def _overwrite(self, places: Sequence[Place], value: Any, stream: Stream) -> None:
        """Put another value into memory; what else lies between its elements stays."""
        parts: Sequence[Any] = (value,) if len(places) == 1 else value
        for part, place in zip(parts, places, strict=True):
            if place.shape.elements:
                flat = np.empty(place.offset + place.shape.element_space, place.shape.type.numpy)
                self._read(flat, place.root, stream)
                seen_as(flat, place.shape, place.offset)[...] = part
                self.device.upload(self._at(place.root), flat, stream)

    def _on_host(self, step: HostStep, stream: Stream) -> None:
        env = {i.id: self._fetched(i, ps, stream) for i, ps in step.reads}
        value = self._interpreter.step(step.instruction, env)
        if not step.writes:
            self._hosted[step.instruction.id] = value
            return
        parts = value if isinstance(value, tuple) else (value,)
        for part, place in zip(parts, step.writes, strict=True):
            if place.shape.elements:
                flat = laid_out(np.asarray(part), place.shape)
                self.device.upload(self._at(place.root), flat, stream)

    def _at(self, root: Root) -> Pointer:
        root = self._renamed.get(root, root)
        return self._lent[root] if root in self._lent else self._pointers[root]

    def _fetched(self, instruction: Instruction, places: Sequence[Place], stream: Stream) -> Any:
        return self._whole(places, stream) if places else self._hosted[instruction.id]

    def _whole(self, places: Sequence[Place], stream: Stream) -> Any:
        values = tuple(self._value(p, stream) for p in places)
        return values[0] if len(values) == 1 else values

    def _value(self, place: Place, stream: Stream) -> Array:
        """A value, copied from the device."""
        shape = place.shape
        if not shape.elements:
            return np.empty(shape.lens, shape.type.numpy)
        flat = np.empty(place.offset + shape.element_space, shape.type.numpy)
        self._read(flat, place.root, stream)
        return seen_as(flat, shape, place.offset)

    def _read(self, flat: Array, root: Root, stream: Stream) -> None:
        settle(stream)
        self.device.download(flat, self._at(root), stream)

    # For profiles

    def launches(self) -> Iterator[tuple[Step, Callable[[Stream], None]]]:
        """Each step, with the function that runs it."""
        for ready in self._ready:
            yield ready.step, lambda stream, ready=ready: self._do(ready, stream)

    def each(self) -> Iterator[tuple[int, Step, Callable[[Stream], None]]]:
        """Each launch: its position among the plan's ``timed`` steps, the step, and what starts it."""
        row = 0
        for ready in self._ready:
            for at, one in launches(ready, row):
                yield at, one.step, lambda stream, one=one: self._do(one, stream)
            row += sum(1 for _ in apart(ready.step))

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the executable exclusively, after waiting for a run in progress."""
        with self._lock:
            if self._used is not _IDLE:
                self.device.synchronize()
            self._used = _IDLE
            yield

    def upload(self, name: str, array: Any, stream: Stream = None) -> None:
        """Copy the value of a parameter to the device."""
        place, value = self.plan.parameters[name], np.asarray(array)
        if value.size:
            self.device.upload(self._pointers[place.root], laid_out(value, place.shape), stream)

    def download(self, output: int, stream: Stream = None) -> Any:
        """Copy the value of an output from the device."""
        instruction = self.plan.program.main.outputs[output]
        value = self._fetched(instruction, self.plan.outputs[output], stream)
        return as_result(value, instruction.shape)
