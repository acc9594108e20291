"""Executions of a build: one run at a time each, several at once beside each other."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from workbench.compat.aitemplate.memory import Held, resized
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.runner import Runner
from workbench.compiler.errors import InputError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.run.lengths import KEPT, is_dynamic
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.runner import DeviceRunner
from workbench.gpu.run.runtime import Runtime


class Started(NamedTuple):
    """A run that was started."""

    event: Any
    """The event after it; None if it is done."""
    lens: list[tuple[int, ...]]
    """The lengths of each result."""


class DeviceExecution:
    """Runs a build on its device, with a runtime for each set of lengths.

    Args:
        build: The build; it may serve a range of lengths.
        outside: Parameters whose memory executions share.
    """

    def __init__(self, build: Build, outside: Collection[str]) -> None:
        """No runtime yet: the lengths are known at the first run."""
        self._build = build
        self._outside = outside
        self._is_fixed = not is_dynamic(build.source)
        self._runtimes: OrderedDict[int, tuple[Build, Runtime]] = OrderedDict()
        self._read: tuple[Runtime, Mapping[str, Held]] | None = None
        """The runtime that ran last, and the constants that it read."""

    def prepared(
        self, constants: Mapping[str, Held], inputs: Mapping[str, Any]
    ) -> tuple[Build, Runtime]:
        """The build and the runtime for the lengths of these inputs, which reads these constants."""
        build = self._build if self._is_fixed else self._for_lengths({**constants, **inputs})
        if id(build) not in self._runtimes:
            runner = build.runner
            assert isinstance(runner, DeviceRunner)
            while len(self._runtimes) >= KEPT:
                self._runtimes.popitem(last=False)[1][1].close()
            self._runtimes[id(build)] = build, runner.runtime(self._outside)
        self._runtimes.move_to_end(id(build))
        runtime = self._runtimes[id(build)][1]
        if self._read is None or self._read[0] is not runtime or self._read[1] is not constants:
            runtime.bind({n: a for n, a in constants.items() if isinstance(a, DeviceArray)})
            self._read = runtime, constants
        return build, runtime

    def _for_lengths(self, values: Mapping[str, Any]) -> Build:
        return self._build.specialised({n: _shaped(a) for n, a in values.items()})

    def start(
        self,
        constants: Mapping[str, Held],
        inputs: Mapping[str, Any],
        outputs: Sequence[Held],
        stream: Any,
        graph: bool = False,
    ) -> Started:
        """Start a run; results go to the first elements of ``outputs``."""
        build, runtime = self.prepared(constants, inputs)
        shapes = [o.shape for o in build.program.main.outputs]
        into: dict[int, DeviceArray] = {}
        for k, (array, shape) in enumerate(zip(outputs, shapes, strict=True)):
            if shape.is_dynamic:  # known when the run is done
                continue
            wanted = shape.lens
            _expect_room(
                k, array.shape.lens if isinstance(array, DeviceArray) else array.shape, wanted
            )
            part = resized(array, wanted)
            if isinstance(part, DeviceArray) and part.shape.elements:
                into[k] = part
        event = runtime.start(inputs, into, stream, graph=graph)
        lens = [s.lens for s in shapes]
        for k in (k for k, s in enumerate(shapes) if s.is_dynamic):
            value, array = np.ascontiguousarray(runtime.download(k, stream)), outputs[k]
            assert isinstance(array, DeviceArray)
            _expect_room(k, array.shape.lens, value.shape)
            if value.size:
                array.device.upload(array.pointer, value, stream)
            lens[k] = value.shape
        return Started(event, lens)

    def close(self) -> None:
        """Wait for runs, and free the memory."""
        self._read = None
        for _, runtime in self._runtimes.values():
            runtime.close()
        self._runtimes.clear()


class HostExecution:
    """Runs a build on the host; a run is done when the call returns.

    Args:
        build: The build.
    """

    def __init__(self, build: Build) -> None:
        """A runner of its own, whose buffers no other thread uses."""
        self._build = build
        self._runner: Runner = build.target.prepare(build.program)
        self._lock = Lock()

    def start(
        self,
        constants: Mapping[str, Held],
        inputs: Mapping[str, Any],
        outputs: Sequence[Held],
        stream: Any,
        graph: bool = False,
    ) -> Started:
        """Run; results go to the first elements of ``outputs``."""
        with self._lock:
            values = [np.asarray(v) for v in self._runner.run({**constants, **inputs})]
            for k, (array, value) in enumerate(zip(outputs, values, strict=True)):
                assert isinstance(array, np.ndarray)
                _expect_room(k, array.shape, value.shape)
                np.copyto(array.reshape(-1)[: value.size], value.reshape(-1))
            return Started(None, [v.shape for v in values])

    def seconds(self, inputs: Mapping[str, Any], count: int) -> list[tuple[Instruction, float]]:
        """Seconds of each instruction, the mean of several runs."""
        with self._lock:
            _, times = self._runner.profiled(inputs, count)
        if not isinstance(times, list):
            return []
        main = self._build.program.main
        ids = {i.id: i for i in main}
        return [(ids[id], float(np.mean([t[id] for t in times]))) for id in times[0] if id in ids]

    def close(self) -> None:
        """Nothing to free."""


def execution_of(build: Build, outside: Collection[str]) -> DeviceExecution | HostExecution:
    """One more execution of a build."""
    if isinstance(build.runner, DeviceRunner):
        return DeviceExecution(build, outside)
    return HostExecution(build)


def _shaped(array: Any) -> Any:
    """An array of the same shape that takes no memory, for one on a device."""
    if isinstance(array, DeviceArray):
        return np.broadcast_to(np.zeros((), array.shape.type.numpy), array.shape.lens)
    return array


def _expect_room(position: int, given: Sequence[int], wanted: Sequence[int]) -> None:
    if prod(given) < prod(wanted):
        raise InputError(
            f"output {position} is given as {list(given)}, and its value has the shape {list(wanted)}; "
            "allocate outputs at get_output_maximum_shape()"
        )
