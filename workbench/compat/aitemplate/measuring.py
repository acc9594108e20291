"""The methods of a model that measure its runs: ``benchmark`` and ``profile``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compat.aitemplate.base import Base
from workbench.compat.aitemplate.data import AITData
from workbench.compat.aitemplate.errors import RUN, AITemplateError, named
from workbench.compat.aitemplate.execution import DeviceExecution
from workbench.compat.aitemplate.memory import Held, on_host
from workbench.compat.aitemplate.signature import facts_of, in_order
from workbench.compat.aitemplate.tensors import cut
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.gpu.run.runtime import Mark, Runtime

_SLAB = 128 << 20
"""Bytes that are written before each timed call: more than any cache holds."""


class Measuring(Base):
    """Times of whole runs, and of each operation."""

    def benchmark(
        self,
        inputs: Any,
        outputs: Any,
        stream_ptr: Any = None,
        graph_mode: bool = False,
        count: int = 10,
        repeat: int = 1,
        num_threads: int = 1,
        use_unique_stream_per_thread: bool = False,
    ) -> tuple[float, float, dict[str, AITData]]:
        """Time runs.

        Args:
            inputs: As for ``run``.
            outputs: As for ``run``.
            stream_ptr: The stream.
            graph_mode: Launch all kernels at once, where the device has graphs.
            count: Runs that are timed together.
            repeat: Times that this is done.
            num_threads: Threads that do it at once; 0 stands for the number of processors.
            use_unique_stream_per_thread: Give each thread a stream of its own.

        Returns:
            The mean and the standard deviation of a run in milliseconds, and the outputs.

        Raises:
            RuntimeError: As for ``run``, or the outputs of two threads differ.
        """
        self._open()
        with named(RUN):
            given = self._inputs_at(in_order(inputs, self._inputs, "input"))
            data: list[AITData] = in_order(outputs, self._outputs, "output")
            into = self._outputs_at(data)
            mean, deviation, lens = self._timed(
                given, into, stream_ptr, graph_mode, count, repeat, num_threads,
                use_unique_stream_per_thread,
            )  # fmt: skip
        triples = zip(self._outputs, data, lens, strict=True)
        return mean, deviation, {p.name: AITData(d[0], list(n), d[2]) for p, d, n in triples}

    def benchmark_with_tensors(
        self,
        inputs: Any,
        outputs: Any,
        stream_ptr: Any = None,
        graph_mode: bool = False,
        count: int = 10,
        repeat: int = 1,
        num_threads: int = 1,
        use_unique_stream_per_thread: bool = False,
    ) -> tuple[float, float, dict[str, Any]]:
        """Time runs on tensors, which are copied to the device once; see ``benchmark``."""
        self._open()
        with named(RUN):
            tensors = in_order(outputs, self._outputs, "output")
            given = self._there(self._seen(in_order(inputs, self._inputs, "input"), "inputs"))
            seen = self._seen(tensors, "outputs")
            into = [self._target(a) for a in seen]
            mean, deviation, lens = self._timed(
                given, into, stream_ptr, graph_mode, count, repeat, num_threads,
                use_unique_stream_per_thread,
            )  # fmt: skip
            for array, target, n in zip(seen, into, lens, strict=True):
                if array is not target:
                    part: Any = cut(array, n)
                    part[...] = on_host(cut(target, n))
        return mean, deviation, {
            p.name: cut(t, n) for p, t, n in zip(self._outputs, tensors, lens, strict=True)
        }  # fmt: skip

    def _timed(
        self,
        inputs: Sequence[Held],
        outputs: Sequence[Held],
        stream_ptr: Any,
        graph_mode: bool,
        count: int,
        repeat: int,
        threads: int,
        unique: bool,
    ) -> tuple[float, float, list[tuple[int, ...]]]:
        for k, (param, array) in enumerate(zip(self._inputs, inputs, strict=True)):
            self._expect(k, param, *facts_of(array))
        if count < 1 or repeat < 1:
            raise AITemplateError(RUN, f"count {count} and repeat {repeat}; expected at least 1")
        threads = threads or os.cpu_count() or 1
        device = self._memory.device
        clones = [outputs] + [
            [self._memory.new(*facts_of(o)) for o in outputs] for _ in range(threads - 1)
        ]
        streams = [device.stream() if unique and device else stream_ptr for _ in range(threads)]

        def job(k: int) -> tuple[float, list[tuple[int, ...]]]:
            return self._many(inputs, clones[k], streams[k], graph_mode, count)

        means: list[float] = []
        lens: list[tuple[int, ...]] = []
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(repeat):
                found = list(pool.map(job, range(threads)))
                lens = found[0][1]
                means.append(max(t for t, _ in found) / (threads * count))
        self._expect_equal(clones, lens)
        return 1e3 * float(np.mean(means)), 1e3 * float(np.std(means)), lens

    def _many(
        self,
        inputs: Sequence[Held],
        outputs: Sequence[Held],
        stream_ptr: Any,
        graph_mode: bool,
        count: int,
    ) -> tuple[float, list[tuple[int, ...]]]:
        """Seconds of so many runs, on the device's clock if there is one."""
        device, stream = self._memory.device, self._memory.stream_of(stream_ptr)
        lens: list[tuple[int, ...]] = []
        started = perf_counter()
        first = None if device is None else device.record(stream)
        for _ in range(count):
            lens = self._run(inputs, outputs, stream_ptr, False, graph_mode, ())
        if device is None:
            return perf_counter() - started, lens
        last = device.record(stream)
        device.wait(last)
        return device.elapsed(first, last), lens

    def _expect_equal(
        self, clones: Sequence[Sequence[Held]], lens: Sequence[tuple[int, ...]]
    ) -> None:
        first = [on_host(cut(a, n)).tobytes() for a, n in zip(clones[0], lens, strict=True)]
        for other in clones[1:]:
            for k, (array, n) in enumerate(zip(other, lens, strict=True)):
                if on_host(cut(array, n)).tobytes() != first[k]:
                    raise AITemplateError(RUN, f"Output {k} did not match for a spawned thread!")

    def _there(self, arrays: Sequence[Held]) -> list[Held]:
        if self._memory.device is None:
            return list(arrays)
        return [self._memory.copy_of(a) if isinstance(a, np.ndarray) else a for a in arrays]

    def profile(
        self, inputs: Any, outputs: Any, num_iters: int, filename: str, stream_ptr: Any = None
    ) -> None:
        """Time each operation, with cold caches, and write the report as JSON.

        Args:
            inputs: As for ``run``.
            outputs: As for ``run``.
            num_iters: Calls of each operation.
            filename: The file to write.
            stream_ptr: The stream.

        Raises:
            RuntimeError: As for ``run``.
        """
        self._open()
        with named("AITemplateModelContainerProfile"):
            given = self._inputs_at(in_order(inputs, self._inputs, "input"))
            into = self._outputs_at(in_order(outputs, self._outputs, "output"))
            self._profile(given, into, num_iters, filename, stream_ptr)

    def profile_with_tensors(
        self, inputs: Any, outputs: Any, num_iters: int, filename: str, stream_ptr: Any = None
    ) -> None:
        """Time each operation on tensors; see ``profile``."""
        self._open()
        with named("AITemplateModelContainerProfile"):
            given = self._there(self._seen(in_order(inputs, self._inputs, "input"), "inputs"))
            found = self._seen(in_order(outputs, self._outputs, "output"), "outputs")
            into = [self._target(a) for a in found]
            self._profile(given, into, num_iters, filename, stream_ptr)

    def marked_run(self, inputs: Any, stream_ptr: Any, mark: Mark) -> Runtime:
        """Run once, kernel by kernel, with events before and after each; results are not copied.

        Args:
            inputs: An array for each input, in order or by name.
            stream_ptr: The stream.
            mark: Called with the position of each timed step and the events around it.

        Returns:
            The runtime of this run.

        Raises:
            OperationError: The model does not run on a device.
            RuntimeError: As for ``run``.
        """
        pool, stream = self._open(), self._memory.stream_of(stream_ptr)
        with named(RUN):
            given = self._there(self._seen(in_order(inputs, self._inputs, "input"), "inputs"))
        slot = pool.take(stream)
        try:
            if not isinstance(slot.execution, DeviceExecution):
                raise OperationError("the model runs on the host, which has no streams")
            by_name = {p.name: a for p, a in zip(self._inputs, given, strict=True)}
            _, runtime = slot.execution.prepared(self._read(), by_name)
            event = runtime.start(by_name, None, stream, mark=mark)
            runtime.device.wait(event)
        finally:
            slot.stream = stream
            pool.give(slot)
        return runtime

    def write_standalone_testcase_data(self, *_: Any, **__: Any) -> None:
        """Refuse: there is no standalone executable that would read it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "write_standalone_testcase_data: there is no standalone executable; save() the model, and keep "
            "inputs and expected outputs with numpy.savez"
        )

    def _profile(
        self,
        inputs: Sequence[Held],
        outputs: Sequence[Held],
        num_iters: int,
        filename: str,
        stream_ptr: Any,
    ) -> None:
        if num_iters < 1:
            raise AITemplateError(RUN, f"num_iters {num_iters}; expected at least 1")
        pool = self._open()
        slot = pool.take()
        try:
            started = self.start_in(slot, inputs, outputs, stream_ptr)
            if started.event is not None and self._memory.device is not None:
                self._memory.device.wait(started.event)
            execution = slot.execution
            if isinstance(execution, DeviceExecution):
                rows = self._on_device(execution, inputs, num_iters, stream_ptr)
            else:
                given = {p.name: a for p, a in zip(self._inputs, inputs, strict=True)}
                rows = execution.seconds({**self._read(), **given}, num_iters)
        finally:
            slot.keeps.clear()
            pool.give(slot)
        report: dict[str, Any] = {}
        for instruction, seconds in rows:
            report[_unused(_label(instruction), report)] = _row(instruction, seconds)
        Path(filename).write_text(json.dumps(report, indent=2), encoding="utf-8")

    def _on_device(
        self, execution: DeviceExecution, inputs: Sequence[Held], num_iters: int, stream_ptr: Any
    ) -> list[tuple[Instruction, float]]:
        """Seconds of a call of each step."""
        device, stream = self._memory.device, self._memory.stream_of(stream_ptr)
        assert device is not None
        given = {p.name: a for p, a in zip(self._inputs, inputs, strict=True)}
        _, runtime = execution.prepared(self._read(), given)
        slab = device.allocate(_SLAB)
        pointer = device.pointer(slab, 0, _SLAB)
        rows: list[tuple[Instruction, float]] = []
        try:
            for step, launch in runtime.launches():
                rows.append((step.instruction, self._cold(pointer, launch, num_iters, stream)))
        finally:
            device.synchronize(stream)
            device.free(slab)
        return rows

    def _cold(self, slab: Any, launch: Callable[[Any], None], count: int, stream: Any) -> float:
        device = self._memory.device
        assert device is not None
        seconds = 0.0
        for _ in range(count):
            device.fill(slab, _SLAB, 0, stream)
            first = device.record(stream)
            launch(stream)
            seconds += device.elapsed(first, device.record(stream))
        return seconds / count


def _label(instruction: Instruction) -> str:
    return instruction.sources[0] if instruction.sources else instruction.name


def _unused(label: str, used: dict[str, Any]) -> str:
    found, k = label, 0
    while found in used:
        k += 1
        found = f"{label}_{k}"
    return found


def _row(instruction: Instruction, seconds: float) -> dict[str, Any]:
    milliseconds = 1e3 * seconds
    attributes = {k: str(v) for k, v in vars(instruction.op).items() if not k.startswith("_")}
    return {
        "ms_per_iter": _short(milliseconds),
        "qps": _short(1e3 / milliseconds if milliseconds else 0.0),
        "input_sizes": [_sizes(i.shape) for i in instruction.inputs],
        "output_sizes": [_sizes(instruction.shape)],
        "op": instruction.name,
        **attributes,
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _sizes(shape: Shape) -> list[str]:
    return (
        [str(d.name or d) for d in shape.dims]
        if shape.dims is not None
        else [*map(str, shape.lens)]
    )
